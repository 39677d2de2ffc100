"""Job sets with their ranges and consumers, put into the database by plain SQL as the generator
would leave them."""

# Raw UPDATEs: pilots take the consumers and report, of which no other row tells.

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Engine, text


@dataclass(frozen=True)
class BuiltJobSet:
    """A job set: its task, its number, its file, and its consumers, whose lock_seq is 1."""

    task: int
    jobset: int
    file: int
    consumers: list[int]


_TASK = text("""
INSERT INTO jedi_tasks (jeditaskid, status, reqid, taskname, username, eventservice)
VALUES (nextval('jedi_task_id_seq'), 'running', 1, 'events', 'me', 1) RETURNING jeditaskid
""")
_JOBS = text("""
INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, attemptnr, status,
  kind, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb)
SELECT nextval('jedi_panda_id_seq'), :task, 1, 1, 1, 1, :status, :kind, :site, '', 100, 1, 0, 600, 0
FROM generate_series(1, :n) RETURNING pandaid
""")
_SEND = text("""
UPDATE jedi_jobs SET status = 'sent', lock_seq = 1, heartbeat_at = jedi_now()
WHERE pandaid = ANY(:ids)
""")
_RUN = text("UPDATE jedi_jobs SET status = 'running' WHERE pandaid = ANY(:ids)")
_FILE = text("""
WITH d AS (
  INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status)
  VALUES (nextval('jedi_dataset_id_seq'), :task, 'test:in', 'input', 'ready') RETURNING datasetid
)
INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, status, nevents,
  pandaid, guid, scope)
SELECT nextval('jedi_file_id_seq'), datasetid, :task, 'in.' || :jobset, 'input', 'running', :events,
  :jobset, 'guid-1', 'test' FROM d RETURNING fileid
""")
_SET = text("""
INSERT INTO jedi_jobsets (jobsetid, jeditaskid, merge_pandaid, mode, n_ranges, n_consumers,
  n_merges, attempts_left, jumbo, priority, gshare, resource_type, cores, memory_mb, walltime_s,
  disk_mb, command)
VALUES (:jobset, :task, :jobset, 'es', :n, :consumers, 1, 3, :jumbo, 100, '', '', 1, 0, 600, 0,
  'work')
""")
_CONSUMER = text("""
INSERT INTO jedi_consumers (pandaid, jeditaskid, jobsetid, kind, number)
SELECT id, :task, CAST(:jobset AS bigint), :kind, n
FROM unnest(CAST(:ids AS bigint[])) WITH ORDINALITY c(id, n)
""")
_RANGES = text("""
INSERT INTO jedi_events (jeditaskid, datasetid, fileid, status, pandaid, job_processid,
  def_min_eventid, def_max_eventid, attemptnr, jobsetid)
SELECT :task, 1, :file, 0, :jobset, 1 + :each * (g - 1), :each * (g - 1), :each * g - 1, :attempts,
  :jobset
FROM generate_series(1, :n) g
""")


def make_job_set(
    tx: Connection,
    ranges: int,
    consumers: int = 1,
    *,
    task: int | None = None,
    jumbo: bool = False,
    site: str = "SITE_A",
    each: int = 5,
    attempts: int = 10,
) -> BuiltJobSet:
    """A job set of one file with so many ready ranges of `each` events, and running consumers."""
    task = task or int(tx.scalar(_TASK) or 0)
    given = {
        "task": task,
        "site": site,
        "each": each,
        "attempts": attempts,
        "n": ranges,
        "jumbo": jumbo,
        "consumers": consumers,
    }
    jobset = tx.scalar(_JOBS, {**given, "n": 1, "kind": "es_merge", "status": "waiting"})
    file = tx.scalar(_FILE, {**given, "jobset": jobset, "events": each * ranges})
    tx.execute(_SET, {**given, "jobset": jobset})
    tx.execute(_RANGES, {**given, "jobset": jobset, "file": file})
    jobs = make_consumers(tx, consumers, task, jobset, site=site)
    return BuiltJobSet(task, int(jobset or 0), int(file or 0), jobs)


def make_consumers(
    tx: Connection, n: int, task: int, jobset: int | None, *, site: str = "SITE_A"
) -> list[int]:
    """Running consumers of a job set; None: jumbo jobs."""
    kind = "consumer" if jobset else "jumbo"
    given = {"task": task, "n": n, "site": site, "kind": kind, "status": "activated"}
    jobs = list(tx.scalars(_JOBS, given))
    tx.execute(_CONSUMER, {**given, "jobset": jobset, "ids": jobs})
    tx.execute(_SEND, {"ids": jobs})
    tx.execute(_RUN, {"ids": jobs})
    return jobs


_RANGES_OF = text("""
SELECT pandaid, fileid, job_processid, attemptnr, status FROM jedi_events WHERE jeditaskid = :task
ORDER BY fileid, job_processid, attemptnr
""")


def ranges_of(engine: Engine, task: int) -> list[tuple[int, ...]]:
    """The ranges of a task: owner, file, first event, attempt, status."""
    with engine.begin() as tx:
        return [tuple(row) for row in tx.execute(_RANGES_OF, {"task": task})]


def end_job(engine: Engine, panda_id: int) -> None:
    """The pilot of a job reports its end."""
    with engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_jobs SET status = 'holding' WHERE pandaid = :id"), {"id": panda_id}
        )
