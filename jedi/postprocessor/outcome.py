"""What a task has come to: the statuses of its datasets and of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jedi.core import states
from jedi.postprocessor import scouts
from jedi.spec.scouting import Judgement, Scouted

_IN_USE = ("ready", "running")
_NOT_SETTLED = ("defined", "toupdate", "pending", *_IN_USE)
_AT_WORK = ("defined", *_IN_USE)
_FROZEN = ("done", "finished", "failed")


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of a task; the numbers count files, and matter for inputs only."""

    dataset_id: int
    name: str
    type: str
    master_id: int | None
    status: str
    to_be_used: int
    finished: int
    failed: int
    missing: int

    @property
    def is_output(self) -> bool:
        return self.type in states.OUTPUT_TYPES

    @property
    def is_master(self) -> bool:
        """Its files decide how the task ends."""
        return self.master_id is None and self.type in states.MASTER_TYPES

    @property
    def is_open(self) -> bool:
        """More files may come."""
        return self.is_master and self.status == "running"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A task's next status, and why."""

    target: str
    code: str
    reason: str


class PostProcessing:
    """How tasks of any vo and prodSourceLabel end."""

    def settle(self, datasets: Iterable[Dataset]) -> list[tuple[int, str]]:
        """The next status (by dataset id) of each dataset that nobody works on any more.

        A master whose files were never listed stays as it is.
        """
        found = []
        for d in datasets:
            if d.is_output and d.status in _AT_WORK:
                found.append((d.dataset_id, "prepared"))
            elif d.is_master and d.status in _IN_USE:
                found.append((d.dataset_id, _share_done(d.finished, d.to_be_used)))
            elif not d.is_output and not d.is_master and d.status in _NOT_SETTLED:
                found.append((d.dataset_id, "done"))
        return found

    def judge(self, found: Scouted, knobs: Mapping[str, Any]) -> Judgement:
        """Whether the rest of a task's jobs may follow its scouts, all of which have ended."""
        return scouts.judge(found, knobs)

    def conclude(
        self,
        status: str,
        datasets: Sequence[Dataset],
        because: tuple[str, str],
        parent: str | None = None,
    ) -> Verdict:
        """The final status of a task that is prepared, passed, toabort or tobroken; `because`
        are the code and the sentence with which it got there, `parent` is its parent's status."""
        if status == "tobroken":
            return Verdict("broken", *because)
        if status == "toabort":
            return Verdict("aborted", *because)
        masters = [d for d in datasets if d.is_master and d.status != "removed"]
        wanted = sum(d.to_be_used for d in masters)
        finished = sum(d.finished for d in masters)
        if not wanted:
            return Verdict("failed", "no_input", "The task had no input file.")
        target = _share_done(finished, wanted)
        doubts = _doubts(masters, parent)
        if doubts and target == "done":
            target = "finished"
        reason = f"{finished} of {wanted} input files were processed"
        failed = sum(d.failed for d in masters)
        missing = sum(d.missing for d in masters)
        counted = [f"{n} {what}" for n, what in ((failed, "failed"), (missing, "missing")) if n]
        details = ", ".join(counted + doubts)
        return Verdict(target, f"inputs_{target}", f"{reason}{details and f'; {details}'}.")

    def release(self, target: str, datasets: Iterable[Dataset]) -> list[tuple[int, str]]:
        """The final status (by dataset id) of each output of a task that becomes `target`; those
        that an earlier attempt froze stay what they are."""
        end = target if target in ("done", "finished") else "failed"
        return [(d.dataset_id, end) for d in datasets if d.is_output and d.status not in _FROZEN]


def _doubts(masters: Iterable[Dataset], parent: str | None) -> list[str]:
    """Why a task is not done even with all input processed that is known."""
    doubts = []
    if any(d.is_open or d.status == "broken" for d in masters):
        doubts.append("more could have come")
    if parent not in (None, "done"):
        doubts.append(f"its parent is {parent}")
    return doubts


def _share_done(finished: int, wanted: int) -> str:
    if finished >= wanted:
        return "done"
    return "finished" if finished else "failed"
