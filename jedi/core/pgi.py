"""The states of the OGF Production Grid Infrastructure group, derived from the rows of a job.

Nothing of them is stored: `pgi_state` and the view `jedi_job_states`, made of the same tables, say
where a job is; `task_state` and the view `jedi_task_states` where a task is before its first job.
The resources of a job follow from its state; the view `jedi_job_allocations` says from when to
when, by the log of its statuses. Source: docs/reference/pgi.md#derived-states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jedi.core import states


@dataclass(frozen=True, slots=True)
class Holding:
    """The resources in a state: none, decided (chosen, not held), allocated, free. `notify`: the
    news for the submitter on entry, or nothing."""

    stage_in: str
    exec_storage: str
    compute: str
    stage_out: str
    sandbox: str = "none"
    notify: str = ""


RESOURCES = ("stage_in", "exec_storage", "compute", "stage_out")
"""Resources that a live job is allocated. A hold does not change them, so they follow from the
status alone."""

_PRE = ("allocated", "decided", "decided", "decided")
_AT_WORK = ("allocated", "allocated", "allocated", "decided")
_POST = ("free", "free", "free", "allocated")
_FREE = ("free", "free", "free", "free")
SUBMISSION, FINISHED, FAILED, PURGED = (
    *("User-Submission", "Finished", "Failed-Cancelled", "Purged"),
)
STATES: Mapping[str, Holding] = {
    SUBMISSION: Holding("none", "none", "none", "none"),
    "Submitted": Holding("decided", "decided", "decided", "decided"),
    "Pre-processing": Holding(*_PRE),
    "Pre-processing-Hold": Holding(*_PRE, notify="yes"),
    "Delegated": Holding(*_AT_WORK),
    "Delegated-Hold": Holding(*_AT_WORK, notify="urgent"),
    "Post-processing": Holding(*_POST),
    "Post-processing-Hold": Holding(*_POST, notify="yes"),
    FINISHED: Holding(*_FREE, sandbox="available", notify="yes"),
    FAILED: Holding(*_FREE, sandbox="maybe partial", notify="yes"),
    PURGED: Holding(*_FREE, sandbox="gone"),
}
TRANSITIONS: Mapping[tuple[str, str], str] = {
    (SUBMISSION, "Submitted"): "submission",
    ("Submitted", FAILED): "Submitted Failure",
    ("Submitted", "Pre-processing"): "Goes to Pre-processing",
    ("Pre-processing", FAILED): "Pre-processing Failure",
    ("Pre-processing", "Pre-processing-Hold"): "Pre-processing needs User action",
    ("Pre-processing", "Delegated"): "Goes to Delegated",
    ("Pre-processing-Hold", FAILED): "Pre-processing-Hold Cancel",
    ("Pre-processing-Hold", "Pre-processing"): "User action for Pre-processing",
    ("Delegated", FAILED): "Delegated Failure",
    ("Delegated", "Delegated-Hold"): "Delegated needs User action",
    ("Delegated", "Post-processing"): "Goes to Post-Processing",
    ("Delegated-Hold", FAILED): "Delegated-Hold Cancel",
    ("Delegated-Hold", "Delegated"): "User action for Delegated",
    ("Post-processing", FAILED): "Post-processing Failure",
    ("Post-processing", "Post-processing-Hold"): "Post-processing needs User action",
    ("Post-processing", FINISHED): "Finishes with Success or Error",
    ("Post-processing-Hold", FAILED): "Post-processing-Hold Cancel",
    ("Post-processing-Hold", "Post-processing"): "User action for Post-processing",
    (FINISHED, PURGED): "Purge after Finished",
    (FAILED, PURGED): "Purge after Failure or Cancellation",
}
"""All transitions there are, in PGI's order: the first is T01."""

LIVE: Mapping[str, tuple[str, str]] = {
    "pending": ("Submitted", "Incoming"),
    "waiting": ("Submitted", "Waiting"),
    "defined": ("Submitted", "Outgoing"),
    "assigned": ("Pre-processing", "Automatic-Stage-In"),
    "activated": ("Pre-processing", "Outgoing"),
    "throttled": ("Pre-processing", "Outgoing"),
    "sent": ("Delegated", "Incoming"),
    "starting": ("Delegated", "Incoming"),
    "running": ("Delegated", "Running"),
    "holding": ("Post-processing", "Incoming"),
    "transferring": ("Post-processing", "Automatic-Stage-Out"),
    "merging": ("Post-processing", "Merging"),
}
"""State and substate of jobs that have not ended and are not held, by status. An activated job has
its inputs but no CPU yet, so it is not delegated."""

HELD: Mapping[str, str] = {
    state: f"{state}-Hold" for state in ("Pre-processing", "Delegated", "Post-processing")
}
HOLD_KINDS: Mapping[str, str] = {
    "manual_stage_in": "Manual-Stage-In",
    "manual_stage_out": "Manual-Stage-Out",
    "failed_recoverable": "Failed-Recoverable",
    "user_request": "User-Request",
}
"""Kinds of holds, each with its substate. A hold stands beside the status, so a release needs no
memory."""
HOLD_STAGES: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(HOLD_KINDS, tuple(HELD)),
    "manual_stage_in": ("Pre-processing",),
    "manual_stage_out": ("Post-processing",),
}
"""The states that a job can be held in, by the kind of the hold."""

ENDED: Mapping[str, tuple[str, str]] = {
    "finished": (FINISHED, "success"),
    "failed": (FINISHED, "error"),
}
"""PGI states of ended jobs with added results: for PGI a failed payload has ended like others."""

BROKEN_OFF: Mapping[str, str] = {
    "finished": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
    "closed": "closed-by-system",
}
"""Substates of Failed-Cancelled by status."""


UNPREPARED: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(states.TASK_STATES, ("Submitted", "Outgoing")),
    **dict.fromkeys(
        ("registered", "defined", "assigning", "topreprocess", "rerefine"),
        ("Submitted", "Incoming"),
    ),
    **dict.fromkeys(
        ("pending", "paused", "throttled", "exhausted", "staging", "staged"),
        ("Submitted", "Waiting"),
    ),
    **dict.fromkeys(("broken", "failed", "finished"), (FAILED, "failed")),
    "aborted": (FAILED, "cancelled"),
}
"""State and substate of the work that a task without jobs has accepted, by its status: looked at,
waiting, about to become jobs, or ended in vain. `done`: there was nothing to do."""


FORWARDED = "Forwarded"
"""Substate of jobs that another grid forwarded, as their pilots report."""


def task_state(status: str) -> tuple[str, str] | None:
    """State and substate of a task that has no job yet, or never had one; None: there was nothing
    to do. KeyError: unknown status."""
    return None if status == "done" else UNPREPARED[status]


def pgi_state(
    status: str,
    hold: str | None,
    *,
    postprocessed: bool,
    purged: bool,
    forwarded: bool = False,
) -> tuple[str, str | None]:
    """State and substate of one attempt. `postprocessed`: its results were added, of a failed one
    because its payload itself ended; KeyError: unknown status or kind of hold."""
    if status in states.JOB.final:
        if purged:
            return PURGED, None
        if postprocessed and status in ENDED:
            return ENDED[status]
        return FAILED, BROKEN_OFF[status]
    state, substate = LIVE[status]
    if hold is not None and state in HELD:
        return HELD[state], HOLD_KINDS[hold]
    return state, FORWARDED if forwarded and status == "running" else substate
