"""A registry in a SQLite file: several sessions may read and write it at once."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from jedi_client.gpi.interfaces import (
    Accepted,
    Document,
    Entry,
    JobState,
    Kind,
    Record,
    Status,
    UnitRecord,
)
from jedi_client.gpi.status import ENDED, after, after_merge, is_news, merge_failed
from jedi_client.gpi.store import refusals
from jedi_client.gpi.store.database import RegistryFile, guid_in
from jedi_client.gpi.store.rows import (
    LISTED,
    UNIT,
    WHOLE,
    counted,
    record_of,
    text_of,
    torn,
    unit_of,
    unit_values,
)

MOST = 900
"""Values of a list in a statement; old releases of SQLite take 999 at most."""

_NEXT = {
    "job": "UPDATE registry SET next_job = next_job + ?",
    "template": "UPDATE registry SET next_template = next_template + ?",
}
_LAST = {
    "job": "SELECT next_job FROM registry",
    "template": "SELECT next_template FROM registry",
}
_CREATE = """
INSERT INTO records (kind, id, name, comment, document, change, created)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_WRITE = """
UPDATE records SET document = ?, version = version + 1, change = ?
WHERE kind = ? AND id = ? AND status = 'new' AND version = ?
"""
_ANNOTATE = """
UPDATE records SET name = coalesce(?, name), comment = coalesce(?, comment), change = ?
WHERE kind = ? AND id = ?
"""
_BEGIN = """
UPDATE records SET status = 'submitting', submissions = submissions + 1, backend = ?, change = ?,
  backend_id = NULL, backend_status = NULL, cursor = NULL, reason = NULL, submitted = NULL,
  ended = NULL
WHERE kind = 'job' AND id = ? AND status = 'new' AND version = ?
"""
_SUBMITTED = """
UPDATE records SET status = ?, backend_id = ?, complete = ?, counts = ?, reason = NULL, change = ?,
  submitted = ?
WHERE kind = 'job' AND id = ? AND status IN ('submitting', 'unknown')
  AND submissions = coalesce(?, submissions)
"""
_GIVEN_UP = """
UPDATE records SET status = ?, reason = ?, counts = '{}', complete = 1, change = ?,
  backend = CASE WHEN ? = 'new' THEN NULL ELSE backend END, ended = ?
WHERE kind = 'job' AND id = ? AND status IN ('submitting', 'unknown')
  AND submissions = coalesce(?, submissions)
"""
_NOTED = """
UPDATE records SET status = ?, backend_status = ?, cursor = ?, complete = ?, reason = ?,
  counts = ?, ended = ?, change = ?
WHERE kind = 'job' AND id = ?
"""
_MERGED = """
UPDATE records SET status = ?, reason = ?, change = ? WHERE kind = 'job' AND id = ?
"""
_UNIT = f"""
INSERT INTO units (job, {UNIT}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UNIT_NOW = """
INSERT INTO units (job, k, status, attempt, panda_id, site, exit_code, reason, superseded)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (job, k) DO UPDATE SET status = excluded.status, attempt = excluded.attempt,
  panda_id = excluded.panda_id, site = excluded.site, exit_code = excluded.exit_code,
  reason = excluded.reason, superseded = excluded.superseded
"""
_LINK = "INSERT OR IGNORE INTO folder_jobs (path, job) VALUES (?, ?)"
_COUNTS = """
SELECT job, status, count(*) FROM units WHERE job IN ({}) AND superseded = 0 GROUP BY job, status
"""


class _Changing(NamedTuple):
    """A transaction that writes, and the number of its change."""

    db: sqlite3.Connection
    change: int


class SqliteStore:
    """A registry in a SQLite file. `running_first`: see `status.master`. All methods: NoSpace, if
    the disk is full; nothing of the change is stored then."""

    def __init__(self, path: Path, *, read_only: bool = False, running_first: bool = False) -> None:
        self.file = RegistryFile(path, read_only=read_only)
        self.url = path.absolute().as_uri()
        self.running_first = running_first

    @cached_property
    def guid(self) -> str:
        return guid_in(self.file)

    @property
    def read_only(self) -> bool:
        return self.file.read_only

    def take_over(self) -> None:
        """A file has no lease."""

    def close(self) -> None:
        self.file.close()

    def list(self, kind: Kind, since: int = 0) -> Sequence[Record]:
        asked = f"SELECT {LISTED} FROM records WHERE kind = ? AND change > ? ORDER BY id"
        with self.file.reading() as db:
            try:
                return [record_of(row) for row in db.execute(asked, (kind, since))]
            except sqlite3.DatabaseError:  # a damaged page: its neighbours are sound
                ids = db.execute("SELECT id FROM records WHERE kind = ? ORDER BY id", (kind,))
                found = [_one_by_one(db, LISTED, kind, id) for (id,) in ids.fetchall()]
        return [one for one in found if one and one.change > since]

    def load(self, kind: Kind, ids: Sequence[int]) -> Sequence[Record]:
        with self.file.reading() as db:
            return _load(db, kind, ids)

    def removed(self, kind: Kind, since: int = 0) -> Sequence[int]:
        asked = "SELECT id FROM removed WHERE kind = ? AND change > ? ORDER BY id"
        with self.file.reading() as db:
            return [id for (id,) in db.execute(asked, (kind, since))]

    def create(
        self,
        kind: Kind,
        documents: Sequence[Document],
        names: Sequence[str] = (),
        comments: Sequence[str] = (),
    ) -> Sequence[Record]:
        missing = [""] * len(documents)
        named = zip(documents, names or missing, comments or missing, strict=True)
        entries = [Entry(kind, name, comment, (), one) for one, name, comment in named]
        return self.take_in(entries)[kind]

    def take_in(self, entries: Sequence[Entry]) -> Mapping[Kind, Sequence[Record]]:
        for one in entries:
            refusals.must_be_texts(name=one.name, comment=one.comment)
        texts = [text_of(one.document) for one in entries]
        kinds: tuple[Kind, ...] = get_args(Kind)
        with self._changing() as (db, change):
            return {
                kind: _created(
                    db,
                    change,
                    kind,
                    [
                        (one, text)
                        for one, text in zip(entries, texts, strict=True)
                        if one.kind == kind
                    ],
                )
                for kind in kinds
            }

    def write(self, kind: Kind, id: int, document: Document, version: int) -> Record:
        text = text_of(document)
        if self.read_only:
            self._must_be_new(kind, id)
        with self._changing() as (db, change):
            if not db.execute(_WRITE, (text, change, kind, id, version)).rowcount:
                raise refusals.of_change(_one(db, kind, id), version)
            return _one(db, kind, id)

    def annotate(
        self, kind: Kind, id: int, *, name: str | None = None, comment: str | None = None
    ) -> Record:
        refusals.must_be_texts(name=name, comment=comment)
        with self._changing() as (db, change):
            db.execute(_ANNOTATE, (name, comment, change, kind, id))
            return _one(db, kind, id)

    def remove(self, kind: Kind, ids: Sequence[int]) -> None:
        with self._changing() as (db, change):
            _load(db, kind, ids, LISTED)
            gone = [(id,) for id in dict.fromkeys(ids)]
            db.executemany(f"DELETE FROM records WHERE kind = '{kind}' AND id = ?", gone)
            if kind == "job":
                db.executemany("DELETE FROM units WHERE job = ?", gone)
                db.executemany("DELETE FROM folder_jobs WHERE job = ?", gone)
            db.executemany(
                "INSERT OR REPLACE INTO removed VALUES (?, ?, ?)",
                [(kind, id, change) for (id,) in gone],
            )

    def begin(self, id: int, version: int, backend: str) -> Record:
        if self.read_only:
            self._must_be_new("job", id)
        with self._changing(durable=True) as (db, change):
            if not db.execute(_BEGIN, (backend, change, id, version)).rowcount:
                raise refusals.of_change(_one(db, "job", id), version)
            return _one(db, "job", id)

    def accept(
        self,
        id: int,
        accepted: Accepted,
        status: Status,
        units: Sequence[UnitRecord],
        submission: int | None = None,
    ) -> Record:
        now = datetime.now(UTC).timestamp()
        rows = [(*unit_values(id, one.state), text_of(one.override)) for one in units]
        with self._changing(durable=True) as (db, change):
            db.execute("DELETE FROM units WHERE job = ?", (id,))
            db.executemany(_UNIT, rows)
            counts = text_of(_counts(db, [id]).get(id, {}))
            values = (status, accepted.backend_id, bool(rows), counts, change, now, id, submission)
            if not db.execute(_SUBMITTED, values).rowcount:
                raise refusals.of_answer(_one(db, "job", id), submission)
            return _one(db, "job", id)

    def give_up(
        self,
        id: int,
        status: Literal["new", "unknown", "failed"],
        reason: str,
        submission: int | None = None,
    ) -> Record:
        ended = datetime.now(UTC).timestamp() if status == "failed" else None
        with self._changing(durable=True) as (db, change):
            values = (status, reason, change, status, ended, id, submission)
            if not db.execute(_GIVEN_UP, values).rowcount:
                raise refusals.of_answer(_one(db, "job", id), submission)
            db.execute("DELETE FROM units WHERE job = ?", (id,))
            return _one(db, "job", id)

    def note(
        self,
        states: Mapping[int, JobState],
        now: datetime,
        since: Mapping[int, str | None] | None = None,
    ) -> Sequence[Record]:
        with self.file.reading() as db:
            if not _news(db, states, since):
                return []
        with self._changing() as (db, change):
            known = _news(db, states, since)
            news = {id: states[id] for id in known}
            db.executemany(
                _UNIT_NOW,
                (unit_values(id, unit) for id, state in news.items() for unit in state.changed),
            )
            counts = _counts(db, list(news))
            db.executemany(
                _NOTED,
                (
                    self._noted(known[id], state, counts.get(id, {}), now, change)
                    for id, state in news.items()
                ),
            )
            return _found(db, "job", sorted(news), LISTED)

    def merged(self, id: int, failure: str | None) -> Record:
        with self._changing() as (db, change):
            known = _one(db, "job", id)
            if status := after_merge(known.status, known.counts, failure):
                db.execute(_MERGED, (status, failure, change, id))
            return _one(db, "job", id)

    def units(self, id: int, ks: Sequence[int] | None = None) -> Sequence[UnitRecord]:
        asked = f"SELECT {UNIT} FROM units WHERE job = ?"
        with self.file.reading() as db:
            _load(db, "job", [id], LISTED)
            if ks is None:
                return [unit_of(row) for row in db.execute(f"{asked} ORDER BY k", (id,))]
            some_of = [
                db.execute(f"{asked} AND k IN ({_marks(some)})", (id, *some)).fetchall()
                for some in _lists(ks)
            ]
        found = {row[0]: unit_of(row) for rows in some_of for row in rows}
        if missing := [k for k in ks if k not in found]:
            raise refusals.no_subjob(id, missing)
        return [found[k] for k in ks]

    def folders(self) -> Mapping[str, Sequence[int]]:
        asked = """
            SELECT path, job FROM folders LEFT JOIN folder_jobs USING (path) ORDER BY path, place"""
        found: dict[str, list[int]] = {"/": []}
        with self.file.reading() as db:
            for path, job in db.execute(asked):
                found.setdefault(path, []).extend(() if job is None else (job,))
        return found

    def make_folder(self, path: str) -> None:
        with self._changing() as (db, _):
            _make_folder(db, path)

    def remove_folder(self, path: str) -> None:
        with self._changing() as (db, _):
            _must_be_folder(db, path)
            inside = (path, len(path) + 1, f"{path}/")
            for table in ("folder_jobs", "folders"):
                db.execute(f"DELETE FROM {table} WHERE path = ? OR substr(path, 1, ?) = ?", inside)

    def put(self, path: str, ids: Sequence[int]) -> None:
        with self._changing() as (db, _):
            _load(db, "job", ids, LISTED)
            _make_folder(db, path)
            db.executemany(_LINK, [(path, id) for id in ids])

    def take_out(self, path: str, ids: Sequence[int]) -> None:
        with self._changing() as (db, _):
            _must_be_folder(db, path)
            db.executemany(
                "DELETE FROM folder_jobs WHERE path = ? AND job = ?", [(path, id) for id in ids]
            )

    @contextmanager
    def _changing(self, *, durable: bool = False) -> Iterator[_Changing]:
        """A transaction that changes the registry. RegistryIsReadOnly."""
        if self.read_only:
            raise refusals.read_only(self.url)
        with self.file.writing(durable=durable) as db:
            db.execute("UPDATE registry SET change = change + 1")
            yield _Changing(db, db.execute("SELECT change FROM registry").fetchone()[0])

    def _must_be_new(self, kind: Kind, id: int) -> None:
        """NotWritable, as it would be in a registry with the right to write."""
        [record] = self.load(kind, [id])
        if record.status != "new":
            raise refusals.of_change(record, record.version)

    def _noted(
        self,
        known: Record,
        state: JobState,
        counts: Mapping[Status, int],
        now: datetime,
        change: int,
    ) -> tuple[Any, ...]:
        """The values of `_NOTED`."""
        status = after(
            counts, state.counts, complete=state.complete, running_first=self.running_first
        )
        reason = state.reason
        if merge_failed(known.status, known.counts) and not state.changed:
            status, reason = known.status, known.reason
        ended = (known.ended or now).timestamp() if status in ENDED else None
        return (
            status,
            state.status,
            state.cursor,
            state.complete,
            reason,
            text_of(counts),
            ended,
            change,
            known.id,
        )


def _news(
    db: sqlite3.Connection,
    states: Mapping[int, JobState],
    since: Mapping[int, str | None] | None,
) -> dict[int, Record]:
    """The jobs that have changed, as the registry knows them."""
    found = _found(db, "job", list(states), LISTED)
    return {one.id: one for one in found if _is_news(one, states[one.id], since)}


def _is_news(known: Record, state: JobState, since: Mapping[int, str | None] | None) -> bool:
    """True if a submitted job has changed, and no other session noted a later state of it."""
    fenced = since is not None and since.get(known.id) != known.cursor
    return not fenced and is_news(known, state)


def _one(db: sqlite3.Connection, kind: Kind, id: int) -> Record:
    [record] = _load(db, kind, [id])
    return record


def _load(
    db: sqlite3.Connection, kind: Kind, ids: Collection[int], columns: str = WHOLE
) -> Sequence[Record]:
    """Records in the order of `ids`. NotFound."""
    found = {one.id: one for one in _found(db, kind, ids, columns)}
    if missing := [id for id in ids if id not in found]:
        raise refusals.not_found(kind, missing)
    return [found[id] for id in ids]


def _found(
    db: sqlite3.Connection, kind: Kind, ids: Collection[int], columns: str
) -> Sequence[Record]:
    """Records of the ids that exist."""
    found: list[Record] = []
    for some in _lists(ids):
        asked = f"SELECT {columns} FROM records WHERE kind = ? AND id IN ({_marks(some)})"
        try:
            found += map(record_of, db.execute(asked, (kind, *some)).fetchall())
        except sqlite3.DatabaseError:
            each = [_one_by_one(db, columns, kind, id) for id in some]
            found += [one for one in each if one]
    return found


def _one_by_one(db: sqlite3.Connection, columns: str, kind: Kind, id: int) -> Record | None:
    """A record beside a damaged page; a torn one if it lies on it."""
    asked = f"SELECT {columns} FROM records WHERE kind = ? AND id = ?"
    try:
        row = db.execute(asked, (kind, id)).fetchone()
    except sqlite3.DatabaseError:
        return torn(kind, id)
    return record_of(row) if row else None


def _counts(db: sqlite3.Connection, jobs: Sequence[int]) -> dict[int, dict[Status, int]]:
    """Numbers of subjobs by job and status, superseded ones left out."""
    rows: Iterable[tuple[int, Status, int]] = [
        row for some in _lists(jobs) for row in db.execute(_COUNTS.format(_marks(some)), some)
    ]
    return counted(rows)


def _created(
    db: sqlite3.Connection, change: int, kind: Kind, entries: Sequence[tuple[Entry, str]]
) -> Sequence[Record]:
    """New records of one kind with the next ids, in their folders."""
    now = datetime.now(UTC).timestamp()
    db.execute(_NEXT[kind], (len(entries),))
    first = db.execute(_LAST[kind]).fetchone()[0] - len(entries)
    db.executemany(
        _CREATE,
        (
            (kind, id, one.name, one.comment, text, change, now)
            for id, (one, text) in enumerate(entries, first)
        ),
    )
    links = [(path, id) for id, (one, _) in enumerate(entries, first) for path in one.folders]
    for path in dict.fromkeys(path for path, _ in links):
        _make_folder(db, path)
    db.executemany(_LINK, links)
    return _load(db, kind, range(first, first + len(entries)))


def _make_folder(db: sqlite3.Connection, path: str) -> None:
    """A folder with its missing parents."""
    parts = path.strip("/").split("/")
    paths = [("/" + "/".join(parts[:n]),) for n in range(1, len(parts) + 1)]
    db.executemany("INSERT OR IGNORE INTO folders (path) VALUES (?)", paths)


def _must_be_folder(db: sqlite3.Connection, path: str) -> None:
    if not db.execute("SELECT 1 FROM folders WHERE path = ?", (path,)).fetchone():
        raise refusals.no_folder(path)


def _lists(values: Collection[int]) -> Iterator[Sequence[int]]:
    listed = list(values)
    return (listed[at : at + MOST] for at in range(0, len(listed), MOST))


def _marks(values: Sequence[int]) -> str:
    return ", ".join("?" * len(values))
