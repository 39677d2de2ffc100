"""Local files travel into datasets: in pieces, verified, all or none, in one's own scope."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jedi_client import errors
from jedi_client.dataset_files import PIECE, LocalFile, Progressed, send
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from sqlalchemy import text
from support.service_process import running, served
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.core.errors import Refused
from jedi.core.settings import caller
from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import FileInfo
from jedi.host.home import Home
from jedi.service.datasets import uploads
from jedi.service.datasets.uploads import PIECE_MAX, NewFile
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import access
from jedi.taskbuffer.users.users import PUT_USER

DISK = "SITE_A_DATADISK"
SUMS = ("size", "adler32", "sha256")
MINE = f"user.{caller()}:run7"


@pytest.fixture
def client(world: World) -> Iterator[Client]:
    with served(world), Client(place(world)) as client:
        yield client


def place(world: World) -> Profile:
    return Profile(f"unix:{Home(world.settings.home).api_socket}")


def local(directory: Path, **contents: bytes) -> list[LocalFile]:
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return [LocalFile(directory / name) for name in contents]


def sent(client: Client, name: str, files: list[LocalFile], *progressed: Progressed) -> None:
    """Upload what the service lacks."""
    states = client.dataset_offer(name, files=files, endpoint=DISK)
    send(client, name, files, states, DISK, *progressed)


def upload(client: Client, name: str, files: list[LocalFile]) -> list[Any]:
    sent(client, name, files)
    return client.dataset_add(name, files=files, endpoint=DISK)


def lying(world: World, name: str) -> list[FileInfo]:
    return [replace(one, guid=None) for one in world.ddm.list_files(name)]


def test_files_travel_into_a_dataset(world: World, client: Client, tmp_path: Path) -> None:
    big = bytes(range(256)) * 2**15  # two pieces
    files = local(tmp_path, big=big + b"end", empty=b"", small=b"small")
    assert [one.added for one in upload(client, MINE, files)] == [True] * 3
    assert world.ddm.dataset(MINE).state == "closed"
    assert lying(world, MINE) == [
        FileInfo("big", 2**23 + 3, f"{zlib.adler32(big + b'end'):08x}"),
        FileInfo("empty", 0, "00000001"),
        FileInfo("small", 5, f"{zlib.adler32(b'small'):08x}"),
    ]
    assert world.ddm.path(DISK, MINE, "big").read_bytes() == big + b"end"
    assert not [*world.ddm.staging_dir(DISK, 0, 0).parent.glob("upload-*")]
    with world.engine.begin() as tx:
        noted = tx.execute(text("SELECT operation, subject FROM jedi_audit")).all()
    assert noted == [("dataset.add", f"dataset {MINE}")]


def test_adding_again_adds_nothing(world: World, client: Client, tmp_path: Path) -> None:
    """The same name and checksum: nothing happens. Another checksum is refused by name."""
    files = local(tmp_path, one=b"1", two=b"2")
    upload(client, MINE, files)
    before = world.ddm.path(DISK, MINE, "one").stat()
    assert {one.status for one in client.dataset_offer(MINE, files=files, endpoint=DISK)} == {
        "in_dataset"
    }
    assert [one.added for one in upload(client, MINE, files)] == [False, False]
    assert world.ddm.path(DISK, MINE, "one").stat().st_mtime_ns == before.st_mtime_ns
    other = local(tmp_path, one=b"x", three=b"3")
    for ask in (client.dataset_offer, client.dataset_add):
        with pytest.raises(errors.Refused, match="other content under one:") as refused:
            ask(MINE, files=other, endpoint=DISK)
        assert (refused.value.code, refused.value.facts["files"]) == ("target_differs", ["one"])
    assert [one.lfn for one in lying(world, MINE)] == ["one", "two"]


def test_a_file_that_becomes_shorter_ends_its_upload(client: Client, tmp_path: Path) -> None:
    [file] = local(tmp_path, big=b"a" * 10)
    os.truncate(file.path, 4)
    with pytest.raises(errors.Refused, match="big became shorter while it was uploaded") as error:
        sent(client, MINE, [file])
    assert error.value.code == "upload_changed"


def test_an_upload_goes_on_where_it_broke_off(world: World, client: Client, tmp_path: Path) -> None:
    [file] = local(tmp_path, big=b"a" * PIECE + b"b" * PIECE + b"c")
    facts = {**file, "endpoint": DISK}
    lfn = facts.pop("lfn")
    had = client.dataset_put_piece(MINE, lfn, **facts, data=b"a" * PIECE)
    assert (had.status, had.received) == ("wanted", PIECE)
    with pytest.raises(errors.Refused) as gap:
        client.dataset_put_piece(MINE, lfn, **facts, offset=PIECE + 1, data=b"c")
    assert (gap.value.code, gap.value.facts["received"]) == ("piece_missing", PIECE)
    for _ in range(2):  # a piece may come again
        client.dataset_put_piece(MINE, lfn, **facts, offset=1, data=b"a" * 10)
    with pytest.raises(errors.Refused, match="not uploaded yet: big"):
        client.dataset_add(MINE, files=[file], endpoint=DISK)
    with pytest.raises(errors.NotFound):
        client.dataset_show(MINE)
    seen: list[int] = []
    sent(client, MINE, [file], lambda there, _total: seen.append(there))
    assert seen == [0, 2 * PIECE, 2 * PIECE + 1]
    client.dataset_add(MINE, files=[file], endpoint=DISK)
    assert lying(world, MINE)[0].size == 2 * PIECE + 1


@pytest.mark.parametrize("wrong", [{"adler32": "00000000"}, {"sha256": "0" * 64}])
def test_damaged_content_is_thrown_away(
    client: Client, tmp_path: Path, wrong: dict[str, str]
) -> None:
    [file] = local(tmp_path, one=b"one")
    file.update(wrong)
    with pytest.raises(errors.Refused) as refused:
        sent(client, MINE, [file])
    assert refused.value.code == "checksum_differs"
    [had] = client.dataset_offer(MINE, files=[file], endpoint=DISK)
    assert (had.status, had.received) == ("wanted", 0)


def test_many_small_files_travel_together(
    world: World, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1,000 files of 2 kB took 26 to 41 s, a request each. Expected: two requests, by 500 files;
    one that came in part, and a large one, come in pieces."""
    files = local(tmp_path, **{f"f{n:03}": b"%03d" % n * 700 for n in range(998)})
    begun, large = local(tmp_path, begun=b"a" * 10, large=b"b" * (3 * 2**20))
    facts = {key: begun[key] for key in SUMS}
    client.dataset_put_piece(MINE, "begun", **facts, endpoint=DISK, data=b"aaa")
    asked: list[str] = []
    call = client.call

    def counted(method: str, path: str, *rest: Any, **more: Any) -> Any:
        asked.append(f"{method} {path}")
        return call(method, path, *rest, **more)

    monkeypatch.setattr(client, "call", counted)
    seen: list[int] = []
    sent(client, MINE, [*files, begun, large], lambda there, _total: seen.append(there))
    assert asked[1:] == [
        *["POST /v1/datasets/{name}/uploads"] * 2,
        *["PUT /v1/datasets/{name}/uploads/{lfn}"] * 2,
    ]
    whole = 998 * 2100
    assert seen == [0, 500 * 2100, whole, whole + 10, whole + 10 + 3 * 2**20]
    added = client.dataset_add(MINE, files=[*files, begun, large], endpoint=DISK)
    assert sum(one.added for one in added) == 1000
    assert [one.size for one in lying(world, MINE)] == [10, *[2100] * 998, 3 * 2**20]


def test_all_damaged_files_are_named(client: Client, tmp_path: Path) -> None:
    """Expected: those that are wrong by name, all at once; the good ones are uploaded."""
    files = local(tmp_path, one=b"one", two=b"two", three=b"three")
    for file in files[:2]:
        file.update(sha256="0" * 64)
    with pytest.raises(errors.Refused, match=r"2 of 3 files .*: one, two") as refused:
        sent(client, MINE, files)
    assert refused.value.code == "checksum_differs"
    assert refused.value.facts["files"] == ["one", "two"]
    states = client.dataset_offer(MINE, files=files, endpoint=DISK)
    assert [one.status for one in states] == ["wanted", "wanted", "uploaded"]
    contents = [{**file, "content": "bm90"} for file in files]  # not
    with pytest.raises(errors.BadInput) as short:
        client.dataset_put_files(MINE, files=contents, endpoint=DISK)
    assert [(one.value, one.rule) for one in short.value.problems] == [
        ("three", "has 3 bytes, not 5")
    ]


def test_users_change_datasets_of_their_own_scope(
    world: World, client: Client, tmp_path: Path
) -> None:
    """`by operators or by owners in their own scope`; role production is no reason. A dataset that
    a task makes is its owner's, in any scope."""
    [task] = put(world, good())
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_datasets (jeditaskid, datasetname, type, status) "
                "VALUES (:task, 'user.bea:annas', 'output', 'defined')"
            ),
            {"task": task},
        )
        PUT_USER.run(tx, user="bea", role="production", gridpref=None, cap=None)
        token = access.put_user_token(tx, "bea", None, "submit", 600.0)
    files = local(tmp_path, one=b"1")
    with Client(replace(place(world), token=token)) as bea:
        assert upload(bea, "user.bea:texts", files)[0].added
        assert bea.dataset_create("user.bea:run7", state="open", endpoint=DISK).state == "open"
        assert bea.dataset_close("user.bea:run7").state == "closed"
        for name in (
            "bea:texts",
            "anna:texts",
            "user.anna:texts",
            "group.bea:texts",
            "user.bea:annas",
        ):
            must_be_refused(bea, name, files)
        with world.engine.begin() as tx:
            PUT_USER.run(tx, user="bea", role="operator", gridpref=None, cap=None)
        for name in ("anna:texts", "user.bea:annas"):
            assert upload(bea, name, files)[0].added


def must_be_refused(client: Client, name: str, files: list[LocalFile]) -> str:
    """Every operation that changes a dataset is refused; the sentence."""
    sums = {key: files[0][key] for key in SUMS}
    said = set()
    for ask in (
        lambda: client.dataset_offer(name, files=files, endpoint=DISK),
        lambda: client.dataset_put_piece(name, "x", **sums, data=b"", endpoint=DISK),
        lambda: client.dataset_add(name, files=files, endpoint=DISK),
        lambda: client.dataset_create(name, state="open", endpoint=DISK),
        lambda: client.dataset_close(name),
    ):
        with pytest.raises(errors.Forbidden) as refused:
            ask()
        assert refused.value.code == "forbidden"
        said.add(refused.value.sentence)
    [sentence] = said
    return sentence


@pytest.mark.parametrize(
    ("user", "foreign"),
    [
        ("data.higgs", "data.higgs"),
        ("user.bea", "user.bea"),
        ("a.b", "user.a_b"),
        ("ana@cern.ch", "user.ana"),
    ],
)
def test_a_user_name_is_no_scope_of_others(
    world: World, tmp_path: Path, user: str, foreign: str
) -> None:
    """By Rucio's habit the scope of user NAME is user.NAME, whatever characters a name has. Else
    a user `data.higgs` of the identity provider would own the scope data.higgs, and a user
    `user.bea` the scope of bea."""
    with world.engine.begin() as tx:
        token = access.put_user_token(tx, user, None, "submit", 600.0)
    files = local(tmp_path, one=b"1")
    with served(world), Client(replace(place(world), token=token)) as client:
        said = must_be_refused(client, f"{foreign}:texts", files)
        assert said == (
            f"{foreign}:texts has the scope {foreign}: {user} may change datasets of the scope "
            f"user.{user}, and operators all. Name it user.{user}:texts, or ask an operator."
        )
        assert upload(client, f"user.{user}:texts", files)[0].added


def test_a_user_name_may_fit_no_scope(world: World, tmp_path: Path) -> None:
    """A scope has 30 characters at most: `user.` and 25."""
    with world.engine.begin() as tx:
        token = access.put_user_token(tx, "a" * 26, None, "submit", 600.0)
    with served(world), Client(replace(place(world), token=token)) as client:
        said = must_be_refused(client, f"user.{'a' * 25}:texts", local(tmp_path, one=b"1"))
    assert said == (
        f"'{'a' * 26}' has no scope, since user.NAME is none for this name (a scope has 1 to 30 "
        f"characters): only operators may change user.{'a' * 25}:texts. Ask one."
    )


@pytest.mark.parametrize(
    "lfn", ["../x", "..", ".part", "/etc/passwd", "a/b", "a\x00b", "", "x" * 256]
)
def test_no_name_is_a_path(world: World, client: Client, lfn: str) -> None:
    sums: Any = {"adler32": "00790079", "sha256": hashlib.sha256(b"x").hexdigest()}
    with pytest.raises((errors.BadInput, errors.NotFound)):
        client.dataset_put_piece(MINE, lfn, size=1, **sums, endpoint=DISK, data=b"x")
    for ask in (client.dataset_offer, client.dataset_add):
        with pytest.raises(errors.BadInput):
            ask(MINE, files=[{"lfn": lfn, "size": 1, **sums}], endpoint=DISK)
    stored = (world.settings.home / "storage").rglob("*")
    assert [one for one in stored if one.is_file()] == []


def test_mistakes_are_named(world: World, client: Client, tmp_path: Path) -> None:
    [file] = local(tmp_path, one=b"1")
    with pytest.raises(errors.BadInput, match="SITE_A_DATADISK, SITE_B_DATADISK"):
        client.dataset_offer(MINE, files=[file])
    with pytest.raises(errors.BadInput, match="no such endpoint"):
        client.dataset_offer(MINE, files=[file], endpoint=str(tmp_path))
    with pytest.raises(errors.BadInput, match="twice"):
        client.dataset_offer(MINE, files=[file, file], endpoint=DISK)
    huge = {**file, "size": 2**60}
    with pytest.raises(errors.BadInput, match=r"upload\.max_gb"):
        client.dataset_offer(MINE, files=[huge], endpoint=DISK)
    with world.engine.begin() as tx:
        knobs.put(tx, "upload.max_gb", 1e15, "me")
    with pytest.raises(errors.Refused, match="bytes left"):
        client.dataset_offer(MINE, files=[huge], endpoint=DISK)


def test_a_larger_piece_is_refused(world: World, client: Client) -> None:
    with pytest.raises(errors.JediError) as large:
        client.dataset_put_piece(
            MINE,
            "one",
            size=2**30,
            adler32="0" * 8,
            sha256="0" * 64,
            endpoint=DISK,
            data=bytes(PIECE_MAX + 1),
        )
    assert large.value.code == "http_413"
    assert not [*world.ddm.staging_dir(DISK, 0, 0).parent.glob("upload-*")]


def test_storage_that_fails_is_a_refusal(world: World, client: Client, tmp_path: Path) -> None:
    """A full or closed storage is no failure of the service: the user learns the reason."""
    root = world.settings.home / "storage" / "SITE_A"
    root.rmdir()
    root.write_text("no directory")
    files = local(tmp_path, one=b"1")
    for ask in (client.dataset_offer, client.dataset_add):
        with pytest.raises(errors.Refused) as refused:
            ask(MINE, files=files, endpoint=DISK)
        assert refused.value.code == "storage_failed"
    with pytest.raises(errors.Refused, match="Not a directory"):
        client.dataset_put_piece(
            MINE, "one", **{key: files[0][key] for key in SUMS}, data=b"1", endpoint=DISK
        )


def test_an_open_dataset_stays_open(world: World, client: Client, tmp_path: Path) -> None:
    client.dataset_create(MINE, state="open", endpoint=DISK)
    upload(client, MINE, local(tmp_path, one=b"1"))
    assert world.ddm.dataset(MINE).state == "open"
    upload(client, MINE, local(tmp_path, one=b"1"))
    assert world.ddm.dataset(MINE).state == "open"
    client.dataset_close(MINE)
    upload(client, MINE, local(tmp_path, two=b"2"))
    assert world.ddm.dataset(MINE).state == "closed"


class Interrupted(FileSystemDDM):
    """Storage that breaks off before a dataset is closed."""

    def close(self, name: str) -> None:
        raise OSError("gone")


def test_a_broken_off_request_is_completed_by_its_repetition(world: World) -> None:
    """A service that dies between the publication of files and the end of the dataset leaves the
    dataset open, and tasks would wait for ever. The repeated request closes it."""
    roots = {DISK: world.settings.home / "storage" / "SITE_A"}
    file = NewFile("one", 1, "00320032", hashlib.sha256(b"1").hexdigest())
    with world.engine.begin() as tx:
        known = knobs.load(tx)
        to = uploads.destination(tx, world.ddm, "me", "user.me:run7", DISK)
        uploads.put_piece(world.ddm, known, to, file, 0, b"1")
        with pytest.raises(Refused, match="can not be used"):
            uploads.add(tx, Interrupted(roots), known, to, [file])
        assert world.ddm.dataset("user.me:run7").state == "open"
        assert uploads.add(tx, world.ddm, known, to, [file])[0].added is False
        assert world.ddm.dataset("user.me:run7").state == "closed"
        assert not [*world.ddm.staging_dir(DISK, 0, 0).parent.glob("upload-*")]


def test_a_piece_whose_file_was_thrown_away_begins_anew(world: World) -> None:
    file = NewFile("one", 2, "00320032", "0" * 64)
    with world.engine.begin() as tx:
        known = knobs.load(tx)
        to = uploads.destination(tx, world.ddm, "me", "user.me:run7", DISK)
    uploads.put_piece(world.ddm, known, to, file, 0, b"1")
    world.ddm.drop_upload(DISK, to.key(file))
    with pytest.raises(Refused) as refused:
        uploads.put_piece(world.ddm, known, to, file, 1, b"1")
    assert refused.value.facts["received"] == 0


def test_a_large_file_needs_little_memory(world: World, tmp_path: Path) -> None:
    """`bounded memory`: the service holds a piece at a time, whatever the size of the file."""
    files = local(tmp_path, small=b"1", large=bytes(64 * 2**20))
    with running(world) as process, Client(place(world)) as client:
        upload(client, MINE, files[:1])
        before = peak(process.pid)
        upload(client, MINE, files[1:])
        assert peak(process.pid) - before < 40 * 2**10
    assert [one.size for one in lying(world, MINE)] == [64 * 2**20, 1]


def peak(process: int) -> int:
    """The most memory that a process had, in kB."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def test_storage_that_is_not_mounted_gets_no_directories(
    world: World, client: Client, tmp_path: Path
) -> None:
    """The Adder takes storage without `.staging` as not mounted (docs/decisions/publishing.md), and
    holds the jobs. JEDI makes the root of an endpoint only at its import."""
    root = world.settings.home / "storage" / "SITE_A"
    root.rmdir()
    [file] = local(tmp_path, one=b"1")
    sums = {key: file[key] for key in SUMS}
    for ask in (
        lambda: client.dataset_offer(MINE, files=[file], endpoint=DISK),
        lambda: client.dataset_put_piece(MINE, "one", **sums, data=b"1", endpoint=DISK),
        lambda: client.dataset_create(MINE, state="open", endpoint=DISK),
    ):
        with pytest.raises(errors.Refused, match=f"has no directory {root}: mount") as refused:
            ask()
        assert refused.value.code == "storage_failed"
        assert not root.exists()
    with pytest.raises(FileNotFoundError, match="has no directory"):
        world.ddm.space(DISK)
    assert not root.exists()


def test_a_user_has_so_many_open_uploads(world: World, client: Client, tmp_path: Path) -> None:
    """A user may have upload.open_files files and upload.open_gb GB of open uploads at an endpoint,
    as announced: 2 files of 1 byte fit, and the third is refused until the others are added."""
    with world.engine.begin() as tx:
        knobs.put(tx, "upload.open_files", 2, "me")
    files = local(tmp_path, one=b"1", two=b"2", three=b"3")
    with pytest.raises(errors.NoSpace) as refused:
        client.dataset_offer(MINE, files=files, endpoint=DISK)
    assert (refused.value.code, refused.value.facts["path"]) == ("too_many_uploads", "files")
    for file in files[:2]:
        piece(client, file)
    for _ in range(2):  # a piece of an open upload may come again
        piece(client, files[0])
    with pytest.raises(errors.NoSpace) as refused:
        piece(client, files[2])
    assert refused.value.sentence == (
        f"size: 3: {caller()} would have open uploads of 3 files at {DISK}, more than 2 (knob "
        "upload.open_files). Add uploaded files to their datasets first, in several requests; JEDI "
        "removes uploads after 2 days (knob upload.keep_days)."
    )
    client.dataset_add(MINE, files=files[:1], endpoint=DISK)
    assert piece(client, files[2]).status == "uploaded"


def test_open_uploads_are_limited_in_bytes(world: World, client: Client, tmp_path: Path) -> None:
    """Announced bytes count, not only those that are there: 2^30 - 1 and 2 are more than 1 GB. A
    user's uploads leave those of another alone, and so does another endpoint."""
    with world.engine.begin() as tx:
        knobs.put(tx, "upload.open_gb", 1.0, "me")
        token = access.put_user_token(tx, "bea", None, "submit", 600.0)
    [large] = local(tmp_path, large=b"1")
    large["size"] = 2**30 - 1
    [small] = local(tmp_path, small=b"12")
    assert piece(client, large, b"1").received == 1
    with pytest.raises(errors.NoSpace, match=r"1073741825 bytes at .*, more than 1 GB"):
        piece(client, small)
    with pytest.raises(errors.NoSpace, match=r"1073741825 bytes at .*, more than 1 GB"):
        client.dataset_offer(MINE, files=[small], endpoint=DISK)
    assert piece(client, small, endpoint="SITE_B_DATADISK").status == "uploaded"
    with Client(replace(place(world), token=token)) as bea:
        assert piece(bea, small, name="user.bea:run7").status == "uploaded"


def test_a_piece_needs_room_for_the_rest_of_its_file(world: World, client: Client) -> None:
    """Nothing is written of a file that the endpoint can't hold: status 507, and the field, the
    value, the rule and the remedy."""
    with world.engine.begin() as tx:
        for name in ("upload.max_gb", "upload.open_gb"):
            knobs.put(tx, name, 1e15, "me")
    sums: Any = {"size": 2**60, "adler32": "0" * 8, "sha256": "0" * 64}
    with pytest.raises(errors.NoSpace, match=f"size: {2**60}: {DISK} has .* bytes left") as refused:
        client.dataset_put_piece(MINE, "one", **sums, endpoint=DISK, data=b"1")
    facts = refused.value.facts
    assert refused.value.code == "no_space" and facts["remedy"].startswith(
        "Choose another endpoint"
    )
    assert (facts["path"], facts["value"], facts["endpoint"]) == ("size", 2**60, DISK)
    assert not world.ddm.staging_dir(DISK, 0, 0).parent.exists()


def piece(
    client: Client,
    file: LocalFile,
    data: bytes | None = None,
    *,
    name: str = MINE,
    endpoint: str = DISK,
) -> Any:
    """Upload all of a file, or `data`, in one piece."""
    sums = {key: file[key] for key in SUMS}
    content = file.path.read_bytes() if data is None else data
    return client.dataset_put_piece(name, file["lfn"], **sums, endpoint=endpoint, data=content)
