"""Scouts: a task's files are withheld until its first jobs have measured it.

That a task is at this point is written in its split rules (use_scout). Its files are all there,
ready, but `nfilestobeused` counts only those released, and nobody takes more.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.model.jobs.scouting import (
    Declared,
    Master,
    Measured,
    Progress,
    Release,
    Scout,
    Scouted,
    TimedOut,
    released,
)
from jedi.model.splitting.split_rules import SCOUTED, SCOUTING, SplitRules, render_split_rule
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema import tables
from jedi.taskbuffer.schema.all_jobs import all_files, all_jobs
from jedi.taskbuffer.schema.dataset_rules import LISTED, LISTED_MASTER
from jedi.taskbuffer.tasks import tasks

_AS_THEY_ARE: Mapping[int, float | None] = MappingProxyType({})


_WITHHOLD = changes("""
WITH r AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:files AS bigint[]), CAST(:events AS bigint[]))
    r(id, files, events)
), c AS (
  SELECT r.id, count(*) AS files, sum(f.events) AS events
  FROM r, LATERAL (
    SELECT events, sum(events) OVER (ORDER BY fileid) AS so_far FROM (
      SELECT fileid, coalesce(endevent - startevent + 1, nevents) AS events
      FROM jedi_dataset_contents c WHERE c.datasetid = r.id
        AND c.status NOT IN (
          'pending', 'staging', 'waiting', 'lost', 'missing', 'broken', 'skipped')
      ORDER BY fileid LIMIT r.files) f) f
  WHERE r.events IS NULL OR f.so_far <= r.events
  GROUP BY r.id
)
UPDATE jedi_datasets d SET neventstobeused = c.events,
  nfilestobeused = greatest(coalesce(c.files, 0), d.nfilesused) + d.nfilesmissing
FROM r LEFT JOIN c USING (id) WHERE d.datasetid = r.id
""")


class FedMaster(NamedTuple):
    """A master of a task: all files and events, and those that may be used."""

    jedi_task_id: int
    dataset_id: int
    n_files: int
    n_events: int
    files: int
    events: int


_FED = returns(FedMaster)(f"""
SELECT jeditaskid, datasetid, nfiles,
  coalesce(nevents, 0) AS n_events, nfilestobeused - nfilesmissing AS files,
  coalesce(neventstobeused, 0) AS events
FROM jedi_datasets d WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND {LISTED_MASTER}
ORDER BY datasetid FOR NO KEY UPDATE
""")


def withhold(
    tx: Connection, rules: Mapping[int, SplitRules], jobs: int, growing: Collection[int]
) -> None:
    """Release the input of the first `jobs` only, of tasks that were just fed and have more jobs
    than that, or may get them (`growing`): those are scouts, and no more while these are at work.
    `rules` by task; the caller has locked the tasks."""
    found: dict[int, list[FedMaster]] = {}
    rows = _FED.rows(tx, ids=list(rules)) if rules else []
    for row in rows:
        found.setdefault(row.jedi_task_id, []).append(row)
    releases: dict[int, list[Release]] = {}
    for task_id, some in found.items():
        known = [Master(row.dataset_id, row.n_files, row.n_events) for row in some]
        usable = [Master(row.dataset_id, row.files, row.events) for row in some]
        more = task_id in growing or bool(released(known, rules[task_id], jobs))
        releases[task_id] = released(usable, rules[task_id], jobs, more=more)
    limits = [one for some in releases.values() for one in some]
    if limits:
        values = {
            "ids": [one.dataset_id for one in limits],
            "files": [one.n_files for one in limits],
            "events": [one.n_events for one in limits],
        }
        _WITHHOLD.run(tx, **values)
        begun = [task for task in releases if releases[task] and not rules[task].scouting]
        set_rules(tx, {task: rules[task].then(SCOUTING) for task in begun})


_LIMITED = returns(tuple[int, dict[str, Any]])("""
SELECT jeditaskid, rules FROM jedi_tasks
WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND rules ->> 'use_scout' = :scouting
""")
_LOCK_MASTERS = changes(f"""
SELECT FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
  AND masterid IS NULL AND type IN ({MASTER_TYPES}) ORDER BY datasetid FOR NO KEY UPDATE
""")
_RELEASE = changes(f"""
WITH c AS (
  SELECT datasetid, count(*) AS files,
    sum(coalesce(endevent - startevent + 1, nevents)) AS events
  FROM jedi_dataset_contents
  WHERE datasetid = ANY(ARRAY(
      SELECT datasetid FROM jedi_datasets WHERE jeditaskid = ANY(CAST(:ids AS bigint[]))
        AND masterid IS NULL AND type IN ({MASTER_TYPES})))
    AND status NOT IN ('pending', 'staging', 'waiting', 'skipped')
  GROUP BY datasetid
)
UPDATE jedi_datasets d SET nfilestobeused = c.files, neventstobeused = c.events,
  modificationtime = jedi_now()
FROM c WHERE d.datasetid = c.datasetid AND d.jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


def release(
    tx: Connection, task_ids: Sequence[int], sizes: Mapping[int, float | None] = _AS_THEY_ARE
) -> None:
    """The files of those tasks whose files are withheld may all be used; the others are left
    alone. `sizes`: GB of a job from now on, by task. The caller has locked the tasks."""
    wanted = {"ids": list(task_ids), "scouting": str(SCOUTING)}
    withheld = dict(_LIMITED.rows(tx, **wanted))
    if not withheld:
        return
    ids = {"ids": list(withheld)}
    _LOCK_MASTERS.run(tx, **ids)
    _RELEASE.run(tx, **ids)
    rules = {i: SplitRules.model_validate(rules).then(SCOUTED) for i, rules in withheld.items()}
    resized = {
        task_id: rules[task_id].model_copy(update={"n_gb_per_job": size})
        for task_id, size in sizes.items()
        if size and task_id in rules
    }
    set_rules(tx, rules | resized)
    wake(tx, "files:ready")


_SET_RULES = changes("""
UPDATE jedi_tasks t SET rules = CAST(r.rules AS jsonb), splitrule = r.splitrule
FROM unnest(CAST(:ids AS bigint[]), CAST(:rules AS text[]),
  CAST(:texts AS text[])) r(id, rules, splitrule) WHERE t.jeditaskid = r.id
""")


_RULES = returns(tuple[int, dict[str, Any]])("""
SELECT jeditaskid, rules FROM jedi_tasks WHERE jeditaskid = ANY(:ids)
""")


def rules_of(tx: Connection, task_ids: Sequence[int]) -> dict[int, SplitRules]:
    """The split rules of tasks."""
    found = dict(_RULES.rows(tx, ids=list(task_ids)))
    return {task_id: SplitRules.model_validate(rules) for task_id, rules in found.items()}


def set_rules(tx: Connection, rules: Mapping[int, SplitRules]) -> None:
    """Let tasks, which the caller has locked, have these rules."""
    _SET_RULES.run(
        tx,
        ids=list(rules),
        rules=[one.model_dump_json(exclude_none=True) for one in rules.values()],
        texts=list(map(render_split_rule, rules.values())),
    )


_JOB = """
SELECT j.jeditaskid,
  coalesce(j.wall_s, extract(epoch FROM j.endtime - j.starttime), 0) AS wall_s,
  coalesce(nullif(greatest(extract(epoch FROM j.endtime - j.starttime), 0), 0), j.wall_s, 0)
    AS lasted_s,
  coalesce(j.cpu_s, 0) AS cpu_s, j.cores, coalesce(nullif(s.corepower, 0), 10) AS core_power,
  j.n_inputs AS n_files, j.n_events,
  coalesce(nullif(j.max_pss_kb, 0), j.max_rss_kb, 0) AS memory_kb,
  coalesce(j.workdir_kb, 0) AS workdir_kb, coalesce(j.input_bytes, 0) AS input_bytes,
  coalesce(j.output_bytes, 0) AS output_bytes,
  coalesce(j.read_bytes, 0) + coalesce(j.write_bytes, 0) AS local_bytes,
  j.endtime, j.pandaid
FROM {table} j LEFT JOIN jedi_sites s USING (site)
WHERE j.jeditaskid = ANY(CAST(:ids AS bigint[])) AND j.kind = ANY(:kinds)
  AND j.status = 'finished'
"""
_ALL = all_jobs("jeditaskid, pandaid, kind, status")
_UNITS = all_jobs("jeditaskid, unit_nr, kind")
_UNIT_STATES = all_jobs("jeditaskid, unit_nr, kind, status")
_TIMED = all_jobs(
    "jeditaskid, unit_nr, kind, n_events, endtime, starttime, wall_s, site, error_code, error_diag"
)
_FILES = all_files("pandaid, datasetid, type, fsize")
_LIMITS_OF_TIME = ("wall_limit", "cpu_limit")
_PILOT_ENDED = ("lost_pilot", "lost_node", "pilot_terminated", "lost_heartbeat", "lost_site")
_LARGEST = returns(tuple[int, int])(f"""
SELECT jeditaskid, CAST(coalesce(max(size), 0) AS bigint) AS size FROM (
  SELECT j.jeditaskid, sum(f.fsize) AS size
  FROM {_ALL} j JOIN {_FILES} f USING (pandaid)
  WHERE j.jeditaskid = ANY(CAST(:ids AS bigint[])) AND j.kind = 'scout' AND j.status = 'finished'
    AND f.type = 'output'
  GROUP BY j.jeditaskid, f.datasetid) s
GROUP BY jeditaskid
""")


class LateScout(NamedTuple):
    """The longest attempt of a scout that a limit on time ended."""

    jedi_task_id: int
    unit_nr: int
    lasted_s: float
    n_events: int


_TIMED_OUT = returns(LateScout)(f"""
SELECT jeditaskid, unit_nr, CAST(max(lasted_s) AS float8) AS lasted_s,
  max(n_events) AS n_events FROM (
  SELECT j.jeditaskid, j.unit_nr, j.n_events, coalesce(
      nullif(greatest(extract(epoch FROM j.endtime - j.starttime), 0), 0), j.wall_s, 0) AS lasted_s
  FROM {_TIMED} j LEFT JOIN jedi_sites s USING (site)
  WHERE j.jeditaskid = ANY(CAST(:ids AS bigint[])) AND j.kind = 'scout' AND j.n_events > 1
    AND (j.error_code = ANY(:limits) OR j.error_code = ANY(:ended) AND (
      -- the site's own limit, or what the batch system says of the end
      s.maxtime > 0 AND j.endtime - j.starttime >= make_interval(secs => s.maxtime)
      OR j.error_diag ~* '(time-?out|time ?limit|runlimit|walltime)'))
    AND NOT EXISTS (
      SELECT FROM {_UNIT_STATES} f WHERE f.jeditaskid = j.jeditaskid AND f.unit_nr = j.unit_nr
        AND f.kind = 'scout' AND f.status = 'finished' OFFSET 0)) j
GROUP BY jeditaskid, unit_nr ORDER BY jeditaskid, unit_nr
""")


class MasterFileCounts(NamedTuple):
    """The numbers of master files of a task."""

    jedi_task_id: int
    n_files: int
    finished: int
    failed: int


class ScoutJob(NamedTuple):
    """A finished job as its scout figures (see Scout), in the order in which jobs ended."""

    jedi_task_id: int
    wall_s: float
    lasted_s: float
    cpu_s: float
    cores: int
    core_power: float
    n_files: int
    n_events: int | None
    memory_kb: int
    workdir_kb: int
    input_bytes: int
    output_bytes: int
    local_bytes: int
    end_time: datetime
    panda_id: int


_JOBS = returns(ScoutJob)(f"""
{_JOB.format(table="jedi_jobs")} UNION ALL {_JOB.format(table="jedi_jobs_archived")}
ORDER BY jeditaskid, endtime, pandaid
""")


HEARD = f"""
AND (rules ->> 'use_scout' IS DISTINCT FROM '{SCOUTING}'
  OR statechangetime <= jedi_now() - make_interval(secs => :open_wait_s)
  OR :scouts <= (SELECT count(DISTINCT unit_nr) FROM {_UNITS} j
                 WHERE j.jeditaskid = jedi_tasks.jeditaskid AND j.kind = 'scout' OFFSET 0)
  OR NOT EXISTS (
    SELECT FROM jedi_datasets d WHERE d.jeditaskid = jedi_tasks.jeditaskid
      AND d.masterid IS NULL AND d.type IN ({MASTER_TYPES}) AND d.status = 'running' OFFSET 0))
"""
"""SQL: no more scouts are waited for: there are `scouts` of them, their input is not open any
more, or the first was made `open_wait_s` ago."""

_PROGRESS = returns(MasterFileCounts)(f"""
SELECT jeditaskid, CAST(sum(nfiles) AS bigint) AS n_files,
  CAST(sum(nfilesfinished) AS bigint) AS finished, CAST(sum(nfilesfailed) AS bigint) AS failed
FROM jedi_datasets d WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND {LISTED_MASTER}
GROUP BY jeditaskid
""")


def scouted(tx: Connection, claimed: Sequence[ClaimedTask]) -> dict[int, Scouted]:
    """The facts about scouts of those tasks (rows of jedi_tasks) whose files are withheld."""
    rows = {t.jedi_task_id: t for t in claimed if (t.rules or {}).get("use_scout") == SCOUTING}
    if not rows:
        return {}
    ids = {"ids": list(rows)}
    finished: dict[int, list[Scout]] = {task_id: [] for task_id in rows}
    for job in _JOBS.rows(tx, **ids, kinds=["scout"]):
        finished[job.jedi_task_id].append(_scout(job))
    late: dict[int, list[TimedOut]] = {task_id: [] for task_id in rows}
    codes = {"limits": list(_LIMITS_OF_TIME), "ended": list(_PILOT_ENDED)}
    ranged = [i for i, t in rows.items() if Declared.of(t).events_per_job]
    if ranged:
        for scout in _TIMED_OUT.rows(tx, **codes, ids=ranged):
            late[scout.jedi_task_id].append(TimedOut(scout.lasted_s, scout.n_events))
    largest = dict(_LARGEST.rows(tx, **ids))
    return {
        row.jedi_task_id: Scouted(
            declared=Declared.of(rows[row.jedi_task_id]),
            progress=Progress(row.n_files, row.finished, row.failed),
            finished=tuple(finished[row.jedi_task_id]),
            largest_output=largest.get(row.jedi_task_id, 0),
            timed_out=tuple(late[row.jedi_task_id]),
        )
        for row in _PROGRESS.rows(tx, **ids)
    }


def _scout(row: ScoutJob) -> Scout:
    return Scout(**{name: getattr(row, name) for name in Scout.__dataclass_fields__})


_COLUMNS = {name: tables.tasks.c[name].name for name in Measured.__dataclass_fields__}
FIGURES = """
figures = CASE WHEN r.figures IS NULL THEN t.figures ELSE coalesce(t.figures, '{}') || (
  SELECT coalesce(jsonb_object_agg(f.key, coalesce(t.figures -> f.key, '{}') || f.value), '{}')
  FROM jsonb_each(r.figures) f) END
"""
"""Sets the values of figures of a task `t`, with those of `r`."""
_STORE = changes(f"""
UPDATE jedi_tasks t SET measured_jobs = r.measured_jobs, {FIGURES},
  {", ".join(f"{c} = coalesce(r.{c}, t.{c})" for c in _COLUMNS.values() if c != "figures")}
FROM jsonb_populate_recordset(NULL::jedi_tasks, CAST(:rows AS jsonb)) r
WHERE t.jeditaskid = r.jeditaskid
""")


_ENOUGH = f"""
AND rules ->> 'use_scout' = :scouting
AND EXISTS (
  SELECT FROM {_ALL} j WHERE j.jeditaskid = jedi_tasks.jeditaskid AND j.kind = 'scout'
  HAVING 100 * count(*) FILTER (WHERE j.status = 'finished') >= :percent * greatest(count(*), 1)
  OFFSET 0)
AND NOT EXISTS (
  SELECT FROM jedi_datasets d WHERE d.jeditaskid = jedi_tasks.jeditaskid AND d.masterid IS NULL
    AND {LISTED} AND d.nfilestobeused > d.nfilesused + d.nfilesmissing
  OFFSET 0)
"""


def claim_early(
    tx: Connection, me: str, lease_s: float, limit: int, percent: float, scouts: Mapping[str, Any]
) -> list[ClaimedTask]:
    """Take tasks so many percent of whose scouts have finished, though others are at work yet.
    `scouts`: values of HEARD."""
    return tasks.claim(
        tx,
        ["scouting"],
        me,
        lease_s,
        limit,
        _ENOUGH + HEARD,
        percent=percent,
        scouting=str(SCOUTING),
        **scouts,
    )


_TO_MEASURE = returns(ClaimedTask)(f"""
SELECT {tasks.COLUMNS} FROM jedi_tasks t, LATERAL (
  SELECT CAST(count(*) AS int) AS n FROM (
    SELECT FROM {_ALL} j WHERE j.jeditaskid = t.jeditaskid
      AND j.kind IN ('scout', 'normal') AND j.status = 'finished'
      -- most tasks have live jobs and no finished one: a finished job has a finished file
      AND (SELECT bool_or(d.nfilesfinished > 0) FROM jedi_datasets d
        WHERE d.jeditaskid = t.jeditaskid)
    LIMIT :last) j OFFSET 0) j
WHERE t.status = 'running' AND t.measured_jobs < :last
  AND t.{tasks.UNCLAIMED}
  AND EXISTS (SELECT FROM unnest(CAST(:steps AS int[])) s(at)
              WHERE t.measured_jobs < s.at AND j.n >= s.at)
ORDER BY t.jeditaskid LIMIT :limit FOR NO KEY UPDATE OF t SKIP LOCKED
""")


def to_measure(
    tx: Connection, steps: Sequence[int], limit: int
) -> dict[int, tuple[Declared, int, tuple[Scout, ...]]]:
    """Working tasks that have come to one of these numbers of finished jobs since they were
    measured, and are locked now: what they say, that number, and these jobs, the first first."""
    values = {"steps": list(steps), "last": max(steps, default=0), "limit": limit}
    claimed = _TO_MEASURE.rows(tx, **values)
    rows = {row.jedi_task_id: row for row in claimed}
    jobs: dict[int, list[Scout]] = {task_id: [] for task_id in rows}
    if rows:
        found = {"ids": list(rows), "kinds": ["scout", "normal"]}
        for job in _JOBS.rows(tx, **found):
            jobs[job.jedi_task_id].append(_scout(job))
    return {i: (Declared.of(row), len(jobs[i]), tuple(jobs[i])) for i, row in rows.items()}


def store_measured(tx: Connection, found: Mapping[int, tuple[Measured, int]]) -> None:
    """Write what was measured, and of how many finished jobs; the rest stays. The caller has locked
    the tasks."""
    rows = [
        {
            "jeditaskid": task_id,
            "measured_jobs": jobs,
            **{_COLUMNS[k]: v for k, v in asdict(measured).items()},
        }
        for task_id, (measured, jobs) in found.items()
    ]
    _STORE.run(tx, rows=json.dumps(rows))
