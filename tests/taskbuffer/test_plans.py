"""Statements that are planned once keep their plan: one made on empty tables must serve full ones.

On empty tables all ways cost the same, hence each statement may offer but one.
"""

# Raw UPDATEs: thousands of ended jobs for a plan.

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from support.pages import sql_of

from benchmarks.common import run
from jedi.model.queries import EVERY_TASK, ListPage
from jedi.taskbuffer.db.planning import BY_KEY, EACH_TIME, EITHER_WAY, IN_ORDER, Planning
from jedi.taskbuffer.db.quick import Prepared
from jedi.taskbuffer.db.statement import Statement
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.jobs import (
    bad_inputs,
    builds,
    dispatch,
    jobs,
    merging,
    one_job,
    retry_rules,
    timeouts,
)
from jedi.taskbuffer.jobs.dispatch_cache import _DATASETS, HEADS
from jedi.taskbuffer.reports import listings
from jedi.taskbuffer.tasks import ending, interventions
from jedi.taskbuffer.users import outbox
from tools.statementdocs import statements as all_statements

ONCE: dict[str, Any] = {
    "acquire": dispatch._TAKE,
    "acquire for one": dispatch._TAKE_ONE,
    "repeat": dispatch._REPEAT,
    "report": dispatch._ACCEPT,
    "report of starts": dispatch._ACCEPT_STARTS,
    "report of ends": dispatch._ACCEPT_ENDS,
    "heartbeat": dispatch._BEAT,
    "reported": job_ends._REPORTED,
    "lock": jobs.LOCK_JOBS,
    "lock only": jobs._LOCK_ONLY,
    "move": jobs._MOVE,
    "move on": jobs._MOVE_ON,
    "lock for ends": merging._LOCK,
    "settle": job_ends._SETTLE,
    "bad inputs": bad_inputs._NOTE,
    "live output": dispatch._TAILS,
    "release": one_job._RELEASE,
    "hold after": one_job._HOLD_NEXT,
    "left out": job_ends._LEAVE_OUT,
    "events": job_ends._END_EVENTS,
    "transferring": job_ends._PREPARE,
    "merging": merging._STORE,
    "merged": merging._OUTCOME,
    "retry rules": retry_rules._MATCHES,
    "obey": retry_rules._OBEY,
    "notices": outbox._NOTIFY_JOBS,
    "builds": builds.WAKE_TASKS,
    "consumers": datasets._WAKE_QUIET,
}
RARE = {"transferring", "merging", "merged"}
"""Statements of which a plan may be less good until the next ANALYZE."""

LARGE = ("jedi_jobs", "jedi_job_files", "jedi_job_params", "jedi_dataset_contents", "jedi_datasets")
KEYS = ("_pk", "_datasetname_type_ix")
QUEUES = ("jedi_jobs_reported_ix",)
"""Indexes that are read whole: they hold nothing but what is wanted."""


PLANNED = {
    f"{one.module}.{one.name}": one.text
    for one in all_statements()
    if isinstance(one.text, Prepared) and one.planning is not EITHER_WAY
}
"""All that keep the plan of their first use."""


def test_statements_that_are_planned_once_are_tried_here() -> None:
    """Those that read none of the large tables have tests of their own below."""
    assert {*PLANNED.values()} <= {*map(sql_of, (*ONCE.values(), HEADS, _DATASETS))}


@pytest.mark.parametrize("planning", [BY_KEY, IN_ORDER], ids=["by key", "in order"])
@pytest.mark.parametrize("name", ONCE)
def test_a_plan_made_on_empty_tables_looks_rows_up_by_their_keys(
    engine: Engine, name: str, planning: Planning
) -> None:
    must_look_up_by_key(planned(engine, ONCE[name], planning))


_NEW = (
    """
INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, status)
SELECT n, n % 20, n % 20, n, 'input', 'ready' FROM generate_series(1, 20000) n""",
    """
INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn)
SELECT n / 10, n, n % 20, n % 20, 'input', n FROM generate_series(1, 200000) n""",
    "ANALYZE jedi_dataset_contents",
)


def test_a_plan_made_before_new_jobs_are_analysed_does_so_too(engine: Engine) -> None:
    """PostgreSQL then expects many files of a job: a merge join with all files looks cheap."""
    run(engine, *_NEW)
    for planning in (BY_KEY, IN_ORDER):
        for name in ONCE.keys() - RARE:
            must_look_up_by_key(planned(engine, ONCE[name], planning))


@pytest.mark.parametrize("take", [dispatch._TAKE, dispatch._TAKE_ONE], ids=["several", "one"])
def test_waiting_jobs_are_read_in_their_order(engine: Engine, take: Statement[Any]) -> None:
    """Who sorts them reads all of a share for one."""
    [locked] = [n for n in nodes(planned(engine, take)) if n["Node Type"] == "LockRows"]
    [walk] = [n for n in nodes(planned(engine, HEADS)) if n["Node Type"] == "Recursive Union"]
    for part in (locked, walk):
        looked_at = [n for n in nodes(part) if n.get("Relation Name") == "jedi_job_ready"]
        assert {n["Index Name"] for n in looked_at} == {"jedi_job_ready_order_ix"}
        assert all("Index Cond" in n for n in looked_at)
        assert not any("Sort" in n["Node Type"] for n in nodes(part))


@pytest.mark.parametrize(
    "statement",
    [dispatch._TAKE, dispatch._TAKE_ONE, dispatch._REPEAT],
    ids=["several", "one", "repeat"],
)
def test_answered_requests_are_looked_up_one_by_one(
    engine: Engine, statement: Statement[Any]
) -> None:
    """After the expired ones were removed PostgreSQL expects none. A plan of that time read all of
    them for each answer: 40,000 jobs took three times as long."""
    with engine.begin() as tx:
        tx.execute(text("ANALYZE jedi_acquire_requests"))
    plan = planned(engine, statement)
    [look] = [n for n in nodes(plan) if str(n.get("Index Name")).startswith("jedi_acquire_req")]
    assert "request_id = " in look["Index Cond"]


def test_reported_jobs_are_read_in_their_order(engine: Engine) -> None:
    """Who sorts them reads all that were reported for each batch."""
    plan = planned(engine, job_ends._REPORTED)
    [locked] = [n for n in nodes(plan) if n["Node Type"] == "LockRows"]
    [scan] = locked["Plans"]
    assert (scan["Node Type"], scan["Index Name"]) == ("Index Scan", "jedi_jobs_reported_ix")


@pytest.mark.parametrize(
    "ask",
    [
        lambda tx: listings.tasks_by_id(tx, [1], 60),
        lambda tx: listings.tasks(tx, EVERY_TASK, ListPage(before=1, limit=10), "", 60),
    ],
)
def test_tasks_asked_for_by_id_are_looked_up(
    engine: Engine, ask: Callable[[Connection], object]
) -> None:
    """Every look at one task begins so: who reads all tasks for it slows down with each of them."""
    run(
        engine,
        "INSERT INTO jedi_tasks (jeditaskid, reqid, parent_tid, status) "
        "SELECT n, n, n, 'running' FROM generate_series(1, 5000) n",
    )
    sent: list[tuple[str, Any]] = []
    event.listen(engine, "before_cursor_execute", lambda *given: sent.append(given[2:4]))
    with engine.begin() as tx:
        ask(tx)
        [(sql, values)] = [one for one in sent if "FROM jedi_tasks t" in one[0]]
        plan = tx.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {sql}", values).scalar_one()[0]["Plan"]
    [scan] = [n for n in nodes(plan) if n.get("Relation Name") == "jedi_tasks"]
    assert "Index Cond" in scan, scan


_FEW_TASKS_HAVE_ALL = (
    "SET LOCAL session_replication_role = replica",
    """
INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, status, site,
  priority, cores, memory_mb, walltime_s, disk_mb)
SELECT n, 1 + n % 3, 1, n, n, 1, 'running', 'A', 1, 1, 0, 0, 0 FROM generate_series(1, 20000) n""",
    "ANALYZE jedi_jobs",
)


def test_a_task_without_live_jobs_is_found_by_their_index(engine: Engine) -> None:
    """However few tasks have the jobs: to read all of them for one that has none takes 17 ms of
    100,000."""
    run(engine, *_FEW_TASKS_HAVE_ALL)
    found = f"SELECT FROM jedi_tasks WHERE {ending.LAST_LIVE} IS NULL"
    with engine.begin() as tx:
        [explained] = tx.scalar(text(f"EXPLAIN (FORMAT JSON) {found}"))
    [look] = [n for n in nodes(explained["Plan"]) if n.get("Relation Name") == "jedi_jobs"]
    assert look["Index Name"] == "jedi_jobs_live_ix" and "Index Cond" in look


def test_stalled_jobs_are_sought_among_live_ones(engine: Engine) -> None:
    """Beside 700,000 ended jobs a look by the primary key took 0.5 s in place of 0.06. All jobs are
    read only where one is overdue whose site may be lost."""
    run(
        engine,
        *_FEW_TASKS_HAVE_ALL,
        "SET LOCAL session_replication_role = replica",
        "UPDATE jedi_jobs SET status = 'finished', postprocessed_at = jedi_now() "
        "WHERE pandaid % 4 > 0",
        "ANALYZE jedi_jobs",
    )
    plan = planned(engine, timeouts._OVERDUE)
    scans = [n for n in nodes(plan) if n.get("Relation Name") == "jedi_jobs"]
    [silent] = [n for n in nodes(plan) if n.get("Subplan Name") == "CTE silent"]
    [scan] = [n for n in scans if n not in [*nodes(silent)]]
    ways = {str(n.get("Index Name")) for n in nodes(scan)}
    assert [way for way in ways if way.startswith("jedi_jobs")] == ["jedi_jobs_live_ix"], scan


def test_jobs_of_boosted_tasks_are_looked_up_by_task(engine: Engine) -> None:
    """With some boosted tasks among thousands that run, each round read all jobs."""
    few_of_each = (part.replace("n % 3", "n % 5000") for part in _FEW_TASKS_HAVE_ALL)
    run(
        engine,
        *few_of_each,
        "SET LOCAL session_replication_role = replica",
        "INSERT INTO jedi_tasks (jeditaskid, reqid, parent_tid, status, gshare, currentpriority, "
        "prodsourcelabel) SELECT n, n, n, 'running', 'Express', 900, 'managed' "
        "FROM generate_series(1, 5000) n",
        "ANALYZE jedi_tasks",
    )
    values = {
        "labels": ["managed"],
        "percent": 95,
        "to_do": 100,
        "priority": 900,
        "share": "Express",
        "limit": 10,
    }
    with engine.begin() as tx:
        explain = text(f"EXPLAIN (FORMAT JSON) {interventions.NEARLY_DONE.sql}")
        [explained] = tx.scalar(explain, values)
    scans = [n for n in nodes(explained["Plan"]) if n.get("Relation Name") == "jedi_jobs"]
    assert scans and not any(n["Node Type"] == "Seq Scan" for n in scans), scans


def planned(engine: Engine, asked: Any, planning: Planning | None = None) -> dict[str, Any]:
    """The plan of a statement that knows no value, made in its own way, or in this one."""
    if planning is None:
        sent = getattr(asked, "sent", asked)
        planning = sent.planning if isinstance(sent, Prepared) else EACH_TIME
    sql = sql_of(asked)
    binds = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    numbered = re.sub(r"%\((\w+)\)s", lambda m: f"${binds.index(m[1]) + 1}", sql)
    with engine.begin() as tx:
        for setting, wanted in planning.settings.items():
            tx.execute(text(f"SET LOCAL {setting} = {wanted}"))
        cursor: Any = tx.connection.cursor()
        cursor.execute(f"PREPARE asked AS {numbered.replace('%%', '%')}".encode())
        nulls = ", ".join(["NULL"] * len(binds))
        cursor.execute(f"EXPLAIN (FORMAT JSON) EXECUTE asked({nulls})".encode())
        plan: dict[str, Any] = cursor.fetchone()[0][0]["Plan"]
        cursor.execute("DEALLOCATE asked")
    return plan


def must_look_up_by_key(plan: dict[str, Any]) -> None:
    """Fail unless a plan reads large tables, and each of them by keys alone."""
    scans = [n for n in nodes(plan) if n.get("Relation Name") in LARGE and "Scan" in n["Node Type"]]
    ways = [n for n in nodes(plan) if str(n.get("Index Name")).startswith(LARGE)]
    assert ways
    for node in [n for n in scans if n["Node Type"] != "Bitmap Heap Scan"] + ways:
        way = node.get("Index Name", "")
        by_key = way.endswith(KEYS) and "Index Cond" in node
        assert way in QUEUES or by_key or "TID Cond" in node, node


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from nodes(part)
