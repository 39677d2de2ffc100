"""Ranges of events that nobody used are cut anew where scouts were slower than expected."""

# Raw UPDATEs: an attempt whose job does not run here.

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from support.generating import catalogue, document, generate, ready, rows
from support.scouts import CLASSIC, JOB, USER

from jedi.agent.base import World
from jedi.ddm.interface import FileInfo
from jedi.model.jobs.scouting import Progress, Scouted
from jedi.postprocessor.scouts import judge
from jedi.service.system.check import check
from jedi.taskbuffer.inputs import recutting


def test_a_wall_time_limits_the_events_of_later_jobs() -> None:
    # 500 events in 7200 s, of which 600 s do not grow with them: 13.2 s an event
    wanted = replace(USER, events_per_job=500, max_walltime_s=3600.0)
    found = Scouted(wanted, Progress(30, 1, 0), (JOB,))
    assert judge(found, CLASSIC).n_events_per_job == 227
    for task in (replace(wanted, max_walltime_s=8000.0), replace(wanted, events_per_job=None)):
        assert judge(replace(found, declared=task), CLASSIC).n_events_per_job is None


def test_unused_ranges_are_cut_anew_and_used_ones_stay(world: World) -> None:
    catalogue(world, in_=[FileInfo(f"f{i}", 10, "00000001", nevents=100) for i in range(3)])
    (task_id,) = ready(world, document(tgtNumEventsPerJob=50))
    with world.engine.begin() as tx:
        first = rows(world, "SELECT min(fileid) AS id FROM jedi_dataset_contents")[0].id
    rows(
        world,
        "UPDATE jedi_dataset_contents SET attemptnr = 1 WHERE fileid = :id RETURNING 1",
        id=first,
    )
    with world.engine.begin() as tx:
        recutting.recut(tx, {task_id: 20})
        assert [one for one in check(tx) if one.violations] == []
    found = rows(world, "SELECT * FROM jedi_dataset_contents ORDER BY firstevent")
    assert [(r.lfn, r.startevent, r.endevent) for r in found[:4]] == [
        ("f0", 0, 49),
        ("f0", 50, 69),
        ("f0", 70, 89),
        ("f0", 90, 99),
    ]
    assert found[-1].firstevent + found[-1].endevent - found[-1].startevent == 300
    for one, other in pairwise(found):
        assert other.firstevent == one.firstevent + one.endevent - one.startevent + 1
    (dataset,) = rows(world, "SELECT * FROM jedi_datasets WHERE type = 'input'")
    assert dataset.nfiles == dataset.nfilestobeused == len(found) == 1 + 3 + 2 * 2 * 3
    (task,) = rows(world, "SELECT * FROM jedi_tasks")
    assert (task.rules["target_events_per_job"], task.splitrule) == (20, "TE=20,US=1")
    assert generate(world) == 1
    (made,) = rows(world, "SELECT count(*) AS n, count(DISTINCT fileid) AS ranges FROM jedi_events")
    assert made.n == made.ranges == len(found)
