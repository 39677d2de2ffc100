"""The price of an idle agent's look at tasks that are at work and need nothing.

Expected: beside 200 such tasks and beside 2000 a look touches as many pages; 4 more may be upper
levels of indexes. It sees the one task that needs something.
"""

# Raw UPDATEs: many tasks at work, whose files are all in jobs.

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, text
from support.pages import buffers, vacuum

from jedi.taskbuffer.inputs import datasets, staging
from jedi.taskbuffer.jobs import merging, orders
from jedi.taskbuffer.tasks import ending, family

_TASKS = text("""
WITH t AS (
  INSERT INTO jedi_tasks (jeditaskid, status, reqid, taskname, username, rules)
  SELECT nextval('jedi_task_id_seq'), 'running', 1, 'test', 'me', '{}' FROM generate_series(1, :n)
  RETURNING jeditaskid
)
INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, nfiles, nfilestobeused,
  nfilesused)
SELECT nextval('jedi_dataset_id_seq'), jeditaskid, 'test:in', 'input', 'ready', 9, 9, 9 FROM t
""")
_LOOKS: list[tuple[Any, dict[str, Any]]] = [
    (orders._ANY_WANTING, {"statuses": list(orders.STATUSES), "merging": list(merging.STATUSES)}),
    (staging._WANTED, {"limit": 0.0}),
    (datasets._ANY_TO_FEED, {"statuses": list(datasets.TO_FEED), "recheck_s": 300.0}),
]


def add(engine: Engine, n: int) -> None:
    with engine.begin() as tx:
        tx.execute(_TASKS, {"n": n})
    vacuum(engine)


def change(engine: Engine, table: str, change: str) -> None:
    """Change one task, or its dataset."""
    first = "(SELECT min(jeditaskid) FROM jedi_tasks)"
    with engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text(f"UPDATE {table} SET {change} WHERE jeditaskid = {first}"))


def test_a_look_costs_the_same_beside_many_tasks(engine: Engine) -> None:
    add(engine, 200)
    few = [buffers(engine, look, **values) for look, values in _LOOKS]
    add(engine, 1800)
    many = [buffers(engine, look, **values) for look, values in _LOOKS]
    assert all(now <= before + 4 for before, now in zip(few, many, strict=True)), (few, many)


def test_a_task_with_a_ready_file_wants_jobs(engine: Engine) -> None:
    """Not while it is put off, paused, or in somebody's hands."""
    add(engine, 20)
    with engine.begin() as tx:
        assert not orders.any_wanting(tx, merging.STATUSES)
    for table, now, wants in (
        ("jedi_datasets", "nfilesused = 8", True),
        ("jedi_tasks", "next_run_at = jedi_now() + interval '1 h'", False),
        ("jedi_tasks", "next_run_at = jedi_now()", True),
        ("jedi_tasks", "lease_until = clock_timestamp() + interval '1 h'", False),
        ("jedi_tasks", "lease_until = clock_timestamp()", True),
        ("jedi_tasks", "status = 'paused'", False),
        ("jedi_tasks", "status = 'scouting'", True),
        ("jedi_datasets", "nfilesmissing = 1", False),
    ):
        change(engine, table, now)
        with engine.begin() as tx:
            assert orders.any_wanting(tx, merging.STATUSES) == wants, now


def test_a_task_that_merges_is_looked_at(engine: Engine) -> None:
    add(engine, 20)
    with engine.begin() as tx:
        assert not orders.any_wanting(tx, merging.STATUSES)
    change(engine, "jedi_tasks", """rules = '{"merge_output": true}'""")
    with engine.begin() as tx:
        assert orders.any_wanting(tx, merging.STATUSES)


def test_open_input_is_looked_up_in_time(engine: Engine) -> None:
    """Every 300 s, and at once if nobody has looked yet; a defined task at once."""
    add(engine, 20)
    for table, now, due in (
        ("jedi_tasks", "starttime = NULL", False),
        ("jedi_datasets", "status = 'running'", True),
        ("jedi_datasets", "statechecktime = jedi_now()", False),
        ("jedi_datasets", "statechecktime = jedi_now() - interval '301 s'", True),
        ("jedi_tasks", "status = 'paused'", False),
        ("jedi_tasks", "status = 'defined'", True),
        ("jedi_tasks", "next_run_at = jedi_now() + interval '1 h'", True),
        ("jedi_datasets", "status = 'ready'", False),
    ):
        change(engine, table, now)
        with engine.begin() as tx:
            assert datasets.any_to_feed(tx, 300.0) == due, now


def test_a_task_without_unprocessed_input_is_looked_at(engine: Engine) -> None:
    """PostProcessor: a task at work ends when its masters are fed and processed; one that is to be
    closed, at once."""
    add(engine, 20)
    with engine.begin() as tx:
        assert not ending.any_processed(tx)
    for table, now, due in (
        ("jedi_datasets", "nfilesfinished = 5, nfilesfailed = 2, nfilesmissing = 1", False),
        ("jedi_datasets", "nfilesfinished = 6", True),
        ("jedi_datasets", "nfilestobeused = 10", False),
        ("jedi_datasets", "status = 'broken'", True),
        ("jedi_datasets", "status = 'pending', nfilestobeused = 9", False),
        ("jedi_datasets", "status = 'running'", True),
        ("jedi_tasks", "status = 'paused'", False),
        ("jedi_tasks", "status = 'tobroken'", True),
        ("jedi_tasks", "status = 'exhausted'", False),
        ("jedi_tasks", "status = 'preprocessing'", True),
        ("jedi_tasks", "status = 'throttled'", True),
    ):
        change(engine, table, now)
        with engine.begin() as tx:
            assert ending.any_processed(tx) == due, now


def test_a_child_of_a_ruined_parent_is_looked_at(engine: Engine) -> None:
    add(engine, 20)
    last = "(SELECT max(jeditaskid) FROM jedi_tasks)"
    with engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        first = "(SELECT min(jeditaskid) FROM jedi_tasks)"
        tx.execute(text(f"UPDATE jedi_tasks SET parent_tid = {first} WHERE jeditaskid = {last}"))
    for status, due in (("running", False), ("done", False), *((s, True) for s in family.RUINED)):
        change(engine, "jedi_tasks", f"status = '{status}'")
        with engine.begin() as tx:
            assert ending.any_processed(tx) == due, status


def test_a_look_for_processed_tasks_looks_up_none_of_them(engine: Engine) -> None:
    """To look each task up would touch three pages or more for each; many stand on a page."""
    add(engine, 2000)
    values = {"statuses": list(ending.PREPARABLE), "closing": [*ending.FINALISABLE]}
    assert buffers(engine, ending._ANY_PROCESSED, **values) <= 2000 / 10
