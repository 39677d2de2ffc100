"""Other processes of this machine, identified by process id and start time: ids are recycled."""

from __future__ import annotations

import calendar
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jedi.core import clock

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Process:
    """A process as it was when it was noted; `start` is the value of `started()`."""

    pid: int
    start: int

    def alive(self) -> bool:
        """It is still the same one, and no zombie."""
        return started(self.pid) == self.start

    def signal(self, number: int) -> None:
        """Send a signal, unless the process is gone."""
        with suppress(ProcessLookupError):
            if self.alive():
                os.kill(self.pid, number)


def started(pid: int) -> int | None:
    """When a living process began: in clock ticks since the machine came up on Linux, in seconds
    since 1970 elsewhere. None: it has ended, or is a zombie."""
    if not Path("/proc/self/stat").exists():
        return _started_by_ps(pid)
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def note(pid: int) -> Process | None:
    """The process with this id as it is now."""
    start = started(pid)
    return None if start is None else Process(pid, start)


def dead_here(name: str) -> bool:
    """True if HOST-PID, an agent's name, is a process of this host that has ended."""
    host, _, pid = name.rpartition("-")
    return host == socket.gethostname()[:24] and pid.isdigit() and started(int(pid)) is None


def ended(code: int) -> str:
    """A sentence about the end of a child, from its return code."""
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def end_with(parent: int) -> None:
    """End this process and its group once `parent` is no longer its parent."""
    threading.Thread(target=_follow, args=(parent,), daemon=True).start()


def _follow(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)


def end(processes: Iterable[Process], grace_s: float) -> None:
    """Ask processes to end (SIGTERM); survivors are killed after `grace_s`."""
    left = list(processes)
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, 10.0)):
        for process in left:
            process.signal(number)
        deadline = clock.monotonic() + patience_s
        while (left := [p for p in left if p.alive()]) and clock.monotonic() < deadline:
            time.sleep(_POLL_S)


def _started_by_ps(pid: int) -> int | None:
    fields = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "TZ": "UTC", "PATH": "/bin:/usr/bin"},
    ).stdout.split(maxsplit=1)
    if len(fields) < 2 or fields[0].startswith("Z"):
        return None
    return calendar.timegm(time.strptime(fields[1].strip(), "%a %b %d %H:%M:%S %Y"))
