"""Jobs and templates of registries, as people ask for them."""

from __future__ import annotations

from collections.abc import Sequence

from jedi_client.gpi.store import refusals
from sqlalchemy import Connection

from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.registries.arguments import (
    MOST,
    ChangeNr,
    Guid,
    RecordId,
    RecordIds,
    RecordKind,
    RegistryRows,
)
from jedi.service.registries.leases import Writer
from jedi.taskbuffer.registries import drafts
from jedi.taskbuffer.registries.drafts import Draft


@operation("draft.list", "GET", "/v1/registries/{guid}/{kind}", OWNER)
def list_drafts(
    call: Call,
    guid: Guid,
    kind: RecordKind,
    since: ChangeNr = 0,
    after: RecordId | None = None,
    limit: RegistryRows = MOST,
) -> list[Draft]:
    """List jobs or templates that changed after a change, without documents, by change and id. The
    next page comes after the change and the id of the last record: `since`, `after`."""
    return drafts.CHANGED.rows(call.tx, guid=guid, kind=kind, since=since, after=after, limit=limit)


@operation("draft.removed", "GET", "/v1/registries/{guid}/{kind}/removed", OWNER)
def removed(
    call: Call,
    guid: Guid,
    kind: RecordKind,
    since: ChangeNr = 0,
    after: RecordId | None = None,
    limit: RegistryRows = MOST,
) -> list[int]:
    """List the ids of jobs or templates that were removed after a change. `after`: the last id of
    the page before."""
    last = -1 if after is None else after
    return drafts.REMOVED.rows(call.tx, guid=guid, kind=kind, since=since, after=last, limit=limit)


@operation(
    "draft.load", "POST", "/v1/registries/{guid}/{kind}/load", OWNER, scope="read", question=True
)
def load(call: Call, guid: Guid, kind: RecordKind, ids: RecordIds) -> list[Draft]:
    """Give whole jobs or templates.

    In the order of `ids`. NotFound.
    """
    return whole(call.tx, guid, kind, ids)


def whole(tx: Connection, guid: str, kind: str, ids: Sequence[int]) -> list[Draft]:
    """Whole records, in the order of `ids`. NotFound."""
    return ordered(drafts.WHOLE.rows(tx, guid=guid, kind=kind, ids=ids), kind, ids)


def ordered(found: Sequence[Draft], kind: str, ids: Sequence[int]) -> list[Draft]:
    """Records in the order of `ids`. NotFound."""
    known = {one.id: one for one in found}
    if missing := [id for id in ids if id not in known]:
        raise refusals.not_found(kind, missing)
    return [known[id] for id in ids]


def one_of(writer: Writer, kind: str, id: int) -> Draft:
    """A whole record. NotFound."""
    [found] = whole(writer.tx, writer.guid, kind, [id])
    return found
