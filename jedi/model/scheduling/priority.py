"""The priority a task begins with, and people's special permissions.

Source: JEDI document, "Special permission"; docs/reference/throttler-and-shares.md#priority.
"""

from __future__ import annotations

DEFAULT = 1000
OF_USERS = (900, 1100)
"""Range of priorities that users may set."""
JUMP = 1500
"""Analysis tasks of this priority jump over all others when jobs are made."""

PERMISSIONS = {
    "k": "may download key-pairs",
    "p": "may retrieve proxies",
    "s": "super user: analysis tasks jump over others",
    "g": "super group: analysis tasks of a working group jump over others",
}
"""The letters of GRIDPREF. k and p are for services that keep credentials: JEDI keeps none."""


def job_priorities(base: int, jobs: int, before: int, step: int) -> list[int]:
    """Return the priorities of a user's new jobs. Each `step` jobs of the user, with the `before`
    that are there, lower it by one; `step` 0 lowers nothing. Super users keep their priority."""
    if not step or base >= JUMP:
        return [base] * jobs
    return [int(base - (before + n) / step) for n in range(jobs)]


def task_priority(
    asked: int | None, task_type: str, gridpref: str, working_group: str | None
) -> int:
    """As asked, 1000 if nothing was; analysis tasks of privileged users jump over others."""
    priority = DEFAULT if asked is None else asked
    privileged = "s" in gridpref or ("g" in gridpref and working_group is not None)
    return max(priority, JUMP) if task_type == "anal" and privileged else priority
