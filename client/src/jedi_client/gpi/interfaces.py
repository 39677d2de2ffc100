"""The values and protocols between jobs, stores and backends.

A job is a *document* (JSON; see `schema`). Its store keeps it. Its backend runs it: a splitter
gives explicit units, which have overrides of the document, or a rule, by which the backend cuts
the input. The numbers `k` of units count from 0.

Source: docs/reference/ganga.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

Document = dict[str, Any]
"""A job as JSON: {"type": "Job", "application": {"type": "Script", ...}, ...}."""

Status = Literal[
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

Kind = Literal["job", "template"]

INPUTS = "JEDI_INPUTS"
"""The environment variable with the names of a unit's input files, separated by commas."""


@dataclass(frozen=True, slots=True)
class Override:
    """A unit of an explicit splitter: the values by which it differs from its job, by the dotted
    name of the property, such as {"application.args": ["--seed", "3"]}."""

    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule by which the backend cuts the input: a split strategy (docs/reference/herds.md) with
    its options, such as ByFiles with {"SplitterMaxFilesPerJob": 20}."""

    strategy: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class SandboxFile:
    """A file of the input sandbox: where its content lies, and its name in the working directory.
    `digest`: sha256 of the content, if it lies in a store of contents."""

    source: str
    name: str
    digest: str | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """The program of an application: a command of the working directory or of the node,
    with its arguments, verbatim, environment variables, and files that it brings along."""

    executable: str
    args: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[SandboxFile] = ()


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """A unit to submit: its number, its program, and its input files if they are its own."""

    k: int
    program: Program
    inputs: Sequence[str] | None = None
    override: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Submission:
    """A job to submit. `key`: (GUID of the registry, id, number of the submission), unique; the
    same key never makes two tasks. Explicit `units`, or a `rule`; a job without splitter has one
    unit with k = 0. `outputs`: declared names of output files."""

    key: str
    name: str
    document: Document
    program: Program
    sandbox: Sequence[SandboxFile]
    inputs: Sequence[str]
    outputs: Sequence[str]
    units: Sequence[UnitPlan]
    rule: Rule | None
    keep_going: bool
    workspace: Path


@dataclass(frozen=True, slots=True)
class Accepted:
    """Result of a submission: the backend's id, the units that it refused with the reason, and the
    ones that it did not try."""

    backend_id: str
    refused: Mapping[int, str] = field(default_factory=dict)
    untried: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class UnitState:
    """A unit now: its status, its latest attempt, and a reason."""

    k: int
    status: Status
    attempt: int | None = None
    panda_id: int | None = None
    site: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    superseded: bool = False


@dataclass(frozen=True, slots=True)
class JobState:
    """A submitted job now: the backend's own status, its units that changed since the cursor, the
    number of units by status, whether all its input is cut, and the next cursor."""

    backend_id: str
    status: str
    changed: Sequence[UnitState]
    counts: Mapping[Status, int]
    complete: bool
    cursor: str
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt of a unit: a job of the backend."""

    attempt: int
    panda_id: int | None
    status: str
    site: str | None
    exit_code: int | None
    started: datetime | None
    ended: datetime | None


@dataclass(frozen=True, slots=True)
class OutputFile:
    """An output file of a unit, or of the whole job with k = None, and its size in bytes."""

    k: int | None
    name: str
    size: int | None


Refusals = Mapping[int | None, str]
"""Reasons by the number of the unit; None: the whole job."""


class Backend(Protocol):
    """A backend, as the core asks it. A unit is named by its k; None: the whole job. A verb answers
    its refusals, one request for all units."""

    bulk: bool
    """True: refused units are `failed`; False (emulated bulk): they are `new`.
    Source: docs/reference/ganga.md#submission."""

    def submit(self, submission: Submission) -> Accepted: ...

    def settle(self, submission: Submission) -> Accepted | None:
        """Result of a submission whose answer was lost; None: it did not arrive."""

    def states(self, cursors: Mapping[str, str | None]) -> Sequence[JobState]:
        """States of jobs by backend id, with changes since a cursor. One request for all."""

    def kill(self, backend_id: str, units: Sequence[int] | None) -> Refusals: ...

    def resubmit(
        self, backend_id: str, units: Sequence[int] | None, options: Document
    ) -> Refusals: ...

    def attempts(self, backend_id: str, k: int) -> Sequence[Attempt]: ...

    def log(self, backend_id: str, k: int, attempt: int | None, name: str) -> Iterator[bytes]:
        """Content of a log now, also while the attempt runs; `name`: stdout or stderr."""

    def outputs(self, backend_id: str) -> Sequence[OutputFile]: ...

    def fetch(self, backend_id: str, files: Sequence[OutputFile], to: Path) -> Sequence[Path]:
        """Bring files to `to`/<k>/output, the whole job's to `to`/output. Idempotent."""

    def remove(self, backend_id: str) -> None:
        """Forget an ended job: its runs and its kept output on this backend."""


@runtime_checkable
class InputCutter(Protocol):
    """A backend that cuts the input of jobs by rules, and knows the parts."""

    def forecast(self, submission: Submission) -> tuple[int, int]:
        """The numbers of input files and subjobs of a job that it would cut, as of now."""

    def inputs(self, backend_id: str, k: int) -> Sequence[str]:
        """The input files of a unit: `lfn:/scope/dataset/file`. BadInput: it has parts of files."""

    def resplit(self, backend_id: str, units: Sequence[int], files: int) -> Refusals:
        """Cut the input of ended units again, into parts of so many files: the units are
        superseded, and new ones get the next numbers."""


@dataclass(frozen=True, slots=True)
class Record:
    """A job as its registry keeps it. `version` counts changes of the document, `change` is the
    registry's counter at the last change of anything, `cursor` goes on from the last state."""

    id: int
    kind: Kind
    status: Status
    name: str
    comment: str
    document: Document | None
    version: int
    change: int
    submissions: int = 0
    backend: str | None = None
    backend_id: str | None = None
    backend_status: str | None = None
    cursor: str | None = None
    complete: bool = True
    reason: str | None = None
    counts: Mapping[Status, int] = field(default_factory=dict)
    created: datetime | None = None
    submitted: datetime | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A new job or template with its annotations. `folders`: paths from the root on."""

    kind: Kind
    name: str
    comment: str
    folders: Sequence[str]
    document: Document


@dataclass(frozen=True, slots=True)
class UnitRecord:
    """A subjob as its registry keeps it."""

    state: UnitState
    override: Mapping[str, Any]


class Store(Protocol):
    """The place where a registry keeps its jobs. Each method is one transaction, and fenced: a
    change of a document needs status `new` and the version that was read, else NotWritable; a
    read-only registry raises RegistryIsReadOnly."""

    @property
    def url(self) -> str: ...

    @property
    def guid(self) -> str: ...

    @property
    def read_only(self) -> bool: ...

    def list(self, kind: Kind, since: int = 0) -> Sequence[Record]:
        """Records without documents, changed after `since`, by id."""

    def load(self, kind: Kind, ids: Sequence[int]) -> Sequence[Record]:
        """Whole records; NotFound."""

    def removed(self, kind: Kind, since: int = 0) -> Sequence[int]:
        """Ids that were removed after `since`."""

    def create(
        self,
        kind: Kind,
        documents: Sequence[Document],
        names: Sequence[str] = (),
        comments: Sequence[str] = (),
    ) -> Sequence[Record]:
        """New records; ids count from 0 for each kind and are never used again."""

    def take_in(self, entries: Sequence[Entry]) -> Mapping[Kind, Sequence[Record]]:
        """New records of both kinds, in their folders, which are made: all or none."""

    def write(self, kind: Kind, id: int, document: Document, version: int) -> Record: ...

    def annotate(
        self, kind: Kind, id: int, *, name: str | None = None, comment: str | None = None
    ) -> Record:
        """Name and comment are writable in any state."""

    def remove(self, kind: Kind, ids: Sequence[int]) -> None: ...

    def begin(self, id: int, version: int, backend: str) -> Record:
        """new -> submitting: a submission begins; its number is in `submissions`."""

    def accept(
        self,
        id: int,
        accepted: Accepted,
        status: Status,
        units: Sequence[UnitRecord],
        submission: int | None = None,
    ) -> Record:
        """submitting or unknown -> submitted, with the units known so far. `submission`: its
        number; NotWritable for the answer to an earlier one."""

    def give_up(
        self,
        id: int,
        status: Literal["new", "unknown", "failed"],
        reason: str,
        submission: int | None = None,
    ) -> Record:
        """submitting or unknown -> new, without units; or unknown; or failed."""

    def note(
        self,
        states: Mapping[int, JobState],
        now: datetime,
        since: Mapping[int, str | None] | None = None,
    ) -> Sequence[Record]:
        """New states of jobs; the status of each follows from its units (`status.master`).
        `since`: the cursors that were asked from; a job whose cursor another session has moved
        meanwhile is left out, and so is a removed one."""

    def merged(self, id: int, failure: str | None) -> Record:
        """completed -> failed: the outputs could not be merged, for this reason. None: they are
        merged, failed -> completed. See `status.after_merge`; any other job stays as it is."""

    def units(self, id: int, ks: Sequence[int] | None = None) -> Sequence[UnitRecord]: ...

    def folders(self) -> Mapping[str, Sequence[int]]:
        """Paths of folders with the ids of their jobs."""

    def make_folder(self, path: str) -> None: ...

    def remove_folder(self, path: str) -> None: ...

    def put(self, path: str, ids: Sequence[int]) -> None: ...

    def take_out(self, path: str, ids: Sequence[int]) -> None: ...

    def take_over(self) -> None:
        """Get the lease from the session that has it, if stores of this kind have one."""

    def close(self) -> None:
        """End the session: connections and the lease."""
