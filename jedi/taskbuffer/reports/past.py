"""The past of tasks and work queues, from their logs. However large a task or the system is, a
statement reads a bounded number of rows (docs/monitor.md#back-in-time)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import TASK_FINAL
from jedi.taskbuffer.db.statement import returns

UNITS_MOST = 1_000
"""Units of work whose jobs are looked up; a larger task is sampled, every n-th unit."""

ATTEMPTS_MOST = 20
"""Jobs of a unit that are looked up in each of the two tables."""

MOMENTS_MOST = 200
"""Events before the latest time, and as many after it."""

CHANGES_MOST = 20_000
"""Changes of tasks' statuses that a look at work queues takes back."""

_TIMES = "unnest(CAST(:times AS timestamptz[])) AS t(at)"


class Standing(NamedTuple):
    """A task's status at a time (`status` None: no log row is as old), and its present one."""

    at: datetime
    task_name: str
    user_name: str
    present: str
    creation_time: datetime
    status: str | None
    since: datetime | None
    agent: str | None
    commanded_by: str | None
    reason_code: str | None
    reason: str | None
    attempt_nr: int | None


STANDING = returns(Standing)(f"""
-- The status of a task at each of these times; empty: there is no such task.
SELECT t.at, coalesce(j.taskname, '') AS task_name, coalesce(j.username, '') AS user_name,
  j.status AS present, j.creationdate AS creation_time, l.status, l.time AS since, l.agent,
  l.username AS commanded_by, l.reason_code, l.reason, l.attemptnr
FROM {_TIMES} JOIN jedi_tasks j ON j.jeditaskid = :task LEFT JOIN LATERAL (
  SELECT status, modificationtime AS time, agent, username, reason_code, reason, attemptnr
  FROM jedi_tasks_statuslog
  WHERE jeditaskid = :task AND modificationtime <= t.at ORDER BY log_id DESC LIMIT 1) l ON true
ORDER BY t.at
""")


_EDGE = "SELECT {edge}(unit_nr) AS n FROM {table} WHERE jeditaskid = :task"
_EDGES = " UNION ALL ".join(
    _EDGE.format(edge=edge, table=table)
    for table in ("jedi_jobs", "jedi_jobs_archived")
    for edge in ("min", "max")
)
_OF_UNIT = """(
    SELECT pandaid, status, site, statechangetime, creationtime, starttime, n_inputs
    FROM {table} WHERE jeditaskid = :task AND unit_nr = u.n LIMIT :attempts)"""


class JobsThen(NamedTuple):
    """Jobs of a task at a time with one status and site, and their input files. `step`: every
    step-th unit of work was looked up. Status unknown: JEDI has removed the job's log."""

    at: datetime
    status: str
    site: str
    jobs: int
    n_inputs: int
    step: int


_JOBS = returns(JobsThen)(f"""
WITH r AS (
  SELECT min(n) AS low, max(n) AS high, greatest(1, ceil((max(n) - min(n) + 1) / :most)) AS step
  FROM ({_EDGES}) e
), j AS (
  SELECT f.*, CAST(r.step AS integer) AS step
  FROM r, generate_series(r.low, r.high, CAST(r.step AS integer)) AS u(n), LATERAL (
    {_OF_UNIT.format(table="jedi_jobs")} UNION ALL {_OF_UNIT.format(table="jedi_jobs_archived")}) f
)
SELECT t.at, coalesce(CASE WHEN j.statechangetime <= t.at THEN j.status ELSE l.status END,
    'unknown') AS status, j.site, count(*) AS jobs,
  CAST(sum(j.n_inputs) AS bigint) AS n_inputs, max(j.step) AS step
FROM {_TIMES} JOIN j ON j.creationtime <= t.at LEFT JOIN LATERAL (
  SELECT status FROM jedi_jobs_statuslog
  WHERE pandaid = j.pandaid AND modificationtime <= t.at AND j.statechangetime > t.at
  ORDER BY log_id DESC LIMIT 1) l ON true
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
""")


def jobs(tx: Connection, jedi_task_id: int, times: Sequence[datetime]) -> list[JobsThen]:
    """The jobs of a task by status and site at each of these times."""
    values = {
        "task": jedi_task_id,
        "times": [*times],
        "most": float(UNITS_MOST),
        "attempts": ATTEMPTS_MOST,
    }
    return _JOBS.rows(tx, **values)


class Moment(NamedTuple):
    """An event in a task's life: a status, a command or a broker's decision; `number`: that of the
    command or decision."""

    time: datetime
    kind: str
    title: str
    code: str | None
    sentence: str | None
    by: str | None
    number: int | None


_MOMENTS = returns(Moment)("""
WITH m AS (
  SELECT modificationtime AS time, 'status' AS kind, status AS title, reason_code AS code,
    reason AS sentence, coalesce(username, agent) AS by, CAST(NULL AS bigint) AS number
  FROM jedi_tasks_statuslog WHERE jeditaskid = :task
  UNION ALL
  SELECT creationtime, 'command', command, outcome, coalesce(comment, message), username, command_id
  FROM jedi_commands WHERE jeditaskid = :task
  UNION ALL
  SELECT creationtime, 'decision', outcome, NULL, array_to_string(chosen[1:5], ', '), broker,
    decision_id
  FROM jedi_broker_decisions WHERE jeditaskid = :task
)
(SELECT * FROM m WHERE time <= :at ORDER BY time DESC, number DESC LIMIT :most)
UNION ALL
(SELECT * FROM m WHERE time > :at ORDER BY time, number LIMIT :most)
ORDER BY time, number
""")


def moments(tx: Connection, jedi_task_id: int, at: datetime) -> list[Moment]:
    """The events of a task around a time, the first one first."""
    values = {"task": jedi_task_id, "at": at, "most": MOMENTS_MOST}
    return _MOMENTS.rows(tx, **values)


class KnobThen(NamedTuple):
    """A knob that had another value at a time than now; None: the preset's."""

    at: datetime
    name: str
    then: Any
    now: Any


KNOBS = returns(KnobThen)(f"""
-- The knobs that had other values at these times than now.
SELECT t.at, k.component || '.' || k.key AS name, h.value AS then, p.value AS now
FROM {_TIMES} CROSS JOIN (
  SELECT DISTINCT component, key FROM jedi_knobs_history) k LEFT JOIN LATERAL (
  SELECT value FROM jedi_knobs_history h
  WHERE h.component = k.component AND h.key = k.key AND h.modificationtime <= t.at
  ORDER BY change_id DESC LIMIT 1) h ON true
LEFT JOIN jedi_knobs p ON p.component = k.component AND p.key = k.key
WHERE h.value IS DISTINCT FROM p.value ORDER BY 1, 2
""")


class QueuedTasks(NamedTuple):
    """Tasks of a work queue that had not ended at a time, by status. Queue 0: tasks without one;
    -1: more statuses have changed since than a look takes back."""

    at: datetime
    queue_id: int
    status: str
    tasks: int


_TASKS = returns(QueuedTasks)(f"""
WITH recent AS MATERIALIZED (
  SELECT log_id, jeditaskid, fromstatus, modificationtime FROM jedi_tasks_statuslog
  ORDER BY log_id DESC LIMIT :most
), reach AS (
  SELECT CASE WHEN count(*) < :most THEN '-infinity' ELSE min(modificationtime) END AS since
  FROM recent
), moved AS (
  SELECT DISTINCT ON (t.at, jeditaskid) t.at, jeditaskid, fromstatus
  FROM {_TIMES} JOIN recent ON modificationtime > t.at ORDER BY t.at, jeditaskid, log_id
), n AS (
  SELECT t.at, workqueue_id, status, count(*) AS tasks FROM {_TIMES}, jedi_tasks
  WHERE status NOT IN ({TASK_FINAL}) GROUP BY 1, 2, 3
  UNION ALL
  SELECT m.at, j.workqueue_id, s.status, CAST(sum(s.n) AS bigint)
  FROM moved m JOIN jedi_tasks j USING (jeditaskid),
    LATERAL (VALUES (j.status, -1), (m.fromstatus, 1)) s(status, n)
  WHERE s.status NOT IN ({TASK_FINAL}) GROUP BY 1, 2, 3
)
SELECT at, coalesce(workqueue_id, 0) AS queue_id, status, CAST(sum(tasks) AS bigint) AS tasks
FROM n, reach WHERE at >= since GROUP BY 1, 2, 3 HAVING sum(tasks) > 0
UNION ALL
SELECT t.at, -1, '', 0 FROM {_TIMES}, reach WHERE t.at < since
ORDER BY 1, 2, 3
""")


def queued_tasks(tx: Connection, times: Sequence[datetime]) -> list[QueuedTasks]:
    """The tasks that had not ended at these times: the present ones, with the newest changes of
    status taken back."""
    values = {"times": [*times], "most": CHANGES_MOST}
    return _TASKS.rows(tx, **values)


class ReachedThen(NamedTuple):
    """Jobs of a share that reached a status in the hour of a time."""

    at: datetime
    gshare: str
    status: str
    jobs: int


REACHED = returns(ReachedThen)(f"""
-- The jobs that reached each status in the hours of these times.
SELECT t.at, h.gshare, h.status, CAST(sum(h.jobs) AS bigint) AS jobs
FROM {_TIMES} JOIN job_stats_hourly h ON h.hour = date_trunc('hour', t.at)
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
""")
