"""Job sets, consumers and ranges as the JobGenerator writes them."""

# Raw UPDATEs: consumers whose end nobody books here.

from __future__ import annotations

from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text
from support.dogs import run
from support.event_service import (
    consumers,
    cuts,
    event_task,
    job_sets,
    ranges,
    waiting_jobs,
    with_events,
)
from support.generate import end, jobs_of, turn
from support.generating import catalogue, generate, ready, rows
from support.job_rows import watch
from support.task_rows import row_of

from jedi.agent.base import World
from jedi.core import clock
from jedi.model.jobs.events import NewConsumer, NewRanges, RangeId
from jedi.service.system.check import check
from jedi.taskbuffer.events.job_sets import add_consumers
from jedi.taskbuffer.scheduling import throttling


def clean(world: World) -> None:
    with world.engine.begin() as tx:
        assert not [one for one in check(tx) if one.violations]


def test_a_job_set_has_a_job_that_waits_consumers_and_ranges(world: World) -> None:
    """PanDA: each master range is cut into rows of ES events; the owner column holds the
    job set until dispatch; attempts count down from 10; EC consumers share the pool.
    Two files of 5 and 3 events, 2 a range, numbered through all files from 1 on:
    1-2, 3-4, 5-5 and 6-7, 8-8."""
    catalogue(world, in_=with_events(5, 3))
    (task,) = ready(world, event_task(nEsConsumers=2))
    row = row_of(world, task)
    assert (row.eventservice, row.splitrule) == (1, "NF=1,ES=2,EC=2,US=1")
    assert generate(world) == 1
    sets, waiting = job_sets(world, task), waiting_jobs(world, task)
    assert [job.status for job in waiting] == ["waiting"] * 2
    assert [one.jobsetid for one in sets] == [job.panda_id for job in waiting]
    first, second = waiting
    assert first.command == f"merge.sh File1 o.000001 {first.panda_id}"
    assert [
        (s.merge_pandaid, s.mode, s.clone, s.n_ranges, s.n_consumers, s.attempts_left, s.jumbo)
        for s in sets
    ] == [
        (first.panda_id, "es", None, 3, 2, 3, False),
        (second.panda_id, "es", None, 2, 2, 3, False),
    ]
    made = consumers(world, task)
    assert [(c.jobsetid, c.number, c.kind, c.status, c.unit_nr) for c in made] == [
        (first.panda_id, 1, "consumer", "activated", 1),
        (first.panda_id, 2, "consumer", "activated", 1),
        (second.panda_id, 1, "consumer", "activated", 2),
        (second.panda_id, 2, "consumer", "activated", 2),
    ]
    assert [c.command for c in made] == ["cat File1 > o.000001"] * 2 + ["cat File2 > o.000002"] * 2
    found = ranges(world, task)
    assert cuts(found) == [
        ("File1", 1, 2),
        ("File1", 3, 4),
        ("File1", 5, 5),
        ("File2", 6, 7),
        ("File2", 8, 8),
    ]
    assert [e.job_processid for e in found] == [1, 3, 5, 6, 8]
    assert [e.event_offset for e in found] == [0, 0, 0, 5, 5]
    assert {(e.status, e.attemptnr, e.panda_id == e.jobsetid, e.ready) for e in found} == {
        (0, 10, True, True)
    }
    queued = rows(world, "SELECT pandaid AS panda_id FROM jedi_job_ready ORDER BY pandaid")
    assert [row.panda_id for row in queued] == sorted(c.panda_id for c in made)
    clean(world)


_FILES = """
SELECT f.type, f.lfn, c.pandaid AS user, c.status, c.jobsetid FROM jedi_job_files f
JOIN jedi_dataset_contents c USING (fileid) WHERE f.pandaid = :p ORDER BY f.type
"""


def test_a_consumer_reads_the_inputs_and_has_only_a_log_of_its_own(world: World) -> None:
    """Inputs name the job that waits as their user, so a consumer's end settles its log alone."""
    catalogue(world, in_=with_events(4))
    (task,) = ready(world, event_task(nEsConsumers=2))
    generate(world)
    (jobset,) = job_sets(world, task)
    one, other = consumers(world, task)
    log = f"t.{task}.log.000001"
    for number, job in enumerate((one, other), 1):
        files = [(r.type, r.lfn, r.user, r.status) for r in rows(world, _FILES, p=job.panda_id)]
        assert files == [
            ("input", "File1", jobset.jobsetid, "running"),
            ("log", f"{log}.c{number}.tgz", job.panda_id, "defined"),
        ]
    assert {r.jobsetid for r in rows(world, _FILES, p=one.panda_id)} == {jobset.jobsetid}
    end(world, "closed", one.panda_id)
    found = [(r.type, r.status) for r in rows(world, _FILES, p=one.panda_id)]
    assert found == [("input", "running"), ("log", "failed")]
    assert {e.status for e in ranges(world, task)} == {0}
    clean(world)


@pytest.mark.parametrize(
    ("keys", "numbers", "offsets"),
    [
        ({"inFilePosEvtNum": True}, [(1, 2), (3, 4), (5, 5), (1, 2), (3, 3)], [0] * 5),
        (
            {"firstEvent": 100},
            [(101, 102), (103, 104), (105, 105), (106, 107), (108, 108)],
            [100, 100, 100, 105, 105],
        ),
        # 4 events a job: 1-4 of File1; 5 of File1 and 1-3 of File2
        (
            {"nEventsPerJob": 4, "nFilesPerJob": None},
            [(1, 2), (3, 4), (5, 5), (6, 7), (8, 8)],
            [0, 0, 0, 5, 5],
        ),
    ],
)
def test_events_have_numbers(
    world: World, keys: dict[str, Any], numbers: list[tuple[int, int]], offsets: list[int]
) -> None:
    """In-file positional numbers (inFilePosEvtNum), else numbers through all files, after
    firstEvent."""
    catalogue(world, in_=with_events(5, 3))
    (task,) = ready(world, {k: v for k, v in event_task(**keys).items() if v is not None})
    generate(world)
    found = ranges(world, task)
    assert [(e.def_min_eventid, e.def_max_eventid) for e in found] == numbers
    assert [e.event_offset for e in found] == offsets


def test_clones_have_one_range_an_input_and_make_the_outputs(world: World) -> None:
    """PanDA: cloning defaults to 2 sites, consumers = sites; one range per job."""
    catalogue(world, in_=with_events(5, None))
    keys = {"useJobCloning": "storeonce", "nEventsPerWorker": None, "esmergeSpec": None}
    (task,) = ready(world, {k: v for k, v in event_task(**keys).items() if v is not None})
    assert row_of(world, task).eventservice == 2
    generate(world)
    sets, made = job_sets(world, task), consumers(world, task)
    assert [(s.mode, s.clone, s.n_ranges, s.n_consumers) for s in sets] == [
        ("cloning", "storeonce", 1, 2)
    ] * 2
    assert [c.kind for c in made] == ["clone"] * 4
    for first, second in (made[:2], made[2:]):
        assert first.site != second.site
        assert first.cores == second.cores
        files = [[r.type for r in rows(world, _FILES, p=c.panda_id)] for c in (first, second)]
        assert files == [["input", "log", "output"]] * 2
    assert [(e.def_min_eventid, e.attemptnr) for e in ranges(world, task)] == [(1, 10)] * 2
    clean(world)


def test_fine_grained_jobs_succeed_in_part(world: World) -> None:
    """PanDA: fine-grained processing is partial success. Without nEventsPerWorker an input is one
    range, whatever is in it."""
    catalogue(world, in_=with_events(None, None))
    keys = {"fineGrainedProc": True, "nEventsPerWorker": None, "nFilesPerJob": 2}
    (task,) = ready(world, {k: v for k, v in event_task(**keys).items() if v is not None})
    row = row_of(world, task)
    assert (row.eventservice, row.splitrule) == (3, "NF=2,AP=1,FP=1,US=1")
    generate(world)
    assert [c.kind for c in consumers(world, task)] == ["fine"]
    assert [(e.lfn, e.job_processid) for e in ranges(world, task)] == [("File1", 1), ("File2", 1)]
    clean(world)


def test_more_consumers_follow_those_that_fail(world: World) -> None:
    """PanDA: a new attempt has priority +1; it uses up one of the attempts of the job
    set (4.4: attemptNr + XJ)."""
    catalogue(world, in_=with_events(4))
    (task,) = ready(world, event_task(maxAttemptEsJob=2))
    generate(world)
    (jobset,), (one,) = job_sets(world, task), consumers(world, task)
    with world.engine.begin() as tx:
        (added,) = add_consumers(tx, [NewConsumer(jobset.jobsetid, after=one.panda_id)], "test")
    assert (added.jobset_id, added.number, added.status) == (jobset.jobsetid, 2, "assigned")
    first, second = consumers(world, task)
    assert (second.panda_id, second.site, second.priority) == (
        added.panda_id,
        first.site,
        first.priority + 1,
    )
    assert second.command == first.command
    (jobset,) = job_sets(world, task)
    assert (jobset.n_consumers, jobset.attempts_left) == (2, 1)
    history = rows(
        world,
        "SELECT oldpandaid, newpandaid FROM jedi_job_retry_history WHERE jeditaskid = :t",
        t=task,
    )
    assert [(r.oldpandaid, r.newpandaid) for r in history] == [(first.panda_id, second.panda_id)]
    clean(world)


def test_consumers_share_the_time_of_a_job_set(world: World) -> None:
    """PanDA: wall += cpuTime * events / (cores * corePower * efficiency * consumers).
    SITE_A and SITE_B have corepower 10 (unknown): 100 events of 3600 HS06 s at 100 % take
    3600 * 100 / 10 = 36000 s, half of that for each of two consumers; + 60 s."""
    catalogue(world, in_=with_events(100))
    asked = {"cpuTime": 3600, "cpuEfficiency": 100, "baseWalltime": 60}
    for consumers_, seconds in ((1, 36_060), (2, 18_060)):
        (task,) = ready(world, event_task(nEsConsumers=consumers_, output=f"a:{seconds}", **asked))
        generate(world)
        assert {one.walltime_s for one in consumers(world, task)} == {seconds}


def test_a_killed_job_set_gives_its_inputs_back(world: World) -> None:
    """The end of the job that waits settles its inputs like that of any job; the retry is the
    same unit of work."""
    catalogue(world, in_=with_events(4))
    (task,) = ready(world, event_task())
    generate(world)
    (jobset,) = job_sets(world, task)
    end(world, "closed", jobset.jobsetid)
    assert generate(world) == 1
    again = job_sets(world, task)[-1]
    assert again.jobsetid != jobset.jobsetid
    units = {job.unit_nr for job in jobs_of(world, task)}
    assert units == {1}
    assert len(ranges(world, task)) == 4


def test_consumers_get_arguments_of_their_own(world: World) -> None:
    """PanDA: es_only items are dropped for non-ES jobs."""
    catalogue(world, in_=with_events(4))
    item = {"type": "constant", "value": "--events", "es_only": True}
    shared = {"output": "a:two", "nFilesPerJob": 1}
    task, other = ready(world, _inserted(event_task(), item), _inserted(_ordinary(shared), item))
    generate(world)
    assert [c.command for c in consumers(world, task)] == ["cat File1 --events > o.000001"]
    assert [job.command for job in jobs_of(world, other)] == ["cat File1 > o.000001"]


@pytest.mark.parametrize(("limit", "sets"), [(7, 2), (2, 1)])
def test_a_limit_of_jobs_counts_consumers(world: World, limit: int, sets: int) -> None:
    """JEDI document, "Job throttling": so many jobs at once. Expected: of 7, two job sets of 3
    consumers, which pilots get; the seventh is too few for another one. One job set is made even
    if its consumers are more than the limit, or its task would never begin."""
    catalogue(world, in_=with_events(4, 4, 4, 4))
    turn(world, throttler__queue_cap=limit)
    (task,) = ready(world, event_task(nEsConsumers=3))
    generate(world)
    assert len(job_sets(world, task)) == sets


def test_statements_do_not_grow_with_job_sets(world: World) -> None:
    """Rule 4 of the house: no statement per job set, consumer or range."""
    catalogue(world, in_=with_events(*[6] * 40))
    seen = watch(world.engine)

    def count(**keys: Any) -> int:
        (task,) = ready(world, event_task(**keys))
        seen.clear()
        generate(world)
        sets = len(job_sets(world, task))
        assert len(consumers(world, task)) == sets * keys.get("nEsConsumers", 1)
        return len(seen)

    few = count(nFilesPerJob=20)
    assert count(nEventsPerWorker=1, nEsConsumers=3, output="a:two") == few


def _ordinary(keys: dict[str, Any]) -> dict[str, Any]:
    task = event_task(**keys)
    return {k: v for k, v in task.items() if k not in ("nEventsPerWorker", "esmergeSpec")}


def _inserted(task: dict[str, Any], item: dict[str, Any]) -> dict[str, Any]:
    first, *rest = task["jobParameters"]
    return {**task, "jobParameters": [first, item, *rest]}


# ------------------------------------------------------------------------------- the cut alone


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 30)), max_size=8),
    st.integers(1, 7),
    st.integers(1, 9),
)
def test_each_event_is_in_one_range(inputs: list[tuple[int, int]], size: int, most: int) -> None:
    """Whatever the blocks: ranges have `size` events, the last of an input the rest."""
    starts = np.array([start for start, _ in inputs], np.int64)
    ends = starts + np.array([n - 1 for _, n in inputs], np.int64)
    ids = np.arange(len(inputs), dtype=np.int64)
    whole = NewRanges(ids, ids, ids, starts, ends, ids * 0, size, 10)
    found = [
        (file, event - 1)
        for block in whole.blocks(most)
        for file, a, b in zip(
            *(c.tolist() for c in (block.file_ids, block.first, block.last)), strict=True
        )
        for event in range(a, b + 1)
    ]
    wanted = [(i, e) for i, (start, n) in enumerate(inputs) for e in range(start, start + n)]
    assert found == wanted
    assert all(len(block.first) <= most for block in whole.blocks(most))
    assert whole.per_set(ids.tolist()) == [-(-n // size) for _, n in inputs]


def test_range_ids_are_read_and_written() -> None:
    """PanDA: range id = task-PandaID-file-process-attempt."""
    known = RangeId(12, 345, 67, 1, 10)
    assert str(known) == "12-345-67-1-10"
    assert RangeId.parse("12-345-67-1-10") == known


_BAD = [
    "",
    "1-2-3-4-٣",
    "1-2-3-4",
    "1-2-3-4-5-6",
    "a-2-3-4-5",
    "1--2-3-4",
    f"1-2-3-4-{2**63}",
    "1-2-3-4-" + "9" * 99,
]


@pytest.mark.parametrize("word", _BAD)
def test_other_texts_are_no_range_ids(word: str) -> None:
    with pytest.raises(ValueError, match="is no id of a range"):
        RangeId.parse(word)


# ----------------------------------------------------------------------------- waiting merge jobs


@pytest.mark.parametrize(("settled", "ends"), [(False, "waiting"), (True, "closed")])
def test_a_job_set_waits_for_its_consumers(world: World, settled: bool, ends: str) -> None:
    """Jobs wait 30 min at most, but for those that consumers work for. JEDI document, "Timeout
    values for production jobs"."""
    catalogue(world, in_=with_events(4))
    (task,) = ready(world, event_task())
    generate(world)
    if settled:
        with world.engine.begin() as tx:
            tx.execute(text("UPDATE jedi_consumers SET settled_at = jedi_now()"))
    clock.turn_to(clock.now() + timedelta(seconds=1801))
    try:
        run(world, "timeouts")
    finally:
        clock.turn_to(None)
    (waiting,) = waiting_jobs(world, task)
    assert waiting.status == ends


def test_waiting_job_sets_are_no_load_of_their_queue(world: World) -> None:
    """JEDI document, "Job throttling": jobs that wait for others throttle a queue. A job set's job
    waits for consumers, which are counted."""
    catalogue(world, in_=with_events(4, 4, 4))
    ready(world, event_task())
    generate(world)
    with world.engine.begin() as tx:
        (load,) = throttling.LOADS.rows(tx)
    assert (load.waiting, load.not_running) == (0, 3)
