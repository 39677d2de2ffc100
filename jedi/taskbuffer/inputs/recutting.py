"""Cutting of unused event ranges into smaller ones. Source:
docs/reference/event-ranges.md#cutting-unused-ranges-anew."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.engine import wake
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES
from jedi.taskbuffer.tasks import scouting

_KEPT = (
    "datasetid, jeditaskid, type, scope, status, proc_status, keeptrack, maxattempt, maxfailure, "
    "lfn, guid, fsize, checksum, nevents, boundaryid, lumiblocknr, ramcount"
)

_RECUT = text(f"""
WITH w AS (
  SELECT * FROM unnest(CAST(:tasks AS bigint[]), CAST(:sizes AS bigint[])) w(task, size)
), d AS (  -- in one order, as those do who end jobs
  SELECT d.datasetid, w.size FROM jedi_datasets d JOIN w ON d.jeditaskid = w.task
  WHERE d.masterid IS NULL AND d.type IN ({MASTER_TYPES})
  ORDER BY d.datasetid FOR NO KEY UPDATE OF d
), old AS (
  DELETE FROM jedi_dataset_contents c USING d
  WHERE c.datasetid = d.datasetid AND c.ready AND c.attemptnr = 0
    AND c.endevent - c.startevent >= d.size
  RETURNING c.*, d.size
), new AS (
  INSERT INTO jedi_dataset_contents ({_KEPT}, startevent, endevent, firstevent)
  SELECT {_KEPT}, s, least(s + size - 1, endevent), firstevent + s - startevent
  FROM old, generate_series(startevent, endevent, size) s ORDER BY fileid, s
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
_SCOUTS = text(f"""
WITH d AS (
  SELECT datasetid, jeditaskid FROM jedi_datasets
  WHERE jeditaskid = ANY(CAST(:ids AS bigint[])) AND masterid IS NULL AND type IN ({MASTER_TYPES})
), f AS (
  SELECT datasetid, endevent - startevent + 1 AS events,
    row_number() OVER (PARTITION BY d.jeditaskid ORDER BY datasetid, fileid) AS nr
  FROM d JOIN jedi_dataset_contents c USING (datasetid) WHERE c.ready
), s AS (
  SELECT datasetid, count(f.nr) AS n, coalesce(sum(f.events), 0) AS events
  FROM d LEFT JOIN f USING (datasetid) WHERE f.nr IS NULL OR f.nr <= :scouts GROUP BY datasetid
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
        tx.execute(_SCOUTS, {"ids": list(sizes), "scouts": scouts})
        wake(tx, "files:ready")


def recut(tx: Connection, sizes: Mapping[int, int]) -> None:
    """Cut the released ranges that no job ever had into such of at most so many events, by task,
    and keep to that size. The caller has locked the tasks; of those that are scouting
    `scout_anew` counts anew what is released."""
    if sizes:
        tx.execute(_RECUT, {"tasks": list(sizes), "sizes": list(sizes.values())})
        rules = scouting.rules_of(tx, list(sizes))
        scouting.set_rules(
            tx,
            {
                task_id: one.model_copy(update={"target_events_per_job": sizes[task_id]})
                for task_id, one in rules.items()
            },
        )
