"""The next status of a retried task, and its datasets that are used again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jedi.core import states
from jedi.model.tasks.rows import TaskDataset

_ENDED = ("prepared", "done", "finished", "failed")
_DUE = ("defined", "toupdate", "pending")
_LOOKED_UP = ("ready", "running", "done", "finished", "failed", "broken", "removed")


@dataclass(frozen=True, slots=True)
class RetriedDataset:
    """A dataset of a task to retry: files that jobs took, files that may be tried again, and files
    that were lost, missing or broken. `stale`: the others may be gone by now. `withheld`: files are
    left that wait for their time, for tape or for more files, or that are not fed yet."""

    dataset_id: int
    type: str
    master_id: int | None
    status: str
    state: str | None
    used: int
    revived: int
    missing: int = 0
    stale: bool = False
    withheld: bool = False

    @classmethod
    def of(cls, row: TaskDataset, revived: int, *, stale: bool) -> RetriedDataset:
        """From its row, and how many of its files were just revived."""
        left = row.n_files_to_be_used - row.n_files_used - row.n_files_missing
        return cls(
            row.dataset_id,
            row.type,
            row.master_id,
            row.status,
            row.state,
            row.n_files_used + revived,
            left,
            row.n_files_missing,
            stale,
            row.n_files > row.n_files_to_be_used or row.fed_upto is not None,
        )

    @property
    def is_master(self) -> bool:
        return self.master_id is None and self.type in states.MASTER_TYPES

    @property
    def is_due(self) -> bool:
        """It is going to be looked up anyhow."""
        return self.status in _DUE

    @property
    def goes_on(self) -> bool:
        """It has files to process, or may get some."""
        left = self.revived or self.withheld or self.looks_again
        return bool(left) or self.status not in _ENDED

    @property
    def looks_again(self) -> bool:
        """Its files may be there again, or may be no more."""
        doubted = self.missing > 0 or self.status == "broken" or (self.stale and self.revived > 0)
        return self.type in states.MASTER_TYPES and doubted and not self.is_due


@dataclass(frozen=True, slots=True)
class RetryPlan:
    """The next statuses of the task and of datasets by id; no status: there is nothing to retry."""

    target: str | None
    datasets: list[tuple[int, str]]


def resumed(old_status: str, *, scouting: bool) -> str | None:
    """The status in which an exhausted task goes on at once, with nothing new; None: it is
    retried."""
    if old_status == "running" or (old_status == "scouting" and not scouting):
        return "running"
    return "scouting" if old_status == "scouting" else None


def plan(datasets: Sequence[RetriedDataset]) -> RetryPlan:
    """Go on where the task stopped: refine it, feed it, or make jobs of the rest."""
    datasets = [d for d in datasets if d.status != "removed"]
    masters = [d for d in datasets if d.is_master]
    if not masters:
        return RetryPlan("registered", [])
    left = [d for d in masters if d.goes_on]
    if not left:
        return RetryPlan(None, [])
    lines = {d.dataset_id for d in left}
    moves = [(d.dataset_id, _reopened(d)) for d in datasets if _ends(d, lines)]
    due = any(d.is_due for d in masters) or "defined" in {status for _, status in moves}
    known = any(d.used for d in masters) and not due
    return RetryPlan("ready" if known else "defined", moves)


def _ends(dataset: RetriedDataset, lines: set[int]) -> bool:
    """Return True if a dataset has to be opened again: an output, or one of a line that goes on."""
    line = dataset.master_id or dataset.dataset_id
    output = dataset.type in states.MADE_TYPES
    ended = dataset.status in _ENDED or dataset.looks_again
    return ended and (output or line in lines)


def _reopened(dataset: RetriedDataset) -> str:
    if dataset.looks_again:
        return "defined"
    grows = dataset.state == "open" or (dataset.withheld and dataset.type == "input")
    return "running" if grows and dataset.is_master else "ready"


def reopen(kind: str, status: str) -> str | None:
    """The next status of a dataset whose task is executed incrementally; None: it stays."""
    if kind in states.MADE_TYPES:
        return "ready" if status in _ENDED else None
    return "toupdate" if status in _LOOKED_UP else None
