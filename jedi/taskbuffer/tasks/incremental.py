"""Incremental execution: changed parameters, and the rows that follow them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.datasets.dataset import NewDataset
from jedi.model.scheduling.priority import task_priority
from jedi.model.splitting.split_rules import render_split_rule
from jedi.model.tasks.incremental import Revision
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema import tables
from jedi.taskbuffer.tasks import dataset_rows

_MERGE = changes("""
UPDATE jedi_taskparams p SET taskparams = jsonb_strip_nulls(p.taskparams || c.parameters)
FROM jsonb_to_recordset(CAST(:changes AS jsonb)) c(id bigint, parameters jsonb)
WHERE p.jeditaskid = c.id
""")
_PRIORITIES = changes("""
UPDATE jedi_tasks t SET taskpriority = n.priority
FROM unnest(CAST(:ids AS bigint[]), CAST(:priorities AS int[])) n(id, priority)
WHERE t.jeditaskid = n.id
""")
_LIMITS = changes(f"""
UPDATE jedi_dataset_contents c SET
  ramcount = NULL,
  maxattempt = CASE WHEN m.limited
                    THEN greatest(coalesce(m.attempts + c.freeattempt, c.maxattempt),
                                  c.attemptnr + 1)
                    ELSE c.maxattempt END,
  maxfailure = CASE WHEN m.failures IS NULL THEN c.maxfailure
                    ELSE greatest(m.failures, c.failedattempt + 1) END
FROM (
  SELECT id, attempts, failures, coalesce(attempts, failures) IS NOT NULL AS limited
  FROM jsonb_to_recordset(CAST(:changes AS jsonb)) c(id bigint, parameters jsonb), LATERAL (
    SELECT CAST(parameters ->> 'maxAttempt' AS int) AS attempts,
      CAST(parameters ->> 'maxFailure' AS int) AS failures) l
) m
WHERE c.jeditaskid = m.id AND (m.limited OR c.ramcount IS NOT NULL)
  AND c.type IN ({MASTER_TYPES}) AND c.status NOT IN ('running', 'finished')
""")


class TaskOwner(NamedTuple):
    """The facts behind the priority that a task may have: `gridpref` is of its owner."""

    jedi_task_id: int
    task_type: str | None
    working_group: str | None
    gridpref: str


_OWNERS = returns(TaskOwner)("""
SELECT t.jeditaskid, t.tasktype, t.workinggroup,
  coalesce(u.gridpref, '') AS gridpref
FROM jedi_tasks t LEFT JOIN jedi_users u USING (username)
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


def merge_parameters(tx: Connection, changes: Mapping[int, Mapping[str, Any]]) -> None:
    """Change parameters of tasks; null takes one back. Files that are still to be tried get the new
    limits, but one attempt at least, and jobs ask for no more memory than the task says. A changed
    priority is what a new submission would get. The caller has locked the tasks and their
    datasets."""
    rows = json.dumps([{"id": i, "parameters": dict(new)} for i, new in changes.items()])
    _MERGE.run(tx, changes=rows)
    _LIMITS.run(tx, changes=rows)
    asked = {i: new["taskPriority"] for i, new in changes.items() if "taskPriority" in new}
    if asked:
        owners = _OWNERS.rows(tx, ids=list(asked))
        found = {
            one.jedi_task_id: task_priority(
                asked[one.jedi_task_id], one.task_type or "anal", one.gridpref, one.working_group
            )
            for one in owners
        }
        _PRIORITIES.run(tx, ids=list(found), priorities=list(found.values()))


_COLUMNS = ", ".join(
    f"{tables.tasks.c[name].name} = n.{tables.tasks.c[name].name}"
    for name in ("rules", "split_rule", "site", "cloud", "ram_count", "resource_type")
)
_REVISE = changes(f"""
UPDATE jedi_tasks t SET {_COLUMNS}
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) r(id bigint, new jsonb)
  JOIN jedi_tasks o ON o.jeditaskid = r.id, LATERAL jsonb_populate_record(o, r.new) n
WHERE t.jeditaskid = r.id
""")


class PresentDataset(NamedTuple):
    """A dataset of a task before its revision."""

    jedi_task_id: int
    dataset_id: int
    dataset_name: str
    type: str
    master_id: int | None
    status: str


_KNOWN = returns(PresentDataset)("""
SELECT jeditaskid, datasetid, datasetname, type,
  masterid, status FROM jedi_datasets
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) ORDER BY datasetid
""")


def revise_tasks(tx: Connection, revised: Sequence[tuple[int, Revision]], agent: str) -> None:
    """Write what changed in tasks whose rows the transaction has locked. Datasets that a container
    got since are added with what follows them; those that it lost are removed."""
    rows = [{"id": task_id, "new": _columns(revision)} for task_id, revision in revised]
    _REVISE.run(tx, rows=json.dumps(rows))
    known: dict[int, dict[tuple[str, int | None], int]] = {i: {} for i, _ in revised}
    inputs: set[int] = set()
    for row in _KNOWN.rows(tx, ids=list(known)):
        name = row.dataset_name, _master(row.type, row.master_id)
        known[row.jedi_task_id][name] = row.dataset_id
        if row.type in states.FED_TYPES and row.type != "pp_input" and row.status != "removed":
            inputs.add(row.dataset_id)
    kept = {i: _kept(revision.task.datasets, known[i]) for i, revision in revised}
    wanted = [(i, revision.task.datasets) for i, revision in revised]
    dataset_rows.insert_datasets(tx, wanted, agent, kept)
    gone = inputs - {dataset_id for ids in kept.values() for dataset_id in ids.values()}
    moves = [(dataset_id, "removed") for dataset_id in sorted(gone)]
    dataset_rows.move_datasets(tx, moves, agent, "not_in_container")


def _columns(revision: Revision) -> dict[str, Any]:
    own = {tables.tasks.c[name].name: value for name, value in revision.columns.items()}
    rules = revision.rules
    return {
        "rules": rules.model_dump(exclude_none=True),
        "splitrule": render_split_rule(rules),
        **own,
    }


def _master(kind: str, master_id: int | None) -> int | None:
    """There is one sequence of seeds, whatever master it came with."""
    return None if kind == "random_seed" else master_id


def _kept(
    wanted: Sequence[NewDataset], known: Mapping[tuple[str, int | None], int]
) -> dict[int, int]:
    """The ids of those datasets (by position) that have rows; masters stand first."""
    kept: dict[int, int] = {}
    for position, one in enumerate(wanted):
        master = None if one.master is None else kept.get(one.master, 0)
        if found := known.get((one.name, _master(one.type, master))):
            kept[position] = found
    return kept
