"""Operations on the whole system: status, consistency, watchdog."""

from __future__ import annotations

from dataclasses import dataclass

from jedi.core.settings import Settings
from jedi.service import check, dogs, status
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation
from jedi.taskbuffer.housekeeping.checks import Finding
from jedi.taskbuffer.reports import marks
from jedi.taskbuffer.reports.marks import ChangeMarks


@dataclass(frozen=True, slots=True)
class SystemOverview:
    """The system: `healthy` if every agent is; `draining`: pilots get no more jobs. Tasks and jobs
    are counted by status."""

    healthy: bool
    draining: bool
    agents: list[status.AgentStatus]
    tasks: dict[str, int]
    jobs: dict[str, int]
    sites: list[status.SiteStatus]


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The invariants of the records; `healthy` if none is violated."""

    healthy: bool
    invariants: list[Finding]


@operation("system.status", "GET", "/v1/status", ANYBODY)
def show(call: Call) -> SystemOverview:
    """Show agents, tasks, jobs and sites."""
    found = status.system(call.tx)
    draining = Settings(call.home.path, None).draining.exists()
    return SystemOverview(
        found.healthy, draining, found.agents, found.tasks, found.jobs, found.sites
    )


@operation("system.changes", "GET", "/v1/changes", ANYBODY)
def changes(call: Call) -> ChangeMarks:
    """Show a number for each kind of change, which grows with the changes of that kind."""
    return marks.change_marks(call.tx)


@operation("system.check", "GET", "/v1/check", OPERATOR, heavy=True)
def examine(call: Call, files: bool = False) -> CheckReport:
    """Check the invariants of the records; `files`: also read every finished output in storage."""
    found = check.check(call.tx, call.ddm if files else None)
    return CheckReport(not any(one.violations for one in found), found)


@operation("dog.list", "GET", "/v1/dogs", ANYBODY)
def list_dogs(call: Call) -> list[dogs.DogSummary]:
    """List the dogs of the WatchDog with their work and interval."""
    return dogs.list_dogs(call.tx)


@operation("dog.run", "POST", "/v1/dogs/{dog}/run", OPERATOR, heavy=True)
def run_dog(call: Call, dog: NameText) -> dict[str, int]:
    """Run a dog once, and count its actions by reason; `locked`: it runs elsewhere just now."""
    call.subject = f"dog {dog}"
    return dogs.run_dog(call.tx.engine, call.home, call.who, dog)
