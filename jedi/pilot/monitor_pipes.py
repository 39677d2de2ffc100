"""The payload monitor's pipes: from the pilot comes work, from the payload its output."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .base import END, GO, HOLD, last_lines

LIFELINE = 0  # standard input
KEEP_BYTES = 10_000_000  # of stdout and of stderr


class Lifeline:
    """Standard input: payloads to run, orders for the one that runs, and the pilot's death."""

    def __init__(self) -> None:
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self.closed = False

    def read(self) -> None:
        """Read new bytes, or wait for them."""
        data = os.read(LIFELINE, 1 << 16)
        self.closed = not data
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines += lines

    def lines(self) -> Iterator[bytes]:
        """Take the lines that were read."""
        while self._lines:
            yield self._lines.popleft()

    def next_payload(self) -> dict[str, Any] | None:
        """Wait for the next payload; None: there will be none. Orders that came too late for the
        payload before are dropped."""
        while not self.closed:
            self.read()
            for line in self.lines():
                if line not in (HOLD, GO, END):
                    payload: dict[str, Any] = json.loads(line)
                    return payload
        return None


class Tail:
    """The last KEEP_BYTES of a stream, in at most twice that memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._data = bytearray()
        self.dropped = 0

    def feed(self, data: bytes) -> None:
        self._data += data
        if len(self._data) > 2 * KEEP_BYTES:
            self._trim()

    def text(self) -> str:
        return last_lines(bytes(self._data[-20_000:]))

    def save(self) -> None:
        self._trim()
        note = f"[the first {self.dropped} bytes were not kept]\n" if self.dropped else ""
        self._path.write_bytes(note.encode() + self._data)

    def _trim(self) -> None:
        excess = max(0, len(self._data) - KEEP_BYTES)
        self.dropped += excess
        del self._data[:excess]
