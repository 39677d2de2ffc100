"""Messages of pilots to the service: strict values, unknown fields refused, all mistakes at once.

The fields have the names of the wire, because the database reads these messages as they are.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

TAIL_MAX = 10_000
DIAG_MAX = 2_000
BATCH_MAX = 1_000
FILES_MAX = 10_000
"""Outputs, inputs that could not be used, or metadata of one report."""


def _storable(value: Any) -> Any:
    """Payloads print anything; PostgreSQL takes neither NUL nor half a surrogate pair."""
    if isinstance(value, str) and not (value.isascii() and "\0" not in value):
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return value


LongNumber = Annotated[int, Field(ge=0, lt=2**63)]
Small = Annotated[int, Field(ge=0, lt=2**31)]
# Less than would spoil sums, and columns that are made of them: centuries, exabytes, petabytes.
Seconds = Annotated[float, Field(ge=0, lt=2**36)]
Bytes = Annotated[int, Field(ge=0, lt=2**60)]
KB = Annotated[int, Field(ge=0, lt=2**40)]


def _text_alone(value: Any) -> Any:
    """A number would count as seconds since 1970; the document has a text."""
    if isinstance(value, bool | int | float):
        raise ValueError("a time is a text such as 2026-01-01T10:00:00+00:00")
    return value


# What Python can read from any time zone.
_FIRST, _LAST = datetime(1969, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)
Instant = Annotated[
    AwareDatetime, Field(strict=False, ge=_FIRST, lt=_LAST), BeforeValidator(_text_alone)
]
Name = Annotated[str, Field(min_length=1, max_length=256), BeforeValidator(_storable)]
# It names the file of what the pilot printed.
PilotId = Annotated[str, Field(pattern=r"^[^/\x00-\x1f\x7f]{1,256}$"), BeforeValidator(_storable)]
Code = Annotated[str, Field(pattern=r"^[a-z0-9_]{1,64}$")]
Diag = Annotated[str, BeforeValidator(_storable), AfterValidator(lambda text: text[:DIAG_MAX])]
TailText = Annotated[str, BeforeValidator(_storable), AfterValidator(lambda text: text[-TAIL_MAX:])]


class PilotMessage(BaseModel):
    """Base of everything a pilot sends."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
    _most_fields: ClassVar[int] = 0

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        cls._most_fields = 2 * len(cls.model_fields)  # a look at them takes 1 us

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        """Each unknown field is a mistake to be listed: nobody makes a million of them."""
        if isinstance(value, dict) and len(value) > cls._most_fields:
            raise ValueError(f"has {len(value)} fields, of which most are unknown")
        return value


# The first wrong entry ends a list: the mistakes of a million others help nobody.
_Any = TypeVar("_Any")
MessageList = Annotated[list[_Any], Field(max_length=BATCH_MAX, fail_fast=True)]
FileList = Annotated[list[_Any], Field(max_length=FILES_MAX, fail_fast=True)]


class Resources(PilotMessage):
    """Resources of a slot (0: unlimited), and the least resources of a job for it."""

    cores: Small
    memory_mb: Small = 0
    walltime_s: Small = 0
    disk_mb: Small = 0
    min_cores: Small = 0
    min_memory_mb: Small = 0


class Delegation(PilotMessage):
    """The system that runs the pilot: the batch engine with its queue and its id of the pilot's
    job, `grid` with an id that another grid gave it, or `local`, a process."""

    kind: Literal["local", "slurm", "lsf", "pbs", "htcondor", "grid"]
    queue: Name | None = None
    id: Name


class AcquireRequest(PilotMessage):
    """Up to `n` jobs for a slot. A repeated `request_id` gets the same jobs."""

    request_id: Name
    pilot_id: PilotId
    site: Name
    n: Annotated[int, Field(ge=1, le=BATCH_MAX)]
    resources: Resources
    delegation: Delegation | None = None


class Measures(PilotMessage):
    """Resources that a payload has used so far; named as the columns of jedi_jobs."""

    cpu_s: Seconds | None = None
    max_rss_kb: KB | None = None
    max_pss_kb: KB | None = None
    read_bytes: Bytes | None = None
    write_bytes: Bytes | None = None
    workdir_kb: KB | None = None
    input_bytes: Bytes | None = None
    output_bytes: Bytes | None = None
    wall_s: Seconds | None = None


class Attempt(PilotMessage):
    """The sender: an attempt of a job. A later dispatch has a higher `lock_seq`."""

    pandaid: LongNumber
    lock_seq: LongNumber


class StagedOutput(PilotMessage):
    """A staged output or log."""

    lfn: Name
    size: Bytes
    adler32: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]
    guid: Annotated[str, Field(pattern=r"^[0-9A-Fa-f-]{1,36}$")]


class UnusableInput(PilotMessage):
    """An input that could not be used: it is not where it should be, or it is damaged."""

    lfn: Name
    problem: Literal["missing", "broken"]


def _few(value: Any) -> Any:
    """Pydantic counts the entries of a mapping after it has looked at all."""
    if isinstance(value, dict) and len(value) > FILES_MAX:
        raise ValueError(f"has more than {FILES_MAX} entries")
    return value


_Told = Annotated[str | bool | int | float, BeforeValidator(_storable)]
Metadata = Annotated[
    dict[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")], _Told],
    Field(max_length=FILES_MAX),
    BeforeValidator(_few),
]
"""Metadata that a payload reports about its job."""


class Report(Attempt):
    """A status of an attempt; the last three are its end."""

    status: Literal["starting", "running", "finished", "failed", "cancelled"]
    started_at: Instant | None = None
    ended_at: Instant | None = None
    exit_code: Annotated[int, Field(ge=-(2**31), lt=2**31)] | None = None
    error_code: Code | None = None
    error_diag: Diag | None = None
    stderr_tail: TailText | None = None
    measures: Measures = Measures()
    # Pydantic makes a deep copy of a list for each message, at the price of reading it once more.
    outputs: FileList[StagedOutput] = Field(default_factory=list)
    metadata: Metadata = Field(default_factory=dict)
    bad_inputs: FileList[UnusableInput] = Field(default_factory=list)


class Beat(Attempt):
    """A sign of life."""

    measures: Measures = Measures()


class LogEntry(Attempt):
    """The last output of the payload."""

    stdout_tail: TailText | None = None
    stderr_tail: TailText | None = None


class Reports(PilotMessage):
    """Reports of many attempts."""

    reports: MessageList[Report]


class Beats(PilotMessage):
    """Heartbeats of many attempts."""

    beats: MessageList[Beat]


class LogEntries(PilotMessage):
    """Live output of many attempts."""

    entries: MessageList[LogEntry]
