"""Facts for `jedi-task why`: a task with its files and jobs, and its last decision."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE, JOB_MAKING_TYPES
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.db.together import PartRow, Parts, together
from jedi.taskbuffer.reports.job_groups import FOR_WHY
from jedi.taskbuffer.scheduling.task_order import OPEN_RULES, PRIORITY
from jedi.taskbuffer.schema.dataset_rules import LISTED
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


def _number(condition: str) -> str:
    """SQL: the number of jobs in groups of jobs that meet a condition."""
    return f"CAST(coalesce(sum(jobs) FILTER (WHERE {condition}), 0) AS bigint)"


FACTS = f"""
SELECT t.jeditaskid, t.status, t.reason_code, t.reason_facts,
  t.errordialog AS reason, t.statechangetime, t.frozentime,
  t.next_run_at, {THROTTLED_UNTIL} AS rest_over, t.nextperiod, t.workqueue_id,
  t.resource_type, t.gshare, t.eventservice, {PRIORITY} AS priority,
  jedi_now() AS now, f.waiting AS files_waiting, f.awaited AS files_awaited,
  f.open_inputs,
  coalesce(t.rules ->> 'use_scout', '') AS scout,
  t.prodsourcelabel AS label, t.lockedby,
  j.at_site, j.activated, j.throttled, j.moving, j.merging, j.held, j.jobs_since,
  j.recoverable, j.sites, j.too_large, p.last_pilot, m.troubles,
  ARRAY(SELECT DISTINCT rule_id FROM {OPEN_RULES} ORDER BY rule_id) AS open_rules,
  q.queue_id IS NOT NULL AS shared, q.usage, q.allocation, q.ratio
FROM jedi_tasks t LEFT JOIN jedi_queue_shares q ON q.queue_id = t.workqueue_id, LATERAL (
  SELECT coalesce(sum(greatest(0, nfilestobeused - nfilesused - nfilesmissing))
      FILTER (WHERE d.type IN ({JOB_MAKING_TYPES})), 0)::bigint AS waiting,
    CAST(coalesce(sum(nfileswaiting), 0) AS bigint) AS awaited,
    array_agg(d.datasetname ORDER BY d.datasetname)
      FILTER (WHERE d.type = 'input' AND d.state = 'open') AS open_inputs
  FROM jedi_datasets d
  WHERE d.jeditaskid = t.jeditaskid AND d.masterid IS NULL AND {LISTED}) f, LATERAL (
  SELECT {_number(f"status IN ({JOB_AT_SITE}) AND {_FREE}")} AS at_site,
    {_number(_ACTIVATED)} AS activated,
    {_number(f"status = 'throttled' AND {_FREE}")} AS throttled,
    {_number(_MOVING)} AS moving,
    {_number(f"status = 'merging' AND {_FREE}")} AS merging,
    {_number(f"NOT {_FREE}")} AS held, min(since) AS jobs_since,
    min(hold_reason) FILTER (WHERE hold_kind = 'failed_recoverable') AS recoverable,
    array_agg(DISTINCT site) FILTER (WHERE {_ACTIVATED}) AS sites,
    {_number(_TOO_LARGE)} AS too_large
  FROM alike LEFT JOIN (
    SELECT site, corecount, maxrss, maxwdir FROM jedi_sites) s USING (site)) j,
  LATERAL (SELECT max(lastpilot) AS last_pilot FROM jedi_sites WHERE site = ANY(j.sites)) p,
  LATERAL (SELECT array_agg(site || ': ' || trouble ORDER BY site) AS troubles FROM (
    SELECT site, value ->> 'reason' AS trouble FROM jedi_site_metrics WHERE metric = 'submitter'
    UNION ALL
    SELECT site, 'no pilots are sent: status ' || status || ', nslots ' || nslots FROM jedi_sites
    WHERE submitter <> 'none' AND (status IN ('offline', 'paused') OR nslots <= 0)
  ) problems WHERE site = ANY(j.sites)) m
WHERE t.jeditaskid = :task
"""
"""After a clause of job_groups.alike."""


class TaskFacts(NamedTuple):
    """All that the diagnosis of a task needs. `files_awaited`: input files that wait for real
    co-jumbo jobs; `shared`: its work queue has a share, with this use."""

    jedi_task_id: int
    status: str
    reason_code: str | None
    reason_facts: Any
    reason: str | None
    state_change_time: datetime | None
    frozen_time: datetime | None
    next_run_at: datetime | None
    rest_over: datetime | None
    next_period: datetime | None
    workqueue_id: int | None
    resource_type: str | None
    gshare: str | None
    event_service: int | None
    priority: int | None
    now: datetime
    files_waiting: int
    files_awaited: int
    open_inputs: list[str] | None
    scout: str
    label: str | None
    locked_by: str | None
    at_site: int
    activated: int
    throttled: int
    moving: int
    merging: int
    held: int
    jobs_since: datetime | None
    recoverable: str | None
    sites: list[str] | None
    too_large: int
    last_pilot: datetime | None
    troubles: list[str] | None
    open_rules: list[int]
    shared: bool
    usage: float | None
    allocation: float | None
    ratio: float | None


TASK = returns(TaskFacts)(f"""
-- All that the diagnosis of a task needs. `unit_s`: the first rest of a throttled one.
{FOR_WHY}{FACTS}""")


_LAST_END = """
SELECT c.pandaid, l.reason_code AS code, coalesce(l.reason, '') AS sentence
FROM jedi_consumers c JOIN jedi_jobs_statuslog l USING (pandaid)
WHERE c.jeditaskid = :task AND l.reason_code <> 'generated'
  AND (l.agent = 'EventService' OR l.status = 'failed')
ORDER BY l.log_id DESC LIMIT 1
"""


class LastConsumerEnd(NamedTuple):
    """The last consumer of events that failed or that the EventService ended, with its reason."""

    panda_id: int
    code: str
    sentence: str


_WAITING_SET = """
SELECT jobsetid, wait_code AS code, wait_reason AS sentence FROM jedi_jobsets
WHERE jeditaskid = :task AND ended_at IS NULL AND wait_code IS NOT NULL ORDER BY jobsetid LIMIT 1
"""


class WaitingSet(NamedTuple):
    """A job set of events whose merge has to wait, with the reason."""

    jobset_id: int
    code: str
    sentence: str


_LAST_DECISION = """
SELECT d.decision_id, d.broker, d.creationtime, d.chosen, d.need
FROM jedi_broker_decisions d, (
SELECT seed FROM jedi_broker_decisions WHERE jeditaskid = :task AND broker <> 'jumbo_dog'
ORDER BY decision_id DESC LIMIT 1) l
WHERE d.jeditaskid = :task AND d.seed = l.seed AND d.broker <> 'jumbo_dog'
ORDER BY (d.outcome = 'none') DESC, d.decision_id DESC LIMIT 1
"""


class LastDecision(NamedTuple):
    """The last decision about a task."""

    decision_id: int
    broker: str
    creation_time: datetime
    chosen: list[str]
    need: Any


_JUMBO_REASON = """
SELECT need ->> 'code' AS code, need ->> 'sentence' AS sentence FROM jedi_broker_decisions
WHERE jeditaskid = :task AND broker = 'jumbo_dog' ORDER BY decision_id DESC LIMIT 1
"""


class JumboReason(NamedTuple):
    """The last decision of the JumboWatchDog about a task."""

    code: str
    sentence: str


DECISION = returns(LastDecision)("""
-- A decision, as `last_decision` gives it.
SELECT decision_id, broker, creationtime, chosen, need
FROM jedi_broker_decisions WHERE decision_id = :id
""")


_REFUSED = """
SELECT site, codes, observed, limits FROM jedi_broker_reasons
WHERE decision_id = {decision} ORDER BY site
"""


class RefusedSite(NamedTuple):
    """A site that a decision refused: each reason, the figure observed and its limit."""

    site: str
    codes: list[str]
    observed: list[float]
    limits: list[float]


REFUSALS = returns(RefusedSite)(f"""
-- The sites that a decision refused, with every reason.
{_REFUSED.format(decision=":id")}""")


_BACKGROUND = returns(PartRow)(
    together(
        {
            "decision": _LAST_DECISION,
            "refusals": _REFUSED.format(decision=f"(SELECT decision_id FROM ({_LAST_DECISION}) l)"),
            "jumbo": _JUMBO_REASON,
            "end": _LAST_END,
            "set": _WAITING_SET,
        }
    )
)


@dataclass(frozen=True, slots=True)
class Background:
    """The background of a task's hold. `decision`: the last one of a broker (of several datasets
    the last that has no site, if one has none; decisions of one claim have one seed), with the
    sites that it `refused`; `jumbo`: the last one of the JumboWatchDog; `end`: the last end of a
    consumer of events; `job_set`: the first job set whose merge has to wait."""

    decision: LastDecision | None
    refused: list[RefusedSite]
    jumbo: JumboReason | None
    end: LastConsumerEnd | None
    job_set: WaitingSet | None


def background(tx: Connection, task_id: int) -> Background:
    """The background of a task's hold, by one statement."""
    found = Parts(_BACKGROUND.rows(tx, **{"task": task_id}))
    return Background(
        decision=found.row("decision", LastDecision),
        refused=[RefusedSite(**one) for one in found.raw("refusals")],
        jumbo=found.row("jumbo", JumboReason),
        end=found.row("end", LastConsumerEnd),
        job_set=found.row("set", WaitingSet),
    )
