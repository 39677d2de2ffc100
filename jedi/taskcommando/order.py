"""A task that TaskCommando has to do something with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jedi.taskcommando.commands import LIKE, Command
from jedi.taskcommando.retry import resumed


@dataclass(frozen=True, slots=True)
class CommandedTask:
    """A task under our lease, and the command (a row) to take up; without one, that of its status
    is being carried out. `before`: what it was before it was held, if it is; `scouting`: its files
    are withheld until scouts have measured it; `lost`: outputs (LFNs by dataset) that were given
    up, and which data management may still have."""

    jedi_task_id: int
    lock_seq: int
    status: str
    old_status: str
    before: str | None
    attempt_nr: int
    scouting: bool
    command: Any
    lost: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)

    @property
    def held(self) -> tuple[int, int]:
        """The task, as a lease knows it."""
        return self.jedi_task_id, self.lock_seq

    @property
    def _chooses(self) -> bool:
        """Its command names the inputs to try again."""
        return self.command is not None and LIKE in self.command.arguments

    def goes_to(self, command: Command) -> str:
        """The next status of the task under this command."""
        if command.name == "retry" and self.status == "exhausted" and not self._chooses:
            return resumed(self.old_status, scouting=self.scouting) or "toretry"
        if command.doing:
            return command.doing
        if command.name == "release":
            return self.status
        return "staged" if self.status == "staging" else self.before or self.old_status
