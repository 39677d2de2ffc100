"""Pages of units, of their outputs and attempts: nothing is left out, and a page costs its rows.

Expected values: docs/reference/ganga.md#states-of-units.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Connection, event, text
from support.calls import call
from support.commanding import end, everything, jobs, take, work_off
from support.plans import handled
from support.units import MAKING, ask_units, cursors, given, unit

from jedi.agent.base import World
from jedi.core.errors import BadInput
from jedi.service.units.unit_details import UnitStates, attempts, outputs, states
from jedi.taskbuffer.reports.unit_states import StatesQuestion, states_of

UNITS = 600


def pages(world: World, since: dict[int, str | None], page: int) -> list[list[UnitStates]]:
    """All pages after these since."""
    found = []
    while since:
        with world.engine.begin() as tx:
            found.append(states(call(tx), cursors(since), limit=page))
        assert sum(len(one.units) for one in found[-1]) <= page
        since = {one.jedi_task_id: one.cursor for one in found[-1] if one.more}
    return found


def numbers(found: list[list[UnitStates]], task: int) -> list[int]:
    return [
        unit.unit_nr
        for page in found
        for one in page
        if one.jedi_task_id == task
        for unit in one.units
    ]


def test_states_come_in_pages(world: World) -> None:
    """Expected: of two tasks with 5 and 4 units, pages of 3 list each unit once, the first task
    first; each page has the numbers of the units so far; what changes between two pages comes with
    the next question."""
    one = given(world, [unit(str(n)) for n in range(5)], document=MAKING).jedi_task_id
    other = {**MAKING, "taskName": "h"}
    two = given(world, [unit(str(n)) for n in range(4)], "h", document=other).jedi_task_id
    everything(world)
    found = pages(world, {one: None, two: None}, 3)
    assert numbers(found, one) == [1, 2, 3, 4, 5] and numbers(found, two) == [1, 2, 3, 4]
    so_far = [[(one.counts.get("submitted", 0), one.more) for one in page] for page in found]
    assert so_far == [[(3, True), (0, True)], [(5, False), (1, True)], [(4, False)]]
    last = {task.jedi_task_id: task.cursor for page in found for task in page}
    assert numbers(pages(world, {**last}, 3), one) == []
    ask_units(world, one, "kill", [1, 3, 4, 5])
    with world.engine.begin() as tx:
        [first] = states(call(tx), cursors({one: last[one]}), limit=2)
    assert ([u.unit_nr for u in first.units], first.more) == ([1], True)
    assert first.counts == {"killed": 1, "submitted": 1}
    ask_units(world, one, "resubmit", [1, 5])
    rest = pages(world, {one: first.cursor}, 2)
    assert numbers(rest, one) == [3, 4, 5]
    assert [unit.state for unit in rest[-1][-1].units] == ["submitted"]
    assert rest[-1][-1].counts == {"killed": 3, "submitted": 2}
    again = pages(world, {one: rest[-1][-1].cursor}, 2)
    assert numbers(again, one) == [1, 5]
    stale = first.cursor.replace(first.cursor[:8], "00000000")
    assert numbers(pages(world, {one: stale}, 2), one) == [1, 2, 3, 4, 5]
    with pytest.raises(BadInput, match="no cursor"), world.engine.begin() as tx:
        states(call(tx), cursors({one: first.cursor + "/1"}))


def test_units_are_counted_again_only_if_something_has_changed(world: World) -> None:
    """Expected: the answer to the cursor of the last answer has its numbers, and the database
    counts nothing; a unit that is killed and jobs that end change them."""

    def asked(cursor: str) -> tuple[dict[str, int] | None, UnitStates]:
        bound, status = int(cursor.split("-")[1]), cursor.split("-")[3]
        question = StatesQuestion(task, bound, status, counted=True)
        with world.engine.begin() as tx:
            return states_of(tx, [question])[0].counts, states(call(tx), cursors({task: cursor}))[0]

    task = given(world, [unit(str(n)) for n in range(3)], document=MAKING).jedi_task_id
    everything(world)
    with world.engine.begin() as tx:
        [found] = states(call(tx), cursors({task: None}))
    changes: list[tuple[Callable[[], object], dict[str, int]]] = [
        (lambda: None, {"submitted": 3}),
        (lambda: ask_units(world, task, "kill", [3]), {"submitted": 2, "killed": 1}),
        (lambda: work_off(world, task), {"completed": 2, "killed": 1}),
    ]
    for change, expected in changes:
        change()
        counted, found = asked(found.cursor)
        assert counted == (None if expected == {"submitted": 3} else expected)
        assert found.counts == expected
        for _ in range(2):
            counted, found = asked(found.cursor)
            assert (counted, found.counts, found.units) == (None, expected, [])
    old = "-".join(found.cursor.split("-")[:4])  # of a release whose cursors had no numbers
    with world.engine.begin() as tx:
        assert states(call(tx), cursors({task: old}))[0].counts == {"completed": 2, "killed": 1}


_HERDS = """
SET LOCAL session_replication_role = replica;
INSERT INTO jedi_tasks (jeditaskid, reqid, parent_tid, status)
SELECT n, n, n, 'running' FROM generate_series(1, 101) n;
INSERT INTO jedi_herds (jeditaskid, originpandaid, splitter, after, n_units, split_at)
SELECT n, n, 'x', 'refine', CASE WHEN n = 1 THEN 2000 ELSE 2 END, jedi_now()
FROM generate_series(1, 101) n;
INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status)
SELECT n, n, 'd' || n, 'input', 'ready' FROM generate_series(1, 101) n;
INSERT INTO jedi_units (jeditaskid, unit_nr, originpandaid, options)
SELECT n, k, 10000 * n + k, '{}'
FROM generate_series(1, 101) n, LATERAL generate_series(1, CASE WHEN n = 1 THEN 2000 ELSE 2 END) k;
INSERT INTO jedi_dataset_contents (fileid, jeditaskid, datasetid, lfn, type, status, boundaryid)
SELECT originpandaid, jeditaskid, jeditaskid, unit_nr, 'input', 'running', unit_nr FROM jedi_units;
INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, status, site,
  priority, cores, memory_mb, walltime_s, disk_mb, kind)
SELECT originpandaid, jeditaskid, jeditaskid, originpandaid, unit_nr, 1, 'running', 'A', 1, 1, 0, 0,
  0, 'normal' FROM jedi_units
"""


@pytest.mark.parametrize("analysed", [False, True])
@pytest.mark.parametrize("tasks", [1, 101])
def test_states_cost_by_the_unit(world: World, analysed: bool, tasks: int) -> None:
    """Expected: of 2000 units beside 100 tasks of two no step of the plan handles more than 10
    rows a unit, also before PostgreSQL knows the new rows, and however it joins (50 s, when it
    compared each unit with each file)."""
    with world.engine.begin() as tx:
        for part in _HERDS.split(";"):
            tx.execute(text(part))
        if analysed:
            tx.execute(text("ANALYZE"))
    sent: list[tuple[str, Any]] = []
    event.listen(world.engine, "before_cursor_execute", lambda *given: sent.append(given[2:4]))
    with world.engine.begin() as tx:
        found = states_of(tx, [StatesQuestion(n) for n in range(1, tasks + 1)])
        assert [one.counts for one in found] == [{"running": 2000}, *[{"running": 2}] * (tasks - 1)]
        sql, values = sent[-1]
        tx.execute(text("SET LOCAL enable_hashjoin = off"))
        tx.execute(text("SET LOCAL enable_mergejoin = off"))
        explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}"
        plan = tx.exec_driver_sql(explained, values).scalar_one()[0]["Plan"]
    assert max(handled(plan))[0] < 10 * (2000 + 2 * tasks), max(handled(plan))


def buffers(tx: Connection, ask: Any) -> int:
    """Buffers that the statement of a question reads, without that of the mark."""
    seen: list[tuple[str, Any]] = []

    def note(_c: Any, _cursor: Any, statement: str, values: Any, *_more: Any) -> None:
        seen.append((statement, values))

    event.listen(tx, "before_cursor_execute", note)
    ask()
    event.remove(tx, "before_cursor_execute", note)
    found = 0
    for statement, values in seen:
        if "jedi_tasks_statuslog" in statement:
            continue
        plan = tx.exec_driver_sql(f"EXPLAIN (ANALYZE, BUFFERS) {statement}", values).scalars()
        lines = [line for line in plan if "Buffers: shared" in line]
        found += sum(map(int, re.findall(r"(?:hit|read)=(\d+)", lines[0]))) if lines else 0
    return found


def test_a_page_costs_its_rows(world: World) -> None:
    """Expected: 20 of 600 units, outputs or attempts read at most 25 buffers a row, in the middle
    as well as at the end, and whatever the task has beside them."""
    task = given(world, [unit(str(n)) for n in range(UNITS)], document=MAKING).jedi_task_id
    everything(world)
    made = jobs(world, task, "activated")
    take(world, made)
    end(world, made)
    assert work_off(world, task) == "done"
    # rows that died on the way, and the room they left, are no cost of a page
    with world.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
        tx.execute(text("VACUUM ANALYZE"))
    with world.engine.begin() as tx:
        [first] = states(call(tx), cursors({task: None}), limit=20)
        mark = first.cursor.partition("/")[0]
        files = [one.file_id for one in outputs(call(tx), task)]
        assert len(files) == UNITS
        assert buffers(tx, lambda: states(call(tx), cursors({task: None}), limit=20)) < 25 * 20
        for place in (20, UNITS // 2, UNITS - 20):
            cursor = f"{mark}//{place}"
            assert numbers([states(call(tx), cursors({task: cursor}), limit=20)], task) == [
                *range(place + 1, place + 21)
            ]
            assert (
                buffers(tx, lambda c=cursor: states(call(tx), cursors({task: c}), limit=20))
                < 25 * 20
            )
            after = files[place - 1]
            page = outputs(call(tx), task, after=after, limit=20)
            assert [one.file_id for one in page] == files[place : place + 20]
            assert buffers(tx, lambda a=after: outputs(call(tx), task, after=a, limit=20)) < 25 * 20
        assert buffers(tx, lambda: attempts(call(tx), task, UNITS, after=0, limit=20)) < 25 * 20
        assert attempts(call(tx), task, 1, after=made[0], limit=20) == []
