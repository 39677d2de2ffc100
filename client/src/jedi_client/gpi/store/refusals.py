"""Refusals of stores: the same sentences for each kind of store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jedi_client.errors import BadInput, NotFound, Problem
from jedi_client.gpi.report import NotWritable, RegistryIsReadOnly


class Kept(Protocol):
    """A record, as any store keeps it."""

    @property
    def id(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def version(self) -> int: ...

    @property
    def submissions(self) -> int: ...


def must_be_texts(**texts: str | None) -> None:
    """BadInput: a name or comment has NUL or half a surrogate pair, which not every store takes."""
    problems = [
        Problem(name, text, "has NUL or half a surrogate pair", "Remove it")
        for name, text in texts.items()
        if text and not _is_storable(text)
    ]
    if problems:
        raise BadInput(problems)


def _is_storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def not_found(kind: str, ids: Sequence[int]) -> NotFound:
    """The records do not exist."""
    listed = ", ".join(map(str, ids[:10]))
    return NotFound(f"There is no {kind} {listed} in this registry.", kind=kind, ids=list(ids))


def read_only(url: str) -> RegistryIsReadOnly:
    """The registry can't be written."""
    return RegistryIsReadOnly(f"{url} is open read-only: this session can't change it.", url=url)


def lost(url: str, holder: str | None) -> RegistryIsReadOnly:
    """Another session has taken the lease."""
    by = f"The session of {holder} has taken it over" if holder else "Its lease has ended"
    return RegistryIsReadOnly(
        f"{url} is open read-only now: {by}. Nothing of this change is stored; `take_over()` gets "
        "the lease back.",
        code="lease_lost",
        url=url,
        holder=holder,
    )


def of_change(record: Kept, version: int) -> NotWritable:
    """A record is not new, or another session has written it."""
    name = f"{record.kind.capitalize()} {record.id}"
    if record.status != "new":
        return NotWritable(
            f"{name} is {record.status}: only new jobs can be changed. Change a copy of it.",
            id=record.id,
            status=record.status,
        )
    return NotWritable(
        f"Another session has changed {name.lower()} (version {record.version}, this session has "
        f"{version}). Read it again, then repeat the change.",
        code="changed_elsewhere",
        id=record.id,
        version=record.version,
    )


def of_answer(record: Kept, submission: int | None) -> NotWritable:
    """No submission waits for this answer."""
    asked = "" if submission is None else f" (number {submission} of {record.submissions})"
    return NotWritable(
        f"Job {record.id} is {record.status}: no submission waits for this answer{asked}.",
        code="no_submission",
        id=record.id,
        status=record.status,
        submission=record.submissions,
    )


def no_subjob(id: int, ks: Sequence[int]) -> NotFound:
    """The job has no subjob of these numbers."""
    return NotFound(f"Job {id} has no subjob {ks[0]}.", id=id, ks=list(ks))


def no_folder(path: str) -> NotFound:
    """The registry lacks the folder."""
    return NotFound(f"There is no folder {path}.", path=path)
