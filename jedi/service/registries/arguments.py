"""Types of arguments of operations on registries."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from jedi.service.operations.arguments import FILE_MAX, NameText

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


class NewDraft(BaseModel, extra="forbid"):
    """A new job or template. `document`: JSON."""

    kind: RecordKind
    document: DocumentText
    name: RecordName = ""
    comment: NoteText = ""
    folders: Annotated[list[FolderPath], Field(max_length=1_000)] = []
