"""Cutting of unused event ranges into smaller ones. Source:
docs/reference/event-ranges.md#cutting-unused-ranges-anew."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES
from jedi.taskbuffer.db.statement import changes
from jedi.taskbuffer.tasks import scouting

_KEPT = (
    "datasetid, jeditaskid, type, scope, status, proc_status, keeptrack, maxattempt, maxfailure, "
    "lfn, guid, fsize, checksum, nevents, boundaryid, lumiblocknr, ramcount"
)

# Where jobs cross the borders of files, ranges that follow each other become one, and the events of
# all count on, except across borders that jobs respect; else those of each range by itself.
_RECUT = changes(f"""
WITH w AS (
  SELECT * FROM unnest(CAST(:tasks AS bigint[]), CAST(:sizes AS bigint[]),
    CAST(:across AS boolean[]), CAST(:blocks AS boolean[]), CAST(:bounds AS boolean[]))
    w(task, size, across, by_block, by_bound)
), d AS (  -- in one order, as those do who end jobs
  SELECT d.datasetid, w.* FROM jedi_datasets d JOIN w ON d.jeditaskid = w.task
  WHERE d.masterid IS NULL AND d.type IN ({MASTER_TYPES})
  ORDER BY d.datasetid FOR NO KEY UPDATE OF d
), old AS (
  DELETE FROM jedi_dataset_contents c USING d
  WHERE c.datasetid = d.datasetid AND c.ready AND c.attemptnr = 0
    AND (d.across AND c.endevent IS NOT NULL OR c.endevent - c.startevent >= d.size)
  RETURNING c.*, c.endevent - c.startevent + 1 AS n, d.size, d.across, d.by_block, d.by_bound
), whole AS (
  SELECT {_KEPT}, size, across, by_block, by_bound, min(fileid) AS fileid,
    min(startevent) AS startevent, min(firstevent) AS firstevent, CAST(sum(n) AS bigint) AS n
  FROM (SELECT *, CASE WHEN across THEN startevent - sum(n) OVER (
          PARTITION BY datasetid, lfn ORDER BY startevent) ELSE fileid END AS island FROM old) o
  GROUP BY {_KEPT}, size, across, by_block, by_bound, island
), placed AS (
  SELECT *, CAST(sum(n) OVER (PARTITION BY datasetid, CASE WHEN NOT across THEN fileid END,
      CASE WHEN by_block THEN lumiblocknr END, CASE WHEN by_bound THEN boundaryid END
    ORDER BY fileid) - n AS bigint) AS before FROM whole
), new AS (
  INSERT INTO jedi_dataset_contents ({_KEPT}, startevent, endevent, firstevent)
  SELECT {_KEPT}, startevent + greatest(k * size - before, 0),
    startevent + least((k + 1) * size - before, n) - 1,
    firstevent + greatest(k * size - before, 0)
  FROM placed, generate_series(before / size, (before + n - 1) / size) k ORDER BY fileid, k
  RETURNING datasetid
), more AS (
  SELECT datasetid, sum(n) AS n FROM (
    SELECT datasetid, 1 AS n FROM new UNION ALL SELECT datasetid, -1 FROM old) both_
  GROUP BY datasetid
)
UPDATE jedi_datasets d SET nfiles = nfiles + more.n, nfilestobeused = nfilestobeused + more.n,
  modificationtime = jedi_now()
FROM more WHERE d.datasetid = more.datasetid
""")
_SCOUTS = changes(f"""
WITH d AS (
  SELECT datasetid, jeditaskid, CAST(rules ->> 'n_events_per_job' AS bigint) AS size
  FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND masterid IS NULL
    AND d.type IN ({MASTER_TYPES})
), f AS (
  SELECT datasetid, events, CASE WHEN size IS NULL THEN row_number() OVER file
    ELSE (sum(events) OVER file - events) / size + 1 END AS nr
  FROM (SELECT d.*, fileid, coalesce(endevent - startevent + 1, nevents) AS events
        FROM d JOIN jedi_dataset_contents c USING (datasetid) WHERE c.ready) c
  WINDOW file AS (PARTITION BY jeditaskid ORDER BY datasetid, fileid)
), s AS (
  SELECT datasetid, count(f.nr) AS n, coalesce(sum(f.events), 0) AS events
  FROM d LEFT JOIN f USING (datasetid) WHERE f.nr IS NULL OR f.nr < :scouts + 1 GROUP BY datasetid
)
UPDATE jedi_datasets d SET nfilestobeused = d.nfilesused + d.nfilesmissing + coalesce(s.n, 0),
  neventstobeused = coalesce(d.neventstobeused, 0) + coalesce(s.events, 0)
FROM d AS m LEFT JOIN s USING (datasetid) WHERE d.datasetid = m.datasetid
""")


def scout_anew(tx: Connection, sizes: Mapping[int, int], scouts: int) -> None:
    """Cut the ranges of scouting tasks likewise, and release as many as there are to be `scouts`,
    the first ones."""
    if sizes:
        recut(tx, sizes)
        _SCOUTS.run(tx, ids=list(sizes), scouts=scouts)
        wake(tx, "files:ready")


def recut(tx: Connection, sizes: Mapping[int, int]) -> None:
    """Cut the released ranges that no job ever had into such of at most so many events, by task,
    and keep to that size. The caller has locked the tasks; of those that are scouting
    `scout_anew` counts anew what is released."""
    if sizes:
        rules = {
            i: one.with_events(sizes[i]) for i, one in scouting.rules_of(tx, list(sizes)).items()
        }
        given = {
            "tasks": list(rules),
            "sizes": [sizes[i] for i in rules],
            "across": [one.n_events_per_job is not None for one in rules.values()],
            "blocks": [bool(one.respect_lb) for one in rules.values()],
            "bounds": [bool(one.group_boundary_id) for one in rules.values()],
        }
        _RECUT.run(tx, **given)
        scouting.set_rules(tx, rules)
