"""Messages of consumers to the service: asks for event ranges, and reports on them.

An entry of a report stands for itself: an invalid one is refused by its name, and the others count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, WrapValidator, model_validator
from pydantic_core.core_schema import ValidatorFunctionWrapHandler

from jedi.core import names
from jedi.model.jobs.wire import (
    BATCH_MAX,
    Bytes,
    Code,
    Diag,
    LongNumber,
    MessageList,
    Name,
    PilotMessage,
    Small,
)

RANGES_MAX = 100_000
"""Ranges of one call."""

ASK_MAX = 1_000
"""Ranges that one consumer gets by one ask; it asks again for more."""

Convention = Annotated[int, Field(ge=0, lt=100)]
ErrorNumber = Annotated[int, Field(gt=-(2**31), lt=2**31)]


RangeName = Annotated[
    str, Field(pattern=r"^[0-9]{1,18}-[0-9]{1,18}-[0-9]{1,18}-[0-9]{1,10}-[0-9]{1,3}$")
]


class ConsumerAttempt(PilotMessage):
    """The sender: an attempt of a consumer."""

    panda_id: LongNumber
    lock_seq: LongNumber


class RangeAsk(ConsumerAttempt):
    """A consumer's ask for up to `n` ranges, of which it gets ASK_MAX at most."""

    n: Annotated[int, Field(ge=1, le=RANGES_MAX)] = 8


class RangeAsks(PilotMessage):
    """Asks of several consumers. A repeated `request_id` gets the same ranges, as long as it is
    the consumer's last one."""

    request_id: Name
    asks: MessageList[RangeAsk]

    @model_validator(mode="after")
    def _bounded(self) -> RangeAsks:
        if sum(ask.n for ask in self.asks) > RANGES_MAX:
            raise ValueError(f"asks for more than {RANGES_MAX} ranges")
        if len({ask.panda_id for ask in self.asks}) < len(self.asks):
            raise ValueError("names a consumer twice")
        return self


@dataclass(frozen=True, slots=True)
class BadEntry:
    """An invalid entry: its name as far as it can be read, and its mistake."""

    id: str
    mistake: str


_SHOWN = 100


def _by_itself(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """The entry, or its mistake: it does not spoil the others."""
    try:
        return check(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        names = value if isinstance(value, dict) else {}
        name = ascii(names.get("id", names.get("lfn", value)))[:_SHOWN].strip("'")
        where = ".".join(map(str, first["loc"]))
        return BadEntry(name, f"{where}: {first['msg']}"[:_SHOWN].removeprefix(": "))


class PieceAsk(ConsumerAttempt):
    """A merge job's ask for its pieces, from the first one or after a range."""

    after: RangeName | None = None


class RangeResult(PilotMessage):
    """The result of a range. `endpoint` has its output, if no zip file has it; by
    default the endpoint where the site writes. A range that failed
    for good, `fatal`, gets no other attempt. `error_code` is a number or a word."""

    id: RangeName
    status: Literal["running", "finished", "failed", "fatal"]
    endpoint: Name | None = None
    path_convention: Convention | None = None
    error_code: ErrorNumber | Code | None = None
    error_diag: Diag | None = None


RangeResults = Annotated[
    list[Annotated[RangeResult, WrapValidator(_by_itself)]], Field(max_length=RANGES_MAX)
]


class ReportedZip(PilotMessage):
    """A zip file with the outputs of ranges."""

    lfn: Annotated[str, Field(max_length=names.LFN_MAX), AfterValidator(names.lfn)]
    endpoint: Name
    fsize: Bytes
    adler32: Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]
    n_events: Small = 0
    path_convention: Convention | None = None
    ranges: RangeResults


class ConsumerReport(ConsumerAttempt):
    """Results of a consumer: in zip files, and one by one. A range whose id has the job set's
    number was never dispatched: the report takes it."""

    zips: Annotated[
        list[Annotated[ReportedZip, WrapValidator(_by_itself)]], Field(max_length=BATCH_MAX)
    ] = Field(default_factory=list)
    ranges: RangeResults = Field(default_factory=list)

    def parts(self) -> Iterator[tuple[ReportedZip | None, RangeResult | BadEntry]]:
        """All entries, each with its zip file; an invalid zip file is an entry."""
        zips: Sequence[ReportedZip | BadEntry] = self.zips
        for one in zips:
            if isinstance(one, BadEntry):
                yield None, one
            else:
                yield from ((one, entry) for entry in one.ranges)
        yield from ((None, entry) for entry in self.ranges)


class ConsumerReports(PilotMessage):
    """Results of several consumers."""

    reports: MessageList[ConsumerReport]

    @model_validator(mode="after")
    def _bounded(self) -> ConsumerReports:
        if sum(1 for report in self.reports for _ in report.parts()) > RANGES_MAX:
            raise ValueError(f"has more than {RANGES_MAX} ranges: send fewer at once")
        if len({report.panda_id for report in self.reports}) < len(self.reports):
            raise ValueError("names a consumer twice")
        return self
