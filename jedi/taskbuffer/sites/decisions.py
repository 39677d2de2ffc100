"""Decisions of brokers with their input, so that people can explain and replay them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.sites.decision import Decision, Pledge
from jedi.model.sites.request import RecentJobs
from jedi.taskbuffer.db.sql_lists import listed
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema.dataset_rules import LISTED, LISTED_MASTER
from jedi.taskbuffer.sites.sites import SPACES

_RECORD = changes("""
WITH d AS (
  SELECT nextval('jedi_broker_decisions_decision_id_seq') AS decision_id, r.*
  FROM jsonb_to_recordset(CAST(:decisions AS jsonb)) AS r(jedi_task_id bigint, broker text,
    snapshot_hash text, seed bigint, knobs jsonb, need jsonb, chosen text[], weights float8[],
    refusals jsonb, used text[])
), i AS (
  INSERT INTO jedi_broker_decisions (decision_id, jeditaskid, broker, snapshot_hash, seed, knobs,
    outcome, chosen, weights, need, used)
  SELECT decision_id, jedi_task_id, broker, snapshot_hash, seed, knobs,
    CASE WHEN cardinality(chosen) > 0 THEN 'chosen' ELSE 'none' END, chosen, weights, need,
    used
  FROM d
)
INSERT INTO jedi_broker_reasons (decision_id, site, codes, observed, limits)
SELECT d.decision_id, r.site, r.codes, r.observed, r.limits
FROM d, jsonb_to_recordset(d.refusals)
  AS r(site text, codes text[], observed float8[], limits float8[])
""")


def record(tx: Connection, decisions: Sequence[Decision]) -> None:
    """Store decisions with the reasons for every site refused."""
    # `asdict` of a decision would copy all its knobs, too
    rows = [{name: getattr(one, name) for name in Decision.__match_args__} for one in decisions]
    _RECORD.run(tx, decisions=json.dumps(rows, allow_nan=False, default=asdict))


_PUT_SNAPSHOT = changes("""
INSERT INTO jedi_snapshots (snapshot_hash, data) VALUES (:hash, :data)
ON CONFLICT DO NOTHING
""")


def put_snapshot(tx: Connection, snapshot_hash: str, packed: bytes, max_mb: int) -> None:
    """Keep what brokers knew unless it is too large; the same knowledge is stored once."""
    if len(packed) > max_mb * 2**20:
        return
    _PUT_SNAPSHOT.run(tx, hash=snapshot_hash, data=packed)


class RecordedDecision(NamedTuple):
    """A decision with the snapshot it was made from (`data` None: it is not kept any more)."""

    decision_id: int
    jedi_task_id: int
    broker: str
    seed: int
    knobs: Any
    chosen: list[str]
    weights: list[float]
    need: Any
    used: list[str]
    data: bytes | None


GET = returns(RecordedDecision)("""
-- A decision with the snapshot it was made from (`data` None: it is not kept any more).
SELECT d.decision_id, d.jeditaskid, d.broker, d.seed, d.knobs, d.chosen,
  d.weights, d.need, d.used, s.data
FROM jedi_broker_decisions d LEFT JOIN jedi_snapshots s USING (snapshot_hash)
WHERE d.decision_id = :id
""")


@dataclass(frozen=True, slots=True)
class DecisionSummary:
    """A decision of a broker: the sites that it chose, best first, and the number of refused
    ones."""

    decision_id: int
    jedi_task_id: int
    broker: str
    time: datetime
    chosen: list[str]
    refused: int


NEWEST = returns(DecisionSummary)("""
-- Decisions of all tasks or of one, the newest first; `before`: only older ones than this.
SELECT d.decision_id, d.jeditaskid, d.broker, d.creationtime AS time, d.chosen, (
    SELECT count(*) FROM jedi_broker_reasons r WHERE r.decision_id = d.decision_id) AS refused
FROM (
  SELECT * FROM jedi_broker_decisions
  WHERE (CAST(:task AS bigint) IS NULL OR jeditaskid = :task)
    AND (CAST(:before AS bigint) IS NULL OR decision_id < :before)
  ORDER BY decision_id DESC LIMIT :limit) d
ORDER BY d.decision_id DESC
""")


_NO_JOBS = "('nucleus', 'jumbo_dog')"  # their decisions are not about the sites of jobs
# Decisions of one claim, dataset by dataset, have one seed; only the last can be of it.


class UsedSites(NamedTuple):
    """The sites that a task's jobs went to last."""

    jedi_task_id: int
    sites: list[str]


_USED = returns(UsedSites)(f"""
SELECT t.id AS jedi_task_id, s.chosen AS sites FROM unnest(CAST(:ids AS bigint[])) t(id), LATERAL (
  SELECT decision_id, seed FROM jedi_broker_decisions d
  WHERE d.jeditaskid = t.id AND d.outcome = 'chosen' AND d.broker NOT IN {_NO_JOBS}
  ORDER BY d.decision_id DESC LIMIT 1) d, LATERAL (
  SELECT array_agg(site ORDER BY decision, place) AS chosen FROM (
    SELECT site, min(e.decision_id) AS decision, min(n.place) AS place
    FROM (
      SELECT * FROM jedi_broker_decisions e
      WHERE e.jeditaskid = t.id AND e.decision_id <= d.decision_id
      ORDER BY e.decision_id DESC LIMIT 1000) e, unnest(e.chosen) WITH ORDINALITY n(site, place)
    WHERE e.seed = d.seed AND e.outcome = 'chosen' AND e.broker NOT IN {_NO_JOBS}
    GROUP BY site) n) s
""")


def used_sites(tx: Connection, task_ids: Sequence[int]) -> dict[int, list[str]]:
    """The sites that each task's jobs went to last, those of all its datasets."""
    rows = _USED.rows(tx, ids=list(task_ids))
    return {row.jedi_task_id: row.sites for row in rows}


_AT_SITE = listed(status for status in states.JOB_LIVE if status != "merging")


_WAYS = ("closed", "failed", "finished", "live")


class PastJobs(NamedTuple):
    """The numbers of a task's jobs at a site."""

    jedi_task_id: int
    site: str
    live: int
    closed: int
    failed: int
    finished: int


# A merging job is over at its site: it waits for others.
_PAST = returns(PastJobs)(f"""
SELECT jeditaskid, site,
  count(*) FILTER (WHERE status IN ({_AT_SITE})) AS live,
  count(*) FILTER (WHERE status = 'closed' AND error_code IS DISTINCT FROM 'throttled_timeout')
    AS closed,  -- the limit of the user kept that one from pilots, not the site
  count(*) FILTER (WHERE status = 'failed') AS failed,
  count(*) FILTER (WHERE status = 'finished') AS finished
FROM (
  SELECT jeditaskid, site, status, endtime, error_code FROM jedi_jobs
  WHERE jeditaskid = ANY(:ids)
  UNION ALL
  SELECT jeditaskid, site, status, endtime, error_code FROM jedi_jobs_archived
  WHERE jeditaskid = ANY(:ids)) j
WHERE status IN ({_AT_SITE}) OR status IN ('closed', 'failed', 'finished')
  AND endtime > jedi_now() - make_interval(secs => :seconds)
GROUP BY jeditaskid, site ORDER BY jeditaskid, site
""")


def past_jobs(tx: Connection, task_ids: Sequence[int], seconds: float) -> dict[int, RecentJobs]:
    """The jobs of tasks by site: live ones, and those that ended within so many seconds."""
    counted: dict[int, dict[str, dict[str, int]]] = {}
    values = {"ids": list(task_ids), "seconds": seconds}
    for row in _PAST.rows(tx, **values):
        of_task = counted.setdefault(row.jedi_task_id, {way: {} for way in _WAYS})
        for how, by_site in of_task.items():
            if n := getattr(row, how):
                by_site[row.site] = n
    return {task_id: RecentJobs(**ways) for task_id, ways in counted.items()}


class InputFileCount(NamedTuple):
    """An input dataset of a task and its number of files."""

    jedi_task_id: int
    dataset_name: str
    n_files: int


_READ_INPUTS = returns(InputFileCount)(f"""
SELECT jeditaskid, d.datasetname, CASE
  WHEN t.rules ?| ARRAY['n_events_per_job', 'target_events_per_job']
  THEN (SELECT count(DISTINCT c.lfn) FROM jedi_dataset_contents c  -- a file has several rows
        WHERE c.jeditaskid = d.jeditaskid AND c.datasetid = d.datasetid
          AND c.status <> 'skipped')
  ELSE greatest(d.nfiles, 0) END AS n_files
FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE jeditaskid = ANY(:ids) AND d.type = 'input' AND {LISTED} ORDER BY jeditaskid, d.datasetid
""")


def inputs(tx: Connection, task_ids: Sequence[int]) -> dict[int, list[InputFileCount]]:
    """The input datasets of tasks: name and number of files."""
    found: dict[int, list[InputFileCount]] = {}
    for row in _READ_INPUTS.rows(tx, ids=list(task_ids)):
        found.setdefault(row.jedi_task_id, []).append(row)
    return found


_DAYS = """
sum(CASE WHEN d.nevents > 0 THEN greatest(d.nevents - coalesce(d.neventsused, 0), 0)
      ELSE greatest(d.nfilestobeused - d.nfilesused, 0) END)
  * max(coalesce(nullif(t.cputime, 0), 300) / CASE WHEN t.cputimeunit LIKE 'm%' THEN 1000.0
      ELSE 1 END) / 10 / 86400
"""
_WITH_WORK = listed(
    [
        "ready",
        "scouting",
        "scouted",
        "running",
        "pending",
        "throttled",
        "paused",
        "topreprocess",
        "preprocessing",
    ]
)
"""Tasks whose remaining work is to be done at their nucleus: "the total sum of task RWs in the
nucleus" (JEDI document, "Task brokerage"), also of those that make no jobs at this moment."""
WORK_AT_NUCLEI = returns(Pledge)(f"""
-- The work that is left to tasks of each nucleus, by work queue and priority.
SELECT nucleus, workqueue_id AS work_queue, currentpriority AS priority, sum(days)::float8 AS days
FROM (
  SELECT t.nucleus, coalesce(t.workqueue_id, 0) AS workqueue_id,
    coalesce(t.currentpriority, 0) AS currentpriority, {_DAYS} AS days
  FROM jedi_tasks t JOIN jedi_datasets d USING (jeditaskid)
  WHERE t.status IN ({_WITH_WORK}) AND t.nucleus IS NOT NULL
    AND {LISTED_MASTER}
  GROUP BY t.jeditaskid) w
GROUP BY nucleus, workqueue_id, currentpriority ORDER BY 1, 2, 3
""")
WORK_OF = returns(tuple[int, float])(f"""
-- The work that is left to each task, in core-days at 10 HS06.
SELECT t.jeditaskid, coalesce(({_DAYS})::float8, 0) AS days
FROM jedi_tasks t JOIN jedi_datasets d USING (jeditaskid)
WHERE t.jeditaskid = ANY(:ids) AND {LISTED_MASTER}
GROUP BY t.jeditaskid
""")


_NUCLEUS = changes(f"""
WITH n AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:nuclei AS text[]),
    CAST(:endpoints AS text[])) n(id, nucleus, endpoint)
), t AS (
  UPDATE jedi_tasks t SET nucleus = n.nucleus FROM n WHERE t.jeditaskid = n.id
)
UPDATE jedi_datasets d SET destination = coalesce({SPACES} ->> n.nucleus, n.endpoint) FROM n
WHERE d.jeditaskid = n.id AND d.type = ANY(:types) AND d.destination IS NULL
""")


def assign_nuclei(tx: Connection, places: Sequence[tuple[int, str, str]]) -> None:
    """Give tasks a nucleus, and their outputs its endpoint: (task, nucleus, endpoint); those with a
    storage token that the nucleus has a space for get that."""
    _NUCLEUS.run(
        tx,
        ids=[task_id for task_id, _, _ in places],
        nuclei=[name for _, name, _ in places],
        endpoints=[endpoint for _, _, endpoint in places],
        types=list(states.PRODUCT_TYPES),
    )
