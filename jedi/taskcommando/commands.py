"""What may be asked of a task, and when: the command table.

The statuses in which a command is accepted are those with an edge to its "doing" status.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jedi.core import states


@dataclass(frozen=True, slots=True)
class Command:
    """A command, the status that says it is being carried out, and the participle."""

    name: str
    doing: str
    participle: str

    @property
    def allowed(self) -> frozenset[str]:
        """The statuses in which it is accepted."""
        return frozenset(e.source for e in states.TASK.edges if e.target == self.doing)

    def refusal(self, status: str) -> str | None:
        """Why a task in this status can't be told so; None: it can."""
        if status in self.allowed:
            return None
        if status == self.doing:
            return f"The task is being {self.participle} already."
        accepted = ", ".join(s for s in states.TASK_STATES if s in self.allowed)
        return (
            f"A task that is {status} can't be {self.participle}. "
            f"{self.name} is accepted in the statuses {accepted}."
        )


COMMANDS: Mapping[str, Command] = {
    c.name: c
    for c in (
        Command("kill", "aborting", "killed"),
        Command("finish", "finishing", "finished"),
        Command("retry", "toretry", "retried"),
    )
}
