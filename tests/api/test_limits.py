"""Limits of statements: a statement of the service has a time, ends when its caller has gone, and
however many heavy ones there are, all others are answered.

Statements are slow because the test locks a table that they read.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx2
import pytest
from sqlalchemy import Engine, text
from support.listening import Listening, listening

from jedi.agent.world import make_world
from jedi.api.heavy import PATIENCE_S
from jedi.taskbuffer.users import access

PATIENCE = 30.0
SOON_S = 3.0
HEAVY, OF_CALLER = 4, 2
STATES = {"jobs": [{"jedi_task_id": 1}]}
ACQUIRE = {
    "request_id": "r1",
    "pilot_id": "p1",
    "site": "SITE_A",
    "n": 1,
    "resources": {"cores": 1, "memory_mb": 0, "walltime_s": 0, "disk_mb": 0},
}
WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
  AND wait_event_type = 'Lock'"""


@pytest.fixture(scope="module")
def service(
    server: str, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Listening]:
    with listening(
        server,
        template,
        tmp_path_factory.mktemp("home"),
        api_statement_s=15.0,
        api_heavy_calls=HEAVY,
        api_caller_heavy_calls=OF_CALLER,
    ) as found:
        yield found


def value(engine: Engine, query: str) -> object:
    with engine.begin() as tx:
        return tx.scalar(text(query))


@contextmanager
def slow(service: Listening, of: str = "units") -> Iterator[None]:
    """Statements about units wait until the block ends, or those about others."""
    with service.world.engine.connect() as tx:
        tx.execute(text(f"LOCK TABLE jedi_{of}"))
        yield
        tx.rollback()


def users(service: Listening, *names: str) -> list[dict[str, str]]:
    with service.world.engine.begin() as tx:
        tokens = [access.put_user_token(tx, name, None, "all", 60_000.0) for name in names]
    return [{"Authorization": f"Bearer {one}"} for one in tokens]


def states(service: Listening, who: dict[str, str], timeout_s: float = PATIENCE) -> httpx2.Response:
    with service.client(who) as client:
        return client.post("/v1/units/states", json=STATES, timeout=timeout_s)


def until(service: Listening, waiting: int) -> None:
    """Wait until so many statements wait for a lock."""
    end = time.monotonic() + PATIENCE
    while value(service.world.engine, WAITING) != waiting:
        assert time.monotonic() < end
        time.sleep(0.05)


def all_others_are_served(service: Listening) -> None:
    began = time.monotonic()
    with service.client(service.operator) as client:
        assert client.get("/ready").status_code == 200
        assert client.get("/v1/me").json()["user_name"] == "olga"
        assert client.get("/v1/sites").status_code == 200
        taken = client.post("/v1/pilot/acquire", json=ACQUIRE, headers=service.pilot)
        assert (taken.status_code, taken.json()["jobs"]) == (200, [])
    assert time.monotonic() - began < SOON_S


def test_sixteen_slow_questions_hold_nobody_and_end_with_their_callers(service: Listening) -> None:
    """16 requests of two seconds to `/v1/units/states` left 15 statements running for minutes;
    `/v1/me` and `/ready` answered 503. Expected: four work, two of a caller at most; all others are
    answered at once; no statement is left once the callers have gone."""
    four = users(service, "ann", "ben", "cleo", "dan")

    def leave(who: dict[str, str]) -> None:
        with pytest.raises(httpx2.ReadTimeout):
            states(service, who, 2.0)

    with slow(service), ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(leave, who) for who in four * 4]
        until(service, HEAVY)
        all_others_are_served(service)
        for one in asked:
            one.result(PATIENCE)
        until(service, 0)
        all_others_are_served(service)
    assert states(service, four[0]).json() == []


def test_a_heavy_call_without_a_place_is_refused(service: Listening) -> None:
    """Expected: 429 `too_many_heavy_calls` with Retry-After, which names the knob; first of the
    caller's own places, then of all. One that gets a place in time is answered."""
    ann, ben, cleo = users(service, "ann", "ben", "cleo")

    def herd() -> httpx2.Response:
        with service.client(cleo) as client:
            return client.get("/v1/tasks/1/herd")

    with ThreadPoolExecutor(9) as pool:
        with slow(service):
            good = [pool.submit(states, service, who) for who in (ann, ann, ben, cleo)]
            until(service, HEAVY)
            refused = [
                pool.submit(states, service, ann),
                pool.submit(states, service, ben),
                pool.submit(herd),
            ]
            answers = [one.result(PATIENCE) for one in refused]
            good.append(pool.submit(states, service, ben))
            time.sleep(PATIENCE_S / 10)
        assert [one.result(PATIENCE).json() for one in good] == [[]] * 5
    for answer, knob in zip(answers, ("api.caller_heavy", "api.heavy", "api.heavy"), strict=True):
        said = answer.json()
        assert (answer.status_code, said["code"]) == (429, "too_many_heavy_calls")
        assert f"knob {knob}_calls" in said["sentence"] and int(answer.headers["retry-after"]) > 0


def test_a_statement_at_its_limit_is_a_sentence(service: Listening) -> None:
    """Expected: 504 `too_slow`; the sentence names the limit and its knob. The limit follows the
    knob."""
    with service.client(service.operator) as client:
        assert client.put("/v1/config/api.statement_s", json={"value": 1.0}).status_code == 200
        end = time.monotonic() + PATIENCE
        with slow(service):
            answer = states(service, service.operator)
            while "within 1 s" not in answer.json()["sentence"]:
                assert time.monotonic() < end
                answer = states(service, service.operator)
        assert (answer.status_code, answer.json()["code"]) == (504, "too_slow")
        assert "api.statement_s" in answer.json()["sentence"]
        with slow(
            service, "jobs"
        ):  # a dog works in several transactions: only the last one is undone
            said = client.post("/v1/dogs/timeouts/run").json()
        assert said["code"] == "too_slow"
        assert "What dog timeouts did before stands; the next run goes on." in said["sentence"]
        client.put("/v1/config/api.statement_s", json={"value": 15.0})


def test_statements_of_agents_have_a_limit(service: Listening) -> None:
    """Expected: that of knob agent.statement_s, ten minutes."""
    world = make_world(service.world.settings, "Adder")
    assert value(world.engine, "SHOW statement_timeout") == "10min"
    world.engine.dispose()


_SLEEPER = """
import sys
from jedi.taskbuffer.db.engine import connect
with connect(sys.argv[1], "sleeper").connect() as tx:
    print("connected", flush=True)
    tx.exec_driver_sql("SELECT pg_sleep(600)")
"""


@pytest.mark.long
def test_a_statement_ends_when_its_process_is_gone(service: Listening) -> None:
    """Expected: within ten seconds, though nobody has cancelled it."""
    url = str(service.world.settings.database_url)
    words = [sys.executable, "-c", _SLEEPER, url]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "connected\n"
    count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'sleeper'"
    process.send_signal(signal.SIGKILL)
    process.wait()
    end = time.monotonic() + PATIENCE
    while value(service.world.engine, count):
        assert time.monotonic() < end
        time.sleep(0.2)
    with suppress(OSError):
        process.stdout.close()
