"""New tasks: stored when submitted, defined when refined."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import Connection

from jedi.model.scheduling.resource_types import ResourceType
from jedi.model.splitting.split_rules import render_split_rule
from jedi.model.tasks.refined import RefinedTask, TaskColumns
from jedi.taskbuffer.db.engine import channel, fetched, plain, waking
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema import tables
from jedi.taskbuffer.tasks import dataset_rows


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task as submitted. `params` is the checked dictionary, `source_text` what people wrote."""

    user_name: str
    vo: str
    label: str
    task_name: str
    task_type: str
    processing_type: str
    priority: int
    working_group: str | None
    country_group: str | None
    req_id: int | None
    params: dict[str, Any]
    source_text: str
    source_format: str
    sandbox_sha256: str | None
    idempotency_key: str | None
    parent_id: int | None = None
    current_priority: int | None = None
    task_id: int | None = None
    """None: the next one."""


# Nothing reads idempotency_key: jedi_submission_keys has the keys of later attempts, too. Other
# programs rely on the column.
_INSERT = plain(f"""
WITH t AS (
  INSERT INTO jedi_tasks
    (jeditaskid, reqid, parent_tid, prodsourcelabel, taskname, username, workinggroup, countrygroup,
     vo, tasktype, processingtype, taskpriority, currentpriority, status, superstatus,
     statechangetime, idempotency_key)
  SELECT id, coalesce(:req_id, id), coalesce(:parent_id, id), :label, :task_name, :user_name,
         :working_group, :country_group, :vo, :task_type, :processing_type, CAST(:priority AS int),
         coalesce(:current_priority, CAST(:priority AS int)),
         'registered', 'registered', jedi_now(), :idempotency_key
  FROM coalesce(CAST(:task_id AS bigint), nextval('jedi_task_id_seq')) AS id
  RETURNING jeditaskid, status, attemptnr, username
), p AS (
  INSERT INTO jedi_taskparams (jeditaskid, taskparams, source_text, source_format, sandbox_sha256)
  SELECT jeditaskid, CAST(:params AS jsonb), :source_text, :source_format, :sandbox_sha256 FROM t
), l AS (
  INSERT INTO jedi_tasks_statuslog
    (jeditaskid, status, agent, reason_code, reason, attemptnr, username)
  SELECT jeditaskid, status, 'submission', 'submitted', 'submitted', attemptnr, username FROM t
)
SELECT jeditaskid, {waking("true", "task:registered")} FROM t
""")


def insert_task(tx: Connection, task: NewTask) -> int:
    """Store a task with its parameters and wake the refiner; its id."""
    values = {name: getattr(task, name) for name in NewTask.__dataclass_fields__}
    values |= {"params": json.dumps(task.params), "channel": channel()}
    [(task_id, _)] = fetched(tx, _INSERT, values)
    return int(task_id)


_SESSION = returns(int)("SELECT pg_backend_pid()")


def trial_ids(tx: Connection, number: int) -> list[int]:
    """Ids for tasks that are rolled back: above all others, of no other session, and none of the
    next ids is used up."""
    first = 2**62 + 2**24 * int(_SESSION.row(tx) or 0)
    return [first + one for one in range(number)]


PUT_SANDBOX = changes("""
-- Keep a sandbox; one that is there already is the same, and is kept as long as a new one.
INSERT INTO jedi_sandboxes (sha256, data) VALUES (:sha256, :data)
ON CONFLICT (sha256) DO UPDATE SET creationtime = excluded.creationtime
""")


HAS_SANDBOX = returns(bool)("""
-- True if JEDI still has the sandbox.
SELECT EXISTS (SELECT FROM jedi_sandboxes WHERE sha256 = :sha256)
""")


SANDBOX_OF = returns(str)("""
-- The sha256 of a task's sandbox, if it has one.
SELECT sandbox_sha256 FROM jedi_taskparams WHERE jeditaskid = :task
""")


OWNERS_OF = returns(tuple[int, str])("""
-- The owners of tasks.
SELECT jeditaskid, username FROM jedi_tasks WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


PARAMS_OF = returns(tuple[int, dict[str, Any]])("""
-- The parameters of tasks.
SELECT jeditaskid, taskparams FROM jedi_taskparams WHERE jeditaskid = ANY(:ids)
""")


_PUT_PARAMS = changes("""
UPDATE jedi_taskparams p SET taskparams = CAST(n.params AS jsonb)
FROM unnest(CAST(:ids AS bigint[]), CAST(:params AS text[])) n(id, params)
WHERE p.jeditaskid = n.id
""")


def put_params(tx: Connection, params: Mapping[int, Mapping[str, Any]]) -> None:
    """Let tasks have these parameters from now on."""
    if params:
        _PUT_PARAMS.run(tx, ids=list(params), params=list(map(json.dumps, params.values())))


RESOURCE_TYPES = returns(ResourceType)("""
-- Shapes of jobs, in the order in which they are tried: few cores and little memory first.
SELECT resource_type AS name, mincore, maxcore,
  minrampercore, maxrampercore
FROM jedi_resource_types ORDER BY minrampercore NULLS FIRST, mincore
""")


def columns(task_id: int, task: RefinedTask) -> dict[str, Any]:
    """The columns of jedi_tasks that refining fills, under their SQL names."""
    return {
        "jeditaskid": task_id,
        "rules": task.rules.model_dump(exclude_none=True),
        "splitrule": render_split_rule(task.rules),
        **dict(zip(_COLUMNS, asdict(task.columns).values(), strict=True)),
    }


def given_columns(params: object) -> dict[str, Any]:
    """Columns that follow from task parameters alone (values with their Python names)."""
    return {
        tables.tasks.c[name].name: getattr(params, name)
        for name in TaskColumns.__dataclass_fields__
        if hasattr(params, name)
    }


_COLUMNS = [tables.tasks.c[name].name for name in TaskColumns.__dataclass_fields__]
_DEFINE = changes(f"""
UPDATE jedi_tasks t SET rules = r.rules, splitrule = r.splitrule,
  {", ".join(f"{name} = r.{name}" for name in _COLUMNS)}
FROM jsonb_populate_recordset(NULL::jedi_tasks, CAST(:rows AS jsonb)) r
WHERE t.jeditaskid = r.jeditaskid
""")


_PUT_TEMPLATES = changes("""
INSERT INTO jedi_jobparams_template (jeditaskid, jobparamstemplate)
SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:templates AS text[]))
ON CONFLICT (jeditaskid) DO UPDATE  -- pre-processing had another
SET jobparamstemplate = excluded.jobparamstemplate
""")


def define_tasks(tx: Connection, refined: Sequence[tuple[int, RefinedTask]], agent: str) -> None:
    """Write what refining found, for tasks whose rows the transaction has locked."""
    rows = [columns(task_id, task) for task_id, task in refined]
    _DEFINE.run(tx, rows=json.dumps(rows))
    ids = dataset_rows.insert_datasets(tx, [(i, task.datasets) for i, task in refined], agent)
    dataset_rows.insert_templates(tx, [(i, task.templates, ids[i]) for i, task in refined])
    _PUT_TEMPLATES.run(
        tx,
        ids=[task_id for task_id, _ in refined],
        templates=[task.job_params_template for _, task in refined],
    )
