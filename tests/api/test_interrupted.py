"""Requests that a service leaves: it dies in the middle of one, or ends while some are in hand.
`The service killed at any point of a submission (the key gives the one task).`"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest
from jedi_client.cli import task as jedi_task
from jedi_client.errors import Unreachable
from jedi_client.operations import Client
from jedi_client.profiles import Profile
from sqlalchemy import Connection, text
from support.service_process import over, reborn, running
from typer.testing import CliRunner

from jedi.agent.base import World
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.taskbuffer.users import audit

PATIENCE_S = 60.0
POINTS = {
    f"api:{operation}.{at}"
    for operation, at in product(
        ("sandbox.put", "task.submit"), ("received", "before_commit", "after_commit")
    )
}
TASK = """
taskName: greetings
noInput: true
nFiles: 1
sandbox: [greet.sh]
jobParameters:
  - {type: constant, value: sh greet.sh}
  - {type: template, param_type: output, value: "> hi.${SN}.txt", dataset: "user.me:hi"}
"""


def count(world: World, table: str) -> int:
    with world.engine.begin() as tx:
        return int(tx.scalar(text(f"SELECT count(*) FROM {table}")) or 0)


@pytest.mark.long
def test_a_service_that_dies_at_any_point_of_a_submission_takes_the_task_once(
    world: World, tmp_path: Path
) -> None:
    """The service dies before, in and after the transactions of the upload and of the submission;
    one `jedi-task submit` outlives all deaths."""
    marks = tmp_path / "marks"
    marks.mkdir()
    (tmp_path / "task.yaml").write_text(TASK)
    (tmp_path / "greet.sh").write_text("echo hi\n")
    with reborn(world, JEDI_CRASH=" ".join(POINTS), JEDI_CRASH_MARK=str(marks)) as ready:
        ready()
        words = ["submit", str(tmp_path / "task.yaml"), "--json"]
        said = CliRunner().invoke(jedi_task.app, words)
    assert said.exit_code == 0, (said.output, said.exception)
    assert {mark.name for mark in marks.iterdir()} == POINTS
    assert (count(world, "jedi_tasks"), count(world, "jedi_sandboxes")) == (1, 1)
    with world.engine.begin() as tx:
        noted = [one.operation for one in audit.entries(tx, None, None, None, None, 100)]
        [number] = tx.scalars(text("SELECT jeditaskid FROM jedi_tasks"))
    assert noted == ["task.submit", "sandbox.put"]
    assert json.loads(said.stdout)["jedi_task_id"] == number


def test_a_service_that_dies_while_an_upload_comes_in_keeps_nothing_of_it(world: World) -> None:
    home = Home(world.settings.home)
    with reborn(world) as ready:
        life = ready()
        with socket.socket(socket.AF_UNIX) as upload:
            upload.connect(str(home.api_socket))
            upload.sendall(
                b"PUT /v1/sandboxes/%s HTTP/1.1\r\nHost: jedi\r\nContent-Length: 200000"
                b"\r\nIdempotency-Key: mine\r\n\r\n" % (b"0" * 64) + b"x" * 100_000
            )
            time.sleep(0.1)
            os.kill(life, signal.SIGKILL)
            upload.settimeout(PATIENCE_S)
            with suppress(ConnectionResetError):
                assert upload.recv(1) == b""
        assert count(world, "jedi_sandboxes") == count(world, "jedi_requests") == 0
        ready()
        with over(home) as client:
            assert client.get("/ready").status_code == 200


def test_a_change_whose_service_stays_away_is_unsure(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client repeats a change for REPEAT_S; then its sentence says that the outcome is
    unknown."""
    monkeypatch.setattr("jedi_client.transport.REPEAT_S", 0.5)
    url = f"unix:{Home(world.settings.home).api_socket}"
    with (
        reborn(world, JEDI_CRASH="api:token.create.received") as ready,
        Client(Profile(url)) as client,
    ):
        ready()
        with pytest.raises(Unreachable, match="It may have done the work") as lost:
            client.token_create(name="laptop", scope="read", days=1)
    assert lost.value.code == "answer_lost"


def test_a_service_ends_when_its_requests_are_answered(world: World) -> None:
    """At SIGTERM the service takes no new connection, answers what is in hand and what comes on
    open connections, and closes those with the answer."""
    home, pause = Home(world.settings.home), {"jedi_task_ids": [1]}
    key = {"Idempotency-Key": "held"}
    with (
        running(world) as process,
        over(home) as kept,
        over(home) as slow,
        ThreadPoolExecutor(1) as pool,
        world.engine.connect() as holder,
    ):
        assert kept.get("/v1/me").headers.get("connection") is None
        holder.execute(
            text("INSERT INTO jedi_requests (request_key, digest) VALUES (:key, '')"),
            {"key": f"{caller()} held"},
        )
        answer = pool.submit(slow.post, "/v1/tasks/pause", json=pause, headers=key)
        wait_until_it_waits(holder)
        process.send_signal(signal.SIGTERM)
        wait_until_closed(home)
        last = kept.get("/v1/me")
        assert (last.status_code, last.headers["connection"]) == (200, "close")
        assert not answer.done() and process.poll() is None
        holder.rollback()
        assert answer.result(PATIENCE_S).status_code == 200
        assert process.wait(PATIENCE_S) == 0


def wait_until_it_waits(tx: Connection) -> None:
    """Until a session of the service waits for a lock."""
    end = time.monotonic() + PATIENCE_S
    waiting = text(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    while not tx.scalar(waiting):
        assert time.monotonic() < end
        time.sleep(0.02)


def wait_until_closed(home: Home) -> None:
    """Until nobody listens at the home's socket."""
    end = time.monotonic() + PATIENCE_S
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(home.api_socket))
            except ConnectionRefusedError:
                return
        assert time.monotonic() < end
        time.sleep(0.02)
