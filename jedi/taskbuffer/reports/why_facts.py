"""Facts for `jedi-task why`: a task with its files and jobs, and its last decision."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import row_of, rows_of
from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE, JOB_MAKING_TYPES
from jedi.taskbuffer.scheduling.turns import OPEN_RULES, PRIORITY
from jedi.taskbuffer.tasks.interventions import THROTTLED_UNTIL

_FREE = "(coalesce(hold_kind, 'failed_recoverable') = 'failed_recoverable')"
_ACTIVATED = f"status = 'activated' AND {_FREE}"
_MOVING = (
    "status IN ('pending', 'waiting', 'defined', 'assigned', 'holding', 'transferring') "
    f"AND {_FREE}"
)
_TOO_LARGE = (
    f"{_ACTIVATED} AND (cores > greatest(corecount, 1) OR memory_mb > maxrss AND maxrss > 0 "
    "OR disk_mb > maxwdir AND maxwdir > 0)"
)
# Each job is read once: sorted, or looked up at its site, 100,000 of them take five times as long.
_ALIKE = """
    SELECT status, site, hold_kind, cores, memory_mb, disk_mb, count(*) AS n,
      min(statechangetime) AS since, min(hold_reason) AS reason
    FROM jedi_jobs o WHERE o.jeditaskid = t.jeditaskid AND o.postprocessed_at IS NULL
    GROUP BY status, site, hold_kind, cores, memory_mb, disk_mb
"""


def _number(condition: str) -> str:
    """SQL: the number of jobs in groups of jobs that meet a condition."""
    return f"CAST(coalesce(sum(n) FILTER (WHERE {condition}), 0) AS bigint)"


_TASK = text(f"""
SELECT t.jeditaskid AS jedi_task_id, t.status, t.reason_code, t.reason_facts,
  t.errordialog AS reason, t.statechangetime AS state_change_time, t.frozentime AS frozen_time,
  t.next_run_at, {THROTTLED_UNTIL} AS rest_over, t.nextperiod AS next_period, t.workqueue_id,
  t.resource_type, t.gshare, t.eventservice AS event_service, {PRIORITY} AS priority,
  jedi_now() AS now, f.waiting AS files_waiting, coalesce(t.rules ->> 'use_scout', '') AS scout,
  t.prodsourcelabel AS label, j.at_site, j.activated, j.throttled, j.moving, j.merging, j.held,
  j.jobs_since, j.recoverable, j.sites, j.too_large, p.last_pilot, m.troubles,
  ARRAY(SELECT DISTINCT rule_id FROM {OPEN_RULES} ORDER BY rule_id) AS open_rules
FROM jedi_tasks t, LATERAL (
  SELECT coalesce(sum(greatest(0, nfilestobeused - nfilesused - nfilesmissing)), 0)::bigint
    AS waiting
  FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid AND d.masterid IS NULL
    AND d.type IN ({JOB_MAKING_TYPES})) f, LATERAL (
  SELECT {_number(f"status IN ({JOB_AT_SITE})")} AS at_site,
    {_number(_ACTIVATED)} AS activated,
    {_number(f"status = 'throttled' AND {_FREE}")} AS throttled,
    {_number(_MOVING)} AS moving,
    {_number(f"status = 'merging' AND {_FREE}")} AS merging,
    {_number(f"NOT {_FREE}")} AS held, min(since) AS jobs_since,
    min(reason) FILTER (WHERE hold_kind = 'failed_recoverable') AS recoverable,
    array_agg(DISTINCT site) FILTER (WHERE {_ACTIVATED}) AS sites,
    {_number(_TOO_LARGE)} AS too_large
  FROM ({_ALIKE}) o LEFT JOIN (
    SELECT site, corecount, maxrss, maxwdir FROM jedi_sites) s USING (site)) j,
  LATERAL (SELECT max(lastpilot) AS last_pilot FROM jedi_sites WHERE site = ANY(j.sites)) p,
  LATERAL (SELECT array_agg(site || ': ' || trouble ORDER BY site) AS troubles FROM (
    SELECT site, value ->> 'reason' AS trouble FROM jedi_site_metrics WHERE metric = 'submitter'
    UNION ALL
    SELECT site, 'no pilots are sent: status ' || status || ', nslots ' || nslots FROM jedi_sites
    WHERE submitter <> 'none' AND (status IN ('offline', 'paused') OR nslots <= 0)
  ) problems WHERE site = ANY(j.sites)) m
WHERE t.jeditaskid = :task
""")


class TaskFacts(NamedTuple):
    """All that the diagnosis of a task needs."""

    jedi_task_id: int
    status: str
    reason_code: str | None
    reason_facts: Any
    reason: str | None
    state_change_time: datetime
    frozen_time: datetime | None
    next_run_at: datetime | None
    rest_over: datetime
    next_period: datetime | None
    workqueue_id: int | None
    resource_type: str | None
    gshare: str | None
    event_service: int | None
    priority: int
    now: datetime
    files_waiting: int
    scout: str
    label: str | None
    at_site: int
    activated: int
    throttled: int
    moving: int
    merging: int
    held: int
    jobs_since: datetime
    recoverable: str
    sites: list[str]
    too_large: int
    last_pilot: datetime
    troubles: list[str]
    open_rules: list[int]


def facts(tx: Connection, task_id: int, unit_s: float) -> TaskFacts | None:
    """All that the diagnosis of a task needs; None: there is no such task. `unit_s`: the first rest
    of a throttled one."""
    return row_of(TaskFacts, tx.execute(_TASK, {"task": task_id, "unit_s": unit_s}))


_LAST_END = text("""
SELECT c.pandaid AS panda_id, l.reason_code AS code, coalesce(l.reason, '') AS sentence
FROM jedi_consumers c JOIN jedi_jobs_statuslog l USING (pandaid)
WHERE c.jeditaskid = :task AND l.reason_code <> 'generated'
  AND (l.agent = 'EventService' OR l.status = 'failed')
ORDER BY l.log_id DESC LIMIT 1
""")


class LastConsumerEnd(NamedTuple):
    """The last consumer of events that failed or that the EventService ended, with its reason."""

    panda_id: int
    code: str
    sentence: str


def last_end(tx: Connection, task_id: int) -> LastConsumerEnd | None:
    """The last end of a consumer of the task's events; None: none has ended."""
    return row_of(LastConsumerEnd, tx.execute(_LAST_END, {"task": task_id}))


_WAITING_SET = text("""
SELECT jobsetid AS jobset_id, wait_code AS code, wait_reason AS sentence FROM jedi_jobsets
WHERE jeditaskid = :task AND ended_at IS NULL AND wait_code IS NOT NULL ORDER BY jobsetid LIMIT 1
""")


class WaitingSet(NamedTuple):
    """A job set of events whose merge has to wait, with the reason."""

    jobset_id: int
    code: str
    sentence: str


def waiting_set(tx: Connection, task_id: int) -> WaitingSet | None:
    """The first job set of a task whose merge has to wait; None: there is none."""
    return row_of(WaitingSet, tx.execute(_WAITING_SET, {"task": task_id}))


_WAITING_FILES = text("""
SELECT CAST(coalesce(sum(nfileswaiting), 0) AS bigint) FROM jedi_datasets
WHERE jeditaskid = :task AND masterid IS NULL
""")


def waiting_files(tx: Connection, task_id: int) -> int:
    """The input files of a task that wait for real co-jumbo jobs."""
    return int(tx.scalar(_WAITING_FILES, {"task": task_id}) or 0)


_LAST_DECISION = text("""
SELECT d.decision_id, d.broker, d.creationtime AS creation_time, d.chosen, d.need
FROM jedi_broker_decisions d, (
SELECT seed FROM jedi_broker_decisions WHERE jeditaskid = :task AND broker <> 'jumbo_dog'
ORDER BY decision_id DESC LIMIT 1) l
WHERE d.jeditaskid = :task AND d.seed = l.seed AND d.broker <> 'jumbo_dog'
ORDER BY (d.outcome = 'none') DESC, d.decision_id DESC LIMIT 1
""")


class LastDecision(NamedTuple):
    """The last decision about a task."""

    decision_id: int
    broker: str
    creation_time: datetime
    chosen: list[str]
    need: Any


def last_decision(tx: Connection, task_id: int) -> LastDecision | None:
    """The last decision of a broker about a task: of several datasets the last that has no site, if
    one has none. Decisions of one claim have one seed."""
    return row_of(LastDecision, tx.execute(_LAST_DECISION, {"task": task_id}))


_JUMBO_REASON = text("""
SELECT need ->> 'code' AS code, need ->> 'sentence' AS sentence FROM jedi_broker_decisions
WHERE jeditaskid = :task AND broker = 'jumbo_dog' ORDER BY decision_id DESC LIMIT 1
""")


class JumboReason(NamedTuple):
    """The last decision of the JumboWatchDog about a task."""

    code: str
    sentence: str


def jumbo_reason(tx: Connection, task_id: int) -> JumboReason | None:
    """The last decision of the JumboWatchDog about a task; None: it made none."""
    return row_of(JumboReason, tx.execute(_JUMBO_REASON, {"task": task_id}))


_DECISION = text("""
SELECT decision_id, broker, creationtime AS creation_time, chosen, need
FROM jedi_broker_decisions WHERE decision_id = :id
""")


def decision(tx: Connection, decision_id: int) -> LastDecision | None:
    """A decision, as `last_decision` gives it."""
    return row_of(LastDecision, tx.execute(_DECISION, {"id": decision_id}))


_REFUSALS = text("""
SELECT site, codes, observed, limits FROM jedi_broker_reasons
WHERE decision_id = :id ORDER BY site
""")


class RefusedSite(NamedTuple):
    """A site that a decision refused: each reason, the figure observed and its limit."""

    site: str
    codes: list[str]
    observed: list[float]
    limits: list[float]


def refusals(tx: Connection, decision_id: int) -> list[RefusedSite]:
    """The sites that a decision refused, with every reason."""
    return rows_of(RefusedSite, tx.execute(_REFUSALS, {"id": decision_id}))
