"""Rows of the SQLite file as records, and back. A torn row is a record without document."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from jedi_client.errors import BadInput, Problem
from jedi_client.gpi.interfaces import Document, Kind, Record, Status, UnitRecord, UnitState
from jedi_client.gpi.status import STATUSES

LISTED = """kind, id, status, name, comment, version, change, submissions, backend, backend_id,
  backend_status, cursor, complete, reason, counts, created, submitted, ended"""
WHOLE = f"{LISTED}, document"

UNIT = """k, status, attempt, panda_id, site, exit_code, reason, superseded, override"""

TORN = "The stored document is damaged; load it from an export, or remove the job."


def record_of(row: tuple[Any, ...]) -> Record:
    """A record; without its document, if the row was listed or is torn."""
    (
        kind,
        id,
        status,
        name,
        comment,
        version,
        change,
        submissions,
        backend,
        backend_id,
        at_backend,
        cursor,
        complete,
        reason,
        counts,
        created,
        submitted,
        ended,
        *more,
    ) = row
    document = object_of(more[0]) if more else None
    if more and document is None:
        reason = TORN
    return Record(
        id,
        kind,
        status if status in STATUSES else "unknown",
        name,
        comment,
        document,
        version,
        change,
        submissions,
        backend,
        backend_id,
        at_backend,
        cursor,
        bool(complete),
        reason,
        _counts(counts),
        _time(created),
        _time(submitted),
        _time(ended),
    )


def torn(kind: Kind, id: int) -> Record:
    """A record of which nothing can be read."""
    return Record(id, kind, "unknown", "", "", None, 0, 0, reason=TORN)


def unit_of(row: tuple[Any, ...]) -> UnitRecord:
    """A subjob; a torn override counts as none."""
    k, status, attempt, panda_id, site, exit_code, reason, superseded, override = row
    known: Status = status if status in STATUSES else "unknown"
    return UnitRecord(
        UnitState(k, known, attempt, panda_id, site, exit_code, reason, bool(superseded)),
        object_of(override) or {},
    )


def unit_values(job: int, unit: UnitState) -> tuple[Any, ...]:
    """The values of a subjob's row, from the job to `superseded`."""
    return (
        job,
        unit.k,
        unit.status,
        unit.attempt,
        unit.panda_id,
        unit.site,
        unit.exit_code,
        unit.reason,
        unit.superseded,
    )


def text_of(document: Mapping[Any, Any]) -> str:
    """A document as JSON in ASCII: every text of Python survives, also half a surrogate pair.
    BadInput for values that JSON has not."""
    try:
        return json.dumps(document, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        rule = f"is no JSON ({error})"
        raise BadInput([Problem("document", document, rule, "Use texts, numbers, lists")]) from None


def counted(rows: Iterable[tuple[int, Status, int]]) -> dict[int, dict[Status, int]]:
    """Numbers of subjobs by job and status."""
    found: dict[int, dict[Status, int]] = {}
    for job, status, number in rows:
        found.setdefault(job, {})[status] = number
    return found


def object_of(text: object) -> Document | None:
    """A JSON object; None if it is none."""
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _counts(text: object) -> dict[Status, int]:
    found = object_of(text) if text != "{}" else None
    return {key: n for key, n in (found or {}).items() if key in STATUSES and type(n) is int}


def _time(seconds: object) -> datetime | None:
    """The time of a row; None: a torn one."""
    try:
        return datetime.fromtimestamp(seconds, UTC) if isinstance(seconds, float) else None
    except (ValueError, OverflowError, OSError):
        return None
