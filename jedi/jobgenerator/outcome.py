"""What comes of a look at a task: jobs to be written, or why there are none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from jedi.spec.building import Builds
from jedi.spec.decision import Decision
from jedi.spec.generation import NewJobs, TaskOrder


@dataclass(frozen=True, eq=False)
class Merges:
    """Merge jobs to be written, if any; the task stays what it is."""

    task: TaskOrder
    jobs: NewJobs | None


@dataclass(frozen=True, eq=False)
class Made:
    """Jobs to be written: the task's own, if any, and those that build its software."""

    task: TaskOrder
    jobs: NewJobs | None
    decision: Decision
    builds: tuple[TaskOrder, NewJobs] | None = None


@dataclass(frozen=True, eq=False)
class Held:
    """No jobs, and why; `target` is the task's status until it is looked at again."""

    code: str
    reason: str
    target: str
    wait_s: float
    facts: dict[str, Any] = field(default_factory=dict)
    decision: Decision | None = None


Outcome = Made | Held


def without_software(
    task: TaskOrder,
    known: Builds,
    lacking: Collection[str],
    knobs: Mapping[str, Any],
    decision: Decision,
) -> Held:
    """No job can be made, since the software is not at these endpoints and no build is to be made
    there. Seed, "Broken tasks": where scouts wait for it that breaks the task."""
    if "running" in known.statuses.values():
        reason, wait_s = "Its software is being built.", knobs["jobgen.retry_s"]
        return Held("build_running", reason, task.status, wait_s, {}, decision)
    reason = f"Its software could not be built at {', '.join(sorted(lacking))}."
    if task.status == "scouting":
        return Held("build_failed", reason, "tobroken", 0.0, {}, decision)
    wait_s = knobs["watchdog.pending_retry_s"]
    return Held("build_failed", reason, "pending", wait_s, {}, decision)
