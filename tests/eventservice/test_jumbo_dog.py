"""The JumboWatchDog, at both sides of each of its borders."""

# Raw UPDATEs: columns of tasks, datasets and sites that the builders leave at defaults.

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.dogs import run

from jedi.agent.base import World
from jedi.core.knobs import KNOBS, Knobs
from jedi.eventservice.jumbo import (
    DECISIONS,
    JumboCandidate,
    JumboLimits,
    decide,
    limits_of,
    positions_fit,
)
from jedi.service.brokerage import decision_reports
from jedi.service.tasks.why import why
from jedi.taskbuffer.db import knobs
from jedi.watchdog.dog import Counts

LIMITS = JumboLimits(1, 100_000, 1_000_000, 500_000.0, 1, 1, 500)
TASK = JumboCandidate(1, 1_000_001, 499, False, False, ("S",), True)


def codes(tasks: list[JumboCandidate], limits: JumboLimits = LIMITS) -> dict[int, str]:
    return {one.task.jedi_task_id: one.code for one in decide(tasks, limits)}


def set_to(**values: int) -> JumboLimits:
    return limits_of(Knobs({f"jumbo_dog.{key}": value for key, value in values.items()}).jumbo_dog)


def test_the_seven_parameters() -> None:
    """JUMBO_MAX_TASKS 1, JUMBO_MIN_EVENTS_DISABLE 100000, JUMBO_MIN_EVENTS_ENABLE 10 times that,
    JUMBO_MAX_EVENTS JUMBO_MAX_TASKS x JUMBO_MIN_EVENTS_ENABLE / 2, JUMBO_PER_TASK 1, JUMBO_PER_SITE
    1, JUMBO_MAX_CURR_PRIO 500; it runs every 10 min. Source: JEDI document, "Jumbo job
    switcher"."""
    assert set_to() == (1, 100_000, 1_000_000, 500_000, 1, 1, 500)
    assert set_to(min_events_disable=7, max_tasks=3)[2:4] == (70, 105)
    assert set_to(min_events_enable=40, max_tasks=3)[2:4] == (40, 60)
    assert set_to(min_events_enable=0, max_events=0)[2:4] == (0, 0)
    assert KNOBS["watchdog.jumbo_period_s"].classic == 600


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (TASK, "jumbo_enabled"),  # more events than JUMBO_MIN_EVENTS_ENABLE
        (TASK._replace(events=1_000_000), "jumbo_few_events"),
        (TASK._replace(priority=500), "jumbo_priority"),  # lower than JUMBO_MAX_CURR_PRIO
        (TASK._replace(sites=()), "jumbo_no_site"),
        (TASK._replace(positional=False), "jumbo_no_positions"),
        (TASK._replace(names_site=True), "jumbo_site_named"),
        (TASK._replace(jumbo=True, events=100_000), "jumbo_goes_on"),
        (TASK._replace(jumbo=True, events=99_999), "jumbo_disabled"),
        (TASK._replace(jumbo=True, priority=900, sites=(), positional=False), "jumbo_goes_on"),
        (TASK._replace(jumbo=True, names_site=True), "jumbo_site_named"),
    ],
)
def test_borders_of_a_task(task: JumboCandidate, code: str) -> None:
    """Source: JEDI document, "Jumbo job switcher"."""
    (one,) = decide([task], LIMITS)
    assert one.code == code
    assert one.jumbo is (code in ("jumbo_enabled", "jumbo_goes_on"))
    assert "{" not in one.sentence


def test_the_largest_tasks_come_first_until_there_are_enough_tasks() -> None:
    """Jumbo jobs are enabled while fewer than JUMBO_MAX_TASKS tasks have them, in the task with the
    largest number of remaining events first."""
    tasks = [TASK._replace(jedi_task_id=n, events=2_000_000 + n) for n in range(4)]
    wide = LIMITS._replace(max_events=10**9)
    assert codes(tasks, wide._replace(max_tasks=0)) == dict.fromkeys(range(4), "jumbo_enough_tasks")
    assert codes(tasks, wide._replace(max_tasks=2)) == {
        3: "jumbo_enabled",
        2: "jumbo_enabled",
        1: "jumbo_enough_tasks",
        0: "jumbo_enough_tasks",
    }
    having = [tasks[0]._replace(jumbo=True), *tasks[1:]]
    assert codes(having, wide._replace(max_tasks=2))[3] == "jumbo_enabled"
    assert codes(having, wide._replace(max_tasks=1))[3] == "jumbo_enough_tasks"


def test_until_there_are_enough_events() -> None:
    """… while the remaining events of active tasks with jumbo jobs are less than
    JUMBO_MAX_EVENTS."""
    having = TASK._replace(jedi_task_id=9, jumbo=True, events=700_000)
    limits = LIMITS._replace(max_tasks=5)
    assert codes([having, TASK], limits._replace(max_events=700_001))[1] == "jumbo_enabled"
    assert codes([having, TASK], limits._replace(max_events=700_000))[1] == "jumbo_enough_events"


def test_a_task_that_loses_them_makes_room_for_another() -> None:
    ending = TASK._replace(jedi_task_id=9, jumbo=True, events=99_999)
    assert codes([ending, TASK]) == {9: "jumbo_disabled", 1: "jumbo_enabled"}


@pytest.mark.parametrize(
    ("rules", "fit"),
    [
        ({"in_file_pos_evt_num": True}, True),
        ({"n_files_per_job": 1}, True),
        ({"n_files_per_job": 2}, False),
        ({"n_events_per_job": 99, "n_events_per_input": 100}, True),
        ({"n_events_per_job": 100, "n_events_per_input": 100}, False),
        ({"n_events_per_job": 99}, False),
        ({}, False),
    ],
)
def test_positions_of_events_in_files(rules: dict[str, Any], fit: bool) -> None:
    """inFilePosEvtNum=True, nFilesPerJob=1, or nEventsPerJob < nEventsPerInputFile."""
    assert positions_fit(rules) is fit


# ------------------------------------------------------------------------------------ in JEDI

_TASK = text("""
INSERT INTO jedi_tasks (jeditaskid, status, reqid, taskname, username, eventservice,
  currentpriority, transuses, rules, site, usejumbo)
VALUES (nextval('jedi_task_id_seq'), :status, 1, 'events', 'me', :service, 100, :release,
  CAST(:rules AS jsonb), :site, :flag) RETURNING jeditaskid
""")
_DATASET = text("""
INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, nevents, neventsused)
VALUES (nextval('jedi_dataset_id_seq'), :task, 'test:in' || :task, :type, 'ready', :events, :used)
""")
_SITE = text("""
UPDATE jedi_sites SET catchall = CAST(:catchall AS jsonb), releases = :releases
WHERE site = :site
""")


@pytest.fixture
def make(world: World) -> Callable[..., int]:
    """Makes event-service tasks; SITE_A takes jumbo jobs with release R1 or any of its software."""
    with world.engine.begin() as tx:
        catchall = json.dumps({"useJumboJobs": True, "software": ["R7"]})
        tx.execute(_SITE, {"site": "SITE_A", "catchall": catchall, "releases": ["R1", "AUTO"]})
        tx.execute(_SITE, {"site": "SITE_B", "catchall": "{}", "releases": []})

    def make_task(
        events: int,
        used: int = 0,
        *,
        release: str = "R1",
        status: str = "running",
        service: int | None = 1,
        site: str | None = None,
        flag: str | None = None,
        **rules: Any,
    ) -> int:
        said = {"n_files_per_job": 1, "n_events_per_worker": 5, **rules}
        with world.engine.begin() as tx:
            task = int(
                tx.scalar(
                    _TASK,
                    {
                        "status": status,
                        "service": service,
                        "release": release,
                        "site": site,
                        "flag": flag,
                        "rules": json.dumps(said),
                    },
                )
                or 0
            )
            for kind, n, m in (("input", events, used), ("output", 10**9, 0)):
                tx.execute(_DATASET, {"task": task, "type": kind, "events": n, "used": m})
        return task

    return make_task


def row(world: World, task: int) -> Any:
    with world.engine.begin() as tx:
        return tx.execute(
            text("SELECT usejumbo, rules, splitrule FROM jedi_tasks WHERE jeditaskid = :t"),
            {"t": task},
        ).one()


def reason(world: World, task: int) -> str:
    with world.engine.begin() as tx:
        found: str = why(call(tx), task).facts["jumbo"]
        return found


def put(world: World, **values: Any) -> None:
    with world.engine.begin() as tx:
        for name, value in values.items():
            knobs.put(tx, f"jumbo_dog.{name}", value, "test")


def test_it_enables_and_disables(world: World, make: Callable[..., int]) -> None:
    put(world, min_events_disable=10, per_task=3, per_site=2)
    small, large = make(101), make(150, 47)
    assert run(world, "jumbo") == Counts(enabled=1)
    found = row(world, large)
    assert (found.usejumbo, found.rules["n_jumbo_jobs"], found.rules["max_jumbo_per_site"]) == (
        "Y",
        3,
        2,
    )
    assert "NJ=3,MJ=2" in found.splitrule
    assert row(world, small).usejumbo is None
    assert (reason(world, large), reason(world, small)) == ("jumbo_enabled", "jumbo_enough_tasks")
    assert run(world, "jumbo") == Counts()
    with world.engine.begin() as tx:
        assert len(decision_reports.find(call(tx), None, None, 10)) == 2  # no news
        (one,) = decision_reports.find(call(tx), large, None, 10)
        assert (one.broker, one.chosen) == ("jumbo_dog", ["SITE_A"])
        assert why(call(tx), large).detail.endswith(
            f"Jumbo jobs: {DECISIONS['jumbo_enabled'].format(events=103)}"
        )
        assert why(call(tx), large).brokerage is None  # no broker has decided
        tx.execute(
            text(
                "UPDATE jedi_datasets SET neventsused = 141 WHERE jeditaskid = :t "
                "AND type = 'input'"
            ),
            {"t": large},
        )
    assert run(world, "jumbo") == Counts(enabled=1, disabled=1)
    found = row(world, large)
    assert (found.usejumbo, {*found.rules}) == (None, {"n_files_per_job", "n_events_per_worker"})
    assert "NJ" not in found.splitrule
    assert (reason(world, large), reason(world, small)) == ("jumbo_disabled", "jumbo_enabled")


def test_it_looks_only_at_active_tasks_of_the_event_service(
    world: World, make: Callable[..., int]
) -> None:
    put(world, min_events_disable=10, max_tasks=9)
    for status in ("paused", "exhausted", "done", "defined"):
        make(1000, status=status)
    make(1000, service=None)
    make(1000, service=2)
    assert run(world, "jumbo") == Counts()
    for status in ("ready", "pending", "scouting", "throttled"):
        make(1000, status=status)
    put(world, max_events=10**9)
    assert run(world, "jumbo") == Counts(enabled=4)


def test_releases_sites_and_positions(world: World, make: Callable[..., int]) -> None:
    """A site lists R1, a site with AUTO publishes R7, no site has R9."""
    put(world, min_events_disable=10, max_tasks=9, max_events=10**9)
    listed, published, none = make(101), make(101, release="R7"), make(101, release="R9")
    named, across = make(101, site="SITE_A"), make(101, n_files_per_job=2)
    having = make(101, site="SITE_A", flag="Y", n_jumbo_jobs=1)
    assert run(world, "jumbo") == Counts(enabled=2, disabled=1)
    assert [reason(world, one) for one in (listed, published, none, named, across, having)] == [
        "jumbo_enabled",
        "jumbo_enabled",
        "jumbo_no_release",
        "jumbo_site_named",
        "jumbo_no_positions",
        "jumbo_site_named",
    ]
    assert row(world, having).usejumbo is None
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_sites SET status = 'offline' WHERE site = 'SITE_A'"))
    later, by_itself = make(101), make(101, n_jumbo_jobs=1)
    run(world, "jumbo")
    assert reason(world, later) == "jumbo_offline"
    assert reason(world, by_itself) == "jumbo_goes_on"
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_sites SET catchall = '{}'"))
    last = make(101)
    run(world, "jumbo")
    assert reason(world, last) == "jumbo_no_site"


def test_a_task_that_somebody_holds_waits_for_the_next_run(
    world: World, make: Callable[..., int]
) -> None:
    put(world, min_events_disable=10)
    task = make(101)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET lockedby = 'x', lease_until = 'infinity'"))
    assert run(world, "jumbo") == Counts()
    with world.engine.begin() as tx:
        assert decision_reports.find(call(tx), task, None, 10) == []
        tx.execute(text("UPDATE jedi_tasks SET lockedby = NULL, lease_until = NULL"))
    assert run(world, "jumbo") == Counts(enabled=1)
