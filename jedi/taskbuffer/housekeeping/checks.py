"""The invariants of the database, each a query that judges every row it examines.

A query reads one snapshot, so a system at work is judged fairly. Everything is joined set by set:
that stays fast where a look-up a row would not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.states import Machine
from jedi.model.splitting.split_rules import SCOUTING
from jedi.taskbuffer.db.sql_lists import (
    CONSUMER_KINDS,
    FED_TYPES,
    INPUT_TYPES,
    JOB_LIVE,
    OUTPUT_TYPES,
    PRE_MERGE_TYPES,
    listed,
)
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.housekeeping import (
    event_checks,
    file_checks,
    registry_checks,
    unit_checks,
)
from jedi.taskbuffer.inputs.contents import LEFT_OUT_ROWS
from jedi.taskbuffer.jobs import archive_groups
from jedi.taskbuffer.schema import all_jobs

SHOWN = 20
"""Number of violating ids in a report."""


@dataclass(frozen=True, slots=True)
class Invariant:
    """A rule: its name, what it says, what an id is the id of, the SELECT of its rows, and two
    conditions: the rows that it examines, and those of them that break it. One look at rows serves
    all rules about them."""

    name: str
    meaning: str
    of: str
    rows: str
    among: str = "true"
    bad: str = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of an invariant's check: `ids` are the first SHOWN of the violating ones."""

    invariant: str
    meaning: str
    of: str
    examined: int
    violations: int
    ids: list[int | str]


_JOB = "pandaid, jeditaskid, status, site, workqueue_id, gshare, resource_type, cores"
_JOBS = all_jobs.all_jobs(_JOB)
_LOGGED = all_jobs.all_jobs(
    "pandaid, status, tableoid = 'jedi_jobs_archived'::regclass AS archived"
)

_EVENTS = "coalesce(endevent - startevent + 1, nevents)"
_RELEASED = "status NOT IN ('pending', 'staging', 'waiting', 'skipped')"
_INPUT_COUNTERS = {
    "nfiles": "count(*) FILTER (WHERE status <> 'skipped')",
    "nfilestobeused": f"count(*) FILTER (WHERE {_RELEASED})",
    "nfilesused": "count(*) FILTER (WHERE status IN "
    "('picked', 'running', 'partial', 'finished', 'failed'))",
    "nfilesfinished": "count(*) FILTER (WHERE status = 'finished')",
    "nfilesfailed": "count(*) FILTER (WHERE status = 'failed')",
    "nfilesmissing": "count(*) FILTER (WHERE status IN ('lost', 'missing', 'broken'))",
    "nfilesonhold": "0",
    "nfileswaiting": "count(*) FILTER (WHERE is_waiting = 'Y')",
    "nleftout": "count(*) FILTER (WHERE status = 'skipped')",
    "nevents": f"sum({_EVENTS})",
    "neventstobeused": f"sum({_EVENTS}) FILTER (WHERE {_RELEASED})",
    "neventsused": f"sum({_EVENTS}) FILTER (WHERE status = 'finished')",
}
_OUTPUT_COUNTERS = ("nfiles", "nfilesfinished", "nfilesfailed")


_KEPT = {"nleftout": f"least(d.nleftout, {LEFT_OUT_ROWS})"}  # the others have no row
_COMPARED = ", ".join(f"('{n}', {_KEPT.get(n, f'd.{n}')}, c.{n})" for n in _INPUT_COUNTERS)
_COUNTERS = f"""
SELECT d.datasetid || '.' || k.name, coalesce(k.kept, 0) <> coalesce(k.counted, 0)
  AND NOT (k.name = ANY('{{nfilestobeused,neventstobeused}}') AND coalesce(k.kept, 0) < k.counted
    AND EXISTS (SELECT FROM jedi_tasks t WHERE t.jeditaskid = d.jeditaskid
                AND t.rules ->> 'use_scout' = '{SCOUTING}')),
  k.name AS counter, d.type IN ({INPUT_TYPES}) AS is_input
FROM jedi_datasets d LEFT JOIN (
  SELECT datasetid, jeditaskid, {", ".join(f"{a} AS {b}" for b, a in _INPUT_COUNTERS.items())}
  FROM jedi_dataset_contents GROUP BY datasetid, jeditaskid) c USING (datasetid, jeditaskid),
LATERAL (VALUES {_COMPARED}) k(name, kept, counted)"""
"""One row a dataset and counter; a count of nothing may be kept as NULL. What is withheld until
scouts have measured the task is not counted as to be used."""


_STATISTICS = f"""
SELECT concat_ws('/', site, workqueue, gshare, resource_type, status),
  (coalesce(s.jobs, 0), coalesce(s.cores, 0)) <> (coalesce(j.jobs, 0), coalesce(j.cores, 0))
FROM (
  SELECT site, workqueue, gshare, resource_type, status, sum(jobs) AS jobs, sum(cores) AS cores
  FROM (SELECT site, workqueue, gshare, resource_type, status, jobs, cores FROM job_stats UNION ALL
        SELECT site, workqueue, gshare, resource_type, status, jobs, cores FROM job_stats_delta) s
  GROUP BY site, workqueue, gshare, resource_type, status) s
FULL JOIN (
  SELECT site, workqueue_id AS workqueue, gshare, resource_type, status, count(*) AS jobs,
    sum(cores) AS cores
  FROM {_JOBS} j GROUP BY site, workqueue_id, gshare, resource_type, status) j
USING (site, workqueue, gshare, resource_type, status)"""

_ARCHIVED = f"""
SELECT concat_ws('/', jeditaskid, kind, status, site),
  ({", ".join(f"s.{name}" for name in archive_groups.FIGURES)})
  IS DISTINCT FROM ({", ".join(f"j.{name}" for name in archive_groups.FIGURES)})
FROM job_stats_archived s FULL JOIN ({archive_groups.groups("jedi_jobs_archived")}) j
USING ({archive_groups.KEY})"""

_COUNTED = f"""
SELECT t.jeditaskid, coalesce(j.live, false) OR (t.counted_jobs, t.counted_failed)
  <> (coalesce(j.finished, 0) + coalesce(j.failed, 0), coalesce(j.failed, 0))
FROM jedi_tasks t LEFT JOIN (
  SELECT jeditaskid, bool_or(j.status IN ({JOB_LIVE})) AS live,
    count(*) FILTER (WHERE j.status = 'finished') AS finished,
    count(*) FILTER (WHERE j.status = 'failed') AS failed
  FROM {_JOBS} j JOIN jedi_tasks USING (jeditaskid)
  WHERE pandaid <= counted_upto GROUP BY jeditaskid) j USING (jeditaskid)"""


_SUPERSEDED = f"""
SELECT s.pandaid, j.status IS DISTINCT FROM 'finished' OR j.jeditaskid <> s.jeditaskid
  OR s.pandaid IN (
    SELECT pandaid FROM jedi_dataset_contents WHERE type IN ({FED_TYPES}) AND status = 'finished'
      AND (pandaid IN (SELECT pandaid FROM jedi_superseded_jobs)) IS TRUE)  -- a hash
FROM jedi_superseded_jobs s LEFT JOIN {_JOBS} j USING (pandaid)"""

_NAMED_TWICE = f"""
SELECT fileid, count(*) OVER (PARTITION BY jeditaskid, datasetid, lfn) > 1
FROM jedi_dataset_contents WHERE type IN ({OUTPUT_TYPES})"""

_MERGED = f"""
SELECT c.fileid, CASE WHEN c.status = 'pending'
    THEN j.status NOT IN ({JOB_LIVE}) OR j.status = 'merging'
  WHEN c.status IN ('ready', 'running') THEN j.status <> 'merging'
  WHEN c.status = 'finished' THEN j.status <> 'finished'
  ELSE j.status NOT IN ('failed', 'cancelled', 'closed') AND l.fileid IS NULL END
FROM jedi_dataset_contents c JOIN {_JOBS} j ON j.pandaid = c.outpandaid
  LEFT JOIN jedi_lost_files l ON l.fileid = c.fileid AND l.jeditaskid = c.jeditaskid
WHERE c.type IN ({PRE_MERGE_TYPES})"""

_WAITING_FOR_MERGE = f"""
SELECT j.pandaid, c.outpandaid IS NULL
FROM jedi_jobs j LEFT JOIN (
  SELECT DISTINCT outpandaid FROM jedi_dataset_contents
  WHERE type IN ({PRE_MERGE_TYPES}) AND status IN ('ready', 'running')) c
  ON c.outpandaid = j.pandaid
WHERE j.status = 'merging' AND j.kind NOT IN ({CONSUMER_KINDS})"""

_READY = """
SELECT pandaid, r.site IS NULL OR j.status IS NULL
FROM jedi_job_ready r FULL JOIN (
  SELECT pandaid, status FROM jedi_jobs WHERE status = 'activated' AND hold_kind IS NULL) j
USING (pandaid)"""

_FINAL_TASK = f"""
SELECT j.pandaid, t.status IN ({listed(sorted(states.TASK.final))})
FROM jedi_jobs j JOIN jedi_tasks t USING (jeditaskid) WHERE j.status IN ({JOB_LIVE})"""


def _has(child: str, row_id: str, parent: str, *, by: str) -> str:
    """Every row of `child` has its row of `parent`."""
    first = by.split(",", maxsplit=1)[0]
    return f"""
SELECT c.{row_id}, p.{first} IS NULL FROM {child} c LEFT JOIN {parent} p USING ({by})"""


def _path(
    machine: Machine, objects: str, row_id: str, condition: str = "true", lost: str = "true"
) -> str:
    """Every log begins at a beginning, hangs together, and ends where the object is; a hold stays
    where it is. Where there is no log that is bad if it is `lost`."""
    legal = listed(f"{a}>{b}" for a, b in sorted(machine.pairs))
    return f"""
SELECT o.{row_id}, CASE WHEN l.status IS NULL THEN {lost}
                        ELSE l.broken OR l.last AND l.status <> o.status END
FROM {objects} o LEFT JOIN (
  SELECT {row_id}, status, lead(status) OVER w IS NULL AS last,
    fromstatus IS DISTINCT FROM lag(status) OVER w
    OR CASE WHEN fromstatus IS NULL THEN status NOT IN ({listed(sorted(machine.initial))})
            ELSE fromstatus <> status AND fromstatus || '>' || status NOT IN ({legal}) END
    AS broken
  FROM {machine.table}_statuslog WINDOW w AS (PARTITION BY {row_id} ORDER BY log_id)) l
USING ({row_id}) WHERE {condition}"""


INVARIANTS = (
    Invariant(
        "input_counters",
        "counters of input datasets equal their rows",
        "dataset.counter",
        _COUNTERS,
        "is_input",
    ),
    Invariant(
        "output_counters",
        "counters of other datasets equal their rows",
        "dataset.counter",
        _COUNTERS,
        f"NOT is_input AND counter IN ({listed(_OUTPUT_COUNTERS)})",
    ),
    Invariant(
        "job_statistics",
        "job_stats with its deltas equals the jobs",
        "site/queue/share/shape/status",
        _STATISTICS,
    ),
    Invariant(
        "archived_statistics",
        "job_stats_archived equals the archived jobs",
        "task/kind/status/site",
        _ARCHIVED,
    ),
    Invariant(
        "counted_jobs",
        "a task counts its ended jobs up to a PandaID, and none before it lives",
        "task",
        _COUNTED,
    ),
    Invariant(
        "one_live_job",
        "no input file is in two live jobs, but for consumers of its events",
        "file",
        *file_checks.TWO_LIVE_JOBS,
    ),
    Invariant(
        "processed_once",
        "a processed input file is in no other job that lives or succeeded",
        "file",
        *file_checks.PROCESSED_ONCE,
    ),
    Invariant(
        "inputs_of_jobs",
        "inputs of a live job are running, those of a finished job finished",
        "file",
        *file_checks.INPUTS_OF_JOBS,
    ),
    Invariant(
        "shared_inputs",
        "an input file that several jobs may have stays ready",
        "file",
        *file_checks.SHARED_INPUTS,
    ),
    Invariant(
        "one_writer",
        "an output file has one job that lives or succeeded",
        "file",
        *file_checks.ONE_WRITER,
    ),
    Invariant(
        "files_of_jobs", "a live job has inputs and outputs", "job", file_checks.FILES_OF_JOBS
    ),
    Invariant(
        "params_of_jobs",
        "a live job has its parameters",
        "job",
        _has(
            f"(SELECT * FROM jedi_jobs WHERE status IN ({JOB_LIVE}))",
            "pandaid",
            "jedi_job_params",
            by="pandaid",
        ),
    ),
    Invariant(
        "running_inputs",
        "a running input file is in a live job",
        "file",
        *file_checks.RUNNING_INPUTS,
    ),
    Invariant(
        "finished_inputs",
        "a finished input file has its finished job",
        "file",
        *file_checks.FINISHED_INPUTS,
    ),
    Invariant(
        "superseded_jobs",
        "a superseded job had success, and no file counts as finished by it",
        "job",
        _SUPERSEDED,
    ),
    Invariant(
        "finished_outputs",
        "a finished output file has its finished job",
        "file",
        *file_checks.FINISHED_OUTPUTS,
    ),
    Invariant(
        "open_outputs",
        "an output file that is not made yet is in a live job",
        "file",
        *file_checks.OPEN_OUTPUTS,
    ),
    Invariant(
        "done_datasets",
        "no file of a done input dataset is at work",
        "file",
        *file_checks.DONE_DATASETS,
    ),
    Invariant(
        "params_of_task",
        "every task has its parameters",
        "task",
        _has("jedi_tasks", "jeditaskid", "jedi_taskparams", by="jeditaskid"),
    ),
    Invariant(
        "outputs_of_finished_jobs",
        "outputs of a finished job are finished, or lost since",
        "file",
        *file_checks.OUTPUTS_OF_FINISHED_JOBS,
    ),
    Invariant(
        "merged_files", "what is to be merged is as far as the job that made it", "file", _MERGED
    ),
    Invariant(
        "merging_jobs",
        "a merging job has files that are to be merged, or pieces",
        "job",
        _WAITING_FOR_MERGE,
    ),
    Invariant(
        "merging_consumers",
        "a merging consumer has a job set that has not ended",
        "job",
        event_checks.MERGING_CONSUMERS,
    ),
    Invariant(
        "merged_once", "each range of events is merged once", "file", event_checks.MERGED_ONCE
    ),
    Invariant(
        "owned_ranges",
        "a range of events has its file, and its job set or a consumer",
        "file",
        event_checks.OWNED,
    ),
    Invariant(
        "whole_job_sets",
        "a job set has its merge job, and all its ranges until it ends",
        "job set",
        event_checks.WHOLE_SETS,
    ),
    Invariant(
        "pieces", "a processed range that is not merged has its piece", "file", event_checks.PIECES
    ),
    Invariant(
        "dead_consumers",
        "no range of events is with a consumer that has ended",
        "job",
        event_checks.NOT_DEAD,
    ),
    Invariant(
        "jumbo_ranges",
        "ranges of events are marked as those of jumbo jobs if they are",
        "job",
        event_checks.OF_JUMBOS,
    ),
    Invariant(
        "ended_job_sets",
        "a job set that has ended has no open range of events",
        "job set",
        event_checks.SETTLED_SETS,
    ),
    Invariant(
        "whole_herds",
        "a herd has all its units, or none before its split",
        "task",
        unit_checks.WHOLE,
    ),
    Invariant(
        "units_of_jobs", "a job of a herd has a unit, and its origin", "job", unit_checks.OF_JOBS
    ),
    Invariant(
        "killed_units",
        "a killed unit has no ready file and no job that goes on",
        "unit",
        unit_checks.KILLED,
    ),
    Invariant(
        "refused_units", "a refused unit has neither files nor jobs", "unit", unit_checks.REFUSED
    ),
    Invariant(
        "superseded_units",
        "a superseded unit has neither files nor a live job",
        "unit",
        unit_checks.SUPERSEDED,
    ),
    Invariant(
        "registry_leases",
        "a lease of a registry has its holder and its time",
        "registry",
        registry_checks.LEASES,
    ),
    Invariant(
        "registry_records",
        "a job or template has its registry, and an id drawn there",
        "record",
        registry_checks.RECORDS,
    ),
    Invariant(
        "registry_submissions",
        "a job that was submitted has its backend",
        "record",
        registry_checks.SUBMISSIONS,
    ),
    Invariant(
        "registry_subjobs",
        "subjobs have their job, which counts them by status",
        "record",
        registry_checks.SUBJOBS,
    ),
    Invariant(
        "registry_folders",
        "a folder has its registry and its parents",
        "folder",
        registry_checks.FOLDERS,
    ),
    Invariant(
        "registry_links",
        "a link of a folder leads to a job of its registry",
        "link",
        registry_checks.LINKS,
    ),
    Invariant("unique_outputs", "no output dataset has a file name twice", "file", _NAMED_TWICE),
    Invariant(
        "attempts", "no file was tried more often than allowed", "file", *file_checks.ATTEMPTS
    ),
    Invariant(
        "dataset_of_file", "every file has its dataset", "file", *file_checks.DATASET_OF_FILE
    ),
    Invariant(
        "task_of_dataset",
        "every dataset has its task",
        "dataset",
        _has("jedi_datasets", "datasetid", "jedi_tasks", by="jeditaskid"),
    ),
    Invariant(
        "task_of_job",
        "every job has its task",
        "job",
        _has(_JOBS, "pandaid", "jedi_tasks", by="jeditaskid"),
    ),
    Invariant(
        "job_of_files",
        "job files have their job, in the archive as well",
        "job",
        _has("jedi_job_files", "pandaid", "jedi_jobs", by="pandaid")
        + " UNION ALL "
        + _has("jedi_job_files_archived", "pandaid", "jedi_jobs_archived", by="pandaid"),
    ),
    Invariant(
        "job_of_params",
        "job parameters have their job",
        "job",
        _has("jedi_job_params", "pandaid", _JOBS, by="pandaid"),
    ),
    Invariant(
        "ready_queue",
        "exactly the activated jobs that nobody holds are in the queue",
        "job",
        _READY,
    ),
    Invariant(
        "done_tasks",
        "no master input of a done task failed or is at work",
        "file",
        *file_checks.DONE_TASKS,
    ),
    Invariant("final_tasks", "no job lives in a task that has ended", "job", _FINAL_TASK),
    Invariant(
        "task_log",
        "a task's log is a legal path to its status",
        "task",
        _path(states.TASK, "jedi_tasks", "jeditaskid"),
    ),
    Invariant(
        "input_log",
        "an input dataset's log is a legal path, too",
        "dataset",
        _path(states.INPUT_DATASET, "jedi_datasets", "datasetid", f"o.type IN ({INPUT_TYPES})"),
    ),
    Invariant(
        "output_log",
        "an output dataset's log is a legal path, too",
        "dataset",
        _path(
            states.OUTPUT_DATASET, "jedi_datasets", "datasetid", f"o.type NOT IN ({INPUT_TYPES})"
        ),
    ),
    Invariant(
        "job_log",
        "a job's log is a legal path to its status",
        "job",
        _path(states.JOB, _LOGGED, "pandaid", lost="NOT archived"),
    ),
)


_MEMORY = changes("SET LOCAL work_mem = '64MB'")


def examine(tx: Connection) -> list[Finding]:
    """Check every invariant, one query for all those about the same rows. With room for their
    hashes the dearest ones take half the time."""
    _MEMORY.run(tx)
    rows = dict.fromkeys(rule.rows for rule in INVARIANTS)
    rules = [[rule for rule in INVARIANTS if rule.rows == one] for one in rows]
    found = {one.invariant: one for some in rules for one in _examine(tx, some)}
    return [found[rule.name] for rule in INVARIANTS]


_EXAMINE = """
SELECT examined, (SELECT count(DISTINCT id) FROM unnest(bad) id) AS violations,
  ARRAY(SELECT DISTINCT id FROM unnest(bad) id ORDER BY id LIMIT CAST(:shown AS int)) AS ids
FROM (SELECT {counts} FROM ({rows}) {names}) r,
  LATERAL (VALUES {rules}) k(nr, examined, bad)
ORDER BY nr
"""


def _examine(tx: Connection, rules: Sequence[Invariant]) -> list[Finding]:
    """Check the invariants of the same rows."""
    counts = ", ".join(
        f"count(*) FILTER (WHERE {rule.among}) AS n{nr}, "
        f"array_agg(id) FILTER (WHERE ({rule.bad}) AND {rule.among}) AS bad{nr}"
        for nr, rule in enumerate(rules)
    )
    values = ", ".join(f"({nr}, n{nr}, bad{nr})" for nr, _ in enumerate(rules))
    names = "r(id, bad)" if rules[0].bad == "bad" else "r"
    sql = _EXAMINE.format(counts=counts, rows=rules[0].rows, names=names, rules=values)
    found = returns(tuple[int, int, list[int | str]])(sql).rows(tx, shown=SHOWN)
    return [
        Finding(rule.name, rule.meaning, rule.of, *row)
        for rule, row in zip(rules, found, strict=True)
    ]


class FinishedOutput(NamedTuple):
    """A finished output, its size and adler32; `kept`: it was neither purged nor lost with its
    dataset."""

    file_id: int
    dataset_name: str
    lfn: str
    fsize: int | None
    checksum: str | None
    kept: bool


# A page is cut before the join: whoever joins first reads all outputs for each page.
_MADE = returns(FinishedOutput)(f"""
WITH c AS MATERIALIZED (
  SELECT fileid, datasetid, jeditaskid, outpandaid, type, lfn, fsize, checksum
  FROM jedi_dataset_contents
  WHERE type IN ({OUTPUT_TYPES}) AND status = 'finished' AND fileid > :after
  ORDER BY fileid LIMIT :page
)
SELECT c.fileid, d.datasetname, c.lfn, c.fsize, c.checksum,
  d.state IS DISTINCT FROM 'missing' AND NOT EXISTS (
    SELECT FROM {all_jobs.all_jobs("pandaid, purged_at")} j
    WHERE j.pandaid = c.outpandaid AND j.purged_at IS NOT NULL AND c.type = 'output') AS kept
FROM c JOIN jedi_datasets d USING (datasetid, jeditaskid) ORDER BY c.fileid
""")


def made_files(tx: Connection, page: int = 1000) -> Iterator[list[FinishedOutput]]:
    """Finished outputs, page by page."""
    after = 0
    while rows := _MADE.rows(tx, after=after, page=page):
        yield [row for row in rows if row.kept]
        after = rows[-1].file_id


MERGED_DATASETS = returns(str)(f"""
-- Names of datasets with files that were to be merged, of tasks that have ended.
SELECT d.datasetname FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE d.type = 'trn_output' AND t.status IN ({listed(sorted(states.TASK.final))})
ORDER BY d.datasetid
""")
