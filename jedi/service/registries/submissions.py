"""Submitted jobs of registries, and their subjobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from jedi_client.gpi.interfaces import Status
from jedi_client.gpi.status import ENDED, after, after_merge, is_news, merge_failed
from jedi_client.gpi.store import refusals
from jedi_client.gpi.store.rows import counted, text_of
from pydantic import Field
from sqlalchemy import Connection

from jedi.service.operations.arguments import FILE_MAX, NameText
from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.registries.arguments import (
    ChangeNr,
    Guid,
    JobNow,
    JobStatus,
    LeaseText,
    NoteText,
    RecordId,
    SubjobNow,
    SubjobNr,
)
from jedi.service.registries.leases import changing, writer_of
from jedi.service.registries.reading import one_of, ordered
from jedi.service.registries.records import must_be_objects
from jedi.taskbuffer.registries import drafts, subjobs
from jedi.taskbuffer.registries.drafts import Draft
from jedi.taskbuffer.registries.subjobs import KnownSubjob


@operation(
    "draft.begin",
    "POST",
    "/v1/registries/{guid}/job/{id}/begin",
    OWNER,
    scope="submit",
    dry_run=True,
)
def begin(
    call: Call, guid: Guid, id: RecordId, lease: LeaseText, version: ChangeNr, backend: NameText
) -> Draft:
    """Begin the submission of a new job, if it still has this version.

    Refused.
    """
    writer = writer_of(call, guid, lease, f"job {id}")
    with changing(writer) as change:
        if not drafts.begin(writer.tx, writer.guid, id, version, backend, change):
            raise refusals.of_change(one_of(writer, "job", id), version)
        return one_of(writer, "job", id)


@operation(
    "draft.accept",
    "POST",
    "/v1/registries/{guid}/job/{id}/accept",
    OWNER,
    scope="submit",
    body_max=FILE_MAX,
    dry_run=True,
)
def accept(
    call: Call,
    guid: Guid,
    id: RecordId,
    lease: LeaseText,
    backend_id: NameText,
    status: JobStatus,
    units: Annotated[list[SubjobNow], Field(max_length=100_000)],
    submission: ChangeNr | None = None,
) -> Draft:
    """Note that a backend has a job, and the subjobs that it has so far.

    Refused: no submission waits for this answer.
    """
    writer = writer_of(call, guid, lease, f"job {id}")
    must_be_objects("units", [one.override for one in units])
    with changing(writer) as change:
        subjobs.CLEAR.run(writer.tx, guid=writer.guid, job=id)
        subjobs.PUT.run(writer.tx, guid=writer.guid, **_columns([(id, one) for one in units]))
        if not drafts.accept(writer.tx, writer.guid, id, status, backend_id, submission, change):
            raise refusals.of_answer(one_of(writer, "job", id), submission)
        return one_of(writer, "job", id)


@operation(
    "draft.give_up",
    "POST",
    "/v1/registries/{guid}/job/{id}/give_up",
    OWNER,
    scope="submit",
    dry_run=True,
)
def give_up(
    call: Call,
    guid: Guid,
    id: RecordId,
    lease: LeaseText,
    status: Literal["new", "unknown", "failed"],
    reason: NoteText,
    submission: ChangeNr | None = None,
) -> Draft:
    """Note that a backend has a job not, or perhaps.

    Refused, as for `draft.accept`.
    """
    writer = writer_of(call, guid, lease, f"job {id}")
    with changing(writer) as change:
        if not drafts.give_up(writer.tx, writer.guid, id, status, reason, submission, change):
            raise refusals.of_answer(one_of(writer, "job", id), submission)
        subjobs.CLEAR.run(writer.tx, guid=writer.guid, job=id)
        return one_of(writer, "job", id)


@operation(
    "draft.merged",
    "PUT",
    "/v1/registries/{guid}/job/{id}/merged",
    OWNER,
    scope="submit",
    dry_run=True,
)
def merged(
    call: Call, guid: Guid, id: RecordId, lease: LeaseText, failure: NoteText | None = None
) -> Draft:
    """Note the merge of an ended job's outputs, or the reason for its failure."""
    writer = writer_of(call, guid, lease, f"job {id}")
    with changing(writer) as change:
        known = one_of(writer, "job", id)
        counts = cast(dict[Status, int], known.counts)
        if status := after_merge(known.status, counts, failure):
            drafts.JUDGE.run(
                writer.tx, guid=writer.guid, id=id, status=status, reason=failure, change=change
            )
        return one_of(writer, "job", id)


@operation(
    "draft.note",
    "POST",
    "/v1/registries/{guid}/states",
    OWNER,
    scope="submit",
    body_max=FILE_MAX,
    dry_run=True,
)
def note(
    call: Call,
    guid: Guid,
    lease: LeaseText,
    states: Annotated[list[JobNow], Field(max_length=10_000)],
    running_first: bool = False,
) -> list[Draft]:
    """Note new states of submitted jobs; give those that changed."""
    writer = writer_of(call, guid, lease)
    tx = call.tx
    if not _news(tx, guid, states):
        return []
    with changing(writer) as change:
        news = _news(tx, guid, states)
        ids = [one.id for one in news]
        subjobs.PUT.run(
            tx, guid=guid, **_columns([(one.id, unit) for one in news for unit in one.changed])
        )
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
                one.counts,
                complete=one.complete,
                running_first=running_first,
            )
            for one in news
        ]
        drafts.NOTE.run(
            tx,
            guid=guid,
            change=change,
            **{
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


def _news(tx: Connection, guid: str, states: Sequence[JobNow]) -> list[JobNow]:
    """States that change a submitted job, and are not older than what the registry has."""
    known = {
        one.id: one
        for one in drafts.SOME.rows(tx, guid=guid, kind="job", ids=[one.id for one in states])
    }
    return [one for one in states if one.id in known and _is_news(known[one.id], one)]


def _is_news(known: Draft, state: JobNow) -> bool:
    return not (state.fenced and state.since != known.cursor) and is_news(known, state)


def _lost_merge(known: Draft) -> bool:
    return merge_failed(known.status, cast(dict[Status, int], known.counts))


def _columns(given: Sequence[tuple[int, SubjobNow]]) -> dict[str, list[Any]]:
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


@operation(
    "draft.units",
    "POST",
    "/v1/registries/{guid}/job/{id}/units",
    OWNER,
    scope="read",
    question=True,
)
def units(
    call: Call,
    guid: Guid,
    id: RecordId,
    ks: Annotated[list[SubjobNr], Field(max_length=100_000)] | None = None,
) -> list[KnownSubjob]:
    """List the subjobs of a job, or those with some numbers.

    In their order. NotFound.
    """
    ordered(drafts.SOME.rows(call.tx, guid=guid, kind="job", ids=[id]), "job", [id])
    found = subjobs.of_job(call.tx, guid, id, ks)
    if ks is None:
        return found
    known = {one.k: one for one in found}
    if missing := [k for k in ks if k not in known]:
        raise refusals.no_subjob(id, missing)
    return [known[k] for k in ks]
