"""Reasons to end jobs before they end by themselves: kill codes, by reason (core/reasons.py).

Source: docs/reference/job-states.md#kill-codes; docs/reference/job-states.md#relations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kill:
    """The number that PanDA gives it, and how the jobs that take over the inputs are related to the
    killed ones."""

    number: int
    relation: str = "retry"


KILLS: Mapping[str, Kill] = {
    "setup_timeout": Kill(2),
    "defined_timeout": Kill(2),
    "throttled_timeout": Kill(2),
    "not_taken": Kill(2),
    "cancelled_by_user": Kill(3),
    "waiting_timeout": Kill(4),
    "assigned_timeout": Kill(8, "rebrokerage"),
    "activated_timeout": Kill(8, "rebrokerage"),
    "rebrokered": Kill(8, "rebrokerage"),
    "idle_site": Kill(10, "rebrokerage"),
    "t1_timeout": Kill(10, "rebrokerage"),
    "t2_timeout": Kill(10, "rebrokerage"),
    "shut_down": Kill(9),
    "killed": Kill(50),
    "reassigned": Kill(51, "reassign"),
    "pilot_terminated": Kill(60),
}
"""2 expired, 3 cancelled by itself, 4 expired while it waited for others, 8 rebrokered, 9 by force,
10 rebrokered because its site is slow, 50 with its task, 51 because its task goes on elsewhere, 60
by its pilot."""


def kill(code: str | None) -> Kill | None:
    """The meaning of a job's kill code; None: it has none, or an unknown one."""
    return KILLS.get(code) if code else None
