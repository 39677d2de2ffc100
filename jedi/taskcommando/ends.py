"""Ends of a task's jobs at kill, finish and reassign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jedi.core import states


@dataclass(frozen=True, slots=True)
class CommandedEnd:
    """The ends of jobs on a command: their status, the code, and its author."""

    target: str
    code: str
    source: str

    def at_once(self, job: Any, *, mild: bool) -> bool:
        """Return True if a job (its row) may end without a pilot's help."""
        if self is REASSIGNED:
            return job.status in states.JOB_QUEUED
        merges = job.status == "merging" or job.kind in ("merge", "es_merge")
        return job.status in (*states.JOB_QUEUED, "merging") and not (mild and merges)

    def awaits(self, job: Any, *, mild: bool) -> bool:
        """Return True if the command waits for the end of the job."""
        if self is REASSIGNED and job.status == "merging":
            return False
        return self is KILLED or job.status in states.JOB_QUEUED or not mild


KILLED = CommandedEnd("cancelled", "killed", "user")
REASSIGNED = CommandedEnd("closed", "reassigned", "jedi")
