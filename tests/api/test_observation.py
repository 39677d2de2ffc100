"""Ids, the access log, and rates of requests."""

# Raw LOCK and a look into pg_stat_activity: what PostgreSQL shows of a request that waits.

from __future__ import annotations

import json
import threading
import time
from typing import Any

import httpx2
import pytest
from jedi_client.profiles import Profile
from jedi_client.transport import Transport
from sqlalchemy import TextClause, text
from support.service_process import over, running
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.api.rates import Rates, TooManyCalls
from jedi.core.knobs import Knobs
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import users

ME = caller()
ORDER = {
    "request_id": "r1",
    "pilot_id": "p1",
    "site": "SITE_A",
    "n": 1,
    "resources": {"cores": 1, "memory_mb": 0, "walltime_s": 0, "disk_mb": 0},
}


def requests(log: list[str]) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log]
    return [one for one in found if one["event"] == "request"]


def test_each_request_leaves_one_line(world: World) -> None:
    """`One access-log line a request, with the caller and a request id`; the route is a
    template."""
    with world.engine.begin() as tx:
        pilot = {"Authorization": f"Bearer {users.put_token(tx, 'pilot', site='SITE_A')}"}
    log: list[str] = []
    with running(world, log), over(Home(world.settings.home)) as client:
        mine = client.get("/v1/me", headers={"X-Request-Id": "my.id-1"})
        client.get("/v1/tasks/17", headers={"X-Request-Id": "no id; of mine"})
        client.get("/v1/me", headers={"Authorization": "Bearer wrong"})
        client.post("/v1/pilot/acquire", headers=pilot, json=ORDER)
        client.get("/nothing")
        last = client.get("/health")
        deadline = time.monotonic() + 30
        while len(requests(log)) < 6 and time.monotonic() < deadline:
            time.sleep(0.02)  # the line follows the answer
    assert mine.headers["x-request-id"] == "my.id-1"
    lines = requests(log)
    assert [
        (one["method"], one["route"], one["status"], one["caller"], one.get("code"))
        for one in lines
    ] == [
        ("GET", "/v1/me", 200, ME, None),
        ("GET", "/v1/tasks/{jedi_task_id}", 404, ME, "not_found"),
        ("GET", "/v1/me", 401, None, "bad_token"),
        ("POST", "/v1/pilot/acquire", 200, "pilot of SITE_A", None),
        ("GET", "unknown", 404, None, "http_404"),
        ("GET", "/health", 200, None, None),
    ]
    ids = [one["request_id"] for one in lines]
    assert ids[0] == "my.id-1" and ids[-1] == last.headers["x-request-id"]
    assert len({*ids}) == 6 and all(" " not in one for one in ids)
    assert lines[0]["bytes"] == len(mine.content) and 0 < lines[0]["ms"] < 30_000
    assert lines[0]["at"] and lines[0]["component"] == "api"


def until_seen(world: World, statement: TextClause) -> list[str]:
    """The first rows, within half a minute. Each look is a transaction of its own: in one,
    PostgreSQL shows the same activity for ever."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with world.engine.begin() as tx:
            if found := [*tx.scalars(statement)]:
                return found
        time.sleep(0.02)
    return []


def test_the_access_log_may_be_off(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "api.access_log", "off", "olga")
    log: list[str] = []
    with running(world, log), over(Home(world.settings.home)) as client:
        assert client.get("/v1/me").status_code == 200
    assert requests(log) == []


def test_the_log_of_a_failure_names_the_request(world: World) -> None:
    with world.engine.begin() as tx:
        tx.execute(text("DROP TABLE jedi_audit CASCADE"))
    log: list[str] = []
    with running(world, log), over(Home(world.settings.home)) as client:
        failed = client.post("/v1/tokens", json={"name": "x", "days": 1})
    assert failed.status_code == 500
    known = failed.headers["x-request-id"]
    assert known in failed.json()["sentence"]
    [line] = [one for one in map(json.loads, log) if one["event"] == "request failed"]
    assert line["request_id"] == known
    [line] = requests(log)
    assert (line["status"], line["code"], line["request_id"]) == (500, "internal", known)


def test_the_database_shows_the_request(world: World) -> None:
    """`a request id that the database's log shows, too`: as the session's application_name, until
    its transaction ends. JEDI's PostgreSQL begins each line of its log with it (%a)."""
    put(world, good())
    named = text(
        "SELECT application_name FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND datname = current_database()"
    )
    after = text(
        "SELECT DISTINCT application_name FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name LIKE 'jedi api%'"
    )
    with running(world), over(Home(world.settings.home)) as client:
        for id_, method in (("read-1", "GET"), ("write-1", "POST")):
            headers = {"X-Request-Id": id_}
            with world.engine.begin() as tx:
                tx.execute(text("LOCK TABLE jedi_tokens, jedi_tasks IN ACCESS EXCLUSIVE MODE"))
                asked = threading.Thread(
                    target=client.request,
                    args=(method, "/v1/tokens"),
                    kwargs={"headers": headers, "json": {"name": "x", "days": 1}, "timeout": 60},
                )
                asked.start()
                found = until_seen(world, named)
            asked.join()
            assert found == [f"jedi api {id_}"]
        with world.engine.begin() as tx:
            others = {"jedi api look"}  # looks whether the database is there
            assert {*tx.scalars(after)} - others == {"jedi api"}


# ------------------------------------------------------------------------------------------ rates


def limited(per_s: float, burst: int) -> Knobs:
    return Knobs({"api.calls_per_s": per_s, "api.calls_burst": burst})


def test_a_bucket_fills_again() -> None:
    """Two calls a second, three at once: the fourth waits half a second. Others are not touched."""
    now = [100.0]
    rates, rule = Rates(lambda: now[0]), limited(2.0, 3)
    for _ in range(3):
        rates.take("anna", rule)
    with pytest.raises(TooManyCalls) as refused:
        rates.take("anna", rule)
    assert refused.value.facts == {"calls_per_s": 2.0, "retry_after_s": 0.5}
    rates.take("bea", rule)
    now[0] += 0.5
    rates.take("anna", rule)
    with pytest.raises(TooManyCalls):
        rates.take("anna", rule)
    now[0] += 3600
    for _ in range(3):
        rates.take("anna", rule)
    with pytest.raises(TooManyCalls):
        rates.take("anna", rule)
    for _ in range(10):
        rates.take("anna", limited(0.0, 1))


def test_who_asks_too_often_waits(world: World) -> None:
    """429, problem+json, Retry-After; pilots and others go on; JEDI's client waits by itself."""
    with world.engine.begin() as tx:
        knobs.put(tx, "api.calls_per_s", 1.0, "olga")
        knobs.put(tx, "api.calls_burst", 2, "olga")
        pilot = {"Authorization": f"Bearer {users.put_token(tx, 'pilot', site='SITE_A')}"}
    home = Home(world.settings.home)
    with running(world), over(home) as client:
        answers = [client.get("/v1/me") for _ in range(4)]
        refused = [one for one in answers if one.status_code == 429]
        assert 1 <= len(refused) <= 2 and answers[0].status_code == answers[1].status_code == 200
        one = refused[0]
        assert one.headers["content-type"] == "application/problem+json"
        assert one.headers["retry-after"] == "1"
        assert (one.json()["code"], one.json()["status"]) == ("too_many_calls", 429)
        for _ in range(5):
            answer = client.post("/v1/pilot/acquire", headers=pilot, json=ORDER)
            assert answer.status_code == 200
            assert client.get("/health").status_code == 200
        with Transport(Profile(f"unix:{home.api_socket}")) as transport:
            for _ in range(3):
                known: dict[str, Any] = transport.call("GET", "/v1/me", {}, {}, dict[str, Any])
                assert known["user_name"] == ME


def test_a_refused_body_is_not_read(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "api.calls_per_s", 0.01, "olga")
        knobs.put(tx, "api.calls_burst", 1, "olga")
    with running(world), over(Home(world.settings.home)) as client:
        assert client.get("/v1/me").status_code == 200
        refused: httpx2.Response = client.post("/v1/tasks/kill", content=b"x" * 1_000_000)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "100")
