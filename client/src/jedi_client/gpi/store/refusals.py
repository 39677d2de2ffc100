"""Refusals of stores: the same sentences for each kind of store."""

from __future__ import annotations

from collections.abc import Sequence

from jedi_client.errors import NotFound
from jedi_client.gpi.interfaces import Kind, Record
from jedi_client.gpi.report import NotWritable, RegistryIsReadOnly


def not_found(kind: Kind, ids: Sequence[int]) -> NotFound:
    """There are no such records."""
    listed = ", ".join(map(str, ids[:10]))
    return NotFound(f"There is no {kind} {listed} in this registry.", kind=kind, ids=list(ids))


def read_only(url: str) -> RegistryIsReadOnly:
    """The registry can't be written."""
    return RegistryIsReadOnly(f"{url} is open read-only: this session can't change it.", url=url)


def of_change(record: Record, version: int) -> NotWritable:
    """A record is not new, or somebody else has written it."""
    name = f"{record.kind.capitalize()} {record.id}"
    if record.status != "new":
        return NotWritable(
            f"{name} is {record.status}: only new jobs can be changed. Change a copy of it.",
            id=record.id, status=record.status,
        )  # fmt: skip
    return NotWritable(
        f"Another session has changed {name.lower()} (version {record.version}, this session has "
        f"{version}). Read it again, then repeat the change.",
        code="changed_elsewhere", id=record.id, version=record.version,
    )  # fmt: skip


def of_answer(record: Record, submission: int | None) -> NotWritable:
    """No submission waits for this answer."""
    asked = "" if submission is None else f" (number {submission} of {record.submissions})"
    return NotWritable(
        f"Job {record.id} is {record.status}: no submission waits for this answer{asked}.",
        code="no_submission", id=record.id, status=record.status, submission=record.submissions,
    )  # fmt: skip
