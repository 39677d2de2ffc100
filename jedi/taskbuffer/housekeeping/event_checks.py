"""Invariants of ranges of events, of their consumers and job sets; see checks.py.

Source: docs/reference/event-service.md#invariants.
"""

from __future__ import annotations

from jedi.core import states
from jedi.taskbuffer.events.kept_ranges import KEEPING, SUCCEEDED
from jedi.taskbuffer.schema import all_jobs

_CODE = states.EVENT_CODES
_SENT, _RUNNING, _FINISHED, _DONE, _MERGED, _FATAL = (
    _CODE[name] for name in ("sent", "running", "finished", "done", "merged", "fatal")
)
_OPEN = ", ".join(str(_CODE[name]) for name in ("ready", "sent", "running", "finished"))
_JOBS = all_jobs.all_jobs("pandaid, status")
_FILES = all_jobs.all_files("pandaid, fileid")

MERGED_ONCE = f"""
SELECT e.fileid, e.merged > 1 OR e.merged = 0 AND e.fatal = 0
FROM (
  SELECT jobsetid, fileid, job_processid, count(*) FILTER (WHERE status = {_MERGED}) AS merged,
    count(*) FILTER (WHERE status = {_FATAL}) AS fatal
  FROM jedi_events WHERE jobsetid IS NOT NULL GROUP BY jobsetid, fileid, job_processid) e
  JOIN jedi_jobsets s USING (jobsetid) JOIN {_JOBS} m ON m.pandaid = s.merge_pandaid
WHERE s.ended_at IS NOT NULL AND m.status = 'finished'
UNION ALL
SELECT e.fileid, count(*) > 1 FROM jedi_events e
WHERE e.status = {_MERGED} AND e.jobsetid IS NOT NULL AND NOT EXISTS (  -- its output was lost
  SELECT FROM jedi_jobsets s JOIN {_FILES} f ON f.pandaid = s.merge_pandaid
    JOIN jedi_lost_files l ON l.fileid = f.fileid WHERE s.jobsetid = e.jobsetid)
GROUP BY e.jeditaskid, e.fileid, e.job_processid"""
"""Every range of a merged job set is merged once, or given up; in all job sets once, those apart
whose outputs were lost."""

OWNED = f"""
SELECT e.fileid, c.fileid IS NULL OR s.jobsetid IS NULL
  OR e.pandaid <> e.jobsetid AND o.pandaid IS NULL
  OR e.pandaid = e.jobsetid AND e.status IN ({_SENT}, {_RUNNING})
FROM jedi_events e LEFT JOIN jedi_jobsets s USING (jobsetid)
  LEFT JOIN jedi_consumers o ON o.pandaid = e.pandaid
  LEFT JOIN jedi_dataset_contents c ON c.fileid = e.fileid AND c.jeditaskid = e.jeditaskid
WHERE e.jobsetid IS NOT NULL"""
"""A range has its file, its job set, and the job set or a consumer as its owner: a consumer while
it is processed."""

WHOLE_SETS = f"""
SELECT s.jobsetid, m.pandaid IS NULL OR s.ended_at IS NULL AND coalesce(e.n, 0) <> s.n_ranges
FROM jedi_jobsets s LEFT JOIN {_JOBS} m ON m.pandaid = s.merge_pandaid LEFT JOIN (
  SELECT jobsetid, count(DISTINCT (fileid, job_processid)) AS n
  FROM jedi_events WHERE jobsetid IS NOT NULL GROUP BY jobsetid) e USING (jobsetid)"""
"""A job set has its merge job, and each range that was cut; one that has ended may have given its
ranges to the next."""

PIECES = f"""
SELECT e.fileid, z.ziprow_id IS NULL AND (e.ziprow_id IS NOT NULL OR e.endpoint IS NULL)
FROM jedi_events e JOIN jedi_jobsets s USING (jobsetid)
  LEFT JOIN jedi_event_zips z ON z.ziprow_id = e.ziprow_id
WHERE e.status IN ({_FINISHED}, {_DONE}) AND s.mode <> 'cloning'"""
"""The piece of a processed range lies in a zip file, or as a file of its own at an endpoint."""

NOT_DEAD = f"""
SELECT e.pandaid, o.settled_at IS NOT NULL
FROM jedi_events e JOIN jedi_consumers o USING (pandaid)
WHERE e.jobsetid IS NOT NULL AND (e.status IN ({_SENT}, {_RUNNING})
  OR e.status = {_FINISHED} AND e.is_jumbo IS NULL)"""
"""No range is with a consumer that has ended."""

OF_JUMBOS = """
SELECT e.pandaid, (e.is_jumbo = 1) IS TRUE <> (o.jobsetid IS NULL)
FROM jedi_events e JOIN jedi_consumers o USING (pandaid)
WHERE e.jobsetid IS NOT NULL AND (e.is_jumbo = 1 OR o.jobsetid IS NULL)"""
"""Ranges are marked as those of jumbo jobs if jumbo jobs have or had them."""

SETTLED_SETS = f"""
SELECT s.jobsetid, e.jobsetid IS NOT NULL
FROM jedi_jobsets s LEFT JOIN (
  SELECT DISTINCT e.jobsetid FROM jedi_events e JOIN jedi_jobsets s USING (jobsetid)
    JOIN jedi_tasks t ON t.jeditaskid = s.jeditaskid JOIN {_JOBS} m ON m.pandaid = s.merge_pandaid
  WHERE e.status IN ({_OPEN}) OR e.status = {_DONE} AND NOT (m.status <> 'finished'
    AND s.clone IS NULL AND {KEEPING} AND NOT {SUCCEEDED})) e USING (jobsetid)
WHERE s.ended_at IS NOT NULL"""
"""A job set that has ended has no range to process or to merge; one that failed may keep those that
are done until the next job of its inputs (notDiscardEvents)."""

MERGING_CONSUMERS = """
SELECT j.pandaid, s.jobsetid IS NULL OR s.ended_at IS NOT NULL
FROM jedi_jobs j JOIN jedi_consumers o USING (pandaid) LEFT JOIN jedi_jobsets s USING (jobsetid)
WHERE j.status = 'merging'"""
"""A consumer that waits for the merge has a job set that has not ended."""
