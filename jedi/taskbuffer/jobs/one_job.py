"""A job in a person's hands: whose it is and where, its history, holds and their release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.pgi import LIVE
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import listed
from jedi.taskbuffer.db.statement import Statement, changes, returns
from jedi.taskbuffer.jobs.jobs import LOCK_JOBS
from jedi.taskbuffer.jobs.purging import GOING
from jedi.taskbuffer.schema.all_jobs import all_files, all_jobs
from jedi.taskbuffer.users import outbox

HOLDABLE = tuple(status for status, (state, _) in LIVE.items() if state == "Pre-processing")
"""Inputs come, or came, and no pilot has the job."""

STORED = ("holding", "transferring")
"""A pilot has reported the end, and what the job made is not where it belongs. When it is
`merging` that is for the merge job to say."""

_HOLDABLE, _QUEUED, _AT_SITE, _STORED = (
    listed(some) for some in (HOLDABLE, states.JOB_QUEUED, states.JOB_AT_SITE, STORED)
)
_TOLD = (
    "pandaid, kind, substatus, site, priority, pilot_id, kill_code, hold_kind, hold_reason, "
    "hold_since, hold_deadline, hold_next, delegation_kind, delegation_queue, delegation_id, "
    "exit_code, error_code, error_diag, retention, purged_at"
)
COMMAND = returns(str)("""
-- The command of a job's payload; None: JEDI has removed it.
SELECT jobparameters FROM jedi_job_params WHERE pandaid = :id
""")
_LOG = """
l AS (
  INSERT INTO jedi_jobs_statuslog
    (pandaid, jeditaskid, fromstatus, status, agent, reason_code, reason)
  SELECT pandaid, jeditaskid, status, status, :agent, :code, :reason FROM u
)
"""
_FREE = "coalesce(hold_kind, 'failed_recoverable') = 'failed_recoverable'"
_HOLD = returns(int)(f"""
WITH u AS (
  UPDATE jedi_jobs
  SET hold_kind = :kind, hold_reason = :reason, hold_since = jedi_now(),
    hold_next = CASE WHEN status NOT IN ({_STORED}) THEN hold_next END,
    hold_deadline = CASE WHEN status IN ({_AT_SITE})
                         THEN jedi_now() + make_interval(secs => :most_s) END
  WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND {_FREE}
    AND status IN ({_HOLDABLE}, {_AT_SITE}, {_STORED})
  RETURNING pandaid, jeditaskid, status
), gone AS (
  DELETE FROM jedi_job_ready r USING u WHERE r.pandaid = u.pandaid
), {_LOG}
SELECT pandaid FROM u
""")
_HOLD_NEXT = returns(int)(f"""
WITH u AS (
  UPDATE jedi_jobs SET hold_kind = hold_next, hold_next = NULL, hold_since = jedi_now(),
    hold_reason = :reason, hold_deadline = NULL
  FROM unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[])) o(id, seq)
  WHERE pandaid = o.id AND lock_seq = o.seq AND status = 'holding' AND hold_next IS NOT NULL
    AND {_FREE}
  RETURNING pandaid, jeditaskid, status
), {_LOG}
SELECT pandaid FROM u
""")
# Time-outs of its status begin anew.
_RELEASE = returns(int)(f"""
WITH u AS (
  UPDATE jedi_jobs SET hold_kind = NULL, hold_reason = NULL, hold_since = NULL,
    hold_deadline = NULL, statechangetime = jedi_now()
  WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND NOT {_FREE}
  RETURNING *
), came AS (
  INSERT INTO jedi_job_ready (pandaid, site, gshare, priority, cores, memory_mb, walltime_s,
                              disk_mb)
  SELECT pandaid, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb
  FROM u WHERE status = 'activated'
), {_LOG}
SELECT pandaid FROM u
""")
_HOLD_JOBS = returns(tuple[int, list[Any]])("""
SELECT jeditaskid, taskparams -> 'holdJobs' AS kinds FROM jedi_taskparams
WHERE jeditaskid = ANY(CAST(:tasks AS bigint[]))
  AND jsonb_typeof(taskparams -> 'holdJobs') = 'array'
""")
PLAN_HOLD = changes(f"""
-- Have jobs held when their payloads have ended with success; None: no longer.
UPDATE jedi_jobs SET hold_next = :kind
WHERE pandaid = ANY(CAST(:ids AS bigint[])) AND status IN ({_QUEUED}, {_AT_SITE})
""")


@dataclass(frozen=True, slots=True)
class OneJob:
    """A job (one attempt) with its PGI state. `jobset_id`: the job set that it processes or
    merges."""

    panda_id: int
    origin_panda_id: int
    jedi_task_id: int
    kind: str
    jobset_id: int | None
    user_name: str | None
    attempt_nr: int
    status: str
    substatus: str | None
    pgi_state: str
    pgi_substate: str | None
    site: str
    priority: int
    pilot_id: str | None
    kill_code: str | None
    hold_kind: str | None
    hold_reason: str | None
    hold_since: datetime | None
    hold_deadline: datetime | None
    hold_next: str | None
    delegation_kind: str | None
    delegation_queue: str | None
    delegation_id: str | None
    exit_code: int | None
    error_code: str | None
    error_diag: str | None
    retention: datetime | None
    purged_at: datetime | None


FIND_JOBS = returns(OneJob)(f"""
-- Jobs, archived ones too, with their owners and PGI states.
SELECT s.pandaid, s.originpandaid, s.jeditaskid,
  j.kind, coalesce(c.jobsetid, m.jobsetid) AS jobset_id, t.username,
  s.attemptnr, s.status, j.substatus, s.pgi_state, s.pgi_substate,
  j.site, j.priority, j.pilot_id, j.kill_code, j.hold_kind, j.hold_reason, j.hold_since,
  j.hold_deadline, j.hold_next, j.delegation_kind, j.delegation_queue, j.delegation_id,
  j.exit_code, j.error_code, j.error_diag, nullif(j.retention, {GOING}) AS retention, j.purged_at
FROM jedi_job_states s JOIN {all_jobs(_TOLD)} j USING (pandaid) JOIN jedi_tasks t USING (jeditaskid)
  LEFT JOIN jedi_consumers c ON c.pandaid = j.pandaid
  LEFT JOIN jedi_jobsets m ON m.jeditaskid = t.jeditaskid AND m.merge_pandaid = j.pandaid
WHERE s.pandaid = ANY(CAST(:ids AS bigint[])) AND j.pandaid = ANY(CAST(:ids AS bigint[]))
ORDER BY s.pandaid
""")


@dataclass(frozen=True, slots=True)
class JobStep:
    """A change of a job's status, or a hold or a release beside it: when, who, why."""

    time: datetime
    from_status: str | None
    status: str
    agent: str | None
    reason_code: str | None
    reason: str | None


STEPS = returns(JobStep)("""
-- Every status that a job had, holds and releases between them.
SELECT modificationtime AS time, fromstatus, status, agent, reason_code, reason
FROM jedi_jobs_statuslog WHERE pandaid = :id ORDER BY log_id
""")


@dataclass(frozen=True, slots=True)
class Allocation:
    """A resource that a job holds, or held until then."""

    resource: str
    allocated_at: datetime
    released_at: datetime | None


ALLOCATIONS = returns(Allocation)("""
-- The resources that a job holds or held.
SELECT resource, allocated_at, released_at FROM jedi_job_allocations WHERE pandaid = :id
ORDER BY allocated_at, resource
""")


@dataclass(frozen=True, slots=True)
class UsedFile:
    """A file that a job reads or writes, or a range of its events; size in bytes."""

    type: str
    lfn: str
    dataset: str
    endpoint: str | None
    size: int | None
    start_event: int | None
    end_event: int | None


FILES = returns(UsedFile)(f"""
-- The files that a job reads and writes, including archived ones.
SELECT f.type, f.lfn, d.datasetname AS dataset, f.endpoint, f.fsize AS size, f.start_event,
  f.end_event
FROM {
    all_files(
        "pandaid, jeditaskid, datasetid, fileid, type, lfn, endpoint, fsize, start_event, end_event"
    )
} f
JOIN jedi_datasets d USING (jeditaskid, datasetid)
WHERE f.pandaid = :id ORDER BY f.type, f.fileid
""")


def hold(
    tx: Connection,
    panda_ids: Sequence[int],
    agent: str,
    reason: str,
    *,
    kind: str = "user_request",
    most_s: float = 0.0,
) -> set[int]:
    """Hold jobs in their statuses, in a pilot for so long at most; return their ids. A pilot learns
    of it with its next heartbeat. Held jobs, and jobs that can't be held now, stay unchanged."""
    LOCK_JOBS.run(tx, ids=panda_ids)
    held = _told(tx, _HOLD, panda_ids, agent, "held", reason, kind=kind, most_s=most_s)
    outbox.notify_of_jobs(tx, sorted(held))
    return held


def hold_next(tx: Connection, attempts: Sequence[tuple[int, int]], agent: str) -> set[int]:
    """Begin the holds that were planned for when the pilots of jobs (id, lock_seq), which are
    locked, are through; which."""
    if not attempts:
        return set()
    ids, seqs = map(list, zip(*attempts, strict=True))
    reason = "It was to be held when its payload has ended."
    held = _told(tx, _HOLD_NEXT, ids, agent, "held", reason, seqs=seqs)
    outbox.notify_of_jobs(tx, sorted(held))
    return held


def hold_new_jobs(tx: Connection, jobs: Mapping[int, Sequence[int]], agent: str) -> None:
    """Hold new jobs, by task, now or after they have run, if the task says so (holdJobs)."""
    kinds = dict(_HOLD_JOBS.rows(tx, tasks=list(jobs)))
    for kind in ("manual_stage_in", "manual_stage_out", "user_request"):
        ids = [job for task, asked in kinds.items() if kind in asked for job in jobs[task]]
        if not ids:
            continue
        if kind == "manual_stage_in":
            reason = "Its owner brings the inputs, or wants to see it first."
            hold(tx, ids, agent, reason, kind=kind)
        else:
            PLAN_HOLD.run(tx, ids=ids, kind=kind)


def release(tx: Connection, panda_ids: Sequence[int], agent: str, reason: str) -> set[int]:
    """End the holds of `hold` and `hold_next`; of which jobs."""
    LOCK_JOBS.run(tx, ids=panda_ids)
    wake(tx, *(f"job:{status}" for status in ("activated", "assigned", *STORED)))
    return _told(tx, _RELEASE, panda_ids, agent, "released", reason)


def let_end(tx: Connection, panda_ids: Sequence[int], agent: str) -> None:
    """Let jobs of a task that ends, which are locked, go on where they are held after they ran, or
    are to be."""
    if panda_ids:
        release(tx, panda_ids, agent, "Its task ends, or goes on elsewhere.")
        PLAN_HOLD.run(tx, ids=panda_ids, kind=None)


def _told(
    tx: Connection,
    statement: Statement[int],
    panda_ids: Sequence[int],
    agent: str,
    code: str,
    reason: str,
    **given: Any,
) -> set[int]:
    told = statement.rows(tx, ids=panda_ids, agent=agent, code=code, reason=reason, **given)
    return set(told)


class PrintedTail(NamedTuple):
    """The last output of a job, and the name of its log file."""

    status: str
    stdout_tail: str | None
    stderr_tail: str | None
    time: datetime | None
    log_dataset: str | None
    log_lfn: str | None


PRINTED = returns(PrintedTail)("""
-- The last output of a job of a task, and the name of its log file; None: no such job.
SELECT j.status, t.stdout_tail, t.stderr_tail, t.modificationtime AS time,
  d.datasetname AS log_dataset, f.lfn AS log_lfn
FROM (
  SELECT pandaid, jeditaskid, status FROM jedi_jobs
  UNION ALL SELECT pandaid, jeditaskid, status FROM jedi_jobs_archived) j
  LEFT JOIN jedi_job_tail t USING (pandaid)
  LEFT JOIN (
    SELECT pandaid, datasetid, type, lfn FROM jedi_job_files
    UNION ALL SELECT pandaid, datasetid, type, lfn FROM jedi_job_files_archived) f
    ON f.pandaid = j.pandaid AND f.type = 'log'
  LEFT JOIN jedi_datasets d ON d.datasetid = f.datasetid AND d.jeditaskid = j.jeditaskid
WHERE j.pandaid = :job AND j.jeditaskid = :task
""")
