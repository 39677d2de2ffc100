"""The lines that a payload and its pilot exchange about ranges of events (docs/payload-events.md).

Each line is a JSON object. The payload writes a request, and the pilot answers it by one line.
Answers have no spaces, so that a shell can read them with `expr` or `sed`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .stage import component

READ_FD, WRITE_FD = 3, 4
"""The payload's descriptors: shells know one digit only."""
ENVIRONMENT = {"JEDI_EVENTS_IN": str(READ_FD), "JEDI_EVENTS_OUT": str(WRITE_FD)}
MOST_RANGES = 1_000
"""Ranges of one answer."""
MOST_OUTPUTS = 1_000
"""Outputs of one range."""
LONGEST_LINE = 1 << 20
"""Bytes of a request."""
_CHUNK = 1 << 16


class LineMistake(ValueError):
    """A request that the pilot can't understand or fulfil; the payload reads the sentence."""


@dataclass(frozen=True)
class GetRanges:
    """The payload wants at most `n` ranges."""

    n: int


@dataclass(frozen=True)
class RangeFinished:
    """A range is processed; its outputs are files in the payload's directory."""

    range_id: str
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class RangeFailed:
    """A range can't be processed now; `fatal`: nor at any other attempt."""

    range_id: str
    fatal: bool
    why: str


def parse(line: bytes) -> GetRanges | RangeFinished | RangeFailed:
    """Return the request of a line. Raises LineMistake."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise LineMistake(f"A request is a line of JSON: {error}.") from error
    if not isinstance(message, dict):
        raise LineMistake("A request is a JSON object.")
    kinds = [key for key in ("get", "finished", "failed", "fatal") if key in message]
    if len(kinds) != 1:
        raise LineMistake("A request has one of the keys get, finished, failed and fatal.")
    kind = kinds[0]
    _no_others(message, {"finished": "outputs", "get": ""}.get(kind, "why"), kind)
    if kind == "get":
        return GetRanges(_number(message["get"]))
    range_id = message[kind]
    if not isinstance(range_id, str):
        raise LineMistake(f"{kind} names a range by its id, a text.")
    if kind == "finished":
        return RangeFinished(range_id, _outputs(message.get("outputs", [])))
    return RangeFailed(range_id, kind == "fatal", str(message.get("why", ""))[:1_000])


def ranges_line(ranges: list[dict[str, Any]]) -> bytes:
    """The answer to `get`; without ranges: there are no more."""
    return _line({"ranges": ranges})


def ok_line() -> bytes:
    """The answer to a report that the pilot has taken."""
    return _line({"ok": True})


def error_line(sentence: str) -> bytes:
    """The answer to a request that did nothing."""
    return _line({"error": sentence})


class LineReader:
    """Lines from a descriptor, of bounded length."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""
        self.ended = False

    def lines(self) -> Iterator[bytes]:
        """Read once; the lines that are complete now. Raises LineMistake if one is too long."""
        data = os.read(self._fd, _CHUNK)
        self.ended = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                yield line
        if len(self._rest) > LONGEST_LINE:
            raise LineMistake(f"A request has at most {LONGEST_LINE} bytes.")


def _line(answer: dict[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":")).encode() + b"\n"


def _no_others(found: dict[str, Any], second: str, kind: str) -> None:
    if unknown := sorted(set(found) - {kind, second}):
        raise LineMistake(f"A request {kind} has no key {unknown[0][:80]!r}.")


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_RANGES:
        raise LineMistake(f"get is a number of ranges, from 1 to {MOST_RANGES}.")
    return value


def _outputs(names: Any) -> tuple[str, ...]:
    if not isinstance(names, list) or len(names) > MOST_OUTPUTS:
        raise LineMistake(f"outputs is a list of at most {MOST_OUTPUTS} file names.")
    try:
        plain = tuple(component(name) if isinstance(name, str) else component("") for name in names)
    except ValueError as error:
        raise LineMistake(
            f"An output is a file in the directory of the payload: {error}."
        ) from error
    if len(set(plain)) < len(plain):
        raise LineMistake("outputs names a file twice.")
    return plain
