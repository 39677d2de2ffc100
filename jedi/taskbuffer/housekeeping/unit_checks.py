"""Invariants of herds and their units; see checks.py.

Source: docs/reference/herds.md#records.
"""

from __future__ import annotations

from jedi.taskbuffer.db.sql_lists import JOB_LIVE, MASTER_TYPES
from jedi.taskbuffer.schema import all_jobs

WHOLE = """
SELECT h.jeditaskid, CASE WHEN h.split_at IS NULL AND h.splitter <> 'Explicit'
    THEN u.n IS NOT NULL
  ELSE (u.n, u.last, u.first) IS DISTINCT FROM (h.n_units, h.n_units, h.originpandaid) END
FROM jedi_herds h LEFT JOIN (
  SELECT jeditaskid, count(*) AS n, max(unit_nr) AS last,
    min(originpandaid) FILTER (WHERE unit_nr = 1) AS first
  FROM jedi_units GROUP BY jeditaskid) u USING (jeditaskid)"""
"""A herd that is split, or explicit, has all its units, the originator first; others have none
before."""

OF_JOBS = f"""
SELECT j.pandaid, u.originpandaid IS DISTINCT FROM j.originpandaid
FROM {all_jobs.all_jobs("pandaid, jeditaskid, originpandaid, unit_nr, kind")} j
  JOIN jedi_herds h USING (jeditaskid)
  LEFT JOIN jedi_units u ON u.jeditaskid = j.jeditaskid AND u.unit_nr = j.unit_nr
WHERE j.kind = 'normal'"""
"""A job of a herd has a unit, and its origin."""

KILLED = f"""
SELECT u.jeditaskid || '.' || u.unit_nr, f.unit_nr IS NOT NULL OR j.unit_nr IS NOT NULL
FROM jedi_units u LEFT JOIN (
    SELECT DISTINCT c.jeditaskid, c.boundaryid AS unit_nr
    FROM jedi_dataset_contents c JOIN jedi_datasets d USING (datasetid, jeditaskid)
    WHERE c.ready AND d.type IN ({MASTER_TYPES}) AND d.masterid IS NULL) f
  ON f.jeditaskid = u.jeditaskid AND f.unit_nr = u.unit_nr
  LEFT JOIN (
    SELECT DISTINCT jeditaskid, unit_nr FROM jedi_jobs
    WHERE status IN ({JOB_LIVE}) AND kind = 'normal' AND kill_code IS NULL) j
  ON j.jeditaskid = u.jeditaskid AND j.unit_nr = u.unit_nr
WHERE u.killed_at IS NOT NULL"""
"""A killed unit has no ready file, and no live job that nobody ends."""

REFUSED = f"""
SELECT u.jeditaskid || '.' || u.unit_nr, u.killed_at IS NOT NULL OR j.unit_nr IS NOT NULL
  OR f.unit_nr IS NOT NULL
FROM jedi_units u LEFT JOIN (
    SELECT DISTINCT jeditaskid, unit_nr FROM {all_jobs.all_jobs("jeditaskid, unit_nr, kind")} j
    WHERE kind = 'normal') j
  ON j.jeditaskid = u.jeditaskid AND j.unit_nr = u.unit_nr
  LEFT JOIN (
    SELECT DISTINCT c.jeditaskid, c.boundaryid AS unit_nr
    FROM jedi_dataset_contents c JOIN jedi_datasets d USING (datasetid, jeditaskid)
    WHERE d.type IN ({MASTER_TYPES}) AND d.masterid IS NULL) f
  ON f.jeditaskid = u.jeditaskid AND f.unit_nr = u.unit_nr
WHERE u.refusal IS NOT NULL"""
"""A refused unit has neither files nor jobs, and nobody killed it."""

SUPERSEDED = f"""
SELECT u.jeditaskid || '.' || u.unit_nr, f.unit_nr IS NOT NULL OR j.unit_nr IS NOT NULL
FROM jedi_units u LEFT JOIN (
    SELECT DISTINCT c.jeditaskid, c.boundaryid AS unit_nr
    FROM jedi_dataset_contents c JOIN jedi_datasets d USING (datasetid, jeditaskid)
    WHERE d.type IN ({MASTER_TYPES}) AND d.masterid IS NULL) f
  ON f.jeditaskid = u.jeditaskid AND f.unit_nr = u.unit_nr
  LEFT JOIN (
    SELECT DISTINCT jeditaskid, unit_nr FROM jedi_jobs
    WHERE status IN ({JOB_LIVE}) AND kind = 'normal') j
  ON j.jeditaskid = u.jeditaskid AND j.unit_nr = u.unit_nr
WHERE u.superseded IS NOT NULL"""
"""A superseded unit has neither files nor a live job."""
