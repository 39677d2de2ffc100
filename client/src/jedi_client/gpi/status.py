"""The status of a job from its subjobs. Source: docs/reference/ganga.md#status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from jedi_client.gpi.interfaces import Status

STATUSES: tuple[Status, ...] = get_args(Status)
LIVE = frozenset({"submitting", "submitted", "running", "completing"})
"""Statuses that monitoring watches."""
ENDED = frozenset({"completed", "failed", "killed"})

_SUBMITTED: tuple[Status, frozenset[Status]]
_SUBMITTED = "submitted", frozenset({"submitting", "submitted"})
_RUNNING: tuple[Status, frozenset[Status]] = "running", frozenset({"running", "completing"})
_SETTLED: tuple[tuple[Status, frozenset[Status]], ...] = (
    ("failed", frozenset({"failed", "new"})),
    ("completed", frozenset({"completed"})),
)


def master(counts: Mapping[Status, int], *, running_first: bool = False) -> Status:
    """The status of a job with so many subjobs of each status, superseded ones left out; without
    any, or with new ones alone, it is new."""
    present = {status for status, number in counts.items() if number}
    if present <= {"new"}:
        return "new"
    first = (_RUNNING, _SUBMITTED) if running_first else (_SUBMITTED, _RUNNING)
    for answer, members in (*first, *_SETTLED):
        if present & members:
            return answer
    return "killed"


def merge_failed(status: str, counts: Mapping[Status, int]) -> bool:
    """True: the job failed although its subjobs did not: their outputs could not be merged."""
    return status == "failed" and master(counts) == "completed"


def is_news(known: Any, state: Any) -> bool:
    """True if an answer of a backend changes the record of a submitted job, or its units."""
    if known.status in ("new", "submitting", "unknown"):
        return False
    lost = merge_failed(known.status, known.counts)
    before = known.backend_status, known.cursor, known.complete, lost or known.reason
    return bool(state.changed) or before != (
        state.status,
        state.cursor,
        state.complete,
        lost or state.reason,
    )


def after_merge(status: str, counts: Mapping[Status, int], failure: str | None) -> Status | None:
    """The status of an ended job after a merge of its outputs, or its `failure`; None: it stays.
    Source: docs/reference/ganga.md#status."""
    lost = merge_failed(status, counts)
    if failure is not None:
        return "failed" if lost or status == "completed" else None
    return "completed" if lost else None


def after(
    counts: Mapping[Status, int],
    reported: Mapping[Status, int],
    *,
    complete: bool,
    running_first: bool = False,
) -> Status:
    """The status of a submitted job after a report of its backend. Without any subjob yet, the job
    is submitted until all its input is cut; then the numbers of the backend count, else it
    failed."""
    if any(counts.values()) or any(reported.values()):
        known = counts if any(counts.values()) else reported
        return master(known, running_first=running_first)
    return "failed" if complete else "submitted"
