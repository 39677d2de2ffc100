"""Operations on users' registries of jobs, their drafts and folders."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from jedi.service import registries
from jedi.service.operations.arguments import FILE_MAX, NameText
from jedi.service.operations.table import OWNER, SELF, Call, operation
from jedi.service.registries import DraftEntry, DraftState, SubjobState, Writer
from jedi.taskbuffer.registries import drafts, folders
from jedi.taskbuffer.registries import registries as rows
from jedi.taskbuffer.registries.drafts import Draft
from jedi.taskbuffer.registries.folders import JobFolder
from jedi.taskbuffer.registries.registries import JobRegistry, RegistryLease
from jedi.taskbuffer.registries.subjobs import KnownSubjob

_TEXT = r"^[^\x00]*$"
RecordKind = Annotated[str, Field(pattern="^(job|template)$")]
RecordId = Annotated[int, Field(ge=0, lt=2**53)]
RecordIds = Annotated[list[RecordId], Field(max_length=10_000)]
SubjobNr = Annotated[int, Field(ge=0, lt=2**31)]
ChangeNr = Annotated[int, Field(ge=0, lt=2**63)]
NoteText = Annotated[str, Field(max_length=100_000, pattern=_TEXT)]
RecordName = Annotated[str, Field(max_length=1_000, pattern=_TEXT)]
MOST = 10_000
"""Records of one call."""
RegistryRows = Annotated[int, Field(ge=1, le=MOST)]
DocumentText = Annotated[str, Field(max_length=FILE_MAX, pattern=_TEXT)]
FolderPath = Annotated[str, Field(max_length=2_000, pattern=r"^(/|(/[^/\x00]+)+)$")]
Guid = Annotated[str, Field(pattern="^[0-9a-f-]{36}$")]
LeaseText = Annotated[str, Field(max_length=100, pattern=_TEXT)]
JobStatus = Literal[
    "new",
    "submitting",
    "submitted",
    "running",
    "completing",
    "completed",
    "failed",
    "killed",
    "unknown",
]


class SubjobNow(BaseModel, extra="forbid"):
    """A subjob now. `override`: JSON, for a new one."""

    k: SubjobNr
    status: JobStatus
    attempt: Annotated[int, Field(ge=0, lt=2**31)] | None = None
    panda_id: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    site: NameText | None = None
    exit_code: Annotated[int, Field(ge=-(2**63), lt=2**63)] | None = None
    reason: NoteText | None = None
    superseded: bool = False
    override: DocumentText = "{}"

    def value(self) -> SubjobState:
        """The same as plain values."""
        return SubjobState(**dict(self))


class JobNow(BaseModel, extra="forbid"):
    """A submitted job now. `fenced`: it counts only while the registry's cursor is `since`."""

    id: RecordId
    status: NameText
    cursor: NoteText
    complete: bool
    reason: NoteText | None = None
    counts: dict[JobStatus, ChangeNr] = {}
    changed: Annotated[list[SubjobNow], Field(max_length=100_000)] = []
    fenced: bool = False
    since: NoteText | None = None

    def value(self) -> DraftState:
        """The same as plain values."""
        changed = [one.value() for one in self.changed]
        return DraftState(**{**dict(self), "changed": changed})


class NewDraft(BaseModel, extra="forbid"):
    """A new job or template. `document`: JSON."""

    kind: RecordKind
    document: DocumentText
    name: RecordName = ""
    comment: NoteText = ""
    folders: Annotated[list[FolderPath], Field(max_length=1_000)] = []

    def value(self) -> DraftEntry:
        """The same as plain values."""
        return DraftEntry(**dict(self))


def _writer(call: Call, guid: str, lease: str, subject: str = "") -> Writer:
    call.subject = f"registry {guid} {subject}".rstrip()
    return Writer(call.tx, call.who, guid, lease, call.knobs.api.registry_lease_s)


@operation("registry.open", "POST", "/v1/registries", SELF, scope="submit", dry_run=True)
def open_registry(call: Call, name: NameText = "default") -> JobRegistry:
    """Give the caller's registry of this name, made if there is none."""
    found = registries.open_registry(call.tx, call.who, name)
    call.subject = f"registry {found.guid}"
    return found


@operation("registry.list", "GET", "/v1/registries", SELF)
def list_registries(call: Call) -> list[JobRegistry]:
    """List the caller's registries."""
    return rows.OF_USER.rows(call.tx, user=call.who, name=None)


@operation(
    "registry.lease", "POST", "/v1/registries/{guid}/lease", OWNER, scope="submit", secret=True
)
def lease(call: Call, guid: Guid, holder: NameText, take_over: bool = False) -> RegistryLease:
    """Give a session the right to write to a registry, if no other has it or its time is over.
    `take_over`: in any case."""
    call.subject = f"registry {guid}"
    lease_s = call.knobs.api.registry_lease_s
    return registries.lease(call.tx, call.who, guid, holder, lease_s, take_over=take_over)


@operation(
    "registry.renew", "PUT", "/v1/registries/{guid}/lease", OWNER, scope="submit", secret=True
)
def renew(call: Call, guid: Guid, lease: LeaseText) -> RegistryLease:
    """Prolong the lease of a session. Each change does so, too."""
    return registries.renew(_writer(call, guid, lease))


@operation(
    "registry.release", "DELETE", "/v1/registries/{guid}/lease", OWNER, scope="submit", dry_run=True
)
def release(call: Call, guid: Guid, lease: LeaseText) -> bool:
    """Give a lease back. False: the session had lost it."""
    call.subject = f"registry {guid}"
    return registries.release(call.tx, call.who, guid, lease)


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
    registries.own(call.tx, call.who, guid)
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
    registries.own(call.tx, call.who, guid)
    last = -1 if after is None else after
    return drafts.REMOVED.rows(call.tx, guid=guid, kind=kind, since=since, after=last, limit=limit)


@operation(
    "draft.load", "POST", "/v1/registries/{guid}/{kind}/load", OWNER, scope="read", question=True
)
def load(call: Call, guid: Guid, kind: RecordKind, ids: RecordIds) -> list[Draft]:
    """Give whole jobs or templates."""
    registries.own(call.tx, call.who, guid)
    return registries.load(call.tx, guid, kind, ids)


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
    writer = _writer(call, guid, lease)
    return registries.create(writer, kind, documents, names or (), comments or ())


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
    return registries.take_in(_writer(call, guid, lease), [one.value() for one in entries])


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
    """Replace the document of a new job or of a template, if it still has this version."""
    return registries.write(_writer(call, guid, lease, f"{kind} {id}"), kind, id, document, version)


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
    return registries.annotate(_writer(call, guid, lease, f"{kind} {id}"), kind, id, name, comment)


@operation(
    "draft.remove",
    "POST",
    "/v1/registries/{guid}/{kind}/remove",
    OWNER,
    scope="submit",
    dry_run=True,
)
def remove(call: Call, guid: Guid, kind: RecordKind, lease: LeaseText, ids: RecordIds) -> None:
    """Remove jobs or templates from a registry; their tasks stay."""
    registries.remove(_writer(call, guid, lease), kind, ids)


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
    """Begin the submission of a new job, if it still has this version."""
    return registries.begin(_writer(call, guid, lease, f"job {id}"), id, version, backend)


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
    """Note that a backend has a job, and the subjobs that it has so far."""
    writer = _writer(call, guid, lease, f"job {id}")
    return registries.accept(
        writer, id, backend_id, status, [one.value() for one in units], submission
    )


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
    """Note that a backend has a job not, or perhaps."""
    writer = _writer(call, guid, lease, f"job {id}")
    return registries.give_up(writer, id, status, reason, submission)


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
    return registries.merged(_writer(call, guid, lease, f"job {id}"), id, failure)


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
    known = [one.value() for one in states]
    return registries.note(_writer(call, guid, lease), known, running_first=running_first)


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
    """List the subjobs of a job, or those with some numbers."""
    registries.own(call.tx, call.who, guid)
    return registries.units(call.tx, guid, id, ks)


@operation("folder.list", "GET", "/v1/registries/{guid}/folders", OWNER)
def list_folders(
    call: Call, guid: Guid, after: FolderPath | None = None, limit: RegistryRows = MOST
) -> list[JobFolder]:
    """List the folders of a registry with their jobs. `after`: the last path of the page before."""
    registries.own(call.tx, call.who, guid)
    return folders.OF_REGISTRY.rows(call.tx, guid=guid, after=after or "", limit=limit)


@operation(
    "folder.put", "POST", "/v1/registries/{guid}/folders", OWNER, scope="submit", dry_run=True
)
def put_in(
    call: Call, guid: Guid, lease: LeaseText, path: FolderPath, ids: RecordIds | None = None
) -> None:
    """Make a folder with its missing parents, and put jobs into it."""
    registries.put_in(_writer(call, guid, lease), path, ids or ())


@operation(
    "folder.take_out",
    "POST",
    "/v1/registries/{guid}/folders/take_out",
    OWNER,
    scope="submit",
    dry_run=True,
)
def take_out(call: Call, guid: Guid, lease: LeaseText, path: FolderPath, ids: RecordIds) -> None:
    """Take jobs out of a folder."""
    registries.take_out(_writer(call, guid, lease), path, ids)


@operation(
    "folder.remove", "DELETE", "/v1/registries/{guid}/folders", OWNER, scope="submit", dry_run=True
)
def remove_folder(call: Call, guid: Guid, lease: LeaseText, path: FolderPath) -> None:
    """Remove a folder with those in it; its jobs stay."""
    registries.remove_folder(_writer(call, guid, lease), path)
