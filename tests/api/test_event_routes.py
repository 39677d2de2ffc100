"""Ranges of events over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient
from support.event_rows import make_job_set, ranges_of

from jedi.agent.base import World
from jedi.api.event_routes import REPORTS_MAX
from jedi.model.jobs.event_wire import RANGES_MAX
from jedi.server.app import create_app
from jedi.taskbuffer.users import users

FINISHED = 3


@pytest.fixture
def client(world: World) -> TestClient:
    with world.engine.begin() as tx:
        token = users.put_token(tx, "pilot", site="SITE_A")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    return TestClient(create_app(world), headers=headers, raise_server_exceptions=False)


def test_ranges_over_the_wire(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        made = make_job_set(tx, 2)
    key = {"panda_id": made.consumers[0], "lock_seq": 1}
    body = {"request_id": "1", "asks": [key]}
    (answer,) = client.post("/v1/pilot/event_ranges", json=body).json()["answers"]
    assert client.post("/v1/pilot/event_ranges", json=body).json()["answers"][0] == {
        **answer,
        "last": False,
    }
    assert [*answer] == ["panda_id", "status", "ranges", "last"]
    assert (len(answer["ranges"]), answer["last"]) == (2, True)
    zips = [
        {
            "lfn": "1.zip",
            "endpoint": "SITE_A_DATADISK",
            "fsize": 1,
            "adler32": "00000001",
            "n_events": 10,
            "ranges": [{"id": one["id"], "status": "finished"} for one in answer["ranges"]],
        }
    ]
    report = {"reports": [{**key, "zips": zips, "ranges": [{"id": "x", "status": "finished"}]}]}
    (answer,) = client.post("/v1/pilot/event_reports", json=report).json()["answers"]
    assert answer == {
        "panda_id": made.consumers[0],
        "status": "partly",
        "accepted": 2,
        "refused": [{"id": "x", "code": "bad_entry", "sentence": answer["refused"][0]["sentence"]}],
    }
    assert {one[4] for one in ranges_of(world.engine, made.task)} == {FINISHED}


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("event_ranges", {"request_id": "1", "asks": []}),
        ("event_reports", {"reports": []}),
        ("event_pieces", {"panda_id": 1, "lock_seq": 1, "after": "1-2-3-4-5"}),
    ],
)
def test_strangers_and_mistakes(
    client: TestClient, world: World, verb: str, body: dict[str, Any]
) -> None:
    def code(headers: dict[str, str], content: Any = body) -> tuple[int, str]:
        answer = client.post(f"/v1/pilot/{verb}", json=content, headers=headers)
        return answer.status_code, answer.json().get("code", "")

    with world.engine.begin() as tx:
        person = users.put_token(tx, "user", user_name="me")
    assert code({}) == (200, "")
    assert code({"Authorization": "Bearer guess"}) == (401, "bad_token")
    assert code({"Authorization": f"Bearer {person}"}) == (403, "not_a_pilot")
    assert code({}, {**body, "more": 1}) == (422, "bad_input")


def test_a_hundred_thousand_ranges_fit_into_a_call() -> None:
    one = '{"id":"123456789-12345678901-12345678901-12345678-10","status":"finished","endpoint":'
    assert len(one + '"' + 80 * "E" + '"},') * RANGES_MAX < REPORTS_MAX
