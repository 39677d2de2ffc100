"""Figures kept beside the rows they come from: jobs by place and status, progress of tasks."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.schema.dataset_rules import LISTED_MASTER

_KEY = "site, workqueue, gshare, resource_type, status"
_FOLD = returns(int)(f"""
WITH d AS (
  DELETE FROM job_stats_delta WHERE delta_id IN (
    SELECT delta_id FROM job_stats_delta ORDER BY delta_id LIMIT :limit)
  RETURNING {_KEY}, jobs, cores, modificationtime
), s AS (
  INSERT INTO job_stats AS s ({_KEY}, jobs, cores, modificationtime, since)
  SELECT {_KEY}, sum(jobs), sum(cores), max(modificationtime),
    CASE WHEN sum(jobs) > 0 THEN min(modificationtime) END FROM d GROUP BY {_KEY}
  ON CONFLICT ({_KEY}) DO UPDATE SET jobs = s.jobs + excluded.jobs,
    cores = s.cores + excluded.cores,
    since = CASE WHEN s.jobs + excluded.jobs <= 0 THEN NULL WHEN s.jobs > 0 THEN s.since
                 ELSE excluded.since END,
    modificationtime = greatest(s.modificationtime, excluded.modificationtime)
), h AS (
  INSERT INTO job_stats_hourly AS h (hour, site, gshare, status, jobs)
  SELECT date_trunc('hour', jedi_now()), site, gshare, status, sum(jobs) FROM d WHERE jobs > 0
  GROUP BY site, gshare, status
  ON CONFLICT (hour, site, gshare, status) DO UPDATE SET jobs = h.jobs + excluded.jobs
)
SELECT count(*) FROM d
""")


ANY_CHANGES = returns(bool)("""
-- Return True if there is something to fold.
SELECT EXISTS (SELECT FROM job_stats_delta)
""")


def fold(tx: Connection, limit: int) -> int:
    """Add up to `limit` changes to job_stats and to the bucket of this hour; how many there were.

    Readers sum job_stats and its deltas, so for them nothing changes. A bucket counts the jobs
    that reached a status; one batch that brings as many jobs to it as away counts none.
    """
    return int(_FOLD.value(tx, limit=limit))


NOTE_DISK_IO = changes("""
-- Note what running jobs read and write at each site, in kB (1000 bytes) a second and core, on the
-- average of those that reported; how many sites there are. All running jobs are read: 0.25 s for
-- 100,000 of them.
WITH n AS (
  SELECT site, round(avg((coalesce(read_bytes, 0) + coalesce(write_bytes, 0)) / 1000
      / greatest(wall_s, 1) / greatest(cores, 1))) AS kb_s
  FROM jedi_jobs WHERE status = 'running' AND postprocessed_at IS NULL AND wall_s > 0
  GROUP BY site
), gone AS (
  DELETE FROM jedi_site_metrics m WHERE metric = 'diskio' AND site NOT IN (SELECT site FROM n)
)
INSERT INTO jedi_site_metrics (site, gshare, metric, value)
SELECT site, '', 'diskio', to_jsonb(kb_s) FROM n ORDER BY site
ON CONFLICT (site, gshare, metric) DO UPDATE SET value = excluded.value, ts = jedi_now()
""")


_LAST_UNIT = "(SELECT max(unit_nr) FROM {table} j WHERE j.jeditaskid = t.jeditaskid)"
_UNITS = f"""
greatest({_LAST_UNIT.format(table="jedi_jobs")}, {_LAST_UNIT.format(table="jedi_jobs_archived")}, 0)
"""
# Ended jobs are counted once, unless an earlier job lives. Those of a herd are always counted anew:
# its split reserved PandaIDs, and retries have later ones. To count 1,000 takes 1 ms if they have
# to be read from disk.
NOTE_PROGRESS = changes(f"""
-- Note how far tasks are (files finished of those to be used, in percent), how many of their ended
-- jobs failed (in percent), and when they got started. A task rests 1 s for each thousand units
-- after that. The caller has locked the tasks.
WITH due AS MATERIALIZED (
  SELECT jeditaskid, counted_upto, counted_jobs, counted_failed,
    EXISTS (SELECT FROM jedi_herds h WHERE h.jeditaskid = t.jeditaskid) AS herd
  FROM jedi_tasks t WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND coalesce(
    assessmenttime <= jedi_now() - make_interval(secs => 0.001 * {_UNITS}), true)
), p AS (
  SELECT t.jeditaskid, f.done, least(l.started, e.started) AS started,
    least(l.made, e.made) AS made,
    100 * (counted_failed + e.failed) / nullif(counted_jobs + e.jobs, 0) AS failed,
    greatest(counted_upto, e.last_before) AS upto,
    counted_jobs + e.jobs_before AS jobs_before, counted_failed + e.failed_before AS failed_before
  FROM due t, LATERAL (
    SELECT div(100 * sum(nfilesfinished), nullif(sum(nfilestobeused), 0)) AS done
    FROM jedi_datasets d WHERE d.jeditaskid = t.jeditaskid
      AND {LISTED_MASTER}) f, LATERAL (
    SELECT min(pandaid) AS first, min(starttime) AS started, min(creationtime) AS made
    FROM jedi_jobs o WHERE o.jeditaskid = t.jeditaskid AND postprocessed_at IS NULL) l, LATERAL (
    SELECT count(*) FILTER (WHERE fate IN ('finished', 'failed')) AS jobs,
      count(*) FILTER (WHERE fate = 'failed') AS failed,
      count(*) FILTER (WHERE fate IN ('finished', 'failed') AND early) AS jobs_before,
      count(*) FILTER (WHERE fate = 'failed' AND early) AS failed_before,
      max(pandaid) FILTER (WHERE early) AS last_before,
      min(starttime) AS started, min(creationtime) AS made
    FROM (SELECT pandaid, status AS fate, starttime, creationtime FROM jedi_jobs o
          WHERE o.jeditaskid = t.jeditaskid AND postprocessed_at IS NOT NULL
            AND pandaid > counted_upto
          UNION ALL
          SELECT pandaid, status, starttime, creationtime FROM jedi_jobs_archived o
          WHERE o.jeditaskid = t.jeditaskid AND pandaid > counted_upto) o,
      LATERAL (SELECT NOT herd AND coalesce(pandaid < l.first, true) AS early) w) e
)
UPDATE jedi_tasks t SET progress = coalesce(p.done, 0), failurerate = coalesce(p.failed, 0),
  starttime = coalesce(t.starttime, p.started), split_at = coalesce(t.split_at, p.made),
  counted_upto = p.upto, counted_jobs = p.jobs_before,
  counted_failed = p.failed_before, assessmenttime = jedi_now()
FROM p WHERE t.jeditaskid = p.jeditaskid
""")


LOCK_WORKING = returns(int)("""
-- Lock up to `limit` tasks in these statuses with ids above `after`, in order. Tasks that somebody
-- is writing to are passed over.
SELECT jeditaskid FROM jedi_tasks WHERE status = ANY(:statuses) AND jeditaskid > :after
ORDER BY jeditaskid LIMIT :limit FOR NO KEY UPDATE SKIP LOCKED
""")
