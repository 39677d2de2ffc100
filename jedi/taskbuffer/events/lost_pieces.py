"""Pieces that no merge job can read: their ranges are corrupted, and ready once more.

A merge job found its zip file missing or damaged, or no site that is online reads its endpoint.
Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.statement import changes, returns

_CODE = states.EVENT_CODES

_AGAIN = f"""
n AS (
  INSERT INTO jedi_events (jeditaskid, datasetid, fileid, pandaid, job_processid, def_min_eventid,
    def_max_eventid, event_offset, jobsetid, status, attemptnr)
  SELECT jeditaskid, datasetid, fileid, jobsetid, job_processid, def_min_eventid, def_max_eventid,
    event_offset, jobsetid, {_CODE["ready"]}, attemptnr - 1
  FROM u WHERE attemptnr > 1
)"""
# A piece that is missing may be found by the next merge job; the second failure counts.
_SPOILT = changes(f"""
WITH u AS (
  UPDATE jedi_events e SET status = {_CODE["corrupted"]}
  FROM unnest(CAST(:ids AS bigint[]), CAST(:merges AS bigint[])) h(jobset, merge)
    JOIN jedi_jobsets s ON s.jobsetid = h.jobset
    JOIN jedi_event_zips z ON z.jeditaskid = s.jeditaskid AND z.problems IS NOT NULL
      AND (z.problems ->> CAST(h.merge AS text) = 'broken'
        OR z.problems ->> CAST(h.merge AS text) = 'missing' AND s.n_merges > 2)
  WHERE e.jobsetid = h.jobset AND e.ziprow_id = z.ziprow_id AND e.status = {_CODE["done"]}
  RETURNING e.*
), {_AGAIN} SELECT count(*) FROM u
""")
WAITED = returns(int)("""
-- Those of the job sets whose last consumer ended so long ago.
SELECT s.jobsetid FROM jedi_jobsets s JOIN jedi_jobs m ON m.pandaid = s.merge_pandaid
WHERE s.jobsetid = ANY(CAST(:ids AS bigint[])) AND NOT EXISTS (
    SELECT FROM jedi_consumers c WHERE c.jobsetid = s.jobsetid AND c.settled_at IS NULL)
  AND greatest(m.statechangetime,
    (SELECT max(c.settled_at) FROM jedi_consumers c WHERE c.jobsetid = s.jobsetid))
    <= jedi_now() - make_interval(secs => :wait_s)
ORDER BY s.jobsetid
""")
_UNREAD = returns(tuple[int, int])(f"""
WITH u AS (
  UPDATE jedi_events e SET status = {_CODE["corrupted"]},
    error_diag = 'No site that is online reads ' || l.endpoint || '.'
  FROM unnest(CAST(:ids AS bigint[]), CAST(:endpoints AS text[])) l(id, endpoint)
  WHERE e.jobsetid = l.id AND e.status = {_CODE["done"]} AND l.endpoint = coalesce(
    (SELECT z.endpoint FROM jedi_event_zips z WHERE z.ziprow_id = e.ziprow_id), e.endpoint)
  RETURNING e.*
), {_AGAIN} SELECT jobsetid, count(*) FROM u GROUP BY jobsetid
""")
_GIVE_UP = changes(f"""
UPDATE jedi_events e SET status = {_CODE["fatal"]} FROM jedi_tasks t
WHERE e.jobsetid = ANY(CAST(:ids AS bigint[])) AND e.status = {_CODE["corrupted"]}
  AND e.attemptnr <= 1 AND t.jeditaskid = e.jeditaskid
  AND t.rules @> '{{"allow_partial_finish": true}}'
""")


def give_back_spoilt(tx: Connection, merges: Mapping[int, int]) -> None:
    """The zip files that these merge jobs, by job set, could not read: their ranges are processed
    again, or fatal without attempts where the task does without them."""
    ids = list(merges)
    _SPOILT.run(tx, ids=ids, merges=list(merges.values()))
    _GIVE_UP.run(tx, ids=ids)


def give_back_unread(tx: Connection, endpoints: Mapping[int, Sequence[str]]) -> dict[int, int]:
    """The pieces at these endpoints of waiting job sets, which the caller has locked: likewise.
    Return the number of ranges of each job set that had some."""
    pairs = [(jobset_id, one) for jobset_id, several in endpoints.items() for one in several]
    if not pairs:
        return {}
    ids, names = map(list, zip(*pairs, strict=True))
    found = dict(_UNREAD.rows(tx, ids=ids, endpoints=names))
    _GIVE_UP.run(tx, ids=ids)
    return found
