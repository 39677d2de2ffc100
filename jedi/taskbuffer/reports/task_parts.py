"""Parts of the page of a task: its jobs by site, all that happened to it, its family."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.db.together import PartRow, Parts, together
from jedi.taskbuffer.reports import job_groups, listings, why_facts

RELATIVES_MOST = 30
"""Relatives of each kind."""


@dataclass(frozen=True, slots=True)
class TaskEvent:
    """An event in the life of a task. `kind`: status, command (`what` was commanded), answer (to
    command `number`) or decision (`number`, by the broker in `what`, for the sites in `sites`).
    `agent` acted, in the name of `user_name` if a person is behind it."""

    time: datetime
    kind: str
    what: str
    from_status: str | None
    agent: str | None
    user_name: str | None
    code: str | None
    sentence: str | None
    number: int | None
    sites: list[str] | None


_BEFORE = "(CAST(:before AS timestamptz) IS NULL OR {time} < :before)"

ALL_EVENTS = returns(TaskEvent)(f"""
-- All that happened to a task, the newest first: statuses, commands and their answers, brokers'
-- decisions; only those before a time, if one is given.
SELECT time, kind, what, fromstatus, agent, username, code, sentence, number, sites FROM (
  (SELECT modificationtime AS time, 'status' AS kind, status AS what, fromstatus,
    agent, username, reason_code AS code, reason AS sentence,
    CAST(NULL AS bigint) AS number, CAST(NULL AS text[]) AS sites, log_id AS place
  FROM jedi_tasks_statuslog
  WHERE jeditaskid = :task AND {_BEFORE.format(time="modificationtime")}
  ORDER BY modificationtime DESC, log_id DESC LIMIT :most)
  UNION ALL
  (SELECT creationtime, 'command', command, NULL, NULL, username, NULL, comment, command_id, NULL,
    command_id
  FROM jedi_commands WHERE jeditaskid = :task AND {_BEFORE.format(time="creationtime")}
  ORDER BY creationtime DESC, command_id DESC LIMIT :most)
  UNION ALL
  (SELECT acknowledged_at, 'answer', command, NULL, 'TaskCommando', username, outcome, message,
    command_id, NULL, command_id
  FROM jedi_commands WHERE jeditaskid = :task AND acknowledged_at IS NOT NULL
    AND {_BEFORE.format(time="acknowledged_at")}
  ORDER BY acknowledged_at DESC, command_id DESC LIMIT :most)
  UNION ALL
  (SELECT creationtime, 'decision', broker, NULL, 'broker', NULL, outcome, need ->> 'sentence',
    decision_id, chosen, decision_id
  FROM jedi_broker_decisions WHERE jeditaskid = :task AND {_BEFORE.format(time="creationtime")}
  ORDER BY creationtime DESC, decision_id DESC LIMIT :most)) e
ORDER BY time DESC, kind, place DESC LIMIT :most
""")


@dataclass(frozen=True, slots=True)
class Relative:
    """A task beside another one. `relation`: parent (`distance` generations away), child, sibling
    (with the same parent), maker (it makes the dataset that the other one reads), reader (it reads
    what the other one makes), namesake (of the same owner, with the same name)."""

    relation: str
    distance: int
    jedi_task_id: int
    task_name: str
    user_name: str
    status: str
    reason_code: str | None
    creation_date: datetime
    dataset: str | None


_FAMILY = returns(Relative)("""
WITH RECURSIVE parents(id, distance) AS (
  SELECT parent_tid, 1 FROM jedi_tasks WHERE jeditaskid = :task AND parent_tid <> jeditaskid
  UNION
  SELECT t.parent_tid, p.distance + 1 FROM parents p JOIN jedi_tasks t ON t.jeditaskid = p.id
  WHERE t.parent_tid <> t.jeditaskid AND p.distance < :relatives
), kin(relation, distance, id, dataset) AS (
  SELECT 'parent', distance, id, CAST(NULL AS text) FROM parents
  UNION ALL
  (SELECT 'child', 1, jeditaskid, NULL FROM jedi_tasks
   WHERE parent_tid = :task AND parent_tid <> jeditaskid ORDER BY jeditaskid LIMIT :relatives)
  UNION ALL
  (SELECT 'sibling', 0, t.jeditaskid, NULL FROM parents p JOIN jedi_tasks t
     ON t.parent_tid = p.id AND t.parent_tid <> t.jeditaskid
   WHERE p.distance = 1 AND t.jeditaskid <> :task ORDER BY t.jeditaskid LIMIT :relatives)
  UNION ALL
  (SELECT 'maker', 1, o.jeditaskid, min(o.datasetname) FROM jedi_datasets d JOIN jedi_datasets o
     ON o.datasetname = d.datasetname AND o.type = 'output'
   WHERE d.jeditaskid = :task AND d.type = 'input' AND o.jeditaskid <> :task
   GROUP BY o.jeditaskid ORDER BY o.jeditaskid LIMIT :relatives)
  UNION ALL
  (SELECT 'reader', 1, o.jeditaskid, min(o.datasetname) FROM jedi_datasets d JOIN jedi_datasets o
     ON o.datasetname = d.datasetname AND o.type = 'input'
   WHERE d.jeditaskid = :task AND d.type = 'output' AND o.jeditaskid <> :task
   GROUP BY o.jeditaskid ORDER BY o.jeditaskid LIMIT :relatives)
  UNION ALL
  (SELECT 'namesake', 0, o.jeditaskid, NULL FROM jedi_tasks t JOIN jedi_tasks o
     ON o.username = t.username AND o.taskname = t.taskname
   WHERE t.jeditaskid = :task AND o.jeditaskid <> :task ORDER BY o.jeditaskid DESC LIMIT :relatives)
)
SELECT k.relation, k.distance, t.jeditaskid, coalesce(t.taskname, '') AS task_name,
  coalesce(t.username, '') AS user_name, t.status, t.reason_code,
  t.creationdate, k.dataset
FROM kin k JOIN jedi_tasks t ON t.jeditaskid = k.id
ORDER BY array_position(ARRAY['parent', 'sibling', 'child', 'maker', 'reader', 'namesake'],
  k.relation), k.distance DESC, t.jeditaskid
""")


def family(tx: Connection, jedi_task_id: int) -> list[Relative]:
    """The relatives of a task, its parents first; of each kind so many at most."""
    values = {"task": jedi_task_id, "relatives": RELATIVES_MOST}
    return _FAMILY.rows(tx, **values)


_QUEUE = """
SELECT q.queue_name AS name FROM jedi_tasks t JOIN jedi_work_queue q ON q.queue_id = t.workqueue_id
WHERE t.jeditaskid = :task
"""
_PARTS = returns(PartRow)(
    together(
        {
            "groups": job_groups.GROUPS,
            "chosen": job_groups.CHOSEN.sql,
            "events": ALL_EVENTS.sql,
            "family": _FAMILY.sql,
            "datasets": listings.DATASETS.sql,
            "measured": listings.MEASURED.sql,
            "queue": _QUEUE,
            "facts": why_facts.FACTS,
        },
        job_groups.FOR_ALL,
    )
)


def parts(tx: Connection, jedi_task_id: int, unit_s: float, events_most: int) -> Parts:
    """The lists `groups` (JobGroup), `chosen` (the sites that brokers chose), `events`
    (TaskEvent), `family` (Relative), `datasets` (DatasetSummary), `measured` (JobMetric),
    `queue` (the name of the work queue) and `facts` (TaskFacts) of a task."""
    values = {
        "task": jedi_task_id,
        "before": None,
        "most": events_most,
        "relatives": RELATIVES_MOST,
        "unit_s": unit_s,
    }
    return Parts(_PARTS.rows(tx, **values))
