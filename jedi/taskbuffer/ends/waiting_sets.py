"""Job sets that wait for a site get one: real co-jumbo jobs take the places of placeholders.

Source: docs/reference/event-service.md#placeholders.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import JOB_MAKING_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import set_ends

WAITING_TASKS = returns(int)("""
-- Tasks with job sets that wait for a site.
SELECT DISTINCT d.jeditaskid FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE d.nfileswaiting > 0 AND t.status IN ('ready', 'pending', 'scouting', 'running')
ORDER BY d.jeditaskid LIMIT :limit
""")


class SetFile(NamedTuple):
    """A file of a master dataset, in a job set that waits for a site."""

    jobset_id: int
    file_id: int
    dataset_id: int


# The first placeholder of each job set stands for all of them.
WAITING_FILES = returns(SetFile)(f"""
-- The files of the next job sets of a task that wait for a site, dataset by dataset.
SELECT t.jobsetid, c.fileid, c.datasetid
FROM (
  SELECT DISTINCT c.jobsetid FROM jedi_jobs j JOIN jedi_consumers c USING (pandaid)
  WHERE j.jeditaskid = :task AND j.status = 'waiting' AND j.kind = 'co_jumbo'
    AND c.jobsetid > :after
  ORDER BY c.jobsetid LIMIT :limit) w
  JOIN jedi_jobsets t USING (jobsetid) JOIN jedi_job_files f ON f.pandaid = t.merge_pandaid
  JOIN jedi_dataset_contents c ON c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
  JOIN jedi_datasets d ON d.datasetid = c.datasetid AND d.jeditaskid = c.jeditaskid
WHERE t.ended_at IS NULL AND d.masterid IS NULL AND d.type IN ({JOB_MAKING_TYPES})
ORDER BY c.datasetid, t.jobsetid, c.fileid
""")


_LOCK = returns(int)("""
SELECT jobsetid FROM jedi_jobsets WHERE jobsetid = ANY(CAST(:ids AS bigint[])) AND ended_at IS NULL
ORDER BY jobsetid FOR NO KEY UPDATE
""")
_PLACE = changes("""
UPDATE jedi_jobsets t SET sites = p.sites, cores = p.cores, memory_mb = p.memory_mb,
  walltime_s = p.walltime_s
FROM unnest(CAST(:ids AS bigint[]), CAST(:sites AS jsonb[]), CAST(:cores AS int[]),
  CAST(:memory AS int[]), CAST(:walltime AS int[])) p(id, sites, cores, memory_mb, walltime_s)
WHERE t.jobsetid = p.id
""")


class FakeConsumer(NamedTuple):
    """A placeholder of a job set."""

    panda_id: int
    jobset_id: int


_PLACEHOLDERS = returns(FakeConsumer)("""
SELECT c.pandaid, c.jobsetid
FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
WHERE c.jobsetid = ANY(CAST(:ids AS bigint[])) AND j.status = 'waiting' ORDER BY c.pandaid
""")


class PlacedSet(NamedTuple):
    """A job set that sites take now: they, as JSON, best first, and the needs of its consumers."""

    jobset_id: int
    sites: str
    cores: int
    memory_mb: int
    walltime_s: int


def place(tx: Connection, placed: Sequence[PlacedSet], agent: str) -> int:
    """Give job sets their sites, and close the placeholders of those that have one: the
    EventService adds a real co-jumbo job for each. Return the number of
    placeholders."""
    wanted = [one.jobset_id for one in placed]
    held = _PLACEHOLDERS.rows(tx, ids=wanted)
    still = job_ends.lock(tx, [one.panda_id for one in held])
    held = [one for one in held if still.get(one.panda_id) == "waiting"]
    living = {*_LOCK.rows(tx, ids=sorted({one.jobset_id for one in held}))}
    if not living:
        return 0
    columns = zip(*(one for one in placed if one.jobset_id in living), strict=True)
    ids, sites, cores, memory, walltime = map(list, columns)
    _PLACE.run(tx, ids=ids, sites=sites, cores=cores, memory=memory, walltime=walltime)
    takes = {one.jobset_id for one in set_ends.BROKERED_SITES.rows(tx, ids=ids)}
    ends = [
        JobEnd(
            one.panda_id, "closed", "es_unused", "A site takes a real co-jumbo job.", None, "jedi"
        )
        for one in held
        if one.jobset_id in takes
    ]
    return len(job_ends.end_jobs(tx, ends, agent, ["waiting"]))
