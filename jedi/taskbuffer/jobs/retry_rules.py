"""jedi_retry_rules, and what they do when jobs fail: some rules at once to the inputs of the job,
others later to its task (watchdog/retries.py).

PostgreSQL matches the messages: its expressions run in a time that grows with the text alone, as
long as they have no back-references, which spec.retryrule refuses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DataError

from jedi.model.jobs.retry_rules import CONDITIONS, FOR_JOBS, RetryRule, RuleMatch, effect
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import INPUT_FILE_TYPES, MASTER_TYPES, PRE_MERGE_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema.all_jobs import all_jobs
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER
from jedi.taskbuffer.tasks import scouting, tasks
from jedi.taskbuffer.tasks.tasks import UNCLAIMED

_FIELDS = (*RetryRule.model_fields,)

# ------------------------------------------------------------------------------------- rules


class RetryRuleRow(NamedTuple):
    """A retry rule; its fields are those of RetryRule."""

    rule_id: int
    active: bool
    error_source: str | None
    error_code: str | None
    exit_code: int | None
    message: str | None
    site: str | None
    queue_id: int | None
    label: str | None
    architecture: str | None
    release: str | None
    action: str
    attempts: int | None
    description: str | None


_RULES = returns(RetryRuleRow)(f"""
SELECT {", ".join(_FIELDS)} FROM jedi_retry_rules WHERE CAST(:ids AS int[]) IS NULL
  OR rule_id = ANY(:ids) ORDER BY rule_id
""")


def rules(tx: Connection, rule_ids: Sequence[int] | None = None) -> list[RetryRuleRow]:
    """All rules, or these, in order."""
    values = {"ids": None if rule_ids is None else list(rule_ids)}
    return _RULES.rows(tx, **values)


_PUT = changes(f"""
INSERT INTO jedi_retry_rules ({", ".join(_FIELDS)}, username, modificationtime)
SELECT {", ".join(f"r.{name}" for name in _FIELDS)}, :user, jedi_now()
FROM unnest(CAST(:rows AS text[])) row,
  jsonb_populate_record(NULL::jedi_retry_rules, CAST(row AS jsonb)) r
ON CONFLICT (rule_id) DO UPDATE SET
  {", ".join(f"{name} = excluded.{name}" for name in (*_FIELDS, "username", "modificationtime"))}
""")


def put(tx: Connection, rows: Sequence[Mapping[str, Any]], user_name: str) -> None:
    """Insert or replace rules, identified by rule_id."""
    _PUT.run(tx, rows=[json.dumps(row) for row in rows], user=user_name)


_MISTAKE = changes("SELECT '' ~ :pattern")


def mistake(tx: Connection, pattern: str) -> str | None:
    """Return the mistake in a regular expression; None: it is valid."""
    try:
        with tx.begin_nested():
            _MISTAKE.run(tx, pattern=pattern)
    except DataError as error:
        return str(error.orig).splitlines()[0]
    return None


# ------------------------------------------------------------------------- when jobs have failed

_HOLDS = " AND ".join(
    {
        "message": "(r.message IS NULL OR j.error_diag ~ r.message)",
        "queue_id": "(r.queue_id IS NULL OR r.queue_id = j.workqueue_id)",
        "label": "(r.label IS NULL OR r.label = j.prodsourcelabel)",
        "architecture": "(r.architecture IS NULL OR r.architecture = t.architecture)",
        "release": "(r.release IS NULL OR r.release = t.transuses)",
    }.get(name, f"(r.{name} IS NULL OR r.{name} = j.{name})")
    for name in sorted(CONDITIONS, key="message".__eq__)  # the dearest last
)
_BY_CORE = "t.ramunit LIKE 'MBPerCore%' AND j.kind <> 'merge'"


def _in_unit(total: str) -> str:
    return (
        f"CAST(CASE WHEN {_BY_CORE} THEN ({total} - coalesce(t.baseramcount, 0)) "
        f"/ greatest(j.cores, 1) ELSE {total} END AS float8)"
    )


# Jobs that failed on account of an input say nothing about the others.
_MATCHES = returns(RuleMatch)(f"""
SELECT j.pandaid, r.rule_id, j.jeditaskid, r.active, r.action,
  r.attempts, {_in_unit("j.memory_mb / :factor")} AS asked_mb,
  {_in_unit("coalesce(nullif(j.max_pss_kb, 0), j.max_rss_kb, 0) / 1024.0")} AS used_mb,
  CAST(t.rules ->> 'retry_ram_offset' AS int) AS ram_offset,
  CAST(t.rules ->> 'retry_ram_step' AS int) AS ram_step,
  CAST(t.rules ->> 'retry_ram_max' AS int) AS ram_max
FROM jedi_jobs j JOIN jedi_tasks t USING (jeditaskid) JOIN jedi_retry_rules r ON {_HOLDS}
WHERE j.pandaid = ANY(CAST(:ids AS bigint[])) AND j.status = 'failed'
  AND NOT EXISTS (SELECT FROM jedi_job_files f
                  WHERE f.pandaid = j.pandaid AND f.problem IS NOT NULL)
ORDER BY j.pandaid, r.rule_id
""")
_NOTE = changes("""
INSERT INTO jedi_retry_matches (pandaid, rule_id, jeditaskid, effect, settled_at)
SELECT id, rule, task, effect, CASE WHEN settled THEN jedi_now() END
FROM unnest(CAST(:ids AS bigint[]), CAST(:rules AS int[]), CAST(:tasks AS bigint[]),
  CAST(:effects AS text[]), CAST(:settled AS bool[])) m(id, rule, task, effect, settled)
""")
_OBEY = changes(f"""
WITH m AS (
  SELECT id, min(attempts) AS attempts, max(ram_mb) AS ram_mb
  FROM unnest(CAST(:ids AS bigint[]), CAST(:attempts AS int[]), CAST(:ram_mb AS int[]))
    m(id, attempts, ram_mb)
  GROUP BY id
)
UPDATE jedi_dataset_contents c SET
  maxattempt = CASE WHEN m.attempts IS NULL THEN c.maxattempt
                    ELSE greatest(c.attemptnr, least(c.maxattempt, m.attempts + c.freeattempt)) END,
  ramcount = CASE WHEN c.type IN ({MASTER_TYPES}, {PRE_MERGE_TYPES})
    THEN greatest(c.ramcount, m.ram_mb)
                  ELSE c.ramcount END
FROM m JOIN jedi_job_files f ON f.pandaid = m.id
WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND c.fileid = f.fileid
  AND c.pandaid = m.id AND c.type IN ({INPUT_FILE_TYPES})
""")


def obey(tx: Connection, panda_ids: Sequence[int]) -> None:
    """Do to the inputs of failed jobs what rules say, and note it, in a constant number of
    statements. Their datasets are locked, and their files not yet given back."""
    factor = knobs.load(tx)["broker.memory_factor"] or 1.0
    values = {"ids": list(panda_ids), "factor": factor}
    found = _MATCHES.rows(tx, **values)
    if not found:
        return
    effects = [effect(one) for one in found]
    _NOTE.run(
        tx,
        ids=[one.panda_id for one in found],
        rules=[one.rule_id for one in found],
        tasks=[one.jedi_task_id for one in found],
        effects=[
            f"{m.action}: {e.sentence if m.active else 'the rule is passive'}"
            for m, e in zip(found, effects, strict=True)
        ],
        settled=[not m.active or m.action in FOR_JOBS for m in found],
    )
    done = [(m, e) for m, e in zip(found, effects, strict=True) if m.active]
    _OBEY.run(
        tx,
        ids=[m.panda_id for m, _ in done],
        attempts=[e.attempts for _, e in done],
        ram_mb=[e.ram_mb for _, e in done],
    )


# ------------------------------------------------------------------------- what tasks are due

_OPEN = returns(ClaimedTask)(f"""
SELECT {tasks.COLUMNS} FROM jedi_tasks t WHERE jeditaskid IN (
    SELECT jeditaskid FROM jedi_retry_matches WHERE settled_at IS NULL)
  AND {UNCLAIMED}
ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")
# A file names its last job, so that attempts of the same work count once. Released files without a
# job are to make jobs of the mean size.
_WANTED = returns(tuple[int, int])(f"""
WITH d AS (
  SELECT d.datasetid, d.jeditaskid, coalesce(t.ramcount, 0) AS ramcount,
    sum(d.nfilestobeused - d.nfilesmissing) OVER (PARTITION BY d.jeditaskid) AS files
  FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
  WHERE d.jeditaskid = ANY(CAST(:ids AS bigint[])) AND {LISTED_MASTER}
), j AS (
  SELECT d.jeditaskid, d.files, count(*) AS taken,
    max(c.ramcount) FILTER (WHERE c.ramcount > d.ramcount) AS ramcount
  FROM d JOIN jedi_dataset_contents c USING (datasetid)
  WHERE c.pandaid IS NOT NULL AND c.status NOT IN ('lost', 'missing', 'broken')
  GROUP BY d.jeditaskid, d.files, c.pandaid
), n AS (
  SELECT jeditaskid, ramcount, files, sum(count(*)) OVER task AS jobs, sum(sum(taken)) OVER task
    AS taken, sum(count(*)) OVER (task ORDER BY ramcount DESC NULLS LAST) AS failed
  FROM j GROUP BY jeditaskid, ramcount, files WINDOW task AS (PARTITION BY jeditaskid)
)
SELECT jeditaskid, max(ramcount) AS ramcount FROM n
WHERE 100 * failed >= :percent * (jobs + ceil(greatest(files - taken, 0) * jobs / taken))
  AND ramcount IS NOT NULL
GROUP BY jeditaskid
""")


ANY_DUE = returns(bool)("""
-- Return True if a match waits to change its task.
SELECT EXISTS (SELECT FROM jedi_retry_matches WHERE settled_at IS NULL)
""")


def due(tx: Connection, limit: int) -> dict[int, ClaimedTask]:
    """Tasks (rows of jedi_tasks) that rules are to change, locked now."""
    rows = _OPEN.rows(tx, limit=limit)
    return {row.jedi_task_id: row for row in rows}


class RetryCause(NamedTuple):
    """The change that rules want of a task: the highest attempt of the jobs concerned (of those
    that count), whether another job succeeded, and their time for an event in HS06 s (None: no
    limit is known)."""

    jedi_task_id: int
    action: str
    attempt_nr: int
    succeeded: bool
    hs06_s_per_event: float | None


CAUSES = returns(RetryCause)(f"""
-- The changes of tasks that rules want, each once.
WITH m AS (
  UPDATE jedi_retry_matches SET settled_at = jedi_now()
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND settled_at IS NULL RETURNING *
)
SELECT m.jeditaskid, r.action, max(j.attemptnr - f.free) AS attempt_nr,
  EXISTS (SELECT FROM {all_jobs("jeditaskid, status")} k
          WHERE k.jeditaskid = m.jeditaskid AND k.status = 'finished') AS succeeded, max(
    s.maxtime * coalesce(nullif(s.corepower, 0), 10) * j.cores / greatest(j.n_events, j.n_inputs, 1)
  ) AS hs06_s_per_event
FROM m JOIN jedi_retry_rules r USING (rule_id)
  JOIN {all_jobs("pandaid, site, cores, attemptnr, n_events, n_inputs")} j USING (pandaid)
  LEFT JOIN jedi_sites s ON s.site = j.site, LATERAL (
    SELECT coalesce(max(c.freeattempt), 0) AS free
    FROM jedi_job_files f JOIN jedi_dataset_contents c USING (fileid)
    WHERE f.pandaid = m.pandaid AND c.pandaid = m.pandaid AND f.type IN ({MASTER_TYPES})) f
GROUP BY m.jeditaskid, r.action
""")


def wanted_memory(tx: Connection, task_ids: Sequence[int], percent: float) -> dict[int, int]:
    """Tasks so many percent of whose jobs (also of those that released files are still to make)
    failed on memory and need more than the task asks for, and how much that is at least."""
    values = {"ids": list(task_ids), "percent": percent}
    return dict(_WANTED.rows(tx, **values))


_CHANGE = changes(f"""
UPDATE jedi_tasks t SET {scouting.FIGURES}, ramcount = coalesce(r.ramcount, t.ramcount),
  resource_type = coalesce(r.resource_type, t.resource_type),
  cputime = coalesce(r.cputime, t.cputime), cputimeunit = coalesce(r.cputimeunit, t.cputimeunit),
  measured_jobs = coalesce(r.measured_jobs, t.measured_jobs)
FROM jsonb_populate_recordset(NULL::jedi_tasks, CAST(:rows AS jsonb)) r
WHERE t.jeditaskid = r.jeditaskid
""")


def change(
    tx: Connection,
    columns: Mapping[int, Mapping[str, Any]],
    rules: Mapping[int, SplitRules],
) -> None:
    """Give tasks, which the caller has locked, columns of jedi_tasks, and split rules. Their next
    jobs may have waited for that."""
    rows = [{"jeditaskid": task_id, **given} for task_id, given in columns.items()]
    _CHANGE.run(tx, rows=json.dumps(rows))
    scouting.set_rules(tx, rules)
    wake(tx, "files:ready")


# ------------------------------------------------------------------------------- for operators

_ALL = all_jobs(
    "pandaid, jeditaskid, status, error_source, error_code, error_diag, exit_code, site, "
    "workqueue_id, prodsourcelabel"
)


@dataclass(frozen=True, slots=True)
class Tested:
    """A rule, with the number of failed jobs that it matches and the last of them."""

    rule_id: int
    active: bool
    action: str
    attempts: int | None
    description: str | None
    jobs: int
    examples: list[int] | None


TEST = returns(Tested)(f"""
-- For each rule, how many failed jobs (of one task, if it is given) it holds for, and the last of
-- these.
SELECT r.rule_id, r.active, r.action, r.attempts, r.description, count(j.pandaid) AS jobs,
  (array_agg(j.pandaid ORDER BY j.pandaid DESC) FILTER (WHERE j.pandaid IS NOT NULL))[1:5]
    AS examples
FROM jedi_retry_rules r LEFT JOIN {_ALL} j
  JOIN jedi_tasks t USING (jeditaskid) ON {_HOLDS} AND j.status = 'failed'
    AND (CAST(:task AS bigint) IS NULL OR j.jeditaskid = :task)
GROUP BY r.rule_id ORDER BY r.rule_id
""")
