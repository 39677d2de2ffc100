"""Plan of transfers: each file once, however many jobs need it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from jedi.model.datasets.dataset import FileKey

EXPRESS = "Express"


@dataclass(frozen=True, slots=True)
class NeededFile:
    """A file that must be at an endpoint."""

    file: FileKey
    endpoint: str


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A job that goes on when its needs are met; `age_s`: how long it has waited. `outputs` are
    files that nobody wants unless it succeeds; files of the datasets in `kept` stay for good where
    they are brought to."""

    panda_id: int
    age_s: float
    activity: str
    needs: tuple[NeededFile, ...]
    outputs: tuple[FileKey, ...] = ()
    kept: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Route:
    """One request to data management; `kept`: the files are there to stay."""

    source: str
    target: str
    activity: str
    kept: bool = False


@dataclass(slots=True)
class TransferPlan:
    """`routes`: which files are to be copied; `problems`: why a file is not where it must be;
    `coming`: files that are on their way, or will be; `gone`: files that no endpoint has."""

    routes: dict[Route, list[FileKey]] = field(default_factory=dict)
    problems: dict[NeededFile, str] = field(default_factory=dict)
    coming: set[NeededFile] = field(default_factory=set)
    gone: set[NeededFile] = field(default_factory=set)

    def can_come(self, job: WaitingJob) -> bool:
        """All missing inputs of a job are on their way: time-outs limit its wait."""
        return self.coming.issuperset(need for need in job.needs if need in self.problems)

    def lacking(self, job: WaitingJob) -> str:
        """Return the reason why a job must still wait, with a file's name; empty if it need not."""
        missing = [need for need in job.needs if need in self.problems]
        if not missing:
            return ""
        need, more = missing[0], len(missing) - 1
        too = f" ({more} more files lack, too)" if more else ""
        name = "/".join(need.file)
        return f"{name} could not be brought to {need.endpoint}: {self.problems[need]}{too}"


def activity(usual: str, processing_type: str | None, priority: int) -> str:
    """Return the activity of a transfer: urgent tasks and priorities from 1000 on are express.
    Source: docs/reference/brokerage.md#express."""
    return EXPRESS if processing_type == "urgent" or priority >= 1000 else usual


def make_plan(
    jobs: Iterable[WaitingJob], holders: Mapping[FileKey, Sequence[str]], unknown: Mapping[str, str]
) -> TransferPlan:
    """Return the transfers that meet the needs of jobs; `holders` are the endpoints that have a
    file, best first. `unknown` has the reason why a dataset can't be looked up: a person corrects
    that, so its files count as coming. A file that one job wants express comes express to all, and
    a copy that one job keeps is kept."""
    activities: dict[NeededFile, str] = {}
    kept: set[NeededFile] = set()
    for job in jobs:
        for need in job.needs:
            if job.activity == EXPRESS or need not in activities:
                activities[need] = job.activity
            if need.file[0] in job.kept:
                kept.add(need)
    plan = TransferPlan()
    for need, how in activities.items():
        having = holders.get(need.file, ())
        if need.file[0] in unknown:
            plan.problems[need] = unknown[need.file[0]]
            plan.coming.add(need)
        elif not having:
            plan.problems[need] = "No endpoint has it."
            plan.gone.add(need)
        elif need.endpoint not in having:
            route = Route(having[0], need.endpoint, how, need in kept)
            plan.routes.setdefault(route, []).append(need.file)
    return plan
