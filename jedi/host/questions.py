"""One question to a process of its own, and its answer: bounded in time and length, and ended when
nobody wants it any more."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO, TypeVar, cast

from jedi.core import clock

MOST_BYTES = 256 * 2**20
_MOST_PRINTED = 4000
_PIECE = 2**16
_POLL_S = 0.02
_LOOK_S = 0.5
"""Interval of looks whether the answer is still wanted."""
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH")
"""The rest of the environment has secrets."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of the process: its answer on stdout, the end of its prints on stderr, its exit code
    (below 0: the signal that ended it); `late`: it was killed after its time, `long`: for the
    length of its answer."""

    answer: bytes
    printed: str
    code: int
    late: bool = False
    long: bool = False


class Unwanted(Exception):
    """Nobody wants the answer any more: the process was killed."""


_Done = TypeVar("_Done")
_unwanted: ContextVar[Callable[[], bool]] = ContextVar("unwanted", default=lambda: False)


def wanted_until(unwanted: Callable[[], bool], work: Callable[[], _Done]) -> _Done:
    """Do work whose questions end when nobody wants their answers."""
    before = _unwanted.set(unwanted)
    try:
        return work()
    finally:
        _unwanted.reset(before)


def ask(
    module: str, question: bytes, timeout_s: float, environment: Mapping[str, str] | None = None
) -> Reply:
    """Run a module of Python, with the paths of this process, and kill its group in the end. It has
    the `environment`, or one without secrets. Unwanted: see `wanted_until`."""
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONHASHSEED": "0"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**(environment or passed_on), **paths, "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,
    )
    assert process.stdin and process.stdout and process.stderr
    threading.Thread(target=_write, args=(process.stdin, question), daemon=True).start()
    answer, printed = bytearray(), bytearray()
    try:
        late = _listen(process, answer, printed, clock.monotonic() + timeout_s)
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
        process.stdout.close()
        process.stderr.close()
    message = printed.decode(errors="replace")
    return Reply(bytes(answer), message, code, late, len(answer) > MOST_BYTES)


def _write(stream: IO[bytes], question: bytes) -> None:
    with suppress(BrokenPipeError), stream:
        stream.write(question)


def _listen(
    process: subprocess.Popen[bytes], answer: bytearray, printed: bytearray, end: float
) -> bool:
    """Read until the process ends or its answer is too long; True: its time is over."""
    unwanted = _unwanted.get()
    with selectors.DefaultSelector() as selector:
        selector.register(cast(IO[bytes], process.stdout), selectors.EVENT_READ, answer)
        selector.register(cast(IO[bytes], process.stderr), selectors.EVENT_READ, printed)
        open_ends = 2
        while len(answer) <= MOST_BYTES:
            left = end - clock.monotonic()
            if left <= 0:
                return True
            if unwanted():
                raise Unwanted
            ready = selector.select(min(left, _LOOK_S if open_ends == 2 else _POLL_S))
            for key, _ in ready:
                piece = os.read(key.fd, _PIECE)
                key.data.extend(piece)
                if not piece:
                    selector.unregister(key.fileobj)
                    open_ends -= 1
            del printed[:-_MOST_PRINTED]
            if not ready and process.poll() is not None:
                return False
    return False
