"""Calls of harvester: shapes of the recorded requests, in PanDA's envelope."""

from __future__ import annotations

from typing import Any

import pytest
from jedi_panda.api.harvester_routes import NOTED, SECRETS
from sqlalchemy import text
from starlette.testclient import TestClient
from support.event_rows import make_job_set
from support.job_rows import make_jobs
from support.panda_pilots import client_of

from jedi.agent.base import World

ASK = {
    "site_name": "SITE_A",
    "node": "h1",
    "prod_source_label": "user",
    "computing_element": "CE",
    "n_jobs": 2,
    "scheduler_id": "harvester-x",
}


@pytest.fixture
def client(world: World) -> TestClient:
    return client_of(world)


def data(answer: Any) -> Any:
    """The data of a good answer."""
    found = answer.json()
    assert (answer.status_code, found["success"]) == (200, True), found
    assert set(found) == {"success", "message", "data"}
    return found["data"]


def post(client: TestClient, path: str, **fields: Any) -> Any:
    return data(client.post(f"/api/v1/{path}", json=fields))


def test_jobs_and_their_updates_in_bulk(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 3, files=0)
    found = post(client, "pilot/acquire_jobs", **ASK)
    assert found["StatusCode"] == 0
    assert [job["PandaID"] for job in found["jobs"]] == made.jobs[:2]
    updates = [
        {
            "job_id": job["PandaID"],
            "site_name": "SITE_A",
            "job_status": "running",
            "job_sub_status": None,
            "attempt_nr": job["attemptNr"],
        }
        for job in found["jobs"]
    ]
    updates[1:1] = [{"job_id": "x"}, {**updates[0], "attempt_nr": 99}]
    good, bad, stale, last = post(
        client, "pilot/update_jobs_bulk", job_list=updates, harvester_id="h"
    )
    null = {"success": True, "message": "", "data": {"StatusCode": 0, "command": "NULL"}}
    assert (good, last) == (null, null)
    assert stale["data"]["command"] == "tobekilled"
    assert bad["success"] is False
    assert "jobId must be a whole number" in bad["message"]
    with world.engine.begin() as tx:
        running = tx.scalar(text("SELECT count(*) FROM jedi_jobs WHERE status = 'running'"))
    assert running == 2
    end = {**updates[0], "job_status": "failed", "trans_exit_code": 7}
    assert post(client, "pilot/update_job", **end)["command"] == "NULL"
    assert len(post(client, "pilot/acquire_jobs", **ASK)["jobs"]) == 1
    assert post(client, "pilot/acquire_jobs", **ASK)["StatusCode"] == 20


def test_questions(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        make_jobs(tx, 2, files=0)
    types = data(client.get("/api/v1/metaconfig/get_resource_types"))
    assert {"resource_name", "mincore", "maxcore", "minrampercore", "maxrampercore"} == set(
        types[0]
    )
    assert "SCORE" in {one["resource_name"] for one in types}
    counts = data(client.get("/api/v1/statistics/active_job_stats_by_site"))
    assert counts == {"SITE_A": {"activated": 2}}
    detailed = data(client.get("/api/v1/statistics/active_job_detailed_stats_by_site"))
    assert detailed == {"SITE_A": {"": {"activated": 2}}}
    worker = data(
        client.get("/api/v1/harvester/get_current_worker_id", params={"harvester_id": "h"})
    )
    assert worker > 1_700_000_000
    assert data(client.get("/api/v1/harvester/get_worker_statistics")) == {}
    assert post(client, "harvester/acquire_commands", harvester_id="h", n_commands=3) == []


@pytest.mark.parametrize("path", NOTED)
def test_news_of_workers(client: TestClient, path: str) -> None:
    assert post(client, path, harvester_id="h", data={}, statistics="{}") is None


@pytest.mark.parametrize("path", SECRETS)
def test_no_secrets(client: TestClient, path: str) -> None:
    answer = client.get(f"/api/v1/{path}").json()
    assert answer["success"] is False
    assert "token" in answer["message"]


def test_ranges_of_events(client: TestClient, world: World) -> None:
    with world.engine.begin() as tx:
        [consumer] = make_job_set(tx, 3).consumers
    found = post(
        client, "event/acquire_event_ranges", job_id=consumer, jobset_id=1, task_id=1, n_ranges=2
    )
    assert (found["StatusCode"], len(found["eventRanges"])) == (0, 2)
    done = [
        {"eventRangeID": one["eventRangeID"], "eventStatus": "finished"}
        for one in found["eventRanges"]
    ]
    told = post(client, "event/update_event_ranges", event_ranges=done, version=0)
    assert (told["StatusCode"], told["Returns"]) == (0, [True, True])


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("pilot/acquire_jobs", {**ASK, "n_jobs": 0}),
        ("pilot/acquire_jobs", {"n_jobs": 1}),
        ("pilot/update_jobs_bulk", {"job_list": "x"}),
        ("pilot/update_job", {}),
        ("pilot/update_jobs_bulk", {"job_list": [{}] * 1_001}),
        ("event/acquire_event_ranges", {"job_id": []}),
        ("event/update_event_ranges", {"event_ranges": 7}),
    ],
)
def test_mistakes(client: TestClient, path: str, body: dict[str, Any]) -> None:
    answer = client.post(f"/api/v1/{path}", json=body)
    found = answer.json()
    assert (answer.status_code, found["success"]) == (200, False)
    assert len(found["message"]) > 10
    for content in (b"{", b"\xff", b"[1]", b"\x1f\x8b"):
        answer = client.post(f"/api/v1/{path}", content=content)
        assert (answer.status_code, answer.json()["success"]) == (200, False)


def test_strangers(world: World) -> None:
    stranger = client_of(world, None)
    for method, path in (
        ("POST", "pilot/acquire_jobs"),
        ("GET", "metaconfig/get_resource_types"),
        ("POST", NOTED[0]),
        ("GET", SECRETS[0]),
    ):
        assert stranger.request(method, f"/api/v1/{path}", json={}).status_code == 401
