"""A task that TaskCommando has to do something with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from jedi.core import states
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskcommando.commands import COMMANDS, LIKE, Command
from jedi.taskcommando.retry import resumed

NOTHING: Mapping[str, Sequence[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CommandedTask:
    """A task under our lease, and the command (a row) to take up; without one, that of its status
    is being carried out. `before`: its status before a hold, if it is held; `scouting`: its files
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

    @classmethod
    def of(
        cls,
        row: ClaimedTask,
        before: str | None,
        command: Any = None,
        lost: Mapping[str, Sequence[str]] = NOTHING,
    ) -> CommandedTask:
        """From its row."""
        scouting = SplitRules.model_validate(row.rules or {}).scouting
        return cls(
            row.jedi_task_id,
            row.lock_seq,
            row.status,
            row.old_status or row.status,
            before,
            row.attempt_nr,
            scouting,
            command,
            lost,
        )

    @property
    def held(self) -> tuple[int, int]:
        """The task, as a lease knows it."""
        return self.jedi_task_id, self.lock_seq

    @property
    def _chooses(self) -> bool:
        """Its command names the inputs to try again."""
        return self.command is not None and LIKE in self.command.arguments

    def refusal(self) -> str | None:
        """The reason to refuse its command; None: it is accepted."""
        known = COMMANDS.get(self.command.command)
        if known is None:
            return f"{self.command.command} is not supported."
        refusal = known.refusal(self.status)
        if known.name == "reassign" and self.before:  # it has to find its way back from pending
            refusal = refusal or known.refusal(self.before)
        return refusal

    def after(self, commands: Sequence[Any]) -> CommandedTask:
        """The task once it has taken up these commands, one after the other."""
        order = self
        for command in commands:
            order = replace(order, command=command)
            if order.refusal() is None:
                status = order.goes_to(COMMANDS[command.command])
                before = (order.before or order.status) if status in states.TASK_HOLDS else None
                order = replace(order, status=status, old_status=order.status, before=before)
        return order

    def goes_to(self, command: Command) -> str:
        """The next status of the task under this command."""
        if command.name == "retry" and self.status == "exhausted" and not self._chooses:
            return resumed(self.old_status, scouting=self.scouting) or "toretry"
        if command.doing:
            return command.doing
        if command.name == "release":
            return self.status
        return "staged" if self.status == "staging" else self.before or self.old_status
