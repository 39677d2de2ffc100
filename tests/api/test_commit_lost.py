"""A change whose COMMIT has no answer: `the key gives the one task`. The database's session ends
before COMMIT reaches it, or after it has committed; nobody can tell these apart at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jedi_client.errors import JediError, Unreachable
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from jedi_client.transport import Transport
from sqlalchemy import text
from support.peer import ANSWER, Peer
from support.relay import Break, relay
from support.service_process import over, running

from jedi.agent.base import World
from jedi.host.home import Home

TASK = """
taskName: greetings
noInput: true
nFiles: 1
jobParameters:
  - {type: constant, value: echo hi}
  - {type: template, param_type: output, value: "> hi.${SN}.txt", dataset: "user.me:hi"}
"""


@contextmanager
def breaking(world: World, place: Path, breaks: list[Break]) -> Iterator[Home]:
    """The home of a service whose changes break at COMMIT in these ways."""
    with relay(world.engine, place, breaks) as url:
        away = replace(world, settings=replace(world.settings, database_url=url))
        with running(away):
            yield Home(world.settings.home)


def tasks(world: World) -> list[int]:
    with world.engine.begin() as tx:
        return [*tx.scalars(text("SELECT jeditaskid FROM jedi_tasks"))]


def client_of(home: Home) -> Client:
    return Client(Profile(f"unix:{home.api_socket}"))


TEXTS = [{"name": "t", "text": TASK, "format": "yaml"}]


@pytest.mark.parametrize("breaks", [["before"], ["after"], ["before", "after"]])
def test_a_submission_whose_commit_is_lost_gives_one_task(
    world: World, tmp_path: Path, breaks: list[Break]
) -> None:
    """By hand: the client repeats the submission under its key. So it gets the number of the one
    task, whether or not the database had committed."""
    left = [*breaks]
    with breaking(world, tmp_path, left) as home, client_of(home) as client:
        found = client.task_submit(texts=TEXTS)
    assert not left
    assert [one.jedi_task_id for one in found] == tasks(world)
    assert len(found) == 1


def test_an_unknown_outcome_has_its_code_and_its_remedy(world: World, tmp_path: Path) -> None:
    """A script sees 503 with Retry-After; the same key gives the first answer."""
    key = {"Idempotency-Key": "mine"}
    with breaking(world, tmp_path, ["after"]) as home, over(home) as script:
        first, second = (
            script.post("/v1/tasks", json={"texts": TEXTS}, headers=key) for _ in range(2)
        )
    assert (first.status_code, first.json()["code"]) == (503, "outcome_unknown")
    assert int(first.headers["retry-after"]) > 0
    assert "may be done. Repeat the request with the same Idempotency-Key" in first.text
    assert [one["jedi_task_id"] for one in second.json()] == tasks(world)


def test_a_change_that_no_commit_confirms_is_unsure(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jedi_client.transport.REPEAT_S", 0.3)
    with (
        breaking(world, tmp_path, ["before"] * 100) as home,
        client_of(home) as client,
        pytest.raises(Unreachable, match="It may have done the work: check") as lost,
    ):
        client.task_submit(texts=TEXTS)
    assert lost.value.code == "answer_lost"
    assert "lost its database while it stored" in lost.value.sentence


# ------------------------------------------------------------------ answers that do not come


@pytest.mark.parametrize("lost", [b"", None, b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nnul"])
def test_a_change_without_an_answer_is_repeated_with_its_key(
    monkeypatch: pytest.MonkeyPatch, lost: bytes | None
) -> None:
    """The request was sent, then: the connection ends, nothing comes, or half of the answer. A
    fresh connection whose answer times out has sent its request, too."""
    monkeypatch.setattr("jedi_client.transport.ANSWER_S", 0.2)
    with Peer(lost, ANSWER) as peer, Transport(Profile(peer.url)) as transport:
        assert transport.call("POST", "/v1/x", {}, {}, Any) is None
    assert (len(peer.requests), len(peer.keys)) == (2, 1)


@pytest.mark.parametrize("lost", [b"", None, b"HTTP/1.1 502 Bad Gateway\r\n\r\n<html>"])
def test_a_change_without_a_key_is_sent_once(
    monkeypatch: pytest.MonkeyPatch, lost: bytes | None
) -> None:
    monkeypatch.setattr("jedi_client.transport.ANSWER_S", 0.2)
    with (
        Peer(lost, ANSWER) as peer,
        Transport(Profile(peer.url)) as transport,
        pytest.raises(Unreachable, match="It may have done the work") as unsure,
        transport.request("POST", "/v1/x", b"{}"),
    ):
        pass
    assert (len(peer.requests), unsure.value.code) == (1, "answer_lost")


def test_a_question_is_asked_again_once() -> None:
    with Peer(b"", ANSWER) as peer, Transport(Profile(peer.url)) as transport:
        assert transport.call("GET", "/v1/x", {}, {}, Any) is None
    with Peer(b"", b"", ANSWER) as peer, Transport(Profile(peer.url)) as transport:
        with pytest.raises(Unreachable, match="JEDI does not answer"):
            transport.call("GET", "/v1/x", {}, {}, Any)
        assert len(peer.requests) == 2


def test_a_connection_that_fails_has_sent_nothing() -> None:
    """No service listens: the sentence says so at once, and nothing about work that may be done."""
    with Peer() as gone:
        pass
    with Transport(Profile(gone.url)) as transport, pytest.raises(JediError) as away:
        transport.call("POST", "/v1/x", {}, {}, Any)
    assert (away.value.code, "may have" in away.value.sentence) == ("unreachable", False)
