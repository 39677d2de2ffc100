"""Ranges of events for people: counts by status, file and consumer, and the ranges themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.schema.all_jobs import all_jobs

_CODES = states.EVENT_CODES
PROCESSED = ("finished", "done", "merged")
"""A consumer has processed the range."""
LEFT = ("ready", "sent", "running")
"""The range is to be processed."""


def _coded(names: Sequence[str]) -> str:
    return ", ".join(str(_CODES[name]) for name in names)


_NAMES = " ".join(f"WHEN {code} THEN '{name}'" for name, code in _CODES.items())
_NAME = f"CASE e.status {_NAMES} END"
_SIZE = "(e.def_max_eventid - e.def_min_eventid + 1)"
_COLUMNS = """jeditaskid, pandaid, fileid, job_processid, attemptnr, status, jobsetid,
    def_min_eventid, def_max_eventid, endpoint, ziprow_id, error_diag"""
# A job speaks of its own ranges; the merge job of a job set, of all ranges of the set. Each way has
# an index.
_WANTED = f"""(
    SELECT {_COLUMNS} FROM jedi_events
    WHERE jeditaskid = :task AND CAST(:job AS bigint) IS NULL
    UNION ALL SELECT {_COLUMNS} FROM jedi_events
    WHERE jeditaskid = :task AND pandaid = :job AND jobsetid IS DISTINCT FROM :job
    UNION ALL SELECT {_COLUMNS} FROM jedi_events
    WHERE jobsetid IN (SELECT jobsetid FROM jedi_jobsets
      WHERE jeditaskid = :task AND (jobsetid = :job OR merge_pandaid = :job))) e
  WHERE (CAST(:codes AS int[]) IS NULL OR e.status = ANY(CAST(:codes AS int[])))"""
_SUMS = f"""count(*) AS n_ranges, CAST(coalesce(sum({_SIZE}), 0) AS bigint) AS n_events,
  count(*) FILTER (WHERE e.status IN ({_coded(PROCESSED)})) AS n_processed,
  count(*) FILTER (WHERE e.status IN ({_coded(LEFT)})) AS n_left"""

_JOB = "pandaid, kind, status, substatus, site"


@dataclass(frozen=True, slots=True)
class StatusRanges:
    """Ranges in one status, and their events."""

    status: str
    n_ranges: int
    n_events: int


BY_STATUS = returns(StatusRanges)(f"""
-- The numbers of ranges and of their events in each status.
SELECT {_NAME} AS status, count(*) AS n_ranges,
  CAST(coalesce(sum({_SIZE}), 0) AS bigint) AS n_events
FROM {_WANTED} GROUP BY e.status ORDER BY e.status
""")


@dataclass(frozen=True, slots=True)
class FileRanges:
    """Ranges of a file: their events, each once; those that are processed, those that are left. A
    range that was tried again counts as one for each attempt."""

    file_id: int
    lfn: str
    n_ranges: int
    n_events: int
    n_processed: int
    n_left: int


BY_FILE = returns(FileRanges)(f"""
-- The numbers of ranges of each file, the first files.
SELECT f.fileid, c.lfn, f.n_ranges, f.n_events, f.n_processed, f.n_left
FROM (SELECT fileid, CAST(sum(n_ranges) AS bigint) AS n_ranges,
        CAST(sum(size) AS bigint) AS n_events, CAST(sum(n_processed) AS bigint) AS n_processed,
        CAST(sum(n_left) AS bigint) AS n_left
      FROM (SELECT e.fileid, coalesce(max({_SIZE}), 0) AS size, {_SUMS} FROM {_WANTED}
            GROUP BY e.fileid, e.job_processid) r
      GROUP BY fileid ORDER BY fileid LIMIT :limit) f
  JOIN LATERAL (SELECT lfn FROM jedi_dataset_contents c WHERE c.fileid = f.fileid OFFSET 0) c
    ON true
ORDER BY f.fileid
""")


@dataclass(frozen=True, slots=True)
class ConsumerShare:
    """Ranges that a job has or had. `jobset_id`: its job set, unless it is an ordinary job."""

    panda_id: int
    kind: str
    status: str
    substatus: str | None
    site: str
    jobset_id: int | None
    n_ranges: int
    n_events: int
    n_processed: int
    n_left: int


BY_CONSUMER = returns(ConsumerShare)(f"""
-- The numbers of ranges of each consumer, the first consumers.
SELECT f.pandaid, j.kind, j.status, j.substatus, j.site, f.jobset_id,
  f.n_ranges, f.n_events, f.n_processed, f.n_left
FROM (SELECT e.pandaid, min(e.jobsetid) AS jobset_id, {_SUMS}
      FROM {_WANTED} AND e.pandaid IS DISTINCT FROM e.jobsetid
      GROUP BY e.pandaid ORDER BY e.pandaid LIMIT :limit) f
  JOIN {all_jobs(_JOB)} j ON j.pandaid = f.pandaid
ORDER BY f.pandaid
""")


@dataclass(frozen=True, slots=True)
class ListedRange:
    """A range of events of a file: its consumer, if it has one, the attempts that are left (of an
    ordinary job: those so far), and the zip file with its outputs at an endpoint."""

    range_id: str
    lfn: str
    start_event: int | None
    end_event: int | None
    status: str
    panda_id: int | None
    jobset_id: int | None
    attempt_nr: int
    endpoint: str | None
    zip_lfn: str | None
    error_diag: str | None


RANGES = returns(ListedRange)(f"""
-- The first ranges, by file and first event.
SELECT concat_ws('-', e.jeditaskid, e.pandaid, e.fileid, e.job_processid, e.attemptnr) AS range_id,
  c.lfn, e.def_min_eventid AS start_event, e.def_max_eventid AS end_event, {_NAME} AS status,
  nullif(e.pandaid, e.jobsetid) AS panda_id, e.jobsetid, e.attemptnr,
  coalesce(z.endpoint, e.endpoint) AS endpoint, z.lfn AS zip_lfn, e.error_diag
FROM (SELECT * FROM {_WANTED}
      ORDER BY e.fileid, e.job_processid, e.attemptnr DESC LIMIT :limit) e
  JOIN LATERAL (SELECT lfn FROM jedi_dataset_contents c WHERE c.fileid = e.fileid OFFSET 0) c
    ON true
  LEFT JOIN jedi_event_zips z ON z.ziprow_id = e.ziprow_id
ORDER BY e.fileid, e.job_processid, e.attemptnr DESC
""")


class EventPace(NamedTuple):
    """Events reported within the last seconds."""

    n_events: int
    within_s: float | None


_PACE = returns(EventPace)("""
SELECT CAST(coalesce(sum(z.n_events), 0) AS bigint) AS n_events,
  CAST(extract(epoch FROM jedi_now() - greatest(min(s.since), jedi_now() - make_interval(
    secs => :window_s))) AS float8) AS within_s
FROM (SELECT min(coalesce(j.starttime, j.creationtime)) AS since
      FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid) WHERE c.jeditaskid = :task) s
  LEFT JOIN jedi_consumers c ON c.jeditaskid = :task
  LEFT JOIN jedi_event_zips z ON z.pandaid = c.pandaid
    AND z.creationtime > jedi_now() - make_interval(secs => :window_s)
""")


class RangeQuestion(NamedTuple):
    """The ranges of a task that are asked for: of a job, in some statuses."""

    jedi_task_id: int
    panda_id: int | None = None
    statuses: Sequence[str] | None = None
    limit: int = 1_000

    def values(self) -> dict[str, object]:
        codes = None if self.statuses is None else [_CODES[one] for one in self.statuses]
        return {
            "task": self.jedi_task_id,
            "job": self.panda_id,
            "codes": codes,
            "limit": self.limit,
        }


def pace(tx: Connection, jedi_task_id: int, window_s: float) -> EventPace:
    """Events that consumers reported within a time, or since the first of them started."""
    found = _PACE.row(tx, task=jedi_task_id, window_s=window_s)
    assert found
    return found
