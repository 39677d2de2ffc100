"""The next status of a task that was sent to another place."""

from __future__ import annotations


def target(before: str, *, refined: bool, fed: bool, nucleus: bool) -> str:
    """The status after reassignment, by the one before. A new `nucleus` is judged by TaskBroker; an
    exhausted task goes on, unless it was never refined. Source:
    docs/reference/task-states.md#reassign."""
    if before == "exhausted" and not refined:
        return before
    if before == "defined" or not fed:
        return "defined"
    if nucleus:
        return "assigning"
    return "ready" if before in ("assigning", "exhausted") else before
