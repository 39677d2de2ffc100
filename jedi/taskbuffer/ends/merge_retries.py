"""Heirs of merge jobs: a merge that failed is tried again by a new job, which takes over the inputs
and outputs before its predecessor's end settles them.

Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.sql_lists import OUTPUT_TYPES
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.events import lost_pieces
from jedi.taskbuffer.jobs.jobs import MovedJob

NOT_AGAIN = ("killed", "cancelled_by_user", "reassigned", "restored", "shut_down")
"""Ends by which the whole task, or the system, ends its jobs."""

_HEIRS = returns(tuple[int, int, int])("""
WITH old AS (
  SELECT s.jobsetid, s.merge_pandaid AS old FROM jedi_jobsets s JOIN jedi_tasks t USING (jeditaskid)
  WHERE s.merge_pandaid = ANY(CAST(:ids AS bigint[])) AND s.ended_at IS NULL
    AND s.n_merges < :tries AND t.status NOT IN ('aborting', 'toabort', 'finishing', 'passed',
      'toreassign', 'reassigning', 'tobroken')
  ORDER BY s.jobsetid FOR NO KEY UPDATE OF s
)
UPDATE jedi_jobsets s SET merge_pandaid = nextval('jedi_panda_id_seq'), n_merges = s.n_merges + 1,
  next_look_at = jedi_now()
FROM old WHERE s.jobsetid = old.jobsetid
RETURNING s.jobsetid, old.old, s.merge_pandaid AS new
""")
_H = """
unnest(CAST(:sets AS bigint[]), CAST(:olds AS bigint[]), CAST(:news AS bigint[]))
  h(jobset, old, new)
"""
_KEPT = (
    "jeditaskid, taskid, originpandaid, unit_nr, kind, prodsourcelabel, processingtype, username, "
    "vo, site, nucleus, workqueue_id, gshare, resource_type, priority, cores, memory_mb, "
    "walltime_s, disk_mb, n_inputs, n_events"
)
_JOBS = changes(f"""
WITH n AS (
  INSERT INTO jedi_jobs (pandaid, status, attemptnr, {_KEPT})
  SELECT h.new, 'waiting', j.attemptnr + 1, {_KEPT} FROM {_H} JOIN jedi_jobs j ON j.pandaid = h.old
  RETURNING *
), b AS (  -- the set knows its heir
  UPDATE jedi_jobs j SET booked = 'ended' FROM {_H} WHERE j.pandaid = h.old
), p AS (
  INSERT INTO jedi_job_params (pandaid, jobparameters, texts)
  SELECT h.new, jobparameters, texts FROM {_H} JOIN jedi_job_params p ON p.pandaid = h.old
), l AS (
  INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, status, agent, reason_code, reason)
  SELECT n.pandaid, n.jeditaskid, n.status, :agent, 'es_merge_again',
    'Job ' || h.old || ' did not merge the pieces: it takes over.'
  FROM n JOIN {_H} ON h.new = n.pandaid
), r AS (
  INSERT INTO jedi_job_retry_history (jeditaskid, oldpandaid, newpandaid, relationtype,
    originpandaid)
  SELECT n.jeditaskid, h.old, h.new, 'es_merge', n.originpandaid
  FROM n JOIN {_H} ON h.new = n.pandaid
)
INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT site, workqueue_id, gshare, resource_type, status, count(*), sum(cores) FROM n
GROUP BY site, workqueue_id, gshare, resource_type, status
""")
_FILES = changes(f"""
WITH c AS (
  UPDATE jedi_dataset_contents c SET pandaid = h.new,
    outpandaid = CASE WHEN c.outpandaid = h.old THEN h.new ELSE c.outpandaid END
  FROM {_H} JOIN jedi_job_files f ON f.pandaid = h.old
  WHERE c.fileid = f.fileid AND c.pandaid = h.old AND f.type <> 'log'
)
INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn, source_name,
  endpoint, fsize, checksum, guid, n_events, start_event, end_event)
SELECT h.new, fileid, jeditaskid, datasetid, type, lfn, source_name, endpoint,
  CASE WHEN type NOT IN ({OUTPUT_TYPES}) THEN fsize END,
  CASE WHEN type NOT IN ({OUTPUT_TYPES}) THEN checksum END,
  CASE WHEN type NOT IN ({OUTPUT_TYPES}) THEN guid END, n_events, start_event, end_event
FROM {_H} JOIN jedi_job_files f ON f.pandaid = h.old WHERE f.type <> 'log'
""")
_LOGS = changes(f"""
WITH o AS (
  SELECT h.new, f.source_name, f.endpoint, c.datasetid, c.jeditaskid, c.scope, c.boundaryid,
    c.lfn || '.' || s.n_merges AS lfn, nextval('jedi_file_id_seq') AS fileid, s.n_merges
  FROM {_H} JOIN jedi_job_files f ON f.pandaid = h.old JOIN jedi_dataset_contents c USING (fileid)
    JOIN jedi_jobsets s ON s.jobsetid = h.jobset
  WHERE f.type = 'log'
), c AS (
  INSERT INTO jedi_dataset_contents (fileid, datasetid, jeditaskid, lfn, type, scope, status,
    attemptnr, keeptrack, pandaid, outpandaid, proc_status, boundaryid)
  SELECT fileid, datasetid, jeditaskid, lfn, 'log', scope, 'defined', n_merges, 1, new, new,
    'queued', boundaryid FROM o
), d AS (
  UPDATE jedi_datasets d SET nfiles = d.nfiles + g.n
  FROM (SELECT datasetid, count(*) AS n FROM o GROUP BY datasetid) g
  WHERE d.datasetid = g.datasetid
)
INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn, source_name,
  endpoint)
SELECT new, fileid, jeditaskid, datasetid, 'log', lfn, source_name, endpoint FROM o
""")


def take_over(tx: Connection, ended: Sequence[MovedJob], agent: str) -> None:
    """Give merge jobs of job sets that failed an heir, up to the limit of merges: it waits, with
    the inputs and the outputs. Ranges whose pieces the failed one could not read are corrupted and
    ready once more, or fatal without attempts where the task does without them; all others stay
    done. Jobs and their datasets are locked."""
    lost = [
        job
        for job in ended
        if job.kind == "es_merge"
        and job.source != "waiting"
        and job.target in ("failed", "closed")
        and job.code not in NOT_AGAIN
    ]
    if not lost:
        return
    tries = knobs.load(tx)["eventservice.merge_attempts"]
    ids = [job.panda_id for job in lost]
    found = _HEIRS.rows(tx, ids=ids, tries=tries)
    if not found:
        return
    sets, olds, news = map(list, zip(*found, strict=True))
    given = {"sets": sets, "olds": olds, "news": news}
    _JOBS.run(tx, **given, agent=agent)
    _FILES.run(tx, **given)
    _LOGS.run(tx, **given)
    lost_pieces.give_back_spoilt(tx, dict(zip(sets, olds, strict=True)))
