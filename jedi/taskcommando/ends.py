"""How the jobs of a task end when the task is killed, told to finish or sent elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jedi.core import states


@dataclass(frozen=True, slots=True)
class CommandedEnd:
    """How jobs end on a command: their status, the code, and who is behind it."""

    target: str
    code: str
    source: str

    def at_once(self, job: Any, *, mild: bool) -> bool:
        """Whether a job (its row) may be ended without a pilot's help."""
        if self is REASSIGNED:
            return job.status in states.JOB_QUEUED
        merges = job.status == "merging" or job.kind == "merge"
        return job.status in (*states.JOB_QUEUED, "merging") and not (mild and merges)

    def awaits(self, job: Any, *, mild: bool) -> bool:
        """Whether the command is not carried out as long as a job lives."""
        if self is REASSIGNED and job.status == "merging":
            return False
        return self is KILLED or job.status in states.JOB_QUEUED or not mild


KILLED = CommandedEnd("cancelled", "killed", "user")
REASSIGNED = CommandedEnd("closed", "reassigned", "jedi")
