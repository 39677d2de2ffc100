"""Protection of a restored database from repeats: given numbers, jobs that have run, and files made
after the backup."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import PRE_MERGE_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import merging
from jedi.taskbuffer.sites import pilots

AHEAD = 1_000_000
"""More numbers of a kind than are given between two backups."""

_UNKNOWN_FATE = (*states.JOB_QUEUED, *states.JOB_AT_SITE, "holding")
"""Statuses of jobs whose fate after the backup is unknown."""


class OpenTemplate(NamedTuple):
    """A template of file names of a living task."""

    dataset_name: str
    template: str


_OPEN_TEMPLATES = returns(OpenTemplate)("""
SELECT DISTINCT d.datasetname, o.filenametemplate AS template
FROM jedi_output_template o
  JOIN jedi_datasets d USING (datasetid) JOIN jedi_tasks t ON t.jeditaskid =
  d.jeditaskid WHERE t.status <> ALL(:final) ORDER BY 1, 2
""")


def open_templates(tx: Connection) -> dict[str, list[str]]:
    """The templates of the file names that tasks which have not ended still make, by dataset."""
    final = {"final": sorted(states.TASK.final)}
    found: dict[str, list[str]] = defaultdict(list)
    for row in _OPEN_TEMPLATES.rows(tx, **final):
        found[row.dataset_name].append(row.template)
    return found


class MadeFile(NamedTuple):
    """A file of an output dataset."""

    dataset_name: str
    lfn: str


_MADE = returns(MadeFile)("""
SELECT d.datasetname, c.lfn FROM jedi_datasets d
  JOIN jedi_dataset_contents c USING (jeditaskid, datasetid)
  LEFT JOIN jedi_jobs j ON j.pandaid = c.outpandaid
WHERE d.datasetname = ANY(:names) AND coalesce(j.status <> ALL(:unknown), true)
""")


def made(tx: Connection, names: Collection[str]) -> set[tuple[str, str]]:
    """Files (dataset, LFN) of these datasets that their jobs had reported before the backup."""
    wanted = {"names": list(names), "unknown": list(_UNKNOWN_FATE)}
    return {*_MADE.rows(tx, **wanted)}


class MergePart(NamedTuple):
    """An output of a job, to be merged."""

    panda_id: int
    dataset_name: str
    lfn: str
    endpoint: str


MERGE_PARTS = returns(MergePart)(f"""
-- The outputs of jobs that wait to be merged.
SELECT j.pandaid, d.datasetname, c.lfn, f.endpoint FROM jedi_jobs j
  JOIN jedi_job_files f USING (pandaid)
  JOIN jedi_dataset_contents c ON c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
  JOIN jedi_datasets d ON d.datasetid = c.datasetid AND d.jeditaskid = c.jeditaskid
WHERE j.status = 'merging' AND c.type IN ({PRE_MERGE_TYPES})
  AND c.status IN ('ready', 'running') AND c.outpandaid = j.pandaid ORDER BY 1, c.fileid
""")


_INTERRUPTED = returns(int)("""
SELECT pandaid FROM jedi_jobs WHERE status = ANY(:statuses) AND postprocessed_at IS NULL
ORDER BY pandaid
""")
_LIVE_PILOTS = returns(str)("SELECT pilot_id FROM jedi_pilots WHERE endtime IS NULL")
_VOID_ATTEMPTS = changes("""
UPDATE jedi_jobs SET lock_seq = lock_seq + :ahead WHERE postprocessed_at IS NULL
""")
_SKIP_NUMBERS = changes("""
SELECT setval(CAST(format('%I.%I', schemaname, sequencename) AS regclass),
  coalesce(last_value, 0) + :ahead) FROM pg_sequences
WHERE schemaname = current_schema() AND starts_with(sequencename, 'jedi_')
""")


def go_on(tx: Connection, lost: Sequence[int] = ()) -> int:
    """Let pilots' jobs be tried again, and those (`lost`) whose parts are gone that were to be
    merged; take the pilots' tokens back, and make all numbers that are given from now on greater
    than any that was given before; how many jobs that were."""
    ids = _INTERRUPTED.rows(tx, statuses=[*states.JOB_AT_SITE, "holding"])
    mergers = dict(merging.MERGE_JOBS.rows(tx, ids=lost)).values()
    reason = "The database was restored from a backup that was made while the job ran."
    for some in (sorted({*ids, *mergers}), lost):  # jobs don't end before their merge job
        ends = [JobEnd(one, "closed", "restored", reason) for one in some]
        job_ends.end_jobs(tx, ends, "restore")
    alive = _LIVE_PILOTS.rows(tx)
    pilots.END_PILOTS.run(tx, status="lost", ids=alive, tidy=True)
    # else a pilot of the time after the backup could speak for a job that another one has now
    _VOID_ATTEMPTS.run(tx, ahead=AHEAD)
    _SKIP_NUMBERS.run(tx, ahead=AHEAD)
    return len(ids) + len(lost)
