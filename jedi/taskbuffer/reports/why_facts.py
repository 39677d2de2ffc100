"""Facts for `jedi-task why`: a task with its files and jobs, and its last decision."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, text

from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE, JOB_MAKING_TYPES
from jedi.taskbuffer.scheduling.turns import OPEN_RULES, PRIORITY
from jedi.taskbuffer.tasks.interventions import THROTTLED_UNTIL

_FREE = "(coalesce(hold_kind, 'failed_recoverable') = 'failed_recoverable')"
_TASK = text(f"""
SELECT t.jeditaskid, t.status, t.reason_code, t.reason_facts, t.errordialog AS reason,
  t.statechangetime, t.frozentime, t.next_run_at, {THROTTLED_UNTIL} AS rest_over, t.nextperiod,
  t.workqueue_id, t.resource_type,
  t.gshare, t.eventservice, {PRIORITY} AS priority, jedi_now() AS now, f.waiting AS files_waiting,
  coalesce(t.rules ->> 'use_scout', '') AS scout, t.prodsourcelabel AS label, j.*,
  b.too_large, p.last_pilot, m.troubles,
  ARRAY(SELECT DISTINCT rule_id FROM {OPEN_RULES} ORDER BY rule_id) AS open_rules
FROM jedi_tasks t, LATERAL (
  SELECT coalesce(sum(greatest(0, nfilestobeused - nfilesused - nfilesmissing)), 0)::bigint
    AS waiting
  FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid AND d.masterid IS NULL
    AND d.type IN ({JOB_MAKING_TYPES})) f, LATERAL (
  SELECT count(*) FILTER (WHERE status IN ({JOB_AT_SITE})) AS at_site,
    count(*) FILTER (WHERE status = 'activated' AND {_FREE}) AS activated,
    count(*) FILTER (WHERE status = 'throttled' AND {_FREE}) AS throttled,
    count(*) FILTER (WHERE status IN ('pending', 'waiting', 'defined', 'assigned', 'holding',
      'transferring') AND {_FREE}) AS moving,
    count(*) FILTER (WHERE status = 'merging' AND {_FREE}) AS merging,
    count(*) FILTER (WHERE NOT {_FREE}) AS held, min(statechangetime) AS jobs_since,
    min(hold_reason) FILTER (WHERE hold_kind = 'failed_recoverable') AS recoverable,
    array_agg(DISTINCT site) FILTER (WHERE status = 'activated' AND {_FREE}) AS sites
  FROM jedi_jobs o WHERE o.jeditaskid = t.jeditaskid AND o.postprocessed_at IS NULL) j,
  LATERAL (SELECT count(*) AS too_large FROM jedi_jobs o JOIN jedi_sites s USING (site)
    WHERE o.jeditaskid = t.jeditaskid AND o.postprocessed_at IS NULL
      AND o.status = 'activated' AND {_FREE} AND (o.cores > greatest(s.corecount, 1)
        OR o.memory_mb > s.maxrss AND s.maxrss > 0 OR o.disk_mb > s.maxwdir AND s.maxwdir > 0)) b,
  LATERAL (SELECT max(lastpilot) AS last_pilot FROM jedi_sites WHERE site = ANY(j.sites)) p,
  LATERAL (SELECT array_agg(site || ': ' || trouble ORDER BY site) AS troubles FROM (
    SELECT site, value ->> 'reason' AS trouble FROM jedi_site_metrics WHERE metric = 'submitter'
    UNION ALL
    SELECT site, 'no pilots are sent: status ' || status || ', nslots ' || nslots FROM jedi_sites
    WHERE submitter <> 'none' AND (status IN ('offline', 'paused') OR nslots <= 0)
  ) told WHERE site = ANY(j.sites)) m
WHERE t.jeditaskid = :task
""")


def facts(tx: Connection, task_id: int, unit_s: float) -> Row[Any] | None:
    """All that the diagnosis of a task needs; None: there is no such task. `unit_s`: the first rest
    of a throttled one."""
    return tx.execute(_TASK, {"task": task_id, "unit_s": unit_s}).one_or_none()


_LAST_DECISION = text("""
SELECT d.* FROM jedi_broker_decisions d, (
SELECT seed FROM jedi_broker_decisions WHERE jeditaskid = :task
ORDER BY decision_id DESC LIMIT 1) l
WHERE d.jeditaskid = :task AND d.seed = l.seed
ORDER BY (d.outcome = 'none') DESC, d.decision_id DESC LIMIT 1
""")


def last_decision(tx: Connection, task_id: int) -> Row[Any] | None:
    """What a broker last decided about a task: of several datasets the last that has no site, if
    one has none. Decisions of one claim have one seed."""
    return tx.execute(_LAST_DECISION, {"task": task_id}).one_or_none()


_REFUSALS = text("SELECT * FROM jedi_broker_reasons WHERE decision_id = :id ORDER BY site")


def refusals(tx: Connection, decision_id: int) -> list[Row[Any]]:
    """The sites that a decision refused, with every reason."""
    return list(tx.execute(_REFUSALS, {"id": decision_id}))
