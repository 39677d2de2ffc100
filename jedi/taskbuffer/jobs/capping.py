"""Caps on jobs of users: jobs that would run beyond the limit are kept from pilots, and new jobs
get lower priorities.

Jobs that pilots may take count as if they ran. Whoever lets pilots take jobs keeps those beyond the
cap back in the same transaction (`keep_back`), so that no more can run, whatever other transactions
let them take meanwhile; the dog moves them on when there is room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.knobs import Knobs
from jedi.model.tasks.labels import PRODUCTION_LABELS
from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs

_COUNTED = f"""
j.postprocessed_at IS NULL AND j.status IN ({JOB_AT_SITE}, 'activated', 'throttled')
  AND j.prodsourcelabel <> ALL(:production) AND j.kind NOT IN ('merge', 'es_merge')
"""
# Jobs of paused tasks are throttled, too, for as long as a week: no room lets them go on.
ANY_KEPT = returns(bool)("""
-- True if a cap keeps jobs from pilots.
SELECT s.jobs > 0 AND s.jobs > (
  SELECT coalesce(sum(k.jobs), 0) FROM jedi_tasks t, LATERAL (
    SELECT count(*) AS jobs FROM jedi_jobs j
    WHERE j.jeditaskid = t.jeditaskid AND j.postprocessed_at IS NULL
      AND j.status = 'throttled' OFFSET 0) k
  WHERE t.status = 'paused')
FROM (
  SELECT coalesce(sum(jobs), 0) AS jobs
  FROM (SELECT status, jobs FROM job_stats UNION ALL SELECT status, jobs FROM job_stats_delta) d
  WHERE status = 'throttled') s
""")
_HELD = returns(tuple[int, str])("""
SELECT j.pandaid, j.status
FROM unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[])) AS w (pandaid, lock_seq)
  JOIN jedi_jobs j USING (pandaid, lock_seq) JOIN jedi_tasks t USING (jeditaskid)
WHERE j.status = 'activated' OR j.status = 'throttled' AND t.status <> 'paused'
FOR NO KEY UPDATE OF j SKIP LOCKED FOR SHARE OF t SKIP LOCKED
""")


class CappedJob(NamedTuple):
    """A job to keep from pilots (activated), or no longer (throttled): its owner has so many
    running ones and may have `cap`."""

    panda_id: int
    lock_seq: int
    status: str
    owner: str
    running: int
    cap: int | None


# A working group counts as one, instead of its members. Merging is not counted: it makes room.
# Jobs are counted by task first. Only those of tasks that have some to move are read again. Jobs
# that pilots may take count as if they ran: else all of them would start at once.
_CAPPED = returns(CappedJob)(f"""
WITH counts AS (
  SELECT jeditaskid, username, count(*) FILTER (WHERE status IN ({JOB_AT_SITE})) AS running,
    count(*) FILTER (WHERE status = 'activated') AS activated,
    count(*) FILTER (WHERE status = 'throttled') AS throttled
  FROM jedi_jobs j WHERE {_COUNTED} GROUP BY jeditaskid, username
), tasks AS (
  SELECT c.*, t.status, nullif(t.workinggroup, '') AS grp,
    coalesce(nullif(t.workinggroup, ''), c.username) AS owner, u.cap_running_jobs AS own
  FROM counts c JOIN jedi_tasks t USING (jeditaskid)
    LEFT JOIN jedi_users u ON u.username = c.username
), owners AS (
  SELECT jeditaskid, username, owner, grp, activated > 0 AS some_activated,
    throttled > 0 AND status <> 'paused' AS some_throttled,
    CAST(sum(running) OVER o AS bigint) AS running, sum(activated) OVER o AS activated,
    nullif(CASE WHEN grp IS NULL THEN coalesce(min(own) OVER o, :user_cap) ELSE :group_cap END, 0)
      AS cap
  FROM tasks WINDOW o AS (PARTITION BY owner, grp)
), room AS (
  SELECT *, greatest(coalesce(cap - running, 1000000000), 0) AS room FROM owners
), wanted AS MATERIALIZED (
  SELECT *, CASE WHEN activated > room THEN 'activated' ELSE 'throttled' END AS status FROM room
  WHERE CASE WHEN activated > room THEN some_activated ELSE activated < room AND some_throttled END
), j AS (
  SELECT j.pandaid, j.lock_seq, j.status, j.priority, o.owner, o.running, o.cap, o.room,
    o.activated, row_number() OVER (PARTITION BY o.owner, o.grp
      ORDER BY j.priority DESC, j.pandaid) AS place
  FROM wanted o JOIN jedi_jobs j ON j.jeditaskid = o.jeditaskid AND j.status = o.status
    AND j.username IS NOT DISTINCT FROM o.username
  WHERE {_COUNTED}
)
SELECT pandaid, lock_seq, status, owner, running, cap FROM j
WHERE CASE WHEN status = 'activated' THEN place > room ELSE place <= room - activated END
ORDER BY priority DESC, pandaid
""")


def capped(
    tx: Connection, production: Sequence[str], user_cap: int, group_cap: int
) -> list[CappedJob]:
    """Analysis jobs to be kept from pilots (activated) or no longer (throttled), so that no owner,
    a user or a working group, has more than the cap that run or may start. A cap of 0 is none;
    users may have their own."""
    found = {"production": list(production), "user_cap": user_cap, "group_cap": group_cap}
    return _CAPPED.rows(tx, **found)


def lock(tx: Connection, jobs: Sequence[CappedJob]) -> list[CappedJob]:
    """The `capped` jobs that are unchanged and that nobody else works on. Their tasks are locked,
    too, so that none is paused meanwhile: jobs of paused tasks stay throttled."""
    wanted = {"ids": [job.panda_id for job in jobs], "seqs": [job.lock_seq for job in jobs]}
    held = dict(_HELD.rows(tx, **wanted))
    return [job for job in jobs if held.get(job.panda_id) == job.status]


_OWNED = """
SELECT t.jeditaskid, nullif(t.workinggroup, '') AS grp,
  coalesce(nullif(t.workinggroup, ''), t.username) AS owner,
  nullif(CASE WHEN nullif(t.workinggroup, '') IS NULL
         THEN coalesce(u.cap_running_jobs, :user_cap) ELSE :group_cap END, 0) AS cap
FROM jedi_tasks t LEFT JOIN jedi_users u ON u.username = t.username
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[])) AND t.prodsourcelabel <> ALL(:production)
"""
_LOCK_OWNERS = changes(f"""
SELECT pg_advisory_xact_lock(hashtextextended('cap of ' || owner, 0))
FROM (SELECT DISTINCT owner FROM ({_OWNED}) o WHERE cap > 0 ORDER BY owner OFFSET 0) o
""")


class JobBeyond(NamedTuple):
    """A job beyond the cap of its owner."""

    panda_id: int
    lock_seq: int
    owner: str
    cap: int


# An owner's jobs are only counted if all jobs together are more than the cap.
_BEYOND = returns(JobBeyond)(f"""
WITH o AS MATERIALIZED ({_OWNED}), c AS MATERIALIZED (
  SELECT DISTINCT owner, grp, cap FROM o WHERE cap < (
    SELECT sum(jobs) FROM (SELECT status, jobs FROM job_stats
                           UNION ALL SELECT status, jobs FROM job_stats_delta) s
    WHERE status IN ({JOB_AT_SITE}, 'activated'))
), t AS MATERIALIZED (
  SELECT c.owner, c.grp, t.jeditaskid FROM c JOIN jedi_tasks t ON t.username = c.owner
  WHERE c.grp IS NULL AND nullif(t.workinggroup, '') IS NULL AND t.status <> ALL(:final)
  UNION ALL
  SELECT c.owner, c.grp, t.jeditaskid FROM c JOIN jedi_tasks t ON t.workinggroup = c.grp
  WHERE t.status <> ALL(:final)
), n AS MATERIALIZED (
  SELECT owner, grp, sum(k.jobs) AS jobs FROM t, LATERAL (
    SELECT count(*) AS jobs FROM jedi_jobs j
    WHERE j.jeditaskid = t.jeditaskid AND {_COUNTED} AND j.status <> 'throttled') k
  GROUP BY owner, grp
)
SELECT j.pandaid, j.lock_seq, c.owner, c.cap
FROM c JOIN n ON n.owner = c.owner AND n.grp IS NOT DISTINCT FROM c.grp, LATERAL (
  SELECT j.pandaid, j.lock_seq FROM o JOIN jedi_jobs j USING (jeditaskid)
  WHERE o.owner = c.owner AND o.grp IS NOT DISTINCT FROM c.grp
    AND {_COUNTED} AND j.status = 'activated'
  ORDER BY j.priority, j.pandaid DESC LIMIT greatest(n.jobs - c.cap, 0)
  FOR NO KEY UPDATE OF j SKIP LOCKED) j
""")


def keep_back(tx: Connection, knobs: Knobs, task_ids: Sequence[int], agent: str) -> int:
    """Keep jobs of analysis tasks, in which this transaction let pilots take some, from them, as
    far as their owners have more than the cap that run or may start. Their number. Owners are
    locked to the transaction's end, so this is its last step: it then waits for nobody."""
    if not task_ids:
        return 0
    values = {
        "ids": list(task_ids),
        "production": list(PRODUCTION_LABELS),
        "user_cap": knobs.caps.user_jobs,
        "group_cap": knobs.caps.group_jobs,
    }
    if not _LOCK_OWNERS.run(tx, **values):
        return 0
    final = {"final": sorted(states.TASK.final)}
    found = _BEYOND.rows(tx, **(values | final))
    moves = [
        JobMove(
            one.panda_id,
            "throttled",
            "user_cap",
            f"{one.owner} may have {one.cap} jobs that run or may start.",
            one.lock_seq,
        )
        for one in found
    ]
    return len(move_jobs(tx, moves, agent, ["activated"], locked=True))


_CROWDS = returns(tuple[str, int])("""
WITH t AS MATERIALIZED (
  SELECT jeditaskid, coalesce(nullif(workinggroup, ''), username) AS owner FROM jedi_tasks
  WHERE status <> ALL(:final) AND prodsourcelabel <> ALL(:production)
    -- a hash: each task was compared with each owner
    AND (coalesce(nullif(workinggroup, ''), username) IN (
      SELECT coalesce(nullif(workinggroup, ''), username) FROM jedi_tasks
      WHERE jeditaskid = ANY(:ids) AND prodsourcelabel <> ALL(:production))) IS TRUE
)
SELECT owner, CAST(sum(n) AS bigint) AS jobs
FROM t, LATERAL (  -- task by task: all live jobs were read for an owner of two
  SELECT count(*) AS n FROM jedi_jobs WHERE jeditaskid = t.jeditaskid
    AND postprocessed_at IS NULL AND kind NOT IN ('merge', 'es_merge') OFFSET 0) j
WHERE n > 0 GROUP BY owner
""")


def live_jobs_of_owners(
    tx: Connection, task_ids: Sequence[int], production: Sequence[str]
) -> dict[str, int]:
    """The number of live jobs of the owners of these analysis tasks, users or working groups."""
    values = {
        "ids": list(task_ids),
        "production": list(production),
        "final": sorted(states.TASK.final),
    }
    return dict(_CROWDS.rows(tx, **values))
