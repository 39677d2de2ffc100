"""jedi_commands: what people asked of tasks, and what carrying it out takes.

Rows are only added and acknowledged. A task's commands are taken up one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import FED_TYPES, MASTER_TYPES, PRE_MERGE_TYPES, TASK_HOLDS
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.scheduling import statistics
from jedi.taskbuffer.scheduling.task_order import OWN_SHARE
from jedi.taskbuffer.schema.all_jobs import all_jobs
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER
from jedi.taskbuffer.tasks import tasks

_APPEND = returns(int)("""
INSERT INTO jedi_commands (jeditaskid, command, arguments, username, comment)
VALUES (:task, :command, CAST(:arguments AS jsonb), :user, :comment)
RETURNING command_id
""")


def append(
    tx: Connection,
    jedi_task_id: int,
    command: str,
    user_name: str,
    arguments: Mapping[str, Any] | None = None,
    comment: str | None = None,
) -> int:
    """Ask something of a task; the number of the command."""
    command_id: int = _APPEND.value(
        tx,
        task=jedi_task_id,
        command=command,
        arguments=json.dumps(arguments or {}),
        user=user_name,
        comment=comment,
    )
    wake(tx, "command")
    return command_id


ANY_OPEN = returns(bool)("""
-- True if a command waits, or a task is in one of `doing`: agents carry commands out there.
SELECT EXISTS (SELECT FROM jedi_commands WHERE acknowledged_at IS NULL)
  OR EXISTS (SELECT FROM jedi_tasks WHERE status = ANY(:doing))
""")


def claim_commanded(tx: Connection, me: str, lease_s: float, limit: int) -> list[ClaimedTask]:
    """Take tasks of which something is asked, put off or not, whatever their status."""
    return tasks.claim(
        tx,
        tuple(states.TASK_STATES),
        me,
        lease_s,
        limit,
        "AND jeditaskid IN (SELECT jeditaskid FROM jedi_commands WHERE acknowledged_at IS NULL "
        "AND (retry_at IS NULL OR retry_at <= jedi_now()))",
        early=True,
    )


_TRY_LATER = returns(bool)("""
UPDATE jedi_commands SET retry_at = jedi_now()
  + greatest(jedi_now() - creationtime, make_interval(secs => :least_s))
WHERE command_id = :id
  AND jedi_now() - creationtime < make_interval(secs => :most_s) RETURNING true
""")


def try_later(tx: Connection, command_id: int, least_s: float, most_s: float) -> bool:
    """Put a command off for as long as it has been waiting, so that it is tried ever more seldom,
    but for `least_s` at least; False: it has been waiting for `most_s`."""
    return bool(_TRY_LATER.row(tx, id=command_id, least_s=least_s, most_s=most_s))


_ACTIVATED = """
AND (status <> 'paused' OR EXISTS (
  SELECT FROM jedi_jobs j WHERE j.jeditaskid = jedi_tasks.jeditaskid
    AND j.postprocessed_at IS NULL AND j.status = 'activated'
  OFFSET 0))
"""


def claim_doing(
    tx: Connection, statuses: Sequence[str], me: str, lease_s: float, limit: int
) -> list[ClaimedTask]:
    """Take tasks in these statuses, in which commands are carried out; a paused one only if a
    pilot could still get a job of it."""
    return tasks.claim(tx, statuses, me, lease_s, limit, _ACTIVATED)


BEFORE_HOLD = returns(tuple[int, str])(f"""
-- The status before the hold of each held task: one hold may have followed the other.
SELECT t.jeditaskid, coalesce((
  SELECT l.fromstatus FROM jedi_tasks_statuslog l
  WHERE l.jeditaskid = t.jeditaskid AND l.fromstatus NOT IN ({TASK_HOLDS})
  ORDER BY l.log_id DESC LIMIT 1), t.oldstatus, t.status) AS status
FROM jedi_tasks t
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[])) AND t.status IN ({TASK_HOLDS})
""")


class TaskCommand(NamedTuple):
    """A command that a person gave a task."""

    command_id: int
    jedi_task_id: int
    command: str
    arguments: dict[str, Any]
    user_name: str
    comment: str | None


_NEXT_COMMANDS = returns(TaskCommand)("""
SELECT DISTINCT ON (jeditaskid) command_id, jeditaskid, command, arguments,
  username, comment
FROM jedi_commands
WHERE acknowledged_at IS NULL AND jeditaskid = ANY(CAST(:ids AS bigint[]))
ORDER BY jeditaskid, command_id
""")


def next_commands(tx: Connection, task_ids: Sequence[int]) -> dict[int, TaskCommand]:
    """The oldest command of each task that is not acknowledged."""
    rows = _NEXT_COMMANDS.rows(tx, ids=list(task_ids))
    return {row.jedi_task_id: row for row in rows}


WAITING = returns(TaskCommand)("""
-- The commands of a task that are not acknowledged, the oldest first.
SELECT command_id, jeditaskid, command, arguments, username, comment
FROM jedi_commands WHERE jeditaskid = :task AND acknowledged_at IS NULL ORDER BY command_id
""")


_ACKNOWLEDGE = changes("""
UPDATE jedi_commands c SET acknowledged_at = jedi_now(), outcome = a.outcome,
  message = a.message FROM unnest(CAST(:ids AS bigint[]), CAST(:outcomes AS text[]),
  CAST(:messages AS text[])) a(id, outcome, message) WHERE c.command_id = a.id
""")


def acknowledge(tx: Connection, answers: Sequence[tuple[int, str, str]]) -> None:
    """Answer commands: (command_id, accepted or refused, a sentence)."""
    ids, outcomes, messages = zip(*answers, strict=True)
    _ACKNOWLEDGE.run(tx, ids=list(ids), outcomes=list(outcomes), messages=list(messages))


class LiveJob(NamedTuple):
    """A job of a task that has not ended."""

    jedi_task_id: int
    panda_id: int
    lock_seq: int
    status: str
    kind: str


_LIVE_JOBS = returns(LiveJob)("""
SELECT jeditaskid, pandaid, lock_seq, status, kind FROM jedi_jobs
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND postprocessed_at IS NULL
  AND status = ANY(:statuses) ORDER BY pandaid
""")


def live_jobs(
    tx: Connection, task_ids: Sequence[int], statuses: Sequence[str] = states.JOB_LIVE
) -> list[LiveJob]:
    """The jobs of tasks that have not ended."""
    return _LIVE_JOBS.rows(tx, ids=list(task_ids), statuses=list(statuses))


_LAST_ACCEPTED = returns(TaskCommand)("""
SELECT DISTINCT ON (jeditaskid) command_id, jeditaskid, command, arguments,
  username, comment
FROM jedi_commands
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND outcome = 'accepted'
  AND command = coalesce(:command, command) ORDER BY jeditaskid, command_id DESC
""")


def last_accepted(
    tx: Connection, task_ids: Sequence[int], command: str | None = None
) -> dict[int, TaskCommand]:
    """The last accepted command of each task, or the last one of this name."""
    rows = _LAST_ACCEPTED.rows(tx, ids=list(task_ids), command=command)
    return {row.jedi_task_id: row for row in rows}


_LOCK_INPUTS = changes(f"""
SELECT FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND type IN ({FED_TYPES})
ORDER BY datasetid FOR NO KEY UPDATE
""")
_GIVE_UP = changes(f"""
WITH c AS (
  UPDATE jedi_dataset_contents c SET status = 'failed', proc_status = 'failed'
  FROM jedi_datasets d
  WHERE d.jeditaskid = ANY(CAST(:ids AS bigint[])) AND d.masterid IS NULL
    AND d.type IN ({MASTER_TYPES}) AND c.datasetid = d.datasetid AND c.jeditaskid = d.jeditaskid
    AND c.ready
  RETURNING c.datasetid, c.jeditaskid
), g AS (SELECT datasetid, jeditaskid, count(*) AS n FROM c GROUP BY datasetid, jeditaskid)
UPDATE jedi_datasets d SET nfilesfailed = d.nfilesfailed + g.n, nfilesused = d.nfilesused + g.n
FROM g WHERE d.datasetid = g.datasetid AND d.jeditaskid = g.jeditaskid
""")


def give_up_unused(tx: Connection, task_ids: Sequence[int]) -> None:
    """Count the files of masters that no job took as failed: the tasks are forced to finish."""
    _LOCK_INPUTS.run(tx, ids=list(task_ids))
    _GIVE_UP.run(tx, ids=list(task_ids))


_CAUSES = all_jobs("pandaid, jeditaskid, status, error_code, error_source, exit_code")
_FAILED = f"""
c.type IN ({FED_TYPES}) AND c.status IN ('failed', 'lost', 'missing', 'broken') AND NOT EXISTS (
  SELECT FROM jedi_units u WHERE u.jeditaskid = c.jeditaskid AND u.unit_nr = c.boundaryid
    AND u.killed_at IS NOT NULL OFFSET 0)
AND (CAST(:like AS bigint) IS NULL OR c.pandaid IN (
  WITH a AS (
    SELECT j.pandaid FROM {_CAUSES} s, {_CAUSES} j
    WHERE s.pandaid = :like AND j.jeditaskid = ANY(CAST(:ids AS bigint[])) AND j.status = 'failed'
      AND (j.error_code, j.error_source, j.exit_code)
        IS NOT DISTINCT FROM (s.error_code, s.error_source, s.exit_code))
  SELECT pandaid FROM a
  UNION ALL  -- makers of outputs that a merge job lost
  SELECT m.outpandaid FROM jedi_dataset_contents m
  WHERE m.jeditaskid = ANY(CAST(:ids AS bigint[])) AND m.type IN ({PRE_MERGE_TYPES})
    AND (m.pandaid IN (SELECT pandaid FROM a)) IS TRUE  -- a hash: no join of each with each
  UNION ALL  -- jobs that waited for consumers of events: their inputs name them
  SELECT t.merge_pandaid
  FROM a, LATERAL (SELECT jobsetid FROM jedi_consumers WHERE pandaid = a.pandaid OFFSET 0) n,
    LATERAL (SELECT merge_pandaid FROM jedi_jobsets WHERE jobsetid = n.jobsetid OFFSET 0) t))
"""
"""Inputs `c` that may be tried again; `:like`: whose last job, or a consumer of its events, failed
by the cause of this one."""
_REVIVE = returns(tuple[int, int])(f"""
WITH c AS (
  UPDATE jedi_dataset_contents c SET
    status = CASE WHEN c.status = 'failed' THEN 'ready' ELSE c.status END,
    proc_status = CASE WHEN c.status = 'failed' THEN 'ready' ELSE c.proc_status END,
    maxattempt = c.maxattempt + CASE WHEN c.attemptnr >= c.maxattempt THEN t.adds ELSE 0 END,
    maxfailure = c.maxfailure + CASE WHEN c.failedattempt >= c.maxfailure THEN t.adds ELSE 0 END
  FROM (SELECT jeditaskid, CASE WHEN rules ? 'disable_auto_retry' THEN 1 ELSE :adds END AS adds
        FROM jedi_tasks WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))) t, LATERAL (
    -- task by task: for many of them the files of all tasks were read
    SELECT c.fileid FROM jedi_dataset_contents c
    WHERE c.jeditaskid = t.jeditaskid AND {_FAILED} OFFSET 0) f
  WHERE c.fileid = f.fileid AND c.jeditaskid = t.jeditaskid
  RETURNING c.datasetid, c.jeditaskid, c.status
), g AS (
  SELECT datasetid, jeditaskid, count(*) AS n FROM c WHERE status = 'ready'
  GROUP BY datasetid, jeditaskid
)
UPDATE jedi_datasets d SET nfilesfailed = d.nfilesfailed - g.n, nfilesused = d.nfilesused - g.n
FROM g WHERE d.datasetid = g.datasetid AND d.jeditaskid = g.jeditaskid
RETURNING d.datasetid, g.n
""")


def revive(
    tx: Connection, task_ids: Sequence[int], adds: int, like: int | None = None
) -> dict[int, int]:
    """Let failed inputs be tried again, those that were tried as often as allowed `adds` times
    more (once, where nothing is retried by itself); the number of files by dataset id. Lost,
    missing and broken ones may be, too, once they are found again. Those of killed units are
    not. `like`: only those whose last job failed by the same cause as this job."""
    _LOCK_INPUTS.run(tx, ids=list(task_ids))
    values = {"ids": list(task_ids), "adds": adds, "like": like}
    return dict(_REVIVE.rows(tx, **values))


_ALIKE = returns(int)(f"""
SELECT count(*) FROM jedi_dataset_contents c JOIN jedi_datasets d USING (jeditaskid, datasetid)
WHERE c.jeditaskid = ANY(CAST(:ids AS bigint[])) AND {LISTED_MASTER} AND {_FAILED}
""")


def alike(tx: Connection, jedi_task_id: int, like: int) -> int:
    """The number of a task's failed master files whose last job failed by the cause of a job."""
    return int(_ALIKE.row(tx, ids=[jedi_task_id], like=like) or 0)


_BEGIN_ATTEMPT = changes(f"""
UPDATE jedi_tasks t SET attemptnr = attemptnr + 1, currentpriority =
  CASE WHEN jeditaskid = ANY(:keep) THEN currentpriority ELSE taskpriority END,
  gshare = CASE WHEN jeditaskid = ANY(:keep) THEN gshare ELSE {OWN_SHARE} END
WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


def begin_attempt(tx: Connection, task_ids: Sequence[int], keep: Collection[int] = ()) -> None:
    """A new attempt of each task, at its own priority and share, whatever it was boosted to; those
    of `keep` stay at what they have."""
    _BEGIN_ATTEMPT.run(tx, ids=list(task_ids), keep=list(keep))
    statistics.NOTE_PROGRESS.run(tx, ids=task_ids)
