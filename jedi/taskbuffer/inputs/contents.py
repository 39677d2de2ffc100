"""jedi_dataset_contents: input files come in, get lost, are found again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.sql_lists import FED_TYPES
from jedi.taskbuffer.db.statement import changes, returns

FED_COLUMNS = (
    "datasetid",
    "jeditaskid",
    "type",
    "scope",
    "status",
    "proc_status",
    "keeptrack",
    "maxattempt",
    "maxfailure",
    "lfn",
    "guid",
    "fsize",
    "checksum",
    "nevents",
    "startevent",
    "endevent",
    "firstevent",
    "boundaryid",
    "lumiblocknr",
)
"""The columns of a line given to `feed`, in order; the others get their defaults."""


@dataclass(frozen=True, slots=True)
class KnownFiles:
    """LFNs of a dataset's rows; `gone` are those that are lost or missing, `broken` corrupted."""

    lfns: frozenset[str]
    gone: frozenset[str]
    broken: frozenset[str]


class DatasetLfns(NamedTuple):
    """The LFNs of a dataset, a line each: all, lost or missing ones, and broken ones."""

    dataset_id: int
    lfns: str
    gone: str | None
    broken: str | None


_KNOWN = returns(DatasetLfns)("""
SELECT datasetid, string_agg(lfn, E'\\n') AS lfns, string_agg(lfn, E'\\n')
  FILTER (WHERE status IN ('lost', 'missing')) AS gone, string_agg(lfn, E'\\n')
  FILTER (WHERE status = 'broken') AS broken FROM jedi_dataset_contents
WHERE datasetid = ANY(:ids) AND status <> 'skipped' GROUP BY datasetid
""")


def known(tx: Connection, dataset_ids: Sequence[int]) -> dict[int, KnownFiles]:
    """Return the known contents of datasets that have rows, in one statement: one text a dataset,
    because 100,000 rows cost three times as much."""
    rows = _KNOWN.rows(tx, ids=list(dataset_ids))
    return {
        row.dataset_id: KnownFiles(*map(lfns_of, (row.lfns, row.gone, row.broken))) for row in rows
    }


_FINISHED_IN = returns(tuple[int, str])("""
SELECT id, string_agg(lfn, E'\\n') AS lfns FROM (
  SELECT g.id, c.lfn FROM unnest(CAST(:ids AS bigint[]), CAST(:tasks AS bigint[])) AS g(id, task)
  JOIN jedi_datasets mine ON mine.datasetid = g.id
  JOIN jedi_datasets d ON d.jeditaskid = g.task AND d.datasetname = mine.datasetname
    AND d.type = ANY(:types)
  JOIN jedi_dataset_contents c ON c.datasetid = d.datasetid AND c.jeditaskid = d.jeditaskid
  GROUP BY 1, 2 HAVING bool_and(c.status = 'finished')) f
GROUP BY id
""")


def finished_in(
    tx: Connection, wanted: Sequence[tuple[int, int]], types: Sequence[str]
) -> dict[int, frozenset[str]]:
    """By dataset, the LFNs that another task finished in its own dataset of this name and one of
    these types: all ranges of them. `wanted`: datasets and tasks."""
    ids, tasks = map(list, zip(*wanted, strict=True))
    values = {"ids": ids, "tasks": tasks, "types": list(types)}
    found = dict(_FINISHED_IN.rows(tx, **values))
    return {dataset_id: lfns_of(lfns) for dataset_id, lfns in found.items()}


_PROCESSED = returns(tuple[str, str, int])(f"""
SELECT d.datasetname, c.lfn, coalesce(c.startevent, 0) AS start
FROM jedi_datasets d JOIN jedi_dataset_contents c USING (jeditaskid, datasetid)
WHERE d.jeditaskid = :task AND d.type IN ({FED_TYPES}) AND c.status = 'finished'
""")


def processed(tx: Connection, task_id: int) -> dict[str, Counter[tuple[str, int]]]:
    """By dataset of a task, the LFNs of its finished input with their first events, and how many
    rows each has."""
    found: dict[str, Counter[tuple[str, int]]] = {}
    for name, lfn, start in _PROCESSED.rows(tx, task=task_id):
        found.setdefault(name, Counter())[lfn, start] += 1
    return found


def lfns_of(lines: str | None) -> frozenset[str]:
    """The LFNs in a text with one a line."""
    return frozenset(lines.split("\n")) if lines else frozenset()


def feed(tx: Connection, blocks: Iterable[str]) -> None:
    """COPY rows, given as blocks of lines in PostgreSQL's text format with FED_COLUMNS."""
    copy = f"COPY jedi_dataset_contents ({', '.join(FED_COLUMNS)}) FROM STDIN"
    cursor: Any = tx.connection.cursor()  # psycopg's own
    with cursor, cursor.copy(copy) as stream:
        for block in blocks:
            stream.write(block)


_EVENTS = "coalesce(c.endevent - c.startevent + 1, c.nevents)"

# Withheld files count as released from now on: nobody waits for them any more.
_LOSE = changes(f"""
WITH old AS (
  SELECT c.fileid, c.jeditaskid, c.datasetid, c.status <> 'ready' AS withheld, {_EVENTS} AS events
  FROM jedi_dataset_contents c
  JOIN unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[])) AS g(id, lfn)
    ON c.datasetid = g.id AND c.lfn = g.lfn
  WHERE c.datasetid = ANY(:ids) AND c.status IN ('ready', 'pending', 'staging', 'waiting')
  FOR NO KEY UPDATE OF c
), u AS (
  UPDATE jedi_dataset_contents c SET status = 'lost', proc_status = 'failed'
  FROM old WHERE c.fileid = old.fileid AND c.jeditaskid = old.jeditaskid
    AND c.datasetid = ANY(:ids)
), g AS (
  SELECT datasetid, count(*) AS n, count(*) FILTER (WHERE withheld) AS withheld,
    sum(events) FILTER (WHERE withheld) AS events
  FROM old GROUP BY datasetid
)
UPDATE jedi_datasets d SET nfilesmissing = d.nfilesmissing + g.n,
  nfilestobeused = d.nfilestobeused + g.withheld,
  neventstobeused = coalesce(d.neventstobeused + g.events, d.neventstobeused, g.events)
FROM g WHERE d.datasetid = g.datasetid
""")
_FIND = changes("""
WITH u AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'ready', fsize = g.size,
    checksum = g.adler32
  FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[]), CAST(:sizes AS bigint[]),
    CAST(:adler32s AS text[])) AS g(id, lfn, size, adler32)
  WHERE c.datasetid = g.id AND c.lfn = g.lfn AND c.datasetid = ANY(:ids)
    AND c.status IN ('lost', 'missing', 'broken') AND c.attemptnr < c.maxattempt
    AND (c.maxfailure IS NULL OR c.failedattempt < c.maxfailure)
  RETURNING c.datasetid
), g AS (SELECT datasetid, count(*) AS n FROM u GROUP BY datasetid)
UPDATE jedi_datasets d SET nfilesmissing = d.nfilesmissing - g.n
FROM g WHERE d.datasetid = g.datasetid
""")
_RELEASE = changes(f"""
WITH w AS (
  SELECT c.fileid, c.jeditaskid, c.datasetid, r.bunch, r.per_lb, c.lumiblocknr,
    CASE WHEN r.by_events THEN coalesce({_EVENTS}, 1) ELSE 1 END AS weight
  FROM jedi_dataset_contents c
  JOIN unnest(CAST(:ids AS bigint[]), CAST(:bunches AS bigint[]), CAST(:by_events AS bool[]),
    CAST(:per_lb AS bool[])) AS r(id, bunch, by_events, per_lb) ON c.datasetid = r.id
  WHERE c.datasetid = ANY(:ids) AND c.status = 'pending'
), p AS (
  SELECT fileid, jeditaskid, bunch, per_lb,
    sum(weight) OVER (PARTITION BY datasetid ORDER BY fileid) AS nr,
    sum(weight) OVER (PARTITION BY datasetid) AS n,
    lumiblocknr < max(lumiblocknr) OVER (PARTITION BY datasetid) AS complete
  FROM w
), u AS (
  UPDATE jedi_dataset_contents c SET status = 'ready', proc_status = 'ready'
  FROM p WHERE c.fileid = p.fileid AND c.jeditaskid = p.jeditaskid AND c.datasetid = ANY(:ids)
    AND CASE WHEN p.per_lb THEN p.complete ELSE p.nr <= p.n - p.n % p.bunch END
  RETURNING c.datasetid, {_EVENTS} AS events
), g AS (SELECT datasetid, count(*) AS n, sum(events) AS events FROM u GROUP BY datasetid)
UPDATE jedi_datasets d SET nfilestobeused = d.nfilestobeused + g.n,
  neventstobeused = coalesce(d.neventstobeused + g.events, d.neventstobeused, g.events)
FROM g WHERE d.datasetid = g.datasetid
""")


_STAGE = changes("""
WITH g AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[])) AS g(id, lfn)
)
UPDATE jedi_dataset_contents c
SET (status, proc_status) = (SELECT s, s FROM (VALUES
  (CASE WHEN c.status = 'pending' THEN 'staging' ELSE 'pending' END)) v(s))
WHERE c.datasetid = ANY(:datasets) AND c.status IN ('pending', 'staging')
  AND (c.status = 'pending') = EXISTS (SELECT FROM g WHERE g.id = c.datasetid AND g.lfn = c.lfn)
""")
_STAGING = returns(int)("""
SELECT d.id FROM unnest(CAST(:datasets AS bigint[])) d(id), LATERAL (
  SELECT FROM jedi_dataset_contents c
  WHERE c.datasetid = d.id AND c.status = 'staging' LIMIT 1) c
""")


def stage(tx: Connection, on_tape: Mapping[int, Iterable[str]]) -> set[int]:
    """Pending files that are on tape (LFNs by dataset, all of them) wait for staging, others do so
    no more. The datasets of which files wait."""
    if not on_tape:
        return set()
    pairs = [(dataset_id, lfn) for dataset_id, some in on_tape.items() for lfn in some]
    values = {"ids": [i for i, _ in pairs], "lfns": [lfn for _, lfn in pairs]}
    _STAGE.run(tx, **values, datasets=list(on_tape))
    return set(_STAGING.rows(tx, datasets=list(on_tape)))


def lose(tx: Connection, files: Mapping[int, Iterable[str]]) -> None:
    """Files (LFNs by dataset) that left the listing before anybody used them are lost."""
    pairs = [(dataset_id, lfn) for dataset_id, some in files.items() for lfn in some]
    if pairs:
        ids, lfns = zip(*pairs, strict=True)
        _LOSE.run(tx, ids=list(ids), lfns=list(lfns))


def find_again(tx: Connection, files: Sequence[tuple[int, str, int, str | None]]) -> None:
    """Lost, missing or broken files (dataset, LFN, size, adler32) that were listed again are
    ready, as they are now, unless they were tried as often as allowed."""
    if files:
        ids, lfns, sizes, adler32s = map(list, zip(*files, strict=True))
        values = {"ids": ids, "lfns": lfns, "sizes": sizes, "adler32s": adler32s}
        _FIND.run(tx, **values)


LEFT_OUT_ROWS = 10_000
"""Files of a dataset that the task does not want, with a row each: a task of ten files of a million
does not write a million rows. Entries that no task can use all have one. All are counted."""
_LEAVE_OUT = changes("""
WITH g AS MATERIALIZED (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:lfns AS text[]), CAST(:reasons AS text[]))
    g(datasetid, lfn, reason)
), gone AS (
  DELETE FROM jedi_dataset_contents c WHERE c.datasetid = ANY(:datasets) AND c.status = 'skipped'
    AND (c.datasetid, c.lfn, c.reason) NOT IN (SELECT * FROM g)
), there AS MATERIALIZED (
  SELECT datasetid, lfn, reason FROM jedi_dataset_contents
  WHERE datasetid = ANY(:datasets) AND status = 'skipped'
)
INSERT INTO jedi_dataset_contents (datasetid, jeditaskid, type, scope, status, proc_status, lfn,
  reason)
SELECT g.datasetid, d.jeditaskid, d.type, split_part(d.datasetname, ':', 1), 'skipped', 'skipped',
  g.lfn, g.reason
FROM g JOIN jedi_datasets d USING (datasetid)
WHERE (g.datasetid, g.lfn, g.reason) NOT IN (SELECT * FROM there)
""")
_UNWANTED = ("not_selected", "beyond_limit")
_COUNT_LEFT_OUT = changes("""
UPDATE jedi_datasets d SET nleftout = n.left_out
FROM unnest(CAST(:ids AS bigint[]), CAST(:counts AS bigint[])) n(id, left_out)
WHERE d.datasetid = n.id
""")


def leave_out(tx: Connection, entries: Mapping[int, Mapping[str, str]]) -> None:
    """Keep the entries of these datasets that no job gets, by LFN with the reason, and no others.
    The caller has locked the datasets."""
    if not entries:
        return
    ordered = {i: sorted(some.items(), key=_faults_first) for i, some in entries.items()}
    rows = [
        (i, *entry)
        for i, some in ordered.items()
        for n, entry in enumerate(some)
        if n < LEFT_OUT_ROWS or entry[1] not in _UNWANTED
    ]
    ids, lfns, reasons = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    values = {"ids": ids, "lfns": lfns, "reasons": reasons, "datasets": list(entries)}
    _LEAVE_OUT.run(tx, **values)
    counts = {"ids": list(entries), "counts": [len(some) for some in entries.values()]}
    _COUNT_LEFT_OUT.run(tx, **counts)


def _faults_first(entry: tuple[str, str]) -> tuple[bool, str]:
    lfn, reason = entry
    return reason in _UNWANTED, lfn


@dataclass(frozen=True, slots=True)
class ReleaseGroup:
    """A group of files for release: so many files, or events; or all but the last lumi block."""

    size: int
    by_events: bool = False
    per_lb: bool = False


def release(tx: Connection, bunches: Mapping[int, ReleaseGroup]) -> None:
    """Let pending files of datasets (by id) be used, the oldest first, in whole bunches."""
    if bunches:
        values = {
            "ids": list(bunches),
            "bunches": [one.size for one in bunches.values()],
            "by_events": [one.by_events for one in bunches.values()],
            "per_lb": [one.per_lb for one in bunches.values()],
        }
        _RELEASE.run(tx, **values)


@dataclass(frozen=True, slots=True)
class FeedResult:
    """The result of a look-up: rows added, those of them that may be used at once, their events,
    and the state in data management (None: nothing was looked up). `fed_upto`: the last file of
    the look-up, if the next one begins behind it, at once."""

    dataset_id: int
    added: int
    released: int
    events: int | None
    events_released: int | None
    state: str | None
    fed_upto: str | None = None


_NOTE_FED = changes("""
UPDATE jedi_datasets d SET nfiles = nfiles + f.added,
  nfilestobeused = nfilestobeused + f.released,
  nevents = coalesce(nevents + f.events, nevents, f.events), neventstobeused =
  coalesce(neventstobeused + f.usable, neventstobeused, f.usable),
  state = coalesce(f.state, d.state), modificationtime = jedi_now(), fed_upto = f.fed_upto,
  statechecktime = CASE WHEN f.fed_upto IS NULL THEN d.statechecktime END
FROM unnest(CAST(:dataset_id AS bigint[]), CAST(:added AS bigint[]),
  CAST(:released AS bigint[]), CAST(:events AS bigint[]),
  CAST(:events_released AS bigint[]), CAST(:state AS text[]), CAST(:fed_upto AS text[]))
  AS f(id, added, released, events, usable, state, fed_upto) WHERE d.datasetid = f.id
""")


def note_fed(tx: Connection, fed: Sequence[FeedResult]) -> None:
    """Count what was fed; one statement for all datasets."""
    _NOTE_FED.run(
        tx,
        **({name: [asdict(one)[name] for one in fed] for name in FeedResult.__dataclass_fields__}),
    )
