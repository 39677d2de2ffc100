"""Jumbo jobs of tasks: the facts of the JumboWatchDog, and its switch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER
from jedi.taskbuffer.tasks import scouting
from jedi.taskbuffer.tasks.tasks import UNCLAIMED

BROKER = "jumbo_dog"
"""The name of the JumboWatchDog in the log of decisions."""

_JUMBO = "(t.usejumbo IS NOT NULL OR coalesce(t.rules ? 'n_jumbo_jobs', false))"
"""SQL: a task `t` has jumbo jobs, by the dog's switch or by its parameters."""


class EventTask(NamedTuple):
    """An active event-service task: its remaining events, its switch of jumbo jobs, its release,
    its site if it names one, its split rules, and the code of the last decision about it."""

    jedi_task_id: int
    events: int
    priority: int
    jumbo: bool
    release: str
    site: str
    rules: Any
    code: str | None


EVENT_TASKS = returns(EventTask)(f"""
-- Active event-service tasks: those with jumbo jobs, then those with most remaining events.
SELECT t.jeditaskid, CAST(e.events AS bigint) AS events,
  coalesce(t.currentpriority, 0) AS priority, {_JUMBO} AS jumbo,
  coalesce(nullif(t.transhome, ''), t.transuses, '') AS release, coalesce(t.site, '') AS site,
  t.rules, l.need ->> 'code' AS code
FROM jedi_tasks t, LATERAL (
    SELECT coalesce(sum(greatest(0, coalesce(nevents, 0) - coalesce(neventsused, 0))), 0) AS events
    FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid AND {LISTED_MASTER}) e
  LEFT JOIN LATERAL (
    SELECT need FROM jedi_broker_decisions b WHERE b.jeditaskid = t.jeditaskid
      AND b.broker = '{BROKER}' ORDER BY decision_id DESC LIMIT 1) l ON true
WHERE t.eventservice = 1
  AND t.status IN ('assigning', 'ready', 'pending', 'scouting', 'running', 'throttled')
ORDER BY NOT {_JUMBO}, e.events DESC, t.jeditaskid LIMIT :limit
""")


class JumboSite(NamedTuple):
    """A site that takes jumbo jobs, with its releases and its published software, the cores and the
    memory of a slot (0 MB: no limit), the least number of events for a jumbo job, and its
    status."""

    site: str
    releases: str
    software: str
    cores: int
    memory_mb: int
    min_events: int
    status: str


JUMBO_SITES = returns(JumboSite)("""
-- Sites that take jumbo jobs while they are online.
SELECT site, coalesce(array_to_string(releases, ','), '') AS releases,
  coalesce(CASE jsonb_typeof(catchall -> 'software') WHEN 'array' THEN (
    SELECT string_agg(w, ',') FROM jsonb_array_elements_text(catchall -> 'software') w)
    ELSE catchall ->> 'software' END, '') AS software,
  greatest(1, corecount) AS cores, greatest(0, maxrss) AS memory_mb,
  CASE WHEN catchall ->> 'minEventsForJumbo' ~ '^[0-9]{1,9}$'
    THEN CAST(catchall ->> 'minEventsForJumbo' AS bigint) ELSE 0 END AS min_events, status
FROM jedi_sites s
WHERE coalesce(s.catchall ->> 'useJumboJobs', 'false') NOT IN ('false', '0', '')
ORDER BY site
""")


_LOCK = returns(int)(f"""
SELECT jeditaskid FROM jedi_tasks t
WHERE jeditaskid = ANY(:ids) AND {_JUMBO} = :jumbo AND t.{UNCLAIMED}
ORDER BY jeditaskid FOR NO KEY UPDATE SKIP LOCKED
""")
_SWITCH = changes("UPDATE jedi_tasks SET usejumbo = :flag WHERE jeditaskid = ANY(:ids)")


def switch(
    tx: Connection, task_ids: Sequence[int], per_task: int | None, per_site: int | None
) -> set[int]:
    """Give jumbo jobs to tasks that have none, so many per task and per site, or (None) take them
    from tasks that have some. Return the tasks that were switched: nobody holds them now."""
    if not task_ids:
        return set()
    enable = per_task is not None
    ids = _LOCK.rows(tx, ids=list(task_ids), jumbo=not enable)
    update = {"n_jumbo_jobs": per_task, "max_jumbo_per_site": per_site}
    rules = scouting.rules_of(tx, ids)
    scouting.set_rules(tx, {i: one.model_copy(update=update) for i, one in rules.items()})
    _SWITCH.run(tx, ids=ids, flag="Y" if enable else None)
    return set(ids)


_RECORD = changes(f"""
INSERT INTO jedi_broker_decisions (jeditaskid, broker, seed, knobs, outcome, chosen, weights, need)
SELECT r.task, '{BROKER}', 0, CAST(:limits AS jsonb),
  CASE WHEN r.jumbo THEN 'chosen' ELSE 'none' END,
  ARRAY(SELECT jsonb_array_elements_text(r.sites)),
  ARRAY(SELECT CAST(1 AS float8) FROM jsonb_array_elements_text(r.sites)), r.need
FROM jsonb_to_recordset(CAST(:rows AS jsonb)) r(task bigint, jumbo boolean, sites jsonb, need jsonb)
""")


class JumboRecord(NamedTuple):
    """A decision for the log: the task, its switch, its sites if it is on, and the reason."""

    task: int
    jumbo: bool
    sites: Sequence[str]
    need: Mapping[str, Any]


def record(tx: Connection, decisions: Sequence[JumboRecord], limits: Mapping[str, Any]) -> None:
    """Note decisions in the log of brokers' decisions."""
    if decisions:
        rows = json.dumps([one._asdict() for one in decisions])
        _RECORD.run(tx, rows=rows, limits=json.dumps(limits))
