"""A registry that the service keeps: many sessions read it, the one with the lease writes.

Source: docs/reference/ganga.md#writers.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, get_args

from jedi_client.errors import JediError, Refused
from jedi_client.gpi.interfaces import (
    Accepted,
    Document,
    Entry,
    JobState,
    Kind,
    Record,
    Status,
    UnitRecord,
    UnitState,
)
from jedi_client.gpi.report import NotWritable, RegistryIsReadOnly
from jedi_client.gpi.store import refusals
from jedi_client.gpi.store.rows import TORN, object_of, text_of
from jedi_client.paging import PAGE, pages

if TYPE_CHECKING:
    from jedi_client.models import Draft, JobRegistry, KnownSubjob
    from jedi_client.operations import Client

RENEW_S = 60.0
"""Seconds after which a session that is in use prolongs its lease."""

_RULES = {NotWritable.code, "changed_elsewhere", "no_submission"}
LOST, HELD = "lease_lost", "lease_held"


class ReadOnlyWarning(UserWarning):
    """A registry was opened read-only, or became so."""


class RemoteStore:
    """A registry on the service, opened at its first use: with the lease, or read-only if another
    session has it. `client` makes a connection; `name`: the user's name for the registry."""

    def __init__(
        self,
        client: Callable[[], Client],
        *,
        name: str = "default",
        read_only: bool = False,
        running_first: bool = False,
    ) -> None:
        self._connect, self._name = client, name
        self.running_first = running_first
        self._asked_read_only = read_only
        self._lock = threading.RLock()
        self._client: Client | None = None
        self._found: JobRegistry | None = None
        self._lease: str | None = None
        self._renewed = 0.0
        self._owner = 0

    @property
    def url(self) -> str:
        with self._session() as (client, _):
            return f"{client.profile.url}#{self._name}"

    @property
    def guid(self) -> str:
        with self._session() as (_, guid):
            return guid

    @property
    def read_only(self) -> bool:
        with self._session():
            return self._lease is None

    def take_over(self) -> None:
        """Get the lease from the session that has it: that one is read-only from then on."""
        with self._session() as (client, guid):
            self._hold(client.registry_lease(guid, holder=_me(), take_over=True).lease)

    def close(self) -> None:
        """End the session: give the lease back."""
        with self._lock:
            client, found = self._client, self._found
            self._client = self._found = None
            if client is None or found is None or self._owner != os.getpid():
                return
            try:
                if self._lease is not None:
                    client.registry_release(found.guid, lease=self._lease)
            except JediError:
                pass  # it expires
            finally:
                self._lease = None
                client.close()

    def list(self, kind: Kind, since: int = 0) -> Sequence[Record]:
        with self._reading() as (client, guid):
            rows = pages(
                lambda last: client.draft_list(
                    guid,
                    kind,
                    since=last.change if last else since,
                    after=last.id if last else None,
                    limit=PAGE,
                )
            )
        found = {one.id: one for one in rows}  # one that changed meanwhile came again
        return [_record(found[id]) for id in sorted(found)]

    def load(self, kind: Kind, ids: Sequence[int]) -> Sequence[Record]:
        with self._reading() as (client, guid):
            pages = [
                client.draft_load(guid, kind, ids=list(ids[at : at + PAGE]))
                for at in range(0, len(ids), PAGE)
            ]
        return [_record(one, whole=True) for page in pages for one in page]

    def removed(self, kind: Kind, since: int = 0) -> Sequence[int]:
        with self._reading() as (client, guid):
            return pages(
                lambda last: client.draft_removed(guid, kind, since=since, after=last, limit=PAGE)
            )

    def create(
        self,
        kind: Kind,
        documents: Sequence[Document],
        names: Sequence[str] = (),
        comments: Sequence[str] = (),
    ) -> Sequence[Record]:
        for text in (*names, *comments):
            refusals.must_be_texts(text=text)
        texts = [text_of(one) for one in documents]
        with self._writing() as (client, guid, lease):
            made = client.draft_create(
                guid,
                kind,
                lease=lease,
                documents=texts,
                names=list(names),
                comments=list(comments),
            )
        return [_record(one, whole=True) for one in made]

    def take_in(self, entries: Sequence[Entry]) -> Mapping[Kind, Sequence[Record]]:
        for one in entries:
            refusals.must_be_texts(name=one.name, comment=one.comment)
        rows = [
            {
                "kind": one.kind,
                "name": one.name,
                "comment": one.comment,
                "folders": [*one.folders],
                "document": text_of(one.document),
            }
            for one in entries
        ]
        with self._writing() as (client, guid, lease):
            made = client.draft_take_in(guid, lease=lease, entries=rows)
        found = [_record(one, whole=True) for one in made]
        kinds: tuple[Kind, ...] = get_args(Kind)
        return {kind: [one for one in found if one.kind == kind] for kind in kinds}

    def write(self, kind: Kind, id: int, document: Document, version: int) -> Record:
        text = text_of(document)
        if self.read_only:
            self._must_be_new(kind, id)
        with self._writing() as (client, guid, lease):
            done = client.draft_write(guid, kind, id, lease=lease, document=text, version=version)
        return _record(done, whole=True)

    def annotate(
        self, kind: Kind, id: int, *, name: str | None = None, comment: str | None = None
    ) -> Record:
        refusals.must_be_texts(name=name, comment=comment)
        with self._writing() as (client, guid, lease):
            done = client.draft_annotate(guid, kind, id, lease=lease, name=name, comment=comment)
        return _record(done, whole=True)

    def remove(self, kind: Kind, ids: Sequence[int]) -> None:
        with self._writing() as (client, guid, lease):
            client.draft_remove(guid, kind, lease=lease, ids=list(ids))

    def begin(self, id: int, version: int, backend: str) -> Record:
        if self.read_only:
            self._must_be_new("job", id)
        with self._writing() as (client, guid, lease):
            done = client.draft_begin(guid, id, lease=lease, version=version, backend=backend)
        return _record(done, whole=True)

    def accept(
        self,
        id: int,
        accepted: Accepted,
        status: Status,
        units: Sequence[UnitRecord],
        submission: int | None = None,
    ) -> Record:
        rows = [{**_unit(one.state), "override": text_of(one.override)} for one in units]
        with self._writing() as (client, guid, lease):
            done = client.draft_accept(
                guid,
                id,
                lease=lease,
                backend_id=accepted.backend_id,
                status=status,
                units=rows,
                submission=submission,
            )
        return _record(done, whole=True)

    def give_up(
        self,
        id: int,
        status: Literal["new", "unknown", "failed"],
        reason: str,
        submission: int | None = None,
    ) -> Record:
        with self._writing() as (client, guid, lease):
            done = client.draft_give_up(
                guid, id, lease=lease, status=status, reason=reason, submission=submission
            )
        return _record(done, whole=True)

    def note(
        self,
        states: Mapping[int, JobState],
        now: datetime,
        since: Mapping[int, str | None] | None = None,
    ) -> Sequence[Record]:
        """The service's clock counts, not `now`."""
        rows = [_state(id, state, since) for id, state in states.items()]
        with self._writing() as (client, guid, lease):
            done = client.draft_note(
                guid, lease=lease, states=rows, running_first=self.running_first
            )
        return [_record(one) for one in done]

    def merged(self, id: int, failure: str | None) -> Record:
        with self._writing() as (client, guid, lease):
            done = client.draft_merged(guid, id, lease=lease, failure=failure)
        return _record(done, whole=True)

    def units(self, id: int, ks: Sequence[int] | None = None) -> Sequence[UnitRecord]:
        with self._reading() as (client, guid):
            found = client.draft_units(guid, id, ks=None if ks is None else list(ks))
        return [_known(one) for one in found]

    def folders(self) -> Mapping[str, Sequence[int]]:
        with self._reading() as (client, guid):
            found = pages(
                lambda last: client.folder_list(guid, after=last.path if last else None, limit=PAGE)
            )
        return {"/": [], **{one.path: one.jobs for one in found}}

    def make_folder(self, path: str) -> None:
        self.put(path, [])

    def remove_folder(self, path: str) -> None:
        with self._writing() as (client, guid, lease):
            client.folder_remove(guid, lease=lease, path=path)

    def put(self, path: str, ids: Sequence[int]) -> None:
        with self._writing() as (client, guid, lease):
            client.folder_put(guid, lease=lease, path=path, ids=list(ids))

    def take_out(self, path: str, ids: Sequence[int]) -> None:
        with self._writing() as (client, guid, lease):
            client.folder_take_out(guid, lease=lease, path=path, ids=list(ids))

    @contextmanager
    def _session(self) -> Iterator[tuple[Client, str]]:
        """The connection, one thread at a time, and the registry. A forked process is a session of
        its own."""
        with self._lock:
            if self._client is None or self._owner != os.getpid():
                self._client, self._found, self._lease = self._connect(), None, None
                self._owner = os.getpid()
            if self._found is None:
                self._found = self._client.registry_open(name=self._name)
                if not self._asked_read_only:
                    self._ask(self._client, self._found.guid)
            yield self._client, self._found.guid

    def _ask(self, client: Client, guid: str) -> None:
        """Get the lease; if another session has it, say so."""
        try:
            self._hold(client.registry_lease(guid, holder=_me()).lease)
        except Refused as error:
            if error.code != HELD:
                raise
            warnings.warn(error.sentence, ReadOnlyWarning, stacklevel=2)

    def _hold(self, lease: str) -> None:
        self._lease, self._renewed = lease, time.monotonic()

    @contextmanager
    def _reading(self) -> Iterator[tuple[Client, str]]:
        """A session for a read, which also prolongs its lease from time to time."""
        with self._session() as (client, guid):
            if self._lease is not None and time.monotonic() - self._renewed > RENEW_S:
                try:
                    self._hold(client.registry_renew(guid, lease=self._lease).lease)
                except Refused as error:
                    warnings.warn(self._lost(error).sentence, ReadOnlyWarning, stacklevel=2)
            yield client, guid

    @contextmanager
    def _writing(self) -> Iterator[tuple[Client, str, str]]:
        """A session with the lease, for a write. RegistryIsReadOnly, also if the service finds that
        another session took the lease; NotWritable."""
        with self._session() as (client, guid):
            if self._lease is None:
                raise refusals.read_only(self.url)
            try:
                yield client, guid, self._lease
            except Refused as error:
                if error.code == LOST:
                    raise self._lost(error) from None
                if error.code in _RULES:
                    raise NotWritable(error.sentence, code=error.code, **error.facts) from None
                raise
            self._renewed = time.monotonic()

    def _lost(self, error: Refused) -> RegistryIsReadOnly:
        """Read-only from now on."""
        if error.code != LOST:
            raise error
        self._lease = None
        return RegistryIsReadOnly(error.sentence, code=LOST, **error.facts)

    def _must_be_new(self, kind: Kind, id: int) -> None:
        """NotWritable, as it would be for the session with the lease."""
        [record] = self.load(kind, [id])
        if record.status != "new":
            raise refusals.of_change(record, record.version)


def _me() -> str:
    """The name of this session for people: host and process."""
    return f"{socket.gethostname()}, process {os.getpid()}"


def _record(draft: Draft, *, whole: bool = False) -> Record:
    document = object_of(draft.document)
    fields: dict[str, Any] = {**vars(draft), "document": document}
    if whole and document is None:
        fields["reason"] = TORN
    return Record(**fields)


def _known(found: KnownSubjob) -> UnitRecord:
    fields: dict[str, Any] = {**vars(found)}
    override = object_of(fields.pop("override")) or {}
    return UnitRecord(UnitState(**fields), override)


def _unit(state: UnitState) -> dict[str, Any]:
    return {
        "k": state.k,
        "status": state.status,
        "attempt": state.attempt,
        "panda_id": state.panda_id,
        "site": state.site,
        "exit_code": state.exit_code,
        "reason": state.reason,
        "superseded": state.superseded,
    }


def _state(id: int, state: JobState, since: Mapping[int, str | None] | None) -> dict[str, Any]:
    return {
        "id": id,
        "status": state.status,
        "cursor": state.cursor,
        "complete": state.complete,
        "reason": state.reason,
        "counts": dict(state.counts),
        "changed": [_unit(one) for one in state.changed],
        "fenced": since is not None,
        "since": (since or {}).get(id),
    }
