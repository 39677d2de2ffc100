"""Jobs as pilots get them: the end of each statement that hands jobs out, and the reader of its
answer.

Facts of a task come once for all its jobs in an answer; those of sites and datasets the process
remembers. Looked up for each job, they were half of the pages that handing out a hundred reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.model.jobs.attempt import HeldJob, JobFile
from jedi.model.splitting.split_rules import SCOUTING
from jedi.taskbuffer.jobs.dispatch_cache import DatasetFacts, DispatchCache
from jedi.taskbuffer.jobs.order_files import staging

# A scout whose time decides how many events later jobs have.
_MEASURES = (
    f"rules ->> 'use_scout' = '{SCOUTING}' "
    "AND (rules ->> 'n_events_per_job' IS NOT NULL "
    "OR rules ->> 'target_events_per_job' IS NOT NULL "
    "AND coalesce(rules ->> 'n_files_per_job', rules ->> 'n_gb_per_job') IS NULL)"
)
# OFFSET 0: what is looked up for a few is not joined; plans for all must not come of it.
HELD = f"""
SELECT json_build_array(
  (SELECT json_agg(json_build_array(request, priority, pandaid, lock_seq, jeditaskid, attemptnr,
     memory_mb, walltime_s, p.jobparameters, p.texts, site, cores, gshare, workqueue_id))
   FROM u JOIN jedi_job_params p USING (pandaid)),
  (SELECT json_agg(json_build_array(pandaid, f.type, f.lfn, f.datasetid, f.endpoint, f.source_name,
     f.fsize, f.checksum, f.guid) ORDER BY f.fileid) FROM u JOIN jedi_job_files f USING (pandaid)),
  (SELECT json_agg(json_build_array(id, (SELECT sandbox_sha256 FROM jedi_taskparams
     WHERE jeditaskid = id), measured_jobs > 0, rules -> 'max_walltime_h', {_MEASURES}))
   FROM (SELECT DISTINCT jeditaskid AS id FROM u) i,
     LATERAL (SELECT * FROM jedi_tasks WHERE jeditaskid = id OFFSET 0) t))
"""
"""Reads a CTE `u` of jobs with `request`, the request of each, and returns them in one value for
`held_jobs`: dear is each column, not its length."""


class TaskOfJobs(NamedTuple):
    """Facts of a task that its jobs share; see HeldJob. `measures`: its scouts have all the time
    of their sites."""

    sandbox: str | None
    measured: bool
    max_walltime_h: float | None
    measures: bool | None


FactRows = Sequence[Sequence[Any]]


def held_jobs(
    tx: Connection, found: Sequence[FactRows | None], known: DispatchCache
) -> Iterator[tuple[str, HeldJob]]:
    """The jobs in the answer of HELD, in the order of their priorities, each after its request."""
    jobs, files, tasks = found
    files_of = _files(files or (), known.datasets(tx, {file[3] for file in files or ()}))
    task_facts = {one: TaskOfJobs(*facts) for one, *facts in tasks or ()}
    for row in sorted(jobs or (), key=_order):
        request, _, job, seq, task, attempt, memory, wall, command, texts, site, cores, *_ = row
        facts, here, mine = task_facts[task], known.facts(site), files_of.get(job, ())
        yield (
            request,
            HeldJob(
                job,
                seq,
                task,
                attempt,
                site,
                cores,
                memory,
                wall,
                here.scratch_mb,
                command,
                texts,
                facts.sandbox,
                facts.measured,
                facts.max_walltime_h,
                here.most_s if facts.measures else None,
                staging(here.endpoints, mine),
                mine,
            ),
        )


_NONE = DatasetFacts(None, optional=False)


def _order(job: Sequence[Any]) -> tuple[int, int]:
    return -job[1], job[2]


def _files(files: FactRows, datasets: Mapping[int, DatasetFacts]) -> dict[int, tuple[JobFile, ...]]:
    """The files of each job, each once: event ranges of one file are one file here."""
    found: dict[int, dict[JobFile, None]] = defaultdict(dict)
    for job, kind, lfn, dataset, endpoint, source_name, size, adler32, guid in files:
        known = datasets.get(dataset, _NONE)
        file = JobFile(
            kind,
            lfn,
            known.name,
            endpoint,
            source_name,
            size,
            adler32,
            guid,
            known.optional and kind == "output",
        )
        found[job][file] = None
    return {job: tuple(some) for job, some in found.items()}
