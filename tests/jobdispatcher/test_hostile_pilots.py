"""Pilots that say what is not so: it is refused or void; nothing is lost or counts twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import text
from starlette.testclient import TestClient
from support.helpers import put_file_dataset
from support.job_rows import Made, make_jobs
from support.statuses import statuses

from jedi.agent.base import World
from jedi.ddm.content import adler32
from jedi.jobdispatcher.agent import Adder
from jedi.server.app import create_app
from jedi.service.system.check import check
from jedi.taskbuffer.users import users
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk

JOBS = 3
UNLOGGED = {"task_log", "input_log", "output_log"}
"""What `make_jobs` leaves out: how the task and its datasets came to their statuses."""

Said = dict[str, Any]


class Site:
    """The service as pilots of one site see it."""

    def __init__(self, world: World, name: str) -> None:
        with world.engine.begin() as tx:
            token = users.put_token(tx, "pilot", site=name)
        self._world, self._name = world, name
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._client = TestClient(create_app(world), headers=headers)

    def acquire(self, pilot: str, request: str, n: int = JOBS) -> list[Said]:
        asked = {
            "request_id": request,
            "pilot_id": pilot,
            "site": self._name,
            "n": n,
            "resources": {"cores": 1},
        }
        jobs: list[Said] = self._client.post("/v1/pilot/acquire", json=asked).json()["jobs"]
        return jobs

    def report(self, *reports: Said, told: str = "verdict") -> list[str] | int:
        """What is told of each, or the code with which all are refused."""
        said = json.dumps({"reports": reports})  # which takes NaN, as a pilot's does
        answer = self._client.post("/v1/pilot/report", content=said)
        code: int = answer.status_code
        return code if code != 200 else [one[told] for one in answer.json()["results"]]


def say(order: Said, status: str, **more: Any) -> Said:
    return {"pandaid": order["pandaid"], "lock_seq": order["lock_seq"], "status": status, **more}


def finished(order: Said, world: World) -> Said:
    """The report of a job whose outputs are staged."""
    lfns = [*(one["lfn"] for one in order["outputs"]), order["log_lfn"]]
    staging = world.ddm.staging_dir("SITE_A_DATADISK", order["pandaid"], order["lock_seq"])
    staging.mkdir(parents=True, exist_ok=True)
    for lfn in lfns:
        (staging / lfn).write_text(lfn)
    made = [
        {"lfn": lfn, "size": len(lfn), "adler32": adler32(staging / lfn), "guid": "aa"}
        for lfn in lfns
    ]
    return say(order, "finished", exit_code=0, outputs=made)


@pytest.fixture
def here(world: World) -> Site:
    return Site(world, "SITE_A")


@pytest.fixture
def made(world: World) -> Made:
    with world.engine.begin() as tx:
        jobs = make_jobs(tx, JOBS)
        names = tx.scalars(text("SELECT datasetname FROM jedi_datasets WHERE type <> 'input'"))
        for name in names.all():
            put_file_dataset(world, name, {}, "SITE_A_DATADISK", closed=False)
    return jobs


def settle(world: World) -> None:
    """Results are added; nothing that must hold is violated."""
    while Adder(world).run_once():
        pass
    with world.engine.begin() as tx:
        found = {one.invariant for one in check(tx, world.ddm) if one.violations}
        assert found == UNLOGGED


NOT_SO = [
    {"status": "exploded"},
    {"measures": {"cpu_s": float("nan")}},
    {"measures": {"wall_s": float("inf")}},
    {"measures": {"max_rss_kb": -1}},
    {"measures": {"max_rss_kb": 2**40}},
    {"measures": {"read_bytes": 2**60, "write_bytes": 2**60}},
    {"measures": {"wall_s": 1e12}},
    {"measures": {"cpu_s": "much"}},
    {"pandaid": -1},
    {"pandaid": None},
    {"exit_code": 2**31},
    {"started_at": "yesterday"},
    {"started_at": "9999-12-31T23:59:59-12:00"},
    {"ended_at": "0001-01-01T00:00:00+14:00"},
    {"outputs": [{"lfn": "", "size": 1, "adler32": "0000000a", "guid": "aa"}]},
    {"bad_inputs": [{"lfn": "f", "problem": "ugly"}]},
    {"colour": "red"},
]


@pytest.mark.parametrize("wrong", NOT_SO, ids="-".join)
def test_what_cannot_be_is_refused_whole(world: World, made: Made, here: Site, wrong: Said) -> None:
    first, *_ = here.acquire("p", "r")
    good = say(first, "running")
    assert here.report(good, {**good, **wrong}) == 422
    assert statuses(world) == ["sent"] * JOBS
    assert here.report(good) == ["accepted"]


def test_what_is_not_the_pilots_is_void(world: World, made: Made, here: Site) -> None:
    first, second, third = here.acquire("p", "r")
    elsewhere = Site(world, "SITE_B")
    assert elsewhere.report(say(first, "failed")) == ["stale"]
    seq = first["lock_seq"]
    void = [{**first, "lock_seq": seq + by} for by in (-1, 1, 10**9)]
    void.append({"pandaid": 2**62, "lock_seq": seq})
    assert here.report(*(say(one, "failed") for one in void)) == ["stale"] * len(void)
    assert statuses(world) == ["sent"] * JOBS
    done = [finished(order, world) for order in (first, second, third)]
    assert here.report(*done) == ["accepted"] * JOBS
    settle(world)
    assert statuses(world) == ["finished"] * JOBS
    assert here.report(*done) == ["accepted"] * JOBS  # the pilot may have missed the answer
    settle(world)
    assert statuses(world) == ["finished"] * JOBS


def test_who_says_it_twice_is_heard_once(world: World, made: Made, here: Site) -> None:
    """Of ends in one message the worse counts, of later ones the first."""
    first, second, third = here.acquire("p", "r")
    good = [finished(order, world) for order in (first, second, third)]
    bad = [say(order, "failed", error_code="why") for order in (first, second, third)]
    assert here.report(good[0], bad[0], good[0]) == ["accepted"] * 3
    assert here.report(good[1], good[1]) == here.report(bad[1], good[1]) == ["accepted"] * 2
    assert here.report(bad[2]) == here.report(good[2]) == ["accepted"]
    for _ in range(2):
        assert here.report(*bad, told="stands") == ["failed", "finished", "failed"]
        assert here.report(*good, told="stands") == ["failed", "finished", "failed"]
        settle(world)
    assert statuses(world) == ["failed", "finished", "failed"]


def test_two_pilots_with_one_job(world: World, made: Made, here: Site) -> None:
    """As after the copy of a machine: the end that was added counts, the other one is void."""
    orders = here.acquire("one", "same")
    assert here.acquire("two", "same") == []
    assert here.acquire("one", "same") == orders
    job, *others = orders
    assert here.report(finished(job, world)) == ["accepted"]
    here.report(say(job, "failed", error_code="why"))
    settle(world)
    assert statuses(world)[0] == "finished"
    here.report(say(job, "failed", error_code="why"))
    assert here.report(*(say(one, "failed", error_code="why") for one in others)) == [
        "accepted",
        "accepted",
    ]
    here.report(*(finished(one, world) for one in others))
    settle(world)
    assert statuses(world) == ["finished", "failed", "failed"]


@pytest.mark.parametrize("year", [1970, 2999])
def test_a_pilot_whose_clock_is_wrong(world: World, made: Made, here: Site, year: int) -> None:
    """How long a job has been silent is told by the clock of the database."""
    first, *_ = here.acquire("p", "r")
    then = f"{year}-01-01T00:00:00Z"
    assert here.report(say(first, "running", started_at=then)) == ["accepted"]
    assert walk(world, DOGS["timeouts"]) == Counts()
    assert here.report({**finished(first, world), "ended_at": then}) == ["accepted"]
    assert walk(world, DOGS["timeouts"]) == Counts()
    settle(world)
    assert statuses(world)[0] == "finished"


def test_a_megabyte_of_excuses(world: World, made: Made, here: Site) -> None:
    first, *_ = here.acquire("p", "r")
    excuse = "\0\ud800ä" * 350_000
    told = say(first, "failed", error_code="why", error_diag=excuse, stderr_tail=excuse)
    assert here.report(told) == ["accepted"]
    settle(world)
    with world.engine.begin() as tx:
        found = tx.execute(
            text("SELECT length(error_diag), status FROM jedi_jobs WHERE error_diag IS NOT NULL")
        ).one()
        tail = tx.scalar(text("SELECT length(stderr_tail) FROM jedi_job_tail"))
    assert (*found, tail) == (2000, "failed", 10_000)
