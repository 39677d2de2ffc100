"""Outcome of a task: the statuses of its datasets and its own."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jedi.core import states
from jedi.core.knobs import Knobs
from jedi.model.jobs.scouting import Judgement, Scouted
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.rows import ClaimedTask
from jedi.postprocessor import scouts

_IN_USE = ("ready", "running")
_NOT_SETTLED = ("defined", "toupdate", "pending", *_IN_USE)
_AT_WORK = ("defined", *_IN_USE)
_FROZEN = ("done", "finished", "failed")


@dataclass(frozen=True, slots=True)
class EndingDataset:
    """A dataset of a task; the numbers count files, and matter for inputs only, as do its events,
    where they are known. Files that are `withheld` are not to be used yet."""

    dataset_id: int
    name: str
    type: str
    master_id: int | None
    status: str
    to_be_used: int
    finished: int
    failed: int
    missing: int
    events: int | None = None
    events_done: int | None = None
    container: str | None = None
    withheld: int = 0

    @property
    def is_output(self) -> bool:
        return self.type in states.PRODUCT_TYPES

    @property
    def is_master(self) -> bool:
        """Its files decide how the task ends."""
        return self.master_id is None and self.type in states.MASTER_TYPES

    @property
    def is_open(self) -> bool:
        """More files may come."""
        return self.is_master and self.status == "running"


@dataclass(frozen=True, slots=True)
class EndingRules:
    """The task's rules for its end: `goal` in percent, and others; `by_events`: it counts ranges of
    events."""

    goal: float = 100.0
    use_exhausted: bool = False
    fail_goal_unreached: bool = False
    allow_empty_input: bool = False
    by_events: bool = False

    @classmethod
    def of(cls, task: ClaimedTask) -> EndingRules:
        """From a row of jedi_tasks."""
        rules = SplitRules.model_validate(task.rules or {})
        return cls(
            goal=100.0 if task.goal is None else task.goal / 10,
            use_exhausted=bool(rules.use_exhausted),
            fail_goal_unreached=bool(rules.fail_goal_unreached),
            allow_empty_input=bool(rules.allow_empty_input),
            by_events=rules.by_events,
        )


Lost = Mapping[int, Collection[str]]
"""LFNs that are lost, by dataset id."""

NAMED = 10
"""Files that a reason names."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The state of a task's products: inputs that were processed `twice`; outputs that are `lost`,
    though their jobs had success, by dataset id; `lost_logs` likewise; files of others that were
    `removed`."""

    twice: int = 0
    lost: Lost = field(default_factory=dict)
    removed: int = 0
    lost_logs: Lost = field(default_factory=dict)

    @property
    def gone(self) -> dict[int, Collection[str]]:
        """All files that are lost, by dataset id."""
        return {**self.lost, **self.lost_logs}

    @property
    def facts(self) -> dict[str, Any]:
        """The facts of the reason: numbers, and the first files that are lost."""
        counts = {
            "twice": self.twice,
            "lost": _count(self.lost),
            "removed": self.removed,
            "lost_logs": _count(self.lost_logs),
            "lost_files": _first(self.gone),
        }
        return {name: n for name, n in counts.items() if n}

    @property
    def losses(self) -> list[str]:
        """Outputs and logs that are gone, for the reason."""
        return [
            _loss(kind, gone)
            for kind, gone in (("output", self.lost), ("log", self.lost_logs))
            if gone
        ]


def _count(gone: Lost) -> int:
    return sum(map(len, gone.values()))


def _first(gone: Lost) -> list[str]:
    return sorted(lfn for lfns in gone.values() for lfn in lfns)[:NAMED]


def _loss(kind: str, gone: Lost) -> str:
    count, names = _count(gone), ", ".join(_first(gone))
    loss = f"file{'s are' if count > 1 else ' is'} gone from data management: {names}"
    return f"{count} {kind} {loss}{f' and {count - NAMED} more' if count > NAMED else ''}"


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """A task's next status, and why."""

    target: str
    code: str
    reason: str
    facts: dict[str, Any] = field(default_factory=dict)


class PostProcessing:
    """Ends of tasks of any vo and prodSourceLabel."""

    def settle(self, datasets: Iterable[EndingDataset]) -> list[tuple[int, str]]:
        """The next status (by dataset id) of each dataset that nobody works on any more.

        A master whose files were never listed stays as it is.
        """
        moves = []
        for d in datasets:
            if d.is_output and d.status in _AT_WORK:
                moves.append((d.dataset_id, "prepared"))
            elif d.is_master and d.status in _IN_USE:
                moves.append((d.dataset_id, _share_done(d.finished, d.to_be_used)))
            elif not d.is_output and not d.is_master and d.status in _NOT_SETTLED:
                moves.append((d.dataset_id, "done"))
        return moves

    def judge(self, found: Scouted, knobs: Knobs) -> Judgement:
        """Judge by a task's scouts, all of which have ended, if the rest of its jobs may follow."""
        return scouts.judge(found, knobs)

    def conclude(
        self,
        status: str,
        datasets: Sequence[EndingDataset],
        because: tuple[str, str],
        parent: str | None = None,
        wishes: EndingRules = EndingRules(),
        found: Findings = Findings(),
    ) -> TaskVerdict:
        """The next status of a task that is prepared, passed, toabort or tobroken; `because`
        are the code and the sentence with which it got there, `parent` is its parent's status."""
        if status == "tobroken":
            return TaskVerdict("broken", *because)
        if status == "toabort":
            return TaskVerdict("aborted", *because)
        if because[0] == "preprocessing_failed":
            return TaskVerdict("failed", *because)
        masters = [d for d in datasets if d.is_master and d.status != "removed"]
        to_be_used = sum(d.to_be_used for d in masters)
        finished = sum(d.finished for d in masters)
        if not to_be_used and wishes.allow_empty_input:
            return TaskVerdict(
                "done", "empty_input_allowed", "No input file was there, as allowed."
            )
        if not to_be_used and because[0] == "finish":
            reason = f"No input file was ready for jobs when the task was finished. {because[1]}"
            return TaskVerdict("failed", "no_input", reason)
        if not to_be_used:
            return TaskVerdict("failed", "no_input", "The task had no input file.")
        if found.twice and status == "prepared":
            reason = (
                f"{found.twice} inputs were processed more than once: compare the outputs; then "
                "resume the task, or kill it."
            )
            return TaskVerdict("paused", "duplicates_found", reason, found.facts)
        target = _share_done(finished, to_be_used)
        doubts = _doubts(masters, parent)
        if target == "done" and (doubts or found.lost):
            target = "finished"
        counts = "ranges of events" if wishes.by_events else "input files"
        reason = f"{finished} of {to_be_used} {counts} were processed"
        failed = sum(d.failed for d in masters)
        missing = sum(d.missing for d in masters)
        counted = [f"{n} {what}" for n, what in ((failed, "failed"), (missing, "missing")) if n]
        details = "; ".join([", ".join(counted + doubts), *found.losses]).removeprefix("; ")
        reason = f"{reason}{details and f'; {details}'}."
        percent = _percent_done(masters)
        if target == "finished" and percent < wishes.goal:
            sentence = f"{reason} That is {percent:.1f} %, less than the goal of {wishes.goal:g} %."
            if wishes.use_exhausted and status != "passed":
                return TaskVerdict("exhausted", "goal_not_met", sentence)
            if wishes.fail_goal_unreached and because[0] != "finish":  # nobody is content with it
                return TaskVerdict("failed", "goal_not_met", sentence)
        return TaskVerdict(target, f"inputs_{target}", reason, found.facts)

    def release(self, target: str, datasets: Sequence[EndingDataset]) -> list[tuple[int, str]]:
        """The final status (by dataset id) of each output of a task that becomes `target`: that of
        the task, or after another end that of its input, where the output has files. Outputs that
        an earlier attempt froze stay. Source: docs/reference/task-states.md#outputs."""
        masters = [d for d in datasets if d.is_master and d.status != "removed"]
        finished, to_be_used = sum(d.finished for d in masters), sum(d.to_be_used for d in masters)
        made = {name for d in datasets if d.finished for name in (d.name, d.container)}
        end = target if target in ("done", "finished") else "failed"
        if end == "failed" and finished:
            end = _share_done(finished, to_be_used)
        return [
            (d.dataset_id, end if target == "done" or d.name in made else "failed")
            for d in datasets
            if d.is_output and d.status not in _FROZEN
        ]


def incomplete(released: Iterable[tuple[int, str]], lost: Collection[int]) -> list[tuple[int, str]]:
    """The final statuses of outputs: an output with `lost` files is not complete."""
    return [(i, "finished" if end == "done" and i in lost else end) for i, end in released]


def _doubts(masters: Iterable[EndingDataset], parent: str | None) -> list[str]:
    """Reasons for which a task is not done even with all known input processed."""
    doubts = []
    if withheld := sum(d.withheld for d in masters):
        doubts.append(f"{withheld} files are still withheld")
    if any(d.is_open for d in masters):
        doubts.append("more could have come")
    doubts += [f"dataset {d.name} is broken" for d in masters if d.status == "broken"]
    if parent not in (None, "done"):
        doubts.append(f"its parent is {parent}")
    return doubts


def _percent_done(masters: Sequence[EndingDataset]) -> float:
    """The percentage of events that are done, if all are known, else of files."""
    events = [d.events for d in masters]
    if all(events):
        return 100 * sum(d.events_done or 0 for d in masters) / sum(n or 0 for n in events)
    return 100 * sum(d.finished for d in masters) / sum(d.to_be_used for d in masters)


def _share_done(finished: int, wanted: int) -> str:
    if finished >= wanted:
        return "done"
    return "finished" if finished else "failed"
