"""switchEStoNormal: jobs at queues that take jobs of all kinds are ordinary ones.

Expected values: PanDA, useEventService: "check site if ES is disabled": a task with
switchEStoNormal does not use the event service at a site whose jobseed is all.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.commanding import files, sound
from support.event_service import consumers, event_task, job_sets, ranges, with_events
from support.event_sets import EventPilot, events_task, serve
from support.generating import catalogue, document, generate, ready, rows
from support.situations import set_sites

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.model.tasks import unsupported
from jedi.model.tasks.text import examine


def jobs(world: World, task: int) -> list[Any]:
    return rows(
        world,
        "SELECT j.pandaid AS panda_id, j.kind, j.status, j.site, j.walltime_s, p.jobparameters "
        "FROM jedi_jobs j JOIN jedi_job_params p USING (pandaid) WHERE jeditaskid = :t "
        "ORDER BY pandaid",
        t=task,
    )


@pytest.mark.parametrize("seed", ["es", "all"])
def test_the_queue_decides(world: World, seed: str) -> None:
    """At a queue for the event service a job waits for its two consumers; where jobs of all kinds
    run, the same work is one ordinary job that takes the whole time: 100 events of 3600 HS06 s at
    corepower 10 take 36000 s + 60 s."""
    set_sites(world, jobseed=seed)
    catalogue(world, in_=with_events(100))
    asked = {"cpuTime": 3600, "cpuEfficiency": 100, "baseWalltime": 60, "nEsConsumers": 2}
    (task,) = ready(world, event_task(switchEStoNormal=True, nEventsPerWorker=10, **asked))
    generate(world)
    found = [(one.kind, one.jobparameters) for one in jobs(world, task)]
    if seed == "es":
        assert [kind for kind, _ in found] == ["es_merge", "consumer", "consumer"]
        assert len(ranges(world, task)) == 10
    else:
        assert found == [("normal", "cat File1 > o.000001")]
        assert jobs(world, task)[0].walltime_s == 36_060
        assert job_sets(world, task) == consumers(world, task) == ranges(world, task) == []
    sound(world)


def test_a_task_may_have_both(world: World) -> None:
    """Two queues share the work: each file is in one ordinary job, or in one job set."""
    set_sites(world, "SITE_A", jobseed="es")
    set_sites(world, "SITE_B", jobseed="all")
    catalogue(world, in_=with_events(*[4] * 40))
    (task,) = ready(world, event_task(switchEStoNormal=True))
    generate(world)
    made = {(one.kind, one.site) for one in jobs(world, task)}
    assert made == {("normal", "SITE_B"), ("es_merge", "SITE_A"), ("consumer", "SITE_A")}
    sets = [one.jobsetid for one in job_sets(world, task)]
    assert sets == [one.panda_id for one in jobs(world, task) if one.kind == "es_merge"]
    assert len(ranges(world, task)) == 2 * len(sets)
    sound(world)


def test_an_ordinary_job_finishes_its_input(world: World) -> None:
    """Its end is that of any job: the EventService has nothing to do."""
    set_sites(world, jobseed="all")
    task = events_task(world, switchEStoNormal=True)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.end(job)
    while Adder(world).run_once():
        pass
    assert serve(world) == 0
    assert files(world, task) == {"finished": 1}
    sound(world)


@pytest.mark.parametrize(
    "more",
    [
        {"nJumboJobs": 1},
        {"fineGrainedProc": True, "nEventsPerWorker": None},
        {"es_only": True},
    ],
)
def test_ordinary_jobs_are_refused_where_they_cannot_be(more: dict[str, Any]) -> None:
    """A task whose jumbo jobs, arguments or records need consumers everywhere is refused."""
    keys = {key: value for key, value in more.items() if key != "es_only"}
    keys |= {"switchEStoNormal": True, "nEventsPerInputFile": 4}
    task = {key: value for key, value in event_task(**keys).items() if value is not None}
    if "es_only" in more:
        task["jobParameters"] = [
            {"type": "constant", "value": "--e", "es_only": True},
            *task["jobParameters"],
        ]
    assert "switchEStoNormal" in [problem.path for problem in examine(task)[1]]


def test_without_an_event_mode_it_changes_nothing() -> None:
    """The key alone is kept, with a warning."""
    [warning] = unsupported.kept(document(switchEStoNormal=True))
    assert warning.startswith("switchEStoNormal is kept, but changes nothing")
