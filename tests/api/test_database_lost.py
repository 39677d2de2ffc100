"""The service while its database is away: `The database away for a minute (503 with Retry-After,
streams resume)`. A PostgreSQL of the test's own is stopped and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from sqlalchemy import text
from support.helpers import make_world
from support.job_rows import make_jobs
from support.policy_rows import BY_NAME, JOB, ROWS, TASK
from support.service_process import over, running

from jedi.agent.base import World
from jedi.host.home import Home
from jedi.pilot.base import Stop
from jedi.pilot.wire import ServiceUnreachable, Wire
from jedi.standalone.embedded import Embedded
from jedi.standalone.scratch import CARELESS
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.schema import migrate
from jedi.taskbuffer.tasks.tasks import Move, move_tasks
from jedi.taskbuffer.users import users

pytestmark = pytest.mark.long

AWAY_S = float(os.environ.get("JEDI_TEST_AWAY_S", "1"))
"""Seconds for which the database is away, once everything has noticed."""

BOUND_S = 5.0
"""Longest time for an answer."""

PATIENCE_S = 60.0
HANG_S = 30.0
"""Longest time for an answer while the database hangs."""

ACQUIRE = {
    "request_id": "r1",
    "pilot_id": "p1",
    "site": "SITE_A",
    "n": 1,
    "resources": {"cores": 1, "memory_mb": 0, "walltime_s": 0, "disk_mb": 0},
}


@dataclass
class Place:
    """A service with a database that can be stopped, and a running task with one job."""

    database: Embedded
    world: World
    task: int
    job: dict[str, Any]
    wire: Wire

    def end(self) -> None:
        """Bring the task to its end."""
        with self.world.engine.begin() as tx:
            for status in ("prepared", "finished"):
                move_tasks(tx, [Move(self.task, None, status, "test", "test")], "test")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    tmp_path.chmod(0o700)
    database = Embedded(Home(tmp_path / "pg"), shared_buffers="32MB", **CARELESS)
    database.start()
    engine = connect(database.url())
    try:
        migrate.upgrade(engine)
        world = make_world(engine, tmp_path / "home")
        with engine.begin() as tx:
            task = make_jobs(tx, 1).task
            token = users.put_token(tx, "pilot", site="SITE_A")
        with running(world):
            wire = Wire(
                f"unix:{Home(world.settings.home).api_socket}", token, Stop(), AWAY_S + PATIENCE_S
            )
            [job] = wire.ask("acquire", ACQUIRE)["jobs"]
            yield Place(database, world, task, job, wire)
    finally:
        engine.dispose()
        database.remove()


def refused(answer: httpx2.Response) -> bool:
    """Return True if an answer says that the database is away."""
    said = answer.json()
    return (
        answer.status_code == 503
        and answer.headers["content-type"] == "application/problem+json"
        and int(answer.headers["retry-after"]) > 0
        and said["code"] == "unreachable"
        and "database does not answer" in said["sentence"]
        and answer.elapsed.total_seconds() < BOUND_S
    )


def ask(client: httpx2.Client, name: str, task: int) -> httpx2.Response:
    """Ask for an operation with arguments that are in order."""
    one = BY_NAME[name]
    given = {key.rstrip("_"): filled(value, task) for key, value in ROWS[name].arguments.items()}
    rest = {key: value for key, value in given.items() if key not in one.in_path}
    url = one.path.format(**given)
    if one.raw:
        data = rest.pop("data")
        return client.put(url, params=rest, content=data)
    if one.method == "GET":
        return client.get(url, params=rest)
    return client.request(one.method, url, json=rest)


def filled(value: Any, task: int) -> Any:
    if isinstance(value, list):
        return [filled(one, task) for one in value]
    if isinstance(value, dict):
        return {key: filled(one, task) for key, one in value.items()}
    return task if value in (TASK, JOB) else value


def jedi_task(world: World, *words: str, **more: str) -> subprocess.Popen[str]:
    code = "from jedi_client.cli.task import main; main()"
    environment = {**os.environ, "JEDI_HOME": str(world.settings.home), **more}
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        text=True,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_everybody_waits_for_the_database(place: Place) -> None:
    """All operations and pilots' verbs answer 503 in a bounded time; watchers and pilots go on by
    themselves when it is back."""
    world, home = place.world, Home(place.world.settings.home)
    beat = {
        "beats": [
            {"pandaid": place.job["pandaid"], "lock_seq": place.job["lock_seq"], "measures": {}}
        ]
    }
    with over(home) as client, over(home) as other, ThreadPoolExecutor(1) as pool:
        with other.stream(
            "GET", "/v1/tasks/watch", params={"jedi_task_ids": [place.task]}, timeout=PATIENCE_S
        ) as stream:
            lines = stream.iter_lines()
            version = next(one for one in lines if one.startswith("id:")).partition(": ")[2]
            watching = [
                jedi_task(world, "watch", str(place.task), "--json", JEDI_WATCH=way)
                for way in ("", "poll")
            ]
            assert all(one.stdout and json.loads(one.stdout.readline()) for one in watching)
            place.database.stop()
            answers = {name: ask(client, name, place.task) for name in BY_NAME}
            assert {name: one.text for name, one in answers.items() if not refused(one)} == {}
            for verb, body in (("acquire", ACQUIRE), ("heartbeat", beat)):
                with pytest.raises(ServiceUnreachable, match="HTTP 503"):
                    place.wire.ask(verb, body)
            pilot = pool.submit(place.wire.insist, "heartbeat", beat)
            assert client.get("/health").status_code == 200
            assert refused(client.get("/ready"))
            assert "jedi_database_up 0" in client.get("/metrics").text
            assert refused(client.get("/v1/me", headers={"Authorization": f"Bearer {43 * 'x'}"}))
            listed = jedi_task(world, "list")
            assert "database does not answer" in listed.communicate(timeout=PATIENCE_S)[0]
            assert listed.returncode == 3
            time.sleep(AWAY_S)
            place.database.start()
            assert pilot.result(PATIENCE_S)["commands"][0]["command"] == "none"
            place.end()
            assert "finished" in next(one for one in lines if '"finished"' in one)
        for process in watching:
            said = process.communicate(timeout=PATIENCE_S)[0]
            assert (process.returncode, '"finished"' in said) == (1, True), said
        with client.stream(
            "GET",
            "/v1/tasks/watch",
            params={"jedi_task_ids": [place.task]},
            headers={"Last-Event-ID": version},
        ) as resumed:
            assert resumed.status_code == 200
            assert '"finished"' in next(one for one in resumed.iter_lines() if "data:" in one)
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_audit")) == 0


def test_a_database_that_hangs_holds_nobody(place: Place) -> None:
    """A server that neither answers nor closes anything: requests in hand and new ones get 503
    within HANG_S; when the server goes on, so does the service."""
    home = Home(place.world.settings.home)
    pids = server_processes(place.database)
    with ThreadPoolExecutor(20) as pool:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            found = [*pool.map(lambda _: asked(home), range(20))]
            assert [one.status_code for one in found] == [503] * 20
            assert max(one.elapsed.total_seconds() for one in found) < HANG_S
            again = asked(home)
            assert again.status_code == 503 and again.elapsed.total_seconds() < 1.0
            with over(home) as client:
                assert client.get("/health").status_code == 200
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
    end = time.monotonic() + HANG_S
    while asked(home).status_code != 200:
        assert time.monotonic() < end
        time.sleep(0.2)


def asked(home: Home) -> httpx2.Response:
    with over(home) as client:
        return client.get("/v1/tasks", timeout=2 * HANG_S)


def server_processes(database: Embedded) -> list[int]:
    """The first process of the server, then its sessions."""
    pid = database.pid()
    assert pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)]
