"""Pieces of merge jobs, for their pilots: so many ranges at a time, in the order of events.

Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.events import RangeId
from jedi.taskbuffer.db.sql_lists import JOB_AT_SITE
from jedi.taskbuffer.db.statement import answers

RANGES_AT_ONCE = 10_000
"""Ranges of one answer: 400 kB with their ids."""

_ID = "concat_ws('-', e.jeditaskid, e.pandaid, e.fileid, e.job_processid, e.attemptnr)"
# Without a zip file each range is a piece of its own. jedi_events_jobset_ix has the order: a page
# reads its own ranges alone.
_PAGE = answers()(f"""
WITH s AS (
  SELECT t.jobsetid, j.jeditaskid
  FROM jedi_jobs j JOIN jedi_jobsets t ON t.merge_pandaid = j.pandaid
  WHERE j.pandaid = :panda_id AND j.lock_seq = :lock_seq AND j.site = :site
    AND j.status IN ({JOB_AT_SITE})
), e AS MATERIALIZED (
  SELECT e.*, {_ID} AS id FROM s, LATERAL (
    SELECT * FROM jedi_events e WHERE e.jobsetid = s.jobsetid
      AND (e.fileid, e.job_processid) > (:file, :process)
      AND e.status = {states.EVENT_CODES["done"]}
    ORDER BY e.jobsetid, e.fileid, e.job_processid LIMIT :n) e
), p AS (
  SELECT json_build_object('endpoint', coalesce(z.endpoint, e.endpoint),
    'lfn', coalesce(z.lfn, min(e.id)), 'fsize', z.fsize, 'adler32', z.checksum,
    'path_convention', coalesce(z.path_convention, e.path_convention),
    'members', json_agg(e.id ORDER BY e.fileid, e.job_processid)) AS piece,
    min(e.fileid) AS file, min(e.job_processid) AS process
  FROM e LEFT JOIN jedi_event_zips z USING (ziprow_id)
  GROUP BY z.ziprow_id, coalesce(z.endpoint, e.endpoint), z.lfn, z.fsize, z.checksum,
    coalesce(z.path_convention, e.path_convention), CASE WHEN z.ziprow_id IS NULL THEN e.id END
)
SELECT json_build_array((SELECT jeditaskid FROM s),
  (SELECT json_agg(piece ORDER BY file, process) FROM p),
  (SELECT id FROM e ORDER BY fileid, job_processid OFFSET :n - 1 LIMIT 1))
""")


class PiecesPage(NamedTuple):
    """Pieces of a merge job of a task, each with its endpoint, name, size and checksum, and the ids
    of its ranges, `members`. `next`: the last range, if others follow."""

    jedi_task_id: int
    pieces: list[dict[str, Any]]
    next: str | None


def page(
    tx: Connection, site: str, panda_id: int, lock_seq: int, after: RangeId | None = None
) -> PiecesPage | None:
    """The pieces of a merge job that a pilot of the site has in this attempt, of the ranges that
    follow one; None: the pilot has it no longer."""
    values = {
        "site": site,
        "panda_id": panda_id,
        "lock_seq": lock_seq,
        "n": RANGES_AT_ONCE,
        "file": after.file_id if after else 0,
        "process": after.process_id if after else 0,
    }
    task, pieces, following = _PAGE.value(tx, **values)
    return None if task is None else PiecesPage(task, pieces or [], following)
