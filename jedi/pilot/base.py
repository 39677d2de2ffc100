"""Parts that the whole pilot shares: clock, failures, the stop, crash points, tails."""

from __future__ import annotations

import contextlib
import math
import os
import select
import threading
import time
from collections.abc import Mapping
from pathlib import Path

TERMINATED = "pilot_terminated"
STALE = "stale"
HOLD, GO, END = b"h", b"g", b"e"
"""Orders to the payload monitor: suspend the payload, let it go on, end it."""

_TAIL_LINES = 20
_TAIL_CHARS = 4000


class PayloadFailure(Exception):
    """The reason of a job's failure: a code that can be counted, a sentence a person understands,
    and the inputs to blame ({lfn: missing or broken})."""

    def __init__(
        self, code: str, sentence: str, bad_inputs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.bad_inputs = dict(bad_inputs or {})


class Stop:
    """Ends the running job from outside, or holds it. Has a file descriptor, so that a wait can
    include it.

    One object serves the pilot's whole life, hence no descriptor is closed while another thread
    may write to it.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        self._lock = threading.Lock()
        self.why: PayloadFailure | None = None
        self.held = False  # the payload is to be suspended
        self.terminated_at = math.inf  # monotonic; when the pilot itself got the order to end

    def fileno(self) -> int:
        return self._read

    def ask(self, why: PayloadFailure) -> None:
        """The first reason stays, but the end of the pilot replaces the end of one job."""
        with self._lock:
            first = self.why is None
            if why.code == TERMINATED:
                self.terminated_at = min(self.terminated_at, time.monotonic())
            if first or why.code == TERMINATED:
                self.why = why
            if first:  # a sleeper that this wakes finds the reason
                os.write(self._write, b"!")

    def check(self) -> None:
        """Raise the reason, if there is one."""
        if self.why is not None:
            raise PayloadFailure(self.why.code, self.why.sentence)

    def clear(self) -> None:
        """Forget the job that has ended."""
        self.held = False
        with self._lock:
            if self.why is not None and self.why.code != TERMINATED:
                os.read(self._read, 1)
                self.why = None

    def wait(self, seconds: float) -> None:
        """Sleep; a stop asked for meanwhile wakes the sleeper."""
        if self.why is None:
            select.select([self], [], [], seconds)
        else:
            time.sleep(seconds)


def utc() -> str:
    """The present instant, ISO 8601, UTC, milliseconds."""
    seconds = time.time()
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds % 1 * 1000):03d}+00:00"


def crash_point(name: str) -> None:
    """Die here, as by SIGKILL, when JEDI_CRASH names pilot:<name> (tests only). With a directory
    JEDI_CRASH_MARK only the first pilot does, and leaves a file of that name there."""
    place, marks = f"pilot:{name}", os.environ.get("JEDI_CRASH_MARK")
    if place not in os.environ.get("JEDI_CRASH", "").split():
        return
    with contextlib.suppress(FileExistsError):
        if marks:
            Path(marks, place).touch(exist_ok=False)
        os._exit(137)


def last_lines(data: bytes) -> str:
    """The last 20 lines, at most 4000 characters, without characters that upset a terminal or a
    database."""
    text = data[-4 * _TAIL_CHARS :].decode("utf-8", "replace")[-_TAIL_CHARS:]
    clean = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text)
    return "\n".join(clean.split("\n")[-_TAIL_LINES - clean.endswith("\n") :])
