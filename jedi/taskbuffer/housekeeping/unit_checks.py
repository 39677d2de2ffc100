"""Invariants of herds and their units; see checks.py.

Source: docs/reference/herds.md#records.
"""

from __future__ import annotations

from jedi.taskbuffer.jobs import all_jobs

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
