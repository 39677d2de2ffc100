"""Split strategies of plug-ins: each question goes to a process of its own.

A plug-in that raises, hangs, eats memory, prints, exits or answers nonsense fails its herd alone.
Source: docs/reference/herds.md; RFC #15, "Proposed implementation".
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from jedi.core.errors import BadInput, JediError, Problem
from jedi.host import questions
from jedi.host.questions import Reply
from jedi.model.splitting.units import FileUse, Manifest, SplitAfter, SplitFile, Unit

_OPTION = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_UNSTORABLE = re.compile(r"[\0\ud800-\udfff]")
_NONSENSE = "splitter_nonsense"
_STEPS: dict[EntryPoint, SplitAfter] = {}

_WireProblem = tuple[str, Any, str, str]
_WireUse = int | tuple[int, int, int]


class SplitterFailed(JediError):
    """A strategy could not divide a herd."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason, code=code)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a plan; time and memory only bound plug-ins."""

    max_units: int = 100_000
    timeout_s: float = 10.0
    memory_mb: int = 1024


class _Answer(BaseModel):
    """The answer of the process; it has one of these."""

    model_config = ConfigDict(strict=True, extra="forbid")

    after: SplitAfter | None = None
    consumes: list[str] | None = None
    check: list[_WireProblem] | None = None
    plan: list[tuple[dict[str, str | list[Any]], list[_WireUse]]] | None = None
    refused: list[_WireProblem] | None = None


class PlugIn:
    """The strategy behind an entry point."""

    def __init__(self, point: EntryPoint, limits: Limits) -> None:
        self._point = point
        self._limits = limits

    @property
    def after(self) -> SplitAfter:
        """The step of the chain after which it can run; asked once in the life of this process."""
        if self._point not in _STEPS:
            _STEPS[self._point] = self._ask("after").after or "refine"
        return _STEPS[self._point]

    def consumes(self, manifest: Manifest) -> list[str]:
        """Return the names of the options that children do not have."""
        return self._ask("consumes", manifest).consumes or []

    def check(self, manifest: Manifest) -> list[Problem]:
        """Return all mistakes of the strategy's options."""
        return [Problem(*one) for one in self._ask("check", manifest).check or []]

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> list[Unit]:
        """Return the units, at most one more than a herd may have."""
        found = self._ask("plan", manifest, files).plan or []
        units = [
            Unit(options, [FileUse(u) if isinstance(u, int) else FileUse(*u) for u in uses])
            for options, uses in found
        ]
        if wrong := next(_wrong(units, files), ""):
            raise self._fault(_NONSENSE, wrong)
        return units

    def _ask(
        self, ask: str, manifest: Manifest | None = None, files: Sequence[SplitFile] = ()
    ) -> _Answer:
        question = {
            "name": self._point.name,
            "object": self._point.value,
            "ask": ask,
            "manifest": dict(manifest or {}),
            "files": [[f.lfn, f.size, f.n_events, f.boundary, f.endpoints] for f in files],
            "max_units": self._limits.max_units,
            "timeout_s": self._limits.timeout_s,
            "memory_mb": self._limits.memory_mb,
            "parent": os.getpid(),
        }
        text = json.dumps(question).encode()
        reply = questions.ask("jedi.splitter.child", text, self._limits.timeout_s)
        if reply.late:
            reason = f"it took more than {self._limits.timeout_s:g} s (knob split.timeout_s)"
            raise self._fault("splitter_timeout", reason)
        if reply.long:
            reason = f"its answer is longer than {questions.MOST_BYTES:,} bytes"
            raise self._fault(_NONSENSE, reason)
        if reply.code or not reply.answer:
            raise self._fault("splitter_failed", _end(reply))
        try:
            answer = _Answer.model_validate_json(reply.answer)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise self._fault(_NONSENSE, f"{place}: {first['msg']}") from None
        if answer.refused:
            raise BadInput([Problem(*one) for one in answer.refused])
        if getattr(answer, ask) is None:
            raise self._fault(_NONSENSE, f"its answer to {ask} is empty")
        return answer

    def _fault(self, code: str, reason: str) -> SplitterFailed:
        shown = _UNSTORABLE.sub("?", reason)[:1000]
        return SplitterFailed(code, f"Splitter {self._point.name} failed: {shown}.")


def _end(reply: Reply) -> str:
    """The end of a process in words: the last line that it printed, the signal or exit code."""
    if reply.code < 0:
        return f"its process was ended by {signal.Signals(-reply.code).name}"
    lines = reply.printed.strip().splitlines()
    if reply.code and lines:
        return lines[-1].rstrip(".")
    return f"its process ended with exit code {reply.code} and without an answer"


def _wrong(units: Sequence[Unit], files: Sequence[SplitFile]) -> Iterator[str]:
    """Yield sentences about options that can't be stored and parts that no unit can have."""
    used: dict[int, list[tuple[int, int, int]]] = {}
    for number, unit in enumerate(units, 1):
        for name, value in unit.options.items():
            if not _OPTION.fullmatch(name):
                yield f"unit {number}: {name!r} is no name of an option"
            if not _storable(value):
                yield f"unit {number}: option {name} is no text or list of texts"
        if files and not unit.files:
            yield f"unit {number} has no file"
        for use in unit.files:
            if not 0 <= use.position < len(files):
                yield f"unit {number}: file {use.position} of {len(files)} files"
                return
            events = files[use.position].n_events
            first, stop = use.start or 0, (events or 1) if use.stop is None else use.stop
            if first >= stop or (use.stop is not None and stop > (events or 0)):
                yield f"unit {number}: events {first} to {stop} of {events}"
            used.setdefault(use.position, []).append((first, stop, number))
    for position, ranges in used.items():
        yield from _apart(sorted(ranges), files[position])


def _apart(ranges: Sequence[tuple[int, int, int]], file: SplitFile) -> Iterator[str]:
    """Yield sentences about events of a file that are in two units, or in none."""
    end, last = 0, 0
    for start, stop, number in ranges:
        if start < end:
            yield f"file {file.lfn} is in units {last} and {number}"
        elif start > end:
            yield f"events {end} to {start - 1} of file {file.lfn} are in no unit"
        end, last = stop, number
    if end < (file.n_events or 1):
        yield f"events from {end} of file {file.lfn} are in no unit"


def _storable(value: Any) -> bool:
    if isinstance(value, str):
        return not _UNSTORABLE.search(value)
    return isinstance(value, list) and all(map(_storable, value))
