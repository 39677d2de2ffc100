"""Tasks with local files come in from elsewhere: packed by the client, checked by the service."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Iterator

import pytest
from jedi_client.errors import BadInput, Forbidden, NotFound
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from sqlalchemy import text
from support.service_process import running

from jedi.agent.base import World
from jedi.host.home import Home

TASK = """
taskName: {name}
noInput: true
nFiles: 2
sandbox: [run.sh]
jobParameters:
  - {{type: constant, value: sh run.sh}}
  - {{type: template, param_type: output, value: "> o.${{SN}}.txt", dataset: "user.me:{name}"}}
"""


@pytest.fixture(scope="module")
def archive() -> bytes:
    return tar([("run.sh", b"echo hello\n", tarfile.REGTYPE)])


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with running(world), Client(Profile(f"unix:{Home(world.settings.home).api_socket}")) as client:
        yield client


def tar(members: list[tuple[str, bytes, bytes]]) -> bytes:
    """A .tar.gz of members: name, content, type."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data, kind in members:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(data), kind
            archive.addfile(info, io.BytesIO(data))
    return packed.getvalue()


def sum_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def texts(*names: str) -> list[dict[str, str]]:
    return [{"text": TASK.format(name=name), "name": f"{name}.yaml"} for name in names]


def count(world: World, table: str) -> int:
    with world.engine.begin() as tx:
        return int(tx.scalar(text(f"SELECT count(*) FROM {table}")) or 0)


def test_a_task_brings_its_files(world: World, client: Client, archive: bytes) -> None:
    assert client.task_needs(texts=texts("one", "two")) == [["run.sh"], ["run.sh"]]
    with pytest.raises(BadInput, match="its files are not here"):
        client.task_submit(texts=texts("one"))
    key = sum_of(archive)
    with pytest.raises(NotFound, match="upload it first"):
        client.task_submit(texts=texts("one"), sandboxes=[key])
    assert not client.sandbox_known(key)
    client.sandbox_put(key, data=archive)
    assert client.sandbox_known(key)
    done = client.task_submit(texts=texts("one", "two"), sandboxes=[key, key], dry_run=True)
    assert len(done) == 2 and count(world, "jedi_tasks") == 0
    done = client.task_submit(texts=texts("one", "two"), sandboxes=[key, key], key="mine")
    again = client.task_submit(texts=texts("one", "two"), sandboxes=[key, key], key="mine")
    assert [one.jedi_task_id for one in done] == [one.jedi_task_id for one in again]
    assert [one.created for one in again] == [False, False]
    assert count(world, "jedi_tasks") == 2 and count(world, "jedi_sandboxes") == 1


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "is no .tar.gz"),
        (gzip.compress(b"no tar" * 500), "is no .tar.gz"),
        (tar([("../../etc/passwd", b"x", tarfile.REGTYPE)]), "outside the job"),
        (tar([("link", b"", tarfile.SYMTYPE)]), "neither a plain file"),
        (tar([("a", b"1", tarfile.REGTYPE), ("a", b"2", tarfile.REGTYPE)]), "already has a file"),
        (gzip.compress(bytes(2**27)), "has more than 100 MB"),
    ],
    ids=["empty", "no tar", "way out", "link", "twice", "bomb"],
)
def test_archives_are_checked_before_they_are_kept(
    world: World, client: Client, data: bytes, rule: str
) -> None:
    with pytest.raises(BadInput, match=rule):
        client.sandbox_put(sum_of(data), data=data)
    assert count(world, "jedi_sandboxes") == 0


def test_a_broken_upload_is_noticed(world: World, client: Client, archive: bytes) -> None:
    with pytest.raises(BadInput, match="Send it again"):
        client.sandbox_put(sum_of(archive + b"x"), data=archive)
    assert count(world, "jedi_sandboxes") == 0


def test_read_tokens_bring_nothing(client: Client, archive: bytes) -> None:
    made = client.token_create(name="page", scope="read", days=1)
    other = Client(Profile(client.profile.url, made.token))
    with pytest.raises(Forbidden, match="needs `submit`"):
        other.sandbox_put(sum_of(archive), data=archive)
    with pytest.raises(Forbidden, match="needs `submit`"):
        other.task_submit(texts=texts("one"))


def test_a_command_is_a_task(client: Client) -> None:
    done = client.task_exec(command=["echo", "hello world"])
    assert client.task_show(done.jedi_task_id).task.task_name.startswith("exec.echo.")
    plan = client.task_plan(
        text=texts("x")[0] | {"text": TASK.format(name="x").replace("sandbox: [run.sh]", "")}
    )
    assert plan.plan.jobs == 2
