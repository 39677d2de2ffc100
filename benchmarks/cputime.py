"""Processor time of processes, as Linux shows it in /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessTime:
    """Seconds of a process: its own, and those of its children that have ended."""

    parent: int
    own_s: float
    ended_s: float

    @property
    def all_s(self) -> float:
        """Its own and those of ended children."""
        return self.own_s + self.ended_s


def time_of(pid: int) -> ProcessTime | None:
    """The time of a process so far; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    times = [int(field) / _TICKS for field in fields[11:15]]
    return ProcessTime(int(fields[1]), sum(times[:2]), sum(times[2:]))


def all_times() -> dict[int, ProcessTime]:
    """The times of all processes so far, by process id."""
    pids = [int(one.name) for one in Path("/proc").iterdir() if one.name.isdecimal()]
    return {pid: found for pid in pids if (found := time_of(pid))}


def tree(times: dict[int, ProcessTime], root: int) -> list[int]:
    """A process and all below it."""
    found = [root]
    for pid in found:
        found += [child for child, one in times.items() if one.parent == pid]
    return found


def tree_s(times: dict[int, ProcessTime], root: int) -> float:
    """Seconds of a process and of all below it, ended ones included."""
    return sum(times[pid].all_s for pid in tree(times, root))
