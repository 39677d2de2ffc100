"""Reports of consumers on ranges of events: sent → running, finished or failed, by
100,000 at once.

A call locks the jobs of its consumers and the ranges that it reports, which nobody else writes
while these jobs are at their site. Source: docs/reference/event-service.md#reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic_core import to_json
from sqlalchemy import Connection

from jedi.core import states
from jedi.model.jobs.event_wire import ConsumerReport, ReportedZip
from jedi.model.jobs.events import RangeId
from jedi.taskbuffer.db.statement import changes, returns
from jedi.taskbuffer.events.consumers import KnownConsumer
from jedi.taskbuffer.events.dispatch import LIVE_CONSUMERS

_CODE = states.EVENT_CODES


class RangeEntry(NamedTuple):
    """A reported range: its consumer, its key, and the number of its detail."""

    panda_id: int
    key: RangeId
    detail: int


class Detail(NamedTuple):
    """Facts that many ranges of a report have in common. `status` is running,
    finished, failed or fatal;
    `zip`: the number of the zip file."""

    status: str
    zip: int | None
    endpoint: str | None
    path_convention: int | None
    error_code: int | None
    error_diag: str | None


class LiveConsumer(NamedTuple):
    """A consumer that a pilot has, and the endpoints of its site that pilots write to, the usual
    one first."""

    panda_id: int
    endpoints: list[str]


_LIVE = returns(LiveConsumer)(f"""
SELECT k.pandaid, ARRAY(
  SELECT e.ddm_endpoint FROM jedi_site_endpoints e JOIN jedi_ddm_endpoints USING (ddm_endpoint)
  WHERE e.site = :site AND e.roles LIKE '%write%'
  ORDER BY e.default_write DESC, e.order_write, e.ddm_endpoint) AS endpoints
FROM (
  SELECT *, :site AS site
  FROM unnest(CAST(:ids AS bigint[]), CAST(:seqs AS bigint[])) a(pandaid, lock_seq)
  ORDER BY pandaid) a, {LIVE_CONSUMERS}
""")


def live_consumers(
    tx: Connection, site: str, reports: Sequence[ConsumerReport]
) -> dict[int, LiveConsumer]:
    """The jobs of reports that a pilot of the site has in just these attempts; they are locked."""
    ids = [report.panda_id for report in reports]
    seqs = [report.lock_seq for report in reports]
    found = _LIVE.rows(tx, ids=ids, seqs=seqs, site=site)
    return {one.panda_id: one for one in found}


_PUT_ZIPS = changes("""
WITH z AS (
  SELECT * FROM jsonb_to_recordset(CAST(:zips AS jsonb)) AS z(jeditaskid bigint, jobsetid bigint,
    pandaid bigint, lfn text, endpoint text, fsize bigint, checksum text, n_events bigint,
    path_convention smallint)
)
INSERT INTO jedi_event_zips (jeditaskid, jobsetid, pandaid, lfn, endpoint, fsize, checksum,
  n_events, path_convention)
SELECT z.* FROM z ON CONFLICT (pandaid, lfn) DO NOTHING
""")


class StoredZip(NamedTuple):
    """The row of a reported zip file; `same`: it was not reported as another file before."""

    number: int
    ziprow_id: int
    same: bool


_ZIPS = returns(StoredZip)("""
SELECT n AS number, ziprow_id, (t.fsize, t.checksum, t.endpoint) = (z.fsize, z.checksum, z.endpoint)
  AS same
FROM jsonb_to_recordset(CAST(:zips AS jsonb)) AS z(n int, pandaid bigint, lfn text, fsize bigint,
  checksum text, endpoint text) JOIN jedi_event_zips t USING (pandaid, lfn)
""")


def store_zips(tx: Connection, zips: Sequence[tuple[KnownConsumer, ReportedZip]]) -> dict[int, int]:
    """Note zip files of consumers, each once. Return the rows of those that are the files that
    were reported under their names first, by their numbers in `zips`."""
    if not zips:
        return {}
    rows = [
        {
            "n": n,
            "jeditaskid": consumer.jedi_task_id,
            "jobsetid": consumer.jobset_id,
            "pandaid": consumer.panda_id,
            "checksum": one.adler32,
            **one.model_dump(include={"lfn", "endpoint", "fsize", "n_events", "path_convention"}),
        }
        for n, (consumer, one) in enumerate(zips)
    ]
    given = {"zips": to_json(rows).decode()}
    _PUT_ZIPS.run(tx, **given)
    found = _ZIPS.rows(tx, **given)
    return {one.number: one.ziprow_id for one in found if one.same}


_ENTRIES = """
unnest(CAST(:ids AS bigint[]), CAST(:tasks AS bigint[]), CAST(:owners AS bigint[]),
  CAST(:files AS bigint[]), CAST(:processes AS bigint[]), CAST(:attempts AS smallint[]),
  CAST(:details AS int[])) WITH ORDINALITY r(pandaid, task, owner, file, process, attempt, detail,
  nr)
"""

_TAKE = changes(f"""
WITH x AS MATERIALIZED (
  SELECT e.tid, r.pandaid FROM {_ENTRIES}, LATERAL (
    SELECT ctid AS tid FROM jedi_events e
    WHERE e.jeditaskid = r.task AND e.pandaid = r.owner AND e.fileid = r.file
      AND e.job_processid = r.process AND e.attemptnr = r.attempt AND e.ready AND e.attemptnr > 0
    FOR UPDATE SKIP LOCKED) e
)
UPDATE jedi_events e SET status = {_CODE["sent"]}, pandaid = x.pandaid,
  is_jumbo = CASE WHEN x.pandaid = ANY(CAST(:jumbos AS bigint[])) THEN 1 END
FROM x WHERE e.ctid = x.tid
""")


def take_ranges(tx: Connection, entries: Sequence[RangeEntry], jumbos: Iterable[int]) -> None:
    """Hand ready ranges of job sets to the consumers that name them, ready → sent; ranges that
    others have at this moment are left alone. `jumbos` are the jumbo jobs among the consumers."""
    if entries:
        _TAKE.run(tx, **_arrays(entries), jumbos=list(jumbos))


_REPORT = returns(int)(f"""
WITH d AS (
  SELECT * FROM jsonb_to_recordset(CAST(:rows AS jsonb)) AS d(detail int, status text,
    ziprow_id bigint, endpoint text, path_convention smallint, error_code int, error_diag text)
), u AS (
  UPDATE jedi_events e SET
    status = CASE d.status WHEN 'finished' THEN {_CODE["finished"]}
      WHEN 'running' THEN {_CODE["running"]} ELSE {_CODE["failed"]} END,
    attemptnr = CASE d.status WHEN 'fatal' THEN 1 ELSE e.attemptnr END,
    processed_upto_eventid = CASE d.status WHEN 'finished' THEN e.def_max_eventid END,
    file_not_deleted = CASE d.status WHEN 'finished' THEN 'Y' END,
    ziprow_id = d.ziprow_id, endpoint = d.endpoint, path_convention = d.path_convention,
    error_code = d.error_code, error_diag = d.error_diag
  FROM {_ENTRIES} JOIN d USING (detail)
  WHERE e.jeditaskid = r.task AND e.pandaid = r.pandaid AND e.fileid = r.file
    AND e.job_processid = r.process AND e.attemptnr = r.attempt
    AND e.status IN ({_CODE["sent"]}, {_CODE["running"]})
  RETURNING 1
)
SELECT count(*) FROM u
""")


class OtherEnd(NamedTuple):
    """A range that is not as its report says, by its number from 1 on; `code` None: its consumer
    has no such range."""

    number: int
    code: int | None


# A range that failed for good has attempt 1 from then on.
_STAND = returns(OtherEnd)(f"""
SELECT CAST(r.nr AS int) AS number, e.status AS code FROM {_ENTRIES} LEFT JOIN LATERAL (
  SELECT status FROM jedi_events e
  WHERE e.jeditaskid = r.task AND e.pandaid = r.pandaid AND e.fileid = r.file
    AND e.job_processid = r.process
    AND (e.attemptnr = r.attempt OR e.attemptnr = 1 AND e.status = {_CODE["failed"]})
  LIMIT 1) e ON true
WHERE e.status IS DISTINCT FROM CASE
  WHEN r.detail = ANY(CAST(:finished AS int[])) THEN {_CODE["finished"]}
  WHEN r.detail = ANY(CAST(:running AS int[])) THEN {_CODE["running"]}
  ELSE {_CODE["failed"]} END
ORDER BY r.nr
""")


def report_ranges(
    tx: Connection,
    entries: Sequence[RangeEntry],
    details: Sequence[Detail],
    ziprows: Mapping[int, int],
) -> dict[int, str | None]:
    """Note the results of ranges of consumers that the transaction has locked. Return the statuses
    of those that are not as reported, by their places in `entries`; None: the consumer does not
    have it. `ziprows` are the rows of the zip files that details name.

    A range that failed for good has one attempt left from now on, the one that failed.
    """
    if not entries:
        return {}
    rows = [
        {"detail": n, "ziprow_id": ziprows.get(-1 if one.zip is None else one.zip), **one._asdict()}
        for n, one in enumerate(details)
    ]
    arrays = _arrays(entries)
    if _REPORT.row(tx, **arrays, rows=to_json(rows).decode()) == len(entries):
        return {}
    of = {
        status: [n for n, one in enumerate(details) if one.status == status]
        for status in ("finished", "running")
    }
    found = _STAND.rows(tx, **arrays, **of)
    names = {code: status for status, code in _CODE.items()}
    return {one.number - 1: None if one.code is None else names[one.code] for one in found}


def _arrays(entries: Sequence[RangeEntry]) -> dict[str, str]:
    """Entries by columns, as PostgreSQL writes arrays: lists take ten times as long."""
    columns: dict[str, Iterable[Any]] = {
        "ids": (one.panda_id for one in entries),
        "tasks": (one.key.jedi_task_id for one in entries),
        "owners": (one.key.panda_id for one in entries),
        "files": (one.key.file_id for one in entries),
        "processes": (one.key.process_id for one in entries),
        "attempts": (one.key.attempt_nr for one in entries),
        "details": (one.detail for one in entries),
    }
    return {name: f"{{{','.join(map(str, numbers))}}}" for name, numbers in columns.items()}
