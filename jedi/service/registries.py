"""Users' registries of jobs: who may write to them, under which lease, and the rules of a change.

Source: docs/reference/ganga.md#writers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from jedi_client.gpi.interfaces import Status
from jedi_client.gpi.report import NotWritable
from jedi_client.gpi.status import ENDED, after, after_merge, is_news, merge_failed
from jedi_client.gpi.store import refusals
from jedi_client.gpi.store.rows import counted, object_of, text_of
from jedi_client.times import written
from sqlalchemy import Connection

from jedi.core.errors import BadInput, Forbidden, NotFound, Problem, Refused
from jedi.taskbuffer.registries import drafts, folders, registries, subjobs
from jedi.taskbuffer.registries.drafts import Draft
from jedi.taskbuffer.registries.registries import JobRegistry, RegistryLease
from jedi.taskbuffer.registries.subjobs import KnownSubjob
from jedi.taskbuffer.users import users


@dataclass(frozen=True, slots=True)
class Writer:
    """A session that changes a registry: its transaction, the user, the registry, its lease, and
    for how long a change prolongs it."""

    tx: Connection
    who: str
    guid: str
    lease: str
    lease_s: float


@dataclass(frozen=True, slots=True)
class DraftEntry:
    """A new job or template, its annotations, and its folders. `document`: JSON."""

    kind: str
    document: str
    name: str = ""
    comment: str = ""
    folders: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SubjobState:
    """A subjob now. `override`: JSON, for a new one."""

    k: int
    status: Status
    attempt: int | None = None
    panda_id: int | None = None
    site: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    superseded: bool = False
    override: str = "{}"


@dataclass(frozen=True, slots=True)
class DraftState:
    """A submitted job now. `fenced`: it counts only while the registry's cursor is `since`."""

    id: int
    status: str
    cursor: str
    complete: bool
    reason: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    changed: list[SubjobState] = field(default_factory=list)
    fenced: bool = False
    since: str | None = None


def open_registry(tx: Connection, who: str, name: str) -> JobRegistry:
    """The registry of a user with this name, made if there is none."""
    registries.PUT.run(tx, user=who, name=name)
    [found] = registries.OF_USER.rows(tx, user=who, name=name)
    return found


def own(tx: Connection, who: str, guid: str) -> JobRegistry:
    """A registry of this user, or for an operator any. NotFound, Forbidden."""
    found = registries.ONE.row(tx, guid=guid)
    if found is None:
        raise NotFound(f"There is no registry {guid}.", guid=guid)
    if found.user_name != who and users.role(tx, who) != "operator":
        raise Forbidden(f"Only {found.user_name} and operators may use this registry.", guid=guid)
    return found


def lease(
    tx: Connection, who: str, guid: str, holder: str, lease_s: float, *, take_over: bool
) -> RegistryLease:
    """Give a session the lease of a registry. Refused: another one has it."""
    found = own(tx, who, guid)
    got = registries.lease(tx, guid, holder, lease_s, take_over)
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


def renew(writer: Writer) -> RegistryLease:
    """Prolong a lease. Refused: another session has taken it."""
    found = own(writer.tx, writer.who, writer.guid)
    got = registries.RENEW.row(
        writer.tx, guid=writer.guid, lease=writer.lease, lease_s=writer.lease_s
    )
    if got is None:
        raise _lost(found)
    return got


def release(tx: Connection, who: str, guid: str, lease: str) -> bool:
    """Give a lease back; False: the session has it no longer."""
    own(tx, who, guid)
    return registries.release(tx, guid, lease)


@contextmanager
def changing(writer: Writer) -> Iterator[int]:
    """A change under the lease, in the transaction that stores it: its number. Refused, also for
    the rules of stores."""
    found = own(writer.tx, writer.who, writer.guid)
    change = registries.CHANGE.row(
        writer.tx, guid=writer.guid, lease=writer.lease, lease_s=writer.lease_s
    )
    if change is None:
        raise _lost(found)
    try:
        yield change
    except NotWritable as error:
        raise Refused(error.sentence, code=error.code, **error.facts) from None


def _lost(found: JobRegistry) -> Refused:
    lost = refusals.lost(f"Registry {found.name}", found.holder)
    return Refused(lost.sentence, code=lost.code, holder=found.holder)


def load(tx: Connection, guid: str, kind: str, ids: Sequence[int]) -> list[Draft]:
    """Whole records, in the order of `ids`. NotFound."""
    return _ordered(drafts.WHOLE.rows(tx, guid=guid, kind=kind, ids=ids), kind, ids)


def _ordered(found: Sequence[Draft], kind: str, ids: Sequence[int]) -> list[Draft]:
    known = {one.id: one for one in found}
    if missing := [id for id in ids if id not in known]:
        raise refusals.not_found(kind, missing)
    return [known[id] for id in ids]


def _one(writer: Writer, kind: str, id: int) -> Draft:
    [found] = load(writer.tx, writer.guid, kind, [id])
    return found


def create(
    writer: Writer,
    kind: str,
    documents: Sequence[str],
    names: Sequence[str],
    comments: Sequence[str],
) -> list[Draft]:
    """New records with the next ids; names and comments: one for each document, or none."""
    number = len(documents)
    problems = _no_objects("documents", documents)
    for argument, texts in (("names", names), ("comments", comments)):
        if texts and len(texts) != number:
            rule = f"has so many texts for {number} documents"
            remedy = "Give one for each document, or none"
            problems.append(Problem(argument, len(texts), rule, remedy))
    if problems:
        raise BadInput(problems)
    with changing(writer) as change:
        first = registries.DRAW_IDS.value(writer.tx, guid=writer.guid, kind=kind, number=number)
        drafts.CREATE.run(
            writer.tx,
            guid=writer.guid,
            kind=kind,
            first=first,
            change=change,
            documents=documents,
            names=names or [""] * number,
            comments=comments or [""] * number,
        )
        return load(writer.tx, writer.guid, kind, range(first, first + number))


def take_in(writer: Writer, entries: Sequence[DraftEntry]) -> list[Draft]:
    """New records of both kinds with the next ids, in their folders: all or none."""
    _must_be_objects("entries", [one.document for one in entries])
    made: list[Draft] = []
    with changing(writer) as change:
        for kind in ("job", "template"):
            mine = [one for one in entries if one.kind == kind]
            first = registries.DRAW_IDS.value(
                writer.tx, guid=writer.guid, kind=kind, number=len(mine)
            )
            drafts.CREATE.run(
                writer.tx,
                guid=writer.guid,
                kind=kind,
                first=first,
                change=change,
                documents=[one.document for one in mine],
                names=[one.name for one in mine],
                comments=[one.comment for one in mine],
            )
            links = [(path, id) for id, one in enumerate(mine, first) for path in one.folders]
            if kind == "job" and links:
                _link(writer, links, change)
            made += load(writer.tx, writer.guid, kind, range(first, first + len(mine)))
    return made


def _link(writer: Writer, links: Sequence[tuple[str, int]], change: int) -> None:
    """Put jobs into folders, which are made with their missing parents."""
    paths = dict.fromkeys(part for path, _ in links for part in _parents(path))
    folders.MAKE.run(writer.tx, guid=writer.guid, paths=[*paths])
    folders.PUT.run(
        writer.tx,
        guid=writer.guid,
        paths=[path for path, _ in links],
        ids=[id for _, id in links],
        change=change,
    )


def _parents(path: str) -> list[str]:
    """A folder after those above it."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:n]) for n in range(1, len(parts) + 1)]


def _no_objects(argument: str, texts: Sequence[str]) -> list[Problem]:
    """Texts that are no JSON objects."""
    return [
        Problem(f"{argument}.{number}", text[:80], "is no JSON object", "Write {...}")
        for number, text in enumerate(texts)
        if object_of(text) is None
    ]


def _must_be_objects(argument: str, texts: Sequence[str]) -> None:
    """BadInput for texts that are no JSON objects."""
    if problems := _no_objects(argument, texts):
        raise BadInput(problems)


def write(writer: Writer, kind: str, id: int, document: str, version: int) -> Draft:
    """A new document of a new record. Refused: it is not new, or has another version."""
    _must_be_objects("document", [document])
    with changing(writer) as change:
        if not drafts.write(writer.tx, writer.guid, kind, id, document, version, change):
            raise refusals.of_change(_one(writer, kind, id), version)
        return _one(writer, kind, id)


def annotate(writer: Writer, kind: str, id: int, name: str | None, comment: str | None) -> Draft:
    """Name and comment, in any status."""
    with changing(writer) as change:
        drafts.ANNOTATE.run(
            writer.tx, guid=writer.guid, kind=kind, id=id, name=name, comment=comment, change=change
        )
        return _one(writer, kind, id)


def remove(writer: Writer, kind: str, ids: Sequence[int]) -> None:
    """Remove records with their subjobs and links: all or none. NotFound."""
    with changing(writer) as change:
        _ordered(drafts.SOME.rows(writer.tx, guid=writer.guid, kind=kind, ids=ids), kind, ids)
        drafts.REMOVE.run(writer.tx, guid=writer.guid, kind=kind, ids=ids, change=change)


def begin(writer: Writer, id: int, version: int, backend: str) -> Draft:
    """new -> submitting. Refused."""
    with changing(writer) as change:
        if not drafts.begin(writer.tx, writer.guid, id, version, backend, change):
            raise refusals.of_change(_one(writer, "job", id), version)
        return _one(writer, "job", id)


def accept(
    writer: Writer,
    id: int,
    backend_id: str,
    status: Status,
    units: Sequence[SubjobState],
    submission: int | None,
) -> Draft:
    """submitting or unknown -> submitted. Refused: no submission waits for this answer."""
    _must_be_objects("units", [one.override for one in units])
    with changing(writer) as change:
        subjobs.CLEAR.run(writer.tx, guid=writer.guid, job=id)
        subjobs.put(writer.tx, writer.guid, _columns([(id, one) for one in units]))
        if not drafts.accept(writer.tx, writer.guid, id, status, backend_id, submission, change):
            raise refusals.of_answer(_one(writer, "job", id), submission)
        return _one(writer, "job", id)


def give_up(writer: Writer, id: int, status: str, reason: str, submission: int | None) -> Draft:
    """submitting or unknown -> new, unknown or failed. Refused, as for `accept`."""
    with changing(writer) as change:
        if not drafts.give_up(writer.tx, writer.guid, id, status, reason, submission, change):
            raise refusals.of_answer(_one(writer, "job", id), submission)
        subjobs.CLEAR.run(writer.tx, guid=writer.guid, job=id)
        return _one(writer, "job", id)


def merged(writer: Writer, id: int, failure: str | None) -> Draft:
    """completed -> failed by a merge that failed; failed -> completed by one that did not."""
    with changing(writer) as change:
        known = _one(writer, "job", id)
        counts = cast(dict[Status, int], known.counts)
        if status := after_merge(known.status, counts, failure):
            drafts.JUDGE.run(
                writer.tx, guid=writer.guid, id=id, status=status, reason=failure, change=change
            )
        return _one(writer, "job", id)


def note(writer: Writer, states: Sequence[DraftState], *, running_first: bool) -> list[Draft]:
    """New states of jobs, for those that have any: their records, without documents."""
    tx, guid = writer.tx, writer.guid
    own(tx, writer.who, guid)
    if not _news(tx, guid, states):
        return []
    with changing(writer) as change:
        news = _news(tx, guid, states)
        ids = [one.id for one in news]
        subjobs.put(tx, guid, _columns([(one.id, unit) for one in news for unit in one.changed]))
        counts = counted(
            (job, cast(Status, status), number)
            for job, status, number in subjobs.COUNTS.rows(tx, guid=guid, jobs=ids)
        )
        lost = {
            one.id: one
            for one in drafts.SOME.rows(tx, guid=guid, kind="job", ids=ids)
            if _lost_merge(one)
        }
        kept = {one.id: lost[one.id] for one in news if one.id in lost and not one.changed}
        statuses = [
            kept[one.id].status
            if one.id in kept
            else after(
                counts.get(one.id, {}),
                cast(dict[Status, int], one.counts),
                complete=one.complete,
                running_first=running_first,
            )
            for one in news
        ]
        drafts.note(
            tx,
            guid,
            change,
            {
                "ids": ids,
                "statuses": statuses,
                "backend_statuses": [one.status for one in news],
                "cursors": [one.cursor for one in news],
                "completes": [one.complete for one in news],
                "reasons": [kept[one.id].reason if one.id in kept else one.reason for one in news],
                "counts": [text_of(counts.get(id, {})) for id in ids],
                "ends": [status in ENDED for status in statuses],
            },
        )
        return drafts.SOME.rows(tx, guid=guid, kind="job", ids=ids)


def _news(tx: Connection, guid: str, states: Sequence[DraftState]) -> list[DraftState]:
    """States that change a submitted job, and are not older than what the registry has."""
    known = {
        one.id: one
        for one in drafts.SOME.rows(tx, guid=guid, kind="job", ids=[one.id for one in states])
    }
    return [one for one in states if one.id in known and _is_news(known[one.id], one)]


def _is_news(known: Draft, state: DraftState) -> bool:
    return not (state.fenced and state.since != known.cursor) and is_news(known, state)


def _lost_merge(known: Draft) -> bool:
    return merge_failed(known.status, cast(dict[Status, int], known.counts))


def _columns(given: Sequence[tuple[int, SubjobState]]) -> dict[str, list[Any]]:
    """Subjobs as columns of `subjobs.put`. Of two values for one, the later counts."""
    units = [(job, one) for (job, _), one in {(job, one.k): one for job, one in given}.items()]
    return {
        "jobs": [job for job, _ in units],
        "ks": [one.k for _, one in units],
        "statuses": [one.status for _, one in units],
        "attempts": [one.attempt for _, one in units],
        "panda_ids": [one.panda_id for _, one in units],
        "sites": [one.site for _, one in units],
        "exit_codes": [one.exit_code for _, one in units],
        "reasons": [one.reason for _, one in units],
        "supersededs": [one.superseded for _, one in units],
        "overrides": [one.override for _, one in units],
    }


def units(tx: Connection, guid: str, id: int, ks: Sequence[int] | None) -> list[KnownSubjob]:
    """Subjobs of a job, or those with these numbers, in their order. NotFound."""
    _ordered(drafts.SOME.rows(tx, guid=guid, kind="job", ids=[id]), "job", [id])
    found = subjobs.of_job(tx, guid, id, ks)
    if ks is None:
        return found
    known = {one.k: one for one in found}
    if missing := [k for k in ks if k not in known]:
        raise refusals.no_subjob(id, missing)
    return [known[k] for k in ks]


def put_in(writer: Writer, path: str, ids: Sequence[int]) -> None:
    """Make a folder with its missing parents, and put jobs into it. NotFound."""
    with changing(writer) as change:
        _ordered(drafts.SOME.rows(writer.tx, guid=writer.guid, kind="job", ids=ids), "job", ids)
        folders.MAKE.run(writer.tx, guid=writer.guid, paths=_parents(path))
        folders.PUT.run(
            writer.tx, guid=writer.guid, paths=[path] * len(ids), ids=ids, change=change
        )


def take_out(writer: Writer, path: str, ids: Sequence[int]) -> None:
    """Take jobs out of a folder. NotFound."""
    with changing(writer):
        if path not in {
            one.path
            for one in folders.OF_REGISTRY.rows(writer.tx, guid=writer.guid, after="", limit=None)
        }:
            raise refusals.no_folder(path)
        folders.TAKE_OUT.run(writer.tx, guid=writer.guid, path=path, ids=ids)


def remove_folder(writer: Writer, path: str) -> None:
    """Remove a folder with those in it; its jobs stay. NotFound."""
    with changing(writer):
        if not folders.remove(writer.tx, writer.guid, path):
            raise refusals.no_folder(path)
