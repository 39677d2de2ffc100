"""jedi_work_queue: which queue a task belongs to, and the queues an operator has declared."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import Connection, Integer, Text
from sqlalchemy.exc import DBAPIError

from jedi.core import states
from jedi.model.scheduling.criterion import EVERY_TASK, BadCriterion, Criterion
from jedi.model.scheduling.queue_file import PARTITION
from jedi.taskbuffer.db.statement import Statement, changes, returns
from jedi.taskbuffer.schema import tables

_KINDS = {Text: "text", Integer: "integer"}
COLUMNS: Mapping[str, str] = {
    column.name: next((word for kind, word in _KINDS.items() if isinstance(column.type, kind)), "")
    for column in tables.tasks.columns
}
"""The columns of jedi_tasks and what they hold, for criteria."""
_CANCELLED = "57014"
"""SQLSTATE of a statement that ran into its time-out."""

_MATCH = """
SELECT {found} AS found, t.vo, t.prodsourcelabel AS label, t.processingtype
FROM jsonb_array_elements(CAST(:rows AS jsonb)) WITH ORDINALITY r(doc, place)
  LEFT JOIN jedi_tasks j ON j.jeditaskid = CAST(r.doc ->> 'jeditaskid' AS bigint),
  jsonb_populate_record(j, r.doc) t
ORDER BY r.place
"""


class WorkQueue(NamedTuple):
    """A work queue as its operator declared it."""

    queue_id: int
    queue_name: str
    queue_type: str
    vo: str
    queue_share: int | None
    queue_order: int | None
    criteria: str | None
    variables: str | None
    partitionid: int | None
    stretchable: int | None
    status: str | None
    caps: Any


class MatchedTask(NamedTuple):
    """A task that was matched: the value of the expression over it."""

    found: Any
    vo: str | None
    label: str | None
    processing_type: str | None


@dataclass(frozen=True, slots=True)
class QueueMatch:
    """The work queue of a task, if any takes it, among those `asked`: all of its vo and label, or
    of its vo if the task names its queue."""

    queue: WorkQueue | None
    asked: tuple[str, ...]
    label: str | None
    processing_type: str | None


def match(
    tx: Connection,
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str | None],
    known: Sequence[WorkQueue] | None = None,
) -> list[QueueMatch]:
    """The work queue of each task: the active one of its vo that it names, or the first, by order,
    of its vo and prodSourceLabel whose criteria hold. Partitions are never matched: tasks belong to
    their sub-queues.

    `rows` are columns of jedi_tasks under their SQL names; with jeditaskid, what is left out is as
    in the database. `known`: all queues, if they were read before.
    """
    found = matchable(ALL_QUEUES.rows(tx) if known is None else known)
    cases, values = _conditions(found)
    whens = "".join(f" WHEN {case} THEN {n}" for n, case in enumerate(cases))
    first = f"CASE{whens} END" if cases else "CAST(NULL AS integer)"
    hits = _matching(first).rows(tx, **values, rows=_document(rows))
    matches = []
    for hit, name in zip(hits, names, strict=True):
        mine = _candidates(found, hit.vo, hit.label, name)
        first_fit = None if hit.found is None else found[hit.found]
        queue = next((q for q in mine if q.queue_name == name), None) if name else first_fit
        asked = tuple(q.queue_name for q in mine)
        matches.append(QueueMatch(queue, asked, hit.label, hit.processing_type))
    return matches


def takes_any(found: Sequence[WorkQueue], vo: str, label: str, name: str | None) -> bool:
    """Return True if a task of this vo and prodSourceLabel has a queue whatever its other columns
    are: the one that it names, or the first one without criteria. `found`: matchable queues."""
    mine = _candidates(found, vo, label, name)
    if name:
        return any(q.queue_name == name for q in mine)
    return bool(mine) and not (mine[0].criteria or mine[0].variables)


def _candidates(
    found: Iterable[WorkQueue], vo: str | None, label: str | None, name: str | None
) -> list[WorkQueue]:
    return [q for q in found if q.vo == vo and (name or q.queue_type == label)]


def match_all(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> list[list[int]]:
    """The ids of all work queues whose criteria hold for each task, in order."""
    found = matchable(ALL_QUEUES.rows(tx))
    cases, values = _conditions(found)
    which = ", ".join(
        f"CASE WHEN {case} THEN {row.queue_id} END" for row, case in zip(found, cases, strict=True)
    )
    every = f"array_remove(CAST(ARRAY[{which}] AS int[]), NULL)"
    hits = _matching(every).rows(tx, **values, rows=_document(rows))
    return [hit.found for hit in hits]


@lru_cache(maxsize=16)
def _matching(found: str) -> Statement[MatchedTask]:
    """The query of one expression over tasks. The queues change seldom, and with them the text."""
    return returns(MatchedTask)(_MATCH.format(found=found))


def matchable(rows: Sequence[WorkQueue]) -> list[WorkQueue]:
    """The queues that tasks may belong to, of all, in the order in which they are tried."""
    partitions = {row.partitionid for row in rows}
    return [
        row
        for row in rows
        if row.status == "active"
        and row.partitionid != PARTITION
        and row.queue_id not in partitions
    ]


TRIAL_MS = 2000
"""Time limit of a criterion on the newest tasks."""

_TRIAL = """
SELECT count(*)
FROM (
  (SELECT * FROM jedi_tasks ORDER BY jeditaskid DESC LIMIT 1000)
  UNION ALL
  SELECT * FROM jsonb_populate_record(CAST(NULL AS jedi_tasks), CAST(:sample AS jsonb))
) t
WHERE {condition}
"""
_SAMPLE = json.dumps({name: "x" if kind == "text" else 1 for name, kind in COLUMNS.items() if kind})


_TIME_LIMIT = changes(f"SET LOCAL statement_timeout = {TRIAL_MS}")


def mistake(tx: Connection, criteria: str, variables: str | None) -> str | None:
    """The error of a criterion when it is tried on the newest tasks, and on one that has a value in
    every column; None: nothing. BadCriterion: it is no condition."""
    from jedi.model.scheduling.criteria import compile_criterion

    one = compile_criterion(criteria, variables, COLUMNS, "v")
    trial = tx.begin_nested()
    try:
        _TIME_LIMIT.run(tx)
        changes(_TRIAL.format(condition=one.sql)).run(tx, **one.values, sample=_SAMPLE)
    except DBAPIError as error:
        if getattr(error.orig, "sqlstate", None) == _CANCELLED:
            return f"the database needs more than {TRIAL_MS / 1000:g} s to try it"
        return "the database can't evaluate it"
    finally:
        trial.rollback()
    return None


_LIVE_TASKS = returns(int)("""
SELECT jeditaskid FROM jedi_tasks WHERE CASE WHEN CAST(:id AS bigint) IS NULL
  THEN status <> ALL(:final) ELSE jeditaskid = :id END ORDER BY jeditaskid
""")


def live_tasks(tx: Connection, task_id: int | None) -> list[int]:
    """Tasks that have not ended, or this one."""
    return _LIVE_TASKS.rows(tx, id=task_id, final=sorted(states.TASK.final))


def _conditions(queues: Iterable[WorkQueue]) -> tuple[list[str], dict[str, Any]]:
    """For each queue the SQL condition on a task `t`, and the values bound in all of them; what is
    no condition, which no file brings, holds for no task."""
    cases: list[str] = []
    values: dict[str, Any] = {}
    for queue in queues:
        prefix = f"q{queue.queue_id}_"
        try:
            one = criterion(queue, prefix)
        except BadCriterion:
            cases.append("false")
            continue
        cases.append(f"t.vo = :{prefix}vo AND t.prodsourcelabel = :{prefix}label AND {one.sql}")
        values |= {f"{prefix}vo": queue.vo, f"{prefix}label": queue.queue_type, **one.values}
    return cases, values


def criterion(queue: WorkQueue, prefix: str) -> Criterion:
    """Return the criterion of a queue beyond vo and prodSourceLabel."""
    if not (queue.criteria or queue.variables):
        return EVERY_TASK
    from jedi.model.scheduling.criteria import compile_criterion

    return compile_criterion(queue.criteria, queue.variables, COLUMNS, prefix)


def _document(rows: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps([dict(row) for row in rows], default=str)


ALL_QUEUES = returns(WorkQueue)("""
-- Every queue, in the order in which they are tried.
SELECT queue_id, queue_name, queue_type, vo, queue_share, queue_order, criteria, variables,
  partitionid, stretchable, status, caps
FROM jedi_work_queue ORDER BY queue_order NULLS LAST, queue_id
""")


_PUT = changes("""
INSERT INTO jedi_work_queue
SELECT r.* FROM unnest(CAST(:rows AS text[])) row,
  jsonb_populate_record(NULL::jedi_work_queue, CAST(row AS jsonb)) r
ON CONFLICT (queue_id) DO UPDATE SET
  queue_name = excluded.queue_name, queue_type = excluded.queue_type, vo = excluded.vo,
  queue_share = excluded.queue_share, queue_order = excluded.queue_order,
  criteria = excluded.criteria, variables = excluded.variables,
  partitionid = excluded.partitionid, stretchable = excluded.stretchable,
  status = excluded.status, caps = excluded.caps
""")


_PUT_QUEUES = changes("UPDATE jedi_work_queue SET queue_order = NULL WHERE queue_id = ANY(:ids)")


def put_queues(tx: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert or replace queues, identified by queue_id; absent columns become NULL."""
    # Orders are unique at every moment: without this, two queues could not swap theirs.
    rows = sorted(rows, key=itemgetter("queue_id"))  # two writers lock rows in one order
    _PUT_QUEUES.run(tx, ids=[row["queue_id"] for row in rows])
    _PUT.run(tx, rows=[json.dumps(dict(row)) for row in rows])
