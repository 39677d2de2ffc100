"""Are there enough jobs? First form: one cap on the waiting jobs of each work queue."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pass:
    """Up to so many jobs may be made."""

    jobs: int


@dataclass(frozen=True, slots=True)
class Skip:
    """No jobs now."""

    code: str
    reason: str


def decide(queued: int, cap: int) -> Pass | Skip:
    """For one work queue: `queued` jobs wait in it, `cap` may (knob throttler.queue_cap)."""
    if queued < cap:
        return Pass(cap - queued)
    return Skip(
        "queue_full", f"{queued} jobs wait in the task's work queue, as many as may ({cap})."
    )
