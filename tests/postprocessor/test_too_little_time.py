"""Scouts of ranges of events that a limit on time ended: ranges are cut smaller."""

# Raw UPDATEs: begin and end of jobs that no pilot runs here.

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.commanding import add_inputs, everything, jobs, sound, status, take
from support.generating import document, generate, ready, rows
from support.scouting import end, history, set_knobs, task_row
from support.situations import make_due, set_sites

from jedi.agent.base import World
from jedi.postprocessor.agent import PostProcessor
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs


def ranged(world: World, maxtime: int, **keys: Any) -> int:
    """A task of three files of 40 events, in ranges of 10, whose three scouts are made."""
    set_sites(world, maxtime=maxtime)
    set_knobs(world, chunks=3)
    add_inputs(world, 3)
    items = {
        "tgtNumEventsPerJob": 10,
        "nEventsPerInputFile": 40,
        "site": "SITE_A",
        "skipScout": False,
        "maxAttempt": 1,
    }
    [task] = ready(world, document(**{**items, **keys}))
    assert generate(world) == 1
    return task


def cut_short(world: World, ids: Sequence[int], code: str, diag: str, lasted_s: float) -> None:
    """Jobs fail so, after so many seconds."""
    take(world, ids)
    begin = datetime(2030, 1, 1, tzinfo=UTC)
    rows(
        world,
        "UPDATE jedi_jobs SET starttime = :a, endtime = :b WHERE pandaid = ANY(:ids) RETURNING 1",
        a=begin,
        b=begin + timedelta(seconds=lasted_s),
        ids=list(ids),
    )
    with world.engine.begin() as tx:
        moves = [JobMove(job, "holding", "reported", "Reported.") for job in ids]
        move_jobs(tx, moves, dispatch.AGENT, ["sent"])
        job_ends.end_jobs(tx, [JobEnd(job, "failed", code, diag) for job in ids], "Adder")
    assert PostProcessor(world).run_once() == 1


def sizes(world: World, task: int) -> dict[int, int]:
    """How many jobs have so many events."""
    found = rows(
        world,
        "SELECT n_events, count(*) AS n FROM jedi_jobs WHERE jeditaskid = :t GROUP BY 1 ORDER BY 1",
        t=task,
    )
    return {row.n_events: row.n for row in found}


@pytest.mark.parametrize(
    ("code", "diag", "maxtime", "lasted_s", "keys"),
    [
        ("wall_limit", "The payload ran longer than its limit.", 0, 3600, {}),
        ("wall_limit", "The payload ran longer than its limit.", 3600, 3600, {"maxWalltime": 1}),
        ("pilot_terminated", "The site ended the pilot.", 3600, 3660, {}),
        ("lost_node", "(slurm job 7) is gone: TIMEOUT", 0, 3600, {}),
        ("wall_limit", "Shorter than the time that no event takes.", 0, 300, {}),
    ],
)
def test_scouts_that_have_too_little_time_are_made_anew(
    world: World, code: str, diag: str, maxtime: int, lasted_s: int, keys: dict[str, Any]
) -> None:
    """JEDI document: "The number of events per job is changed if necessary"; unused ranges are cut
    anew (docs/reference/event-ranges.md#cutting-unused-ranges-anew). Scouts of 10 events end at a
    limit on time: they count as if they needed twice that time, so ranges get 5, then 2, and other
    scouts are made. These finish, and the rest follows. Of 12 ranges of 10, 3 are used; the other 9
    make 18 of 5, of which 3 are used; the other 15 make 30 of 2 and 15 of 1. A pilot that its site
    ended is nobody's fault: such attempts count here, as those after `attempts.most_free` do."""
    with world.engine.begin() as tx:
        knobs.put(tx, "attempts.most_free", 0, "op")
    task = ranged(world, maxtime, **keys)
    cut_short(world, jobs(world, task, "activated"), code, diag, lasted_s)
    assert (status(world, task), task_row(world, task).reason_code) == ("scouting", "scouts_anew")
    make_due(world)
    everything(world)
    assert sizes(world, task) == {10: 3, 5: 3}
    cut_short(world, jobs(world, task, "activated"), code, diag, lasted_s)
    make_due(world)
    everything(world)
    assert sizes(world, task) == {10: 3, 5: 3, 2: 2, 1: 1}  # the first range makes 2, 2 and 1
    sound(world)
    end(world, jobs(world, task, "activated"), wall_s=100.0)
    make_due(world)
    everything(world)
    assert status(world, task) == "running"
    assert sizes(world, task) == {10: 3, 5: 3, 2: 30, 1: 15}
    sound(world)
    [made] = rows(world, "SELECT sum(n_events) AS n FROM jedi_jobs WHERE jeditaskid = :t", t=task)
    assert made.n == 120


def across(world: World, **keys: Any) -> int:
    """A task of eight files of 15 events, in jobs of 10 events, whose three scouts are made."""
    set_knobs(world, chunks=3)
    add_inputs(world, 8)
    items = {
        "nEventsPerJob": 10,
        "nEventsPerInputFile": 15,
        "site": "SITE_A",
        "skipScout": False,
        "maxAttempt": 1,
        "nFilesPerJob": None,
    }
    [task] = ready(world, document(**{**items, **keys}))
    assert generate(world) == 1
    return task


def test_jobs_of_so_many_events_are_cut_anew_across_files(world: World) -> None:
    """nEventsPerJob likewise. Of 120 events scouts use 30: 10 each, then 15: 5 each. The other 75
    make 38 jobs of 2, of which the last one has 1."""
    task = across(world)
    for _ in range(2):
        cut_short(world, jobs(world, task, "activated"), "wall_limit", "Too long.", 3600)
        assert status(world, task) == "scouting"
        make_due(world)
        everything(world)
        sound(world)
    assert sizes(world, task) == {10: 3, 5: 3, 2: 3}
    end(world, jobs(world, task, "activated"), wall_s=100.0)
    make_due(world)
    everything(world)
    assert status(world, task) == "running"
    assert sizes(world, task) == {10: 3, 5: 3, 2: 37, 1: 1}
    assert task_row(world, task).rules["n_events_per_job"] == 2
    sound(world)


def test_jobs_without_input_get_fewer_events(world: World) -> None:
    """Of 120 events three scouts had 10 each; the other 90 make 18 jobs of 5, of which three are
    scouts."""
    set_knobs(world, chunks=3)
    plain = document(
        noInput=True,
        nEvents=120,
        nEventsPerJob=10,
        site="SITE_A",
        skipScout=False,
        maxAttempt=1,
        nFilesPerJob=None,
    )
    items = [one for one in plain["jobParameters"] if one.get("param_type") != "input"]
    [task] = ready(world, {**plain, "jobParameters": items})
    assert generate(world) == 1
    cut_short(world, jobs(world, task, "activated"), "wall_limit", "Too long.", 3600)
    make_due(world)
    everything(world)
    assert sizes(world, task) == {10: 3, 5: 3}
    sound(world)


def test_jobs_of_whole_files_get_fewer(world: World) -> None:
    """30 events a job are two files of 15. After their scouts were ended jobs get one file; a file
    is not cut."""
    task = across(world, nEventsPerJob=30)
    cut_short(world, jobs(world, task, "activated"), "wall_limit", "Too long.", 3600)
    make_due(world)
    everything(world)
    assert sizes(world, task) == {30: 3, 15: 2}
    cut_short(world, jobs(world, task, "activated"), "wall_limit", "Too long.", 3600)
    everything(world)
    assert history(world, task)[-2:] == ["tobroken", "broken"]


def test_other_failures_of_scouts_break_the_task_as_ever(world: World) -> None:
    """No limit on time ended the scouts: a pilot that was lost after a minute says nothing."""
    task = ranged(world, 3600)
    cut_short(world, jobs(world, task, "activated"), "lost_pilot", "The pilot died.", 60)
    everything(world)
    assert history(world, task)[-2:] == ["tobroken", "broken"]


def test_a_single_event_is_not_cut(world: World) -> None:
    """Scouts of one event end at the limit: no smaller range exists, and the task is broken."""
    task = ranged(world, 0, tgtNumEventsPerJob=1)
    cut_short(world, jobs(world, task, "activated"), "wall_limit", "Too long.", 3600)
    everything(world)
    assert history(world, task)[-2:] == ["tobroken", "broken"]
