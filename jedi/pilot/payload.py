"""The pilot's side of a running command: it starts the monitor and reads its lines."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from .base import END, GO, HOLD, PayloadFailure, Stop, last_lines
from .event_consumer import EventConsumer
from .procs import Children, PayloadAccount

_SILENCE_S = 120.0  # a monitor says something each second, and needs at most a minute to end
_TOGETHER_S = 2.0  # a batch system sends a signal to all processes of a pilot
_ORDERS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PATH = "/usr/local/bin:/usr/bin:/bin"

PayloadMessage = dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """The end of a payload: `failure` is None for success; exit_code -n is signal n."""

    exit_code: int | None
    failure: PayloadFailure | None


def environment(
    cwd: Path,
    tmp: Path,
    user: PayloadAccount | None,
    job: Mapping[str, str],
    path: str | None = None,
) -> dict[str, str]:
    """All that a payload finds in its environment; `path` comes first in PATH."""
    name = user.name if user else os.environ.get("USER", str(os.getuid()))
    return {
        "PATH": search_path(path, user),
        "HOME": str(cwd),
        "TMPDIR": str(tmp),
        "LANG": "C.UTF-8",
        "USER": name,
        **job,
    }


def search_path(first: str | None, user: PayloadAccount | None) -> str:
    """PATH of a payload: `first`, then the pilot's own. A payload of another account has a plain
    one instead, for the pilot's is root's, without directories that this account can't enter."""
    own = _PATH if user else os.environ.get("PATH", _PATH)
    directories = [name for name in f"{first or ''}:{own}".split(":") if name]
    return ":".join(d for d in dict.fromkeys(directories) if not user or _enters(user, Path(d)))


def _enters(user: PayloadAccount, directory: Path) -> bool:
    """True if mode and owner of a directory, and of its parents, let an account in."""
    try:
        real = directory.resolve()
        return all(_lets_in(user, place.stat()) for place in (real, *real.parents))
    except OSError:
        return False


def _lets_in(user: PayloadAccount, info: os.stat_result) -> bool:
    shift = 6 if info.st_uid == user.uid else 3 if info.st_gid == user.gid else 0
    return bool(info.st_mode >> shift & 1)


class PayloadRunner:
    """Runs payloads one after another, by a monitor that serves many of them."""

    def __init__(self) -> None:
        self._monitor: subprocess.Popen[bytes] | None = None

    def run(
        self,
        spec: Mapping[str, Any],
        stop: Stop,
        hear: Callable[[PayloadMessage], None],
        consumer: EventConsumer | None = None,
    ) -> Ended:
        """Run {command, cwd, env, user: [uid, gid, name]|null, limits, attempt, share} to its end.

        `hear` gets every line of the monitor; the first one says that the payload runs. `consumer`
        serves the payload with ranges of events. When this returns or raises, no descendant of the
        payload is alive. Raises Failure if it was stopped.
        """
        stop.check()
        if consumer:
            self.close()  # a monitor gets the descriptors for events when it starts
            spec = {**spec, "events": tuple(consumer.payload_fds)}
        monitor = self._take(spec.get("events", ()))
        if consumer:
            consumer.given()
        end: PayloadMessage | None = None
        try:
            _order(monitor, json.dumps(spec).encode())
            for line in _lines(monitor, stop):
                hear(line)
                end = line.get("end")
        finally:
            if end is None or consumer or end["last"]:
                self.close()
        code = end["exit_code"] if end else monitor.returncode
        if stop.why is None and _ended_by_order(code):
            stop.wait(_TOGETHER_S)  # the pilot may get the same signal
        stop.check()
        if end is None:
            raise PayloadFailure("pilot_error", _last_words(monitor.returncode, spec["attempt"]))
        return Ended(end["exit_code"], end["failure"] and PayloadFailure(*end["failure"]))

    def close(self) -> None:
        """End the monitor and all processes of its payload."""
        if self._monitor is None:
            return
        monitor, self._monitor = self._monitor, None
        _pipe(monitor.stdin).close()
        _pipe(monitor.stdout).close()
        try:
            monitor.wait(_SILENCE_S)
        except subprocess.TimeoutExpired:
            monitor.kill()
            monitor.wait()
        Children().end_all()  # if it was killed, its processes fell to us

    def _take(self, events: tuple[int, ...]) -> subprocess.Popen[bytes]:
        """The monitor, a new one if there is none or it has ended since the last payload."""
        if self._monitor and self._monitor.poll() is not None:
            self.close()
        if self._monitor is None:
            self._monitor = _start(events)
        return self._monitor


def _start(events: tuple[int, ...]) -> subprocess.Popen[bytes]:
    kept = ("LD_LIBRARY_PATH",)  # some Pythons do not start without; nothing else, no token
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).parent), "payload-monitor"],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=events,
        env={name: os.environ[name] for name in kept if name in os.environ},
        start_new_session=True,
    )


def _ended_by_order(code: int | None) -> bool:
    """Return True if a signal that asks for an end did it; the shell adds 128 to its number."""
    return code is not None and (-code in _ORDERS or code - 128 in _ORDERS)


def _last_words(code: int, attempt: str) -> str:
    """The reason for the end of a monitor without a result: a signal, or its last error."""
    if code < 0:
        return f"A signal ended the payload monitor ({signal.Signals(-code).name})."
    last_line = last_lines(Path(attempt, "pilot.log").read_bytes()).strip().rpartition("\n")[2]
    return f"The payload monitor ended without a result ({code}): {last_line}"


def _order(monitor: subprocess.Popen[bytes], line: bytes) -> None:
    rest = memoryview(line + b"\n")
    with contextlib.suppress(BrokenPipeError):  # it is dead: its missing end says so
        while rest:  # a pilot that is stopped meanwhile writes a part
            rest = rest[_pipe(monitor.stdin).write(rest) :]


def _lines(monitor: subprocess.Popen[bytes], stop: Stop) -> Iterator[PayloadMessage]:
    """Yield the monitor's messages on one payload, up to its end or the monitor's. A stop ends the
    payload meanwhile. The monitor learns of a hold, or of the end of one, after its next message;
    it sends one each second."""
    output = _pipe(monitor.stdout)
    watched: list[Any] = [output, stop]
    rest, on_hold = b"", False
    while True:
        ready = select.select(watched, [], [], _SILENCE_S)[0]
        if not ready:
            monitor.kill()
        if stop in ready:
            _order(monitor, END)
            watched = [output]
        if output in ready:
            data = output.read(1 << 16)
            if not data:
                return
            *lines, rest = (rest + data).split(b"\n")
            for line in map(json.loads, lines):
                yield line
                if "end" in line:
                    return
            if stop in watched and on_hold != stop.held:
                on_hold = stop.held
                _order(monitor, HOLD if on_hold else GO)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
