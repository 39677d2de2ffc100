"""Processes of this machine, by number and time of birth: a number is used again, both are not."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

_STATE, _BORN = 0, 19
"""Fields of /proc/PID/stat behind the name."""


def born(pid: int) -> str | None:
    """The time of birth of a living process, as its system writes it; None: there is none."""
    try:
        fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None if Path("/proc/self/stat").exists() else _born_by_ps(pid)
    return None if fields[_STATE] == "Z" else fields[_BORN]


def _born_by_ps(pid: int) -> str | None:
    """The same without /proc."""
    ps = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return ps.stdout.strip() or None


def lives(pid: int | None, birth: str | None) -> bool:
    """True if that process, and no later one with its number, lives."""
    return pid is not None and birth is not None and born(pid) == birth


def signal_group(pid: int, birth: str | None, number: signal.Signals) -> None:
    """Send a signal to all processes of the group that a process leads, or led; there may be none.
    If a later process has its number, the group is gone: nobody gets a number in use."""
    if born(pid) in (None, birth):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, number)
