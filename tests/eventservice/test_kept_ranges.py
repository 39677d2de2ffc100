"""notDiscardEvents: ranges that were processed survive the end of their job set.

Expected values: PanDA: "The task will not discard events when retrying event service jobs";
"Earlier good rows are discarded (kept with ND), unprocessed ones cancelled".
"""

# Raw UPDATEs: storage is out of reach; a range is cut otherwise.

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commanding import ask, cycle, files, sound, status
from support.event_sets import EventPilot, events_task, range_counts, ranges, serve, set_jobs
from support.generating import generate, rows
from support.situations import make_due, set_sites

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.watchdog import sweep


def failed_set(world: World, **keys: Any) -> tuple[int, EventPilot, int]:
    """A task whose job set has failed: events 1-4 were processed, 5-6 could not be."""
    task = events_task(world, **{"notDiscardEvents": True, **keys})
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.ask(job, 9)
    pilot.process(job, [1, 3])
    pilot.process(job, [5], "fatal")
    pilot.end(job)
    serve(world)
    assert set_jobs(world, task, "es_merge") == [("es_merge", "failed", None)]
    assert files(world, task) == {"ready": 1}
    return task, pilot, job.panda_id


def again(world: World) -> None:
    make_due(world)
    assert generate(world) == 1


def adder(world: World) -> None:
    while Adder(world).run_once():
        pass


def test_the_next_job_set_processes_only_the_rest(world: World) -> None:
    """Expected: 1-2 and 3-4 stay done; the new set has them, and 5-6 to process; each range is
    merged once, from the zip file of the consumer that made it."""
    task, pilot, first = failed_set(world)
    assert range_counts(world, task) == {"done": 2, "failed": 1}
    sound(world)
    again(world)
    assert ranges(world, task) == {
        1: [("done", 10)],
        3: [("done", 10)],
        5: [("ready", 10), ("failed", 1)],
    }
    sound(world)
    [job] = pilot.take()
    assert pilot.ask(job, 9) == [5]
    pilot.process(job, [5])
    pilot.end(job)
    serve(world)
    [merge] = pilot.take()
    members = [one.split("-") for piece in pilot.pieces(merge) for one in piece["members"]]
    makers = [(int(one[1]), int(one[3])) for one in members]
    assert makers == [(first, 1), (first, 3), (job.panda_id, 5)]
    pilot.end(merge)
    adder(world)
    serve(world)
    assert range_counts(world, task) == {"merged": 3, "failed": 1}
    assert files(world, task) == {"finished": 1}
    sound(world)


def test_without_the_rule_all_ranges_are_processed_again(world: World) -> None:
    """Expected: good rows are discarded, and the new set has all three ranges."""
    task, _, _ = failed_set(world, notDiscardEvents=None)
    assert range_counts(world, task) == {"discarded": 2, "failed": 1}
    again(world)
    assert range_counts(world, task) == {"discarded": 2, "failed": 1, "ready": 3}
    sound(world)


def test_a_set_with_nothing_left_is_merged_at_once(world: World) -> None:
    """Expected: "trigger merge generation if all events are done" (PanDA): three merges failed, no
    range did; consumers of the new set are not needed."""
    task = events_task(world, notDiscardEvents=True)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    for _ in range(3):
        [merge] = pilot.take()
        pilot.end(merge, "failed")
        adder(world)
        serve(world)
    assert range_counts(world, task) == {"done": 3}
    assert set_jobs(world, task, "consumer") == [("consumer", "failed", "es_merge_failed")]
    sound(world)
    again(world)
    serve(world)
    assert set_jobs(world, task, "consumer")[1] == ("consumer", "closed", "es_unused")
    assert set_jobs(world, task, "es_merge")[-1] == ("es_merge", "activated", None)
    assert range_counts(world, task) == {"done": 3}
    sound(world)


def test_an_ordinary_job_processes_all_again(world: World) -> None:
    """switchEStoNormal: the queue takes jobs of all kinds by the time of the next job, which
    processes its whole file. Expected: no kept range waits for a job set that never comes; if the
    ordinary job fails, too, the job set after it has all three ranges."""
    set_sites(world, jobseed="es")
    task, pilot, _ = failed_set(world, switchEStoNormal=True)
    set_sites(world, jobseed="all")
    again(world)
    assert range_counts(world, task) == {"discarded": 2, "failed": 1}
    sound(world)
    [job] = pilot.take()
    pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
    adder(world)
    set_sites(world, jobseed="es")
    again(world)
    assert range_counts(world, task) == {"discarded": 2, "failed": 1, "ready": 3}
    sound(world)


def unreadable(world: World, _task: int) -> None:
    """No site reads the pieces any longer."""
    with world.engine.begin() as tx:
        tx.exec_driver_sql("UPDATE jedi_event_zips SET endpoint = 'NOWHERE'")


def cut_otherwise(world: World, _task: int) -> None:
    """The ranges that were processed end elsewhere."""
    with world.engine.begin() as tx:
        tx.exec_driver_sql("UPDATE jedi_events SET def_max_eventid = 99 WHERE status = 6")


@pytest.mark.parametrize("change", [unreadable, cut_otherwise])
def test_pieces_that_do_not_fit_are_discarded(
    world: World, change: Callable[[World, int], None]
) -> None:
    """Expected: a range is taken over if the new set cuts it the same way, and some site can merge
    its piece with the new ones."""
    task, _, _ = failed_set(world)
    change(world, task)
    again(world)
    assert range_counts(world, task) == {"discarded": 2, "failed": 1, "ready": 3}


def test_pieces_stay_in_storage_until_they_are_merged(world: World) -> None:
    """Expected: the sweeping dog leaves zip files whose ranges wait; those of a task that has ended
    go, and their ranges are discarded."""
    task, _, _ = failed_set(world)
    [old] = rows(world, "SELECT jobsetid FROM jedi_jobsets WHERE jeditaskid = :t", t=task)
    path = Path(world.ddm.pieces_where("SITE_A_DATADISK", task, old.jobsetid))
    path.mkdir(parents=True)
    (path / "1.1.zip").write_bytes(b"x")
    sweep.run(world)
    assert path.exists()
    ask(world, task, "kill")
    cycle(world)
    make_due(world)
    cycle(world)
    assert status(world, task) == "aborted"
    sweep.run(world)
    assert not path.exists()
    assert range_counts(world, task) == {"discarded": 2, "failed": 1}
    sound(world)
