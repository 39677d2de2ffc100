"""Changes of jobs and templates in registries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from jedi_client.gpi.store import refusals
from jedi_client.gpi.store.rows import object_of
from pydantic import Field

from jedi.core.errors import BadInput, Problem
from jedi.service.operations.arguments import FILE_MAX
from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.registries.arguments import (
    MOST,
    ChangeNr,
    DocumentText,
    Guid,
    LeaseText,
    NewDraft,
    NoteText,
    RecordId,
    RecordIds,
    RecordKind,
    RecordName,
)
from jedi.service.registries.folders import link
from jedi.service.registries.leases import changing, writer_of
from jedi.service.registries.reading import one_of, ordered, whole
from jedi.taskbuffer.registries import drafts, registries
from jedi.taskbuffer.registries.drafts import Draft


@operation(
    "draft.create",
    "POST",
    "/v1/registries/{guid}/{kind}",
    OWNER,
    scope="submit",
    body_max=FILE_MAX,
    dry_run=True,
)
def create(
    call: Call,
    guid: Guid,
    kind: RecordKind,
    lease: LeaseText,
    documents: Annotated[list[DocumentText], Field(max_length=MOST)],
    names: Annotated[list[RecordName], Field(max_length=MOST)] | None = None,
    comments: Annotated[list[NoteText], Field(max_length=MOST)] | None = None,
) -> list[Draft]:
    """Make new jobs or templates of documents in JSON, with the next ids."""
    writer = writer_of(call, guid, lease)
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
        return whole(writer.tx, writer.guid, kind, range(first, first + number))


@operation(
    "draft.take_in",
    "POST",
    "/v1/registries/{guid}/records",
    OWNER,
    scope="submit",
    body_max=FILE_MAX,
    dry_run=True,
)
def take_in(
    call: Call,
    guid: Guid,
    lease: LeaseText,
    entries: Annotated[list[NewDraft], Field(max_length=MOST)],
) -> list[Draft]:
    """Make new jobs and templates with the next ids, in their folders: all or none."""
    writer = writer_of(call, guid, lease)
    must_be_objects("entries", [one.document for one in entries])
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
                link(writer, links, change)
            made += whole(writer.tx, writer.guid, kind, range(first, first + len(mine)))
    return made


def _no_objects(argument: str, texts: Sequence[str]) -> list[Problem]:
    """Texts that are no JSON objects."""
    return [
        Problem(f"{argument}.{number}", text[:80], "is no JSON object", "Write {...}")
        for number, text in enumerate(texts)
        if object_of(text) is None
    ]


def must_be_objects(argument: str, texts: Sequence[str]) -> None:
    """BadInput for texts that are no JSON objects."""
    if problems := _no_objects(argument, texts):
        raise BadInput(problems)


@operation(
    "draft.write",
    "PUT",
    "/v1/registries/{guid}/{kind}/{id}",
    OWNER,
    scope="submit",
    body_max=FILE_MAX,
    dry_run=True,
)
def write(
    call: Call,
    guid: Guid,
    kind: RecordKind,
    id: RecordId,
    lease: LeaseText,
    document: DocumentText,
    version: ChangeNr,
) -> Draft:
    """Replace the document of a new job or of a template, if it still has this version.

    Refused: it is not new, or has another version.
    """
    writer = writer_of(call, guid, lease, f"{kind} {id}")
    must_be_objects("document", [document])
    with changing(writer) as change:
        if not drafts.write(writer.tx, writer.guid, kind, id, document, version, change):
            raise refusals.of_change(one_of(writer, kind, id), version)
        return one_of(writer, kind, id)


@operation(
    "draft.annotate",
    "PUT",
    "/v1/registries/{guid}/{kind}/{id}/notes",
    OWNER,
    scope="submit",
    dry_run=True,
)
def annotate(
    call: Call,
    guid: Guid,
    kind: RecordKind,
    id: RecordId,
    lease: LeaseText,
    name: RecordName | None = None,
    comment: NoteText | None = None,
) -> Draft:
    """Set name and comment of a job or template in any status."""
    writer = writer_of(call, guid, lease, f"{kind} {id}")
    with changing(writer) as change:
        drafts.ANNOTATE.run(
            writer.tx, guid=writer.guid, kind=kind, id=id, name=name, comment=comment, change=change
        )
        return one_of(writer, kind, id)


@operation(
    "draft.remove",
    "POST",
    "/v1/registries/{guid}/{kind}/remove",
    OWNER,
    scope="submit",
    dry_run=True,
)
def remove(call: Call, guid: Guid, kind: RecordKind, lease: LeaseText, ids: RecordIds) -> None:
    """Remove jobs or templates from a registry; their tasks stay.

    All or none. NotFound.
    """
    writer = writer_of(call, guid, lease)
    with changing(writer) as change:
        ordered(drafts.SOME.rows(writer.tx, guid=writer.guid, kind=kind, ids=ids), kind, ids)
        drafts.REMOVE.run(writer.tx, guid=writer.guid, kind=kind, ids=ids, change=change)
