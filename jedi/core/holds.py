"""The closed list of holds of a task, for `jedi-task why`: code, meaning and remedy.

It answers one question: the next step of the task, and the obstacle before it. The reason codes of
a status log (core/reasons.py) explain the past.
"""

from __future__ import annotations

from collections.abc import Mapping

HOLDS: Mapping[str, str] = {
    "ended": "Nothing: the task has ended.",
    "running": "Nothing: its jobs are running.",
    "in_turn": "Nothing: an agent takes it in a moment.",
    "in_hand": "Nothing: an agent works on it.",
    "command": "A command is running.",
    "exhausted": "A person has to decide: retry, finish or kill it; after a time-out it ends by "
    "itself.",
    "paused": "A person paused it: resume it.",
    "attempts": "It rests because inputs failed again and again: check the errors of its jobs; "
    "resume it to continue at once.",
    "refining": "Its definition could not be refined for now.",
    "parent": "Its parent has to end first.",
    "input": "Its input is incomplete or cannot be read now.",
    "staging": "Its input is coming from tape.",
    "period": "Its next period has to begin.",
    "nucleus": "No nucleus can take it.",
    "brokerage": "No site can run its jobs.",
    "build": "Its software is not built.",
    "retry_rule": "A retry rule changes it first: the dog `retries` does that in a moment.",
    "throttler": "Its work queue has enough jobs.",
    "share": "Other tasks come first, by the share that their work queue uses, then by priority.",
    "scouts": "Its scout jobs are measured first.",
    "transfers": "Files of its jobs are on their way.",
    "merging": "Its jobs have run; merge jobs follow when enough outputs exist, at a site that "
    "takes them.",
    "user_cap": "Its jobs are throttled: its user has reached the limit of running jobs.",
    "jobs_held": "A person holds its jobs: jedi-job release lets them continue.",
    "pilots": "Its jobs wait, and no pilot was seen at their sites lately.",
    "slots": "Its jobs wait for free slots.",
    "problem": "An agent failed at it and tries again.",
}

BY_REASON: Mapping[str, str] = {
    "refining_failed": "refining",
    "parent_not_ready": "parent",
    "input_open": "input",
    "input_not_made": "input",
    "input_awaited": "input",
    "workflow_hold": "input",
    "to_split": "in_turn",
    "splitting_failed": "input",
    "input_on_tape": "staging",
    "feeding_failed": "input",
    "secondary_files_short": "input",
    "no_ready_files": "input",
    "no_nucleus": "nucleus",
    "assigning_failed": "nucleus",
    "no_site_now": "brokerage",
    "no_site_fits": "brokerage",
    "builds_generated": "build",
    "build_running": "build",
    "build_failed": "build",
    "queue_full": "throttler",
    "queue_throttled": "throttler",
    "queue_served": "throttler",
}
"""The hold of a task with one of these reasons."""

BY_STATUS: Mapping[str, str] = {
    **dict.fromkeys(("done", "finished", "failed", "broken", "aborted"), "ended"),
    **dict.fromkeys(
        (
            "aborting",
            "toabort",
            "finishing",
            "passed",
            "tobroken",
            "toretry",
            "toincexec",
            "toreassign",
            "reassigning",
        ),
        "command",
    ),
    "prepared": "in_turn",
    "exhausted": "exhausted",
    "paused": "paused",
    "throttled": "attempts",
    "staging": "staging",
}
"""The hold of a task in one of these statuses, unless an agent failed at it."""

LASTING = frozenset({"refining_failed", "feeding_failed", "splitting_failed", "assigning_failed"})
"""Reasons of holds with a code of their own that do not pass by themselves."""


def backs_off(reason_code: str | None) -> bool:
    """Return True if tries of a task on hold for this reason come at longer and longer intervals:
    it does not wait for anything that comes by itself."""
    return reason_code in LASTING or reason_code not in {*BY_REASON, "unreachable"}


FAULTS = frozenset(
    {"internal_error", "plugin_failed", "plugin_timeout", "unreachable", "endpoint_missing"}
)
"""Reasons of tasks at which an agent failed, in whatever status: it tries again."""


def hold_of(status: str, reason_code: str | None) -> str:
    """The hold of a task as far as its status and its reason decide it; empty: its jobs do."""
    if status in BY_STATUS:
        faulty = reason_code in FAULTS and BY_STATUS[status] in ("command", "in_turn")
        return "problem" if faulty else BY_STATUS[status]
    if reason_code == "generation_failed":
        return "problem"
    if status in WITH_JOBS:
        return ""
    return BY_REASON.get(reason_code or "", "problem" if status == "pending" else "in_turn")


WITH_JOBS = ("scouting", "running", "preprocessing")
"""Statuses of tasks that have jobs, as a rule: these decide what the task waits for."""
