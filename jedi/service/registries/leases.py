"""Users' registries of jobs: which session may write to them, and the rules of a change.

Source: docs/reference/ganga.md#writers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jedi_client.gpi.report import NotWritable
from jedi_client.gpi.store import refusals
from jedi_client.times import written
from sqlalchemy import Connection

from jedi.core.errors import Refused
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import OWNER, SELF, Call, operation
from jedi.service.registries.arguments import Guid, LeaseText
from jedi.taskbuffer.registries import registries
from jedi.taskbuffer.registries.registries import JobRegistry, RegistryLease


@dataclass(frozen=True, slots=True)
class Writer:
    """A session that changes a registry: its transaction, the registry, its lease, and for how long
    a change prolongs it."""

    tx: Connection
    guid: str
    lease: str
    lease_s: float


def writer_of(call: Call, guid: str, lease: str, subject: str = "") -> Writer:
    """The session that asks for a change."""
    call.subject = f"registry {guid} {subject}".rstrip()
    return Writer(call.tx, guid, lease, call.knobs.api.registry_lease_s)


@contextmanager
def changing(writer: Writer) -> Iterator[int]:
    """A change under the lease, in the transaction that stores it: its number. Refused, also for
    the rules of stores."""
    change = registries.CHANGE.row(
        writer.tx, guid=writer.guid, lease=writer.lease, lease_s=writer.lease_s
    )
    if change is None:
        raise _lost(writer)
    try:
        yield change
    except NotWritable as error:
        raise Refused(error.sentence, code=error.code, **error.facts) from None


def _lost(writer: Writer) -> Refused:
    found = registry_of(writer.tx, writer.guid)
    lost = refusals.lost(f"Registry {found.name}", found.holder)
    return Refused(lost.sentence, code=lost.code, holder=found.holder)


def registry_of(tx: Connection, guid: str) -> JobRegistry:
    """A registry that there is."""
    [found] = registries.ONE.rows(tx, guid=guid)
    return found


@operation("registry.open", "POST", "/v1/registries", SELF, scope="submit", dry_run=True)
def open_registry(call: Call, name: NameText = "default") -> JobRegistry:
    """Give the caller's registry of this name, made if there is none."""
    registries.PUT.run(call.tx, user=call.who, name=name)
    [found] = registries.OF_USER.rows(call.tx, user=call.who, name=name)
    call.subject = f"registry {found.guid}"
    return found


@operation("registry.list", "GET", "/v1/registries", SELF)
def list_registries(call: Call) -> list[JobRegistry]:
    """List the caller's registries."""
    return registries.OF_USER.rows(call.tx, user=call.who, name=None)


@operation(
    "registry.lease", "POST", "/v1/registries/{guid}/lease", OWNER, scope="submit", secret=True
)
def lease(call: Call, guid: Guid, holder: NameText, take_over: bool = False) -> RegistryLease:
    """Give a session the right to write to a registry, if no other has it or its time is over.
    `take_over`: in any case.

    Refused: another one has it.
    """
    found = registry_of(call.tx, guid)
    lease_s = call.knobs.api.registry_lease_s
    got = registries.LEASE.row(
        call.tx, guid=guid, holder=holder, lease_s=lease_s, take_over=take_over
    )
    if got is None:
        until = f", until {written(found.lease_until)} at least" if found.lease_until else ""
        raise Refused(
            f"The session of {found.holder} may write to registry {found.name}{until}. "
            "This session reads; `take_over()` ends "
            "the other's right.",
            code="lease_held",
            holder=found.holder,
        )
    return got


@operation(
    "registry.renew", "PUT", "/v1/registries/{guid}/lease", OWNER, scope="submit", secret=True
)
def renew(call: Call, guid: Guid, lease: LeaseText) -> RegistryLease:
    """Prolong the lease of a session. Each change does so, too.

    Refused: another session has taken it.
    """
    writer = writer_of(call, guid, lease)
    got = registries.RENEW.row(
        writer.tx, guid=writer.guid, lease=writer.lease, lease_s=writer.lease_s
    )
    if got is None:
        raise _lost(writer)
    return got


@operation(
    "registry.release", "DELETE", "/v1/registries/{guid}/lease", OWNER, scope="submit", dry_run=True
)
def release(call: Call, guid: Guid, lease: LeaseText) -> bool:
    """Give a lease back. False: the session had lost it."""
    return registries.release(call.tx, guid, lease)
