"""A service that is away: `wait`, `watch` and `log -f` outlast it, and the answer of a proxy says
whether a change arrived. Expected values: RFC 9209; docs/operate.md#a-proxy-without-a-service."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jedi_client.cli import task as jedi_task
from jedi_client.errors import JediError, NotReached, Unreachable
from jedi_client.profiles import Profile
from jedi_client.transport import Transport
from support.job_rows import Made, make_jobs
from support.peer import ANSWER, Peer
from support.service_process import served
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.taskbuffer.ends.job_ends import JobEnd, end_jobs
from jedi.taskbuffer.tasks.tasks import Move, move_tasks

BIN = Path(sys.executable).parent
WAIT_S = 60


@pytest.fixture
def made(world: World) -> Made:
    with world.engine.begin() as tx:
        return make_jobs(tx, 1)


@contextmanager
def begun(world: World, *words: str, **env: str) -> Iterator[subprocess.Popen[str]]:
    """A program that began before the service, and has said so."""
    home = {"JEDI_HOME": str(world.settings.home), "NO_COLOR": "1"}
    with subprocess.Popen(
        [BIN / words[0], *words[1:]],
        env={**os.environ, **home, **env},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stderr
            said = process.stderr.readline()
            assert "JEDI does not answer at unix:" in said and said.endswith("Waiting for it.\n")
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("way", ["stream", "poll"])
@pytest.mark.parametrize("verb", [["wait", "--timeout", "60"], ["watch"]])
def test_tasks_are_watched_before_the_service_is_there(
    world: World, made: Made, verb: Sequence[str], way: str
) -> None:
    """It says so once, finds the service when it comes, and sees the end."""
    words = ["jedi-task", verb[0], str(made.task), *verb[1:]]
    with begun(world, *words, JEDI_WATCH=way) as process, served(world):
        with world.engine.begin() as tx:
            move_tasks(tx, [Move(made.task, None, "prepared", "test", "test")], "test")
            move_tasks(tx, [Move(made.task, None, "done", "test", "test")], "test")
        out, err = process.communicate(timeout=WAIT_S)
    assert (process.returncode, err) == (0, "")
    assert "done" in out


def test_all_active_tasks_are_watched_before_the_service_is_there(world: World, made: Made) -> None:
    with begun(world, "jedi-task", "watch") as process, served(world):
        assert process.stdout
        line = process.stdout.readline()
    assert f"task {made.task} " in line and "running" in line


def test_a_log_is_followed_before_the_service_is_there(world: World, made: Made) -> None:
    with begun(world, "jedi-job", "log", "-f", str(made.jobs[0])) as process, served(world):
        assert process.stderr and "is activated" in process.stderr.readline()
        with world.engine.begin() as tx:
            end_jobs(tx, [JobEnd(made.jobs[0], "closed", "test", "test")], "test")
        _, err = process.communicate(timeout=WAIT_S)
    assert "is closed" in err


# ------------------------------------------------------------------------- answers of a proxy

BAD = b"HTTP/1.1 %s\r\nContent-Length: 6\r\n%s\r\n<html>"


def answer(status: str, error: str = "") -> bytes:
    header = f"Proxy-Status: nginx{error}\r\n" if error else ""
    return BAD % (status.encode(), header.encode())


UNSENT = [
    answer("502 Bad Gateway", "; error=connection_refused"),
    answer("504 Gateway Timeout", '; error="connection_timeout"'),
    answer("503 Unavailable", "; error=destination_unavailable, cdn; error=dns_error"),
]
SENT = [
    answer("502 Bad Gateway"),
    answer("504 Gateway Timeout"),
    answer("502 Bad Gateway", "; error=connection_terminated"),
    answer("504 Gateway Timeout", "; error=dns_error, b; error=connection_read_timeout"),
]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REPEAT_S", "PROXY_S"):
        monkeypatch.setattr(f"jedi_client.transport.{name}", 0.3)


def failed(lost: bytes, **arguments: Any) -> JediError:
    """The error of a change whose tries all get this answer."""
    with (
        Peer(*[lost] * 50) as peer,
        Transport(Profile(peer.url)) as wire,
        pytest.raises(Unreachable) as error,
    ):
        wire.call("POST", "/v1/x", {}, arguments, Any)
    assert len(peer.requests) > 1
    return error.value


@pytest.mark.parametrize("lost", UNSENT)
def test_a_change_that_a_proxy_kept_has_not_arrived(soon: None, lost: bytes) -> None:
    error = failed(lost)
    assert isinstance(error, NotReached) and error.code == "no_service"
    assert "the request did not arrive" in error.sentence and "may have" not in error.sentence


@pytest.mark.parametrize("lost", SENT)
def test_a_change_that_a_proxy_may_have_sent_is_unsure(soon: None, lost: bytes) -> None:
    """A service that died while it had the request has the same status as one that is not there."""
    error = failed(lost)
    assert (error.code, "may have done the work" in error.sentence) == ("answer_lost", True)


def test_one_try_that_may_have_arrived_leaves_the_change_unsure(soon: None) -> None:
    with (
        Peer(b"", *UNSENT[:1] * 50) as peer,
        Transport(Profile(peer.url)) as wire,
        pytest.raises(Unreachable, match="may have done the work"),
    ):
        wire.call("POST", "/v1/x", {}, {}, Any)


def test_a_change_without_a_key_is_repeated_if_it_did_not_arrive() -> None:
    with (
        Peer(UNSENT[0], ANSWER) as peer,
        Transport(Profile(peer.url)) as wire,
        wire.request("POST", "/v1/x", b"{}") as response,
    ):
        assert response.status == 200
    assert len(peer.requests) == 2


@pytest.mark.parametrize("lost", [*SENT[:2], b""])
def test_questions_and_dry_runs_never_did_the_work(soon: None, lost: bytes) -> None:
    """A question that is too long for a query is a POST; it changes nothing, nor does a dry run."""
    for way in ({"question": True}, {"dry_run": True}):
        with (
            Peer(*[lost] * 50) as peer,
            Transport(Profile(peer.url)) as wire,
            pytest.raises(Unreachable) as error,
        ):
            dry, question = "dry_run" in way, "question" in way
            wire.call("POST", "/v1/x", {}, {"dry_run": dry}, Any, question=question)
        assert "may have" not in error.value.sentence


@pytest.mark.parametrize("lost", SENT[:2])
def test_nothing_was_submitted_through_a_proxy_without_a_service(
    soon: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: bytes
) -> None:
    """Its first request is a question: of this submission nothing arrived, for certain."""
    task = tmp_path / "t.yaml"
    task.write_text("taskName: t\n")
    for words in (["submit", str(task)], ["exec", "--", "date"]):
        with Peer(*[lost] * 50) as peer:
            monkeypatch.setenv("JEDI_URL", peer.url)
            said = CliRunner().invoke(jedi_task.app, words)
        assert isinstance(said.exception, Unreachable)
        assert str(said.exception).endswith("Nothing was submitted.")
        assert not any(one.startswith(b"POST") for one in peer.requests)
