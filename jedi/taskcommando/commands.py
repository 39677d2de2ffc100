"""The command table: commands on tasks, and the statuses that allow them. Source:
docs/reference/task-states.md#commands."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from jedi.core import states

LIKE = "like_job"
"""An argument of retry: a failed job. Only inputs that failed by the same cause are tried again."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command, the status that says it is being carried out (None: it takes but a moment), the
    participle, the statuses in which it is accepted, and the ones that leave nothing to do for
    it."""

    name: str
    doing: str | None
    participle: str
    allowed: frozenset[str]
    ends: frozenset[str] = frozenset()

    def refusal(self, status: str, never: Collection[str] = ()) -> str | None:
        """Return the reason why a task's status forbids a command, with the allowed ones that the
        task can get (not in `never`); None: it is allowed."""
        if status in self.allowed:
            return None
        if status in self.ends:
            return f"It is already {status}."
        if status == self.doing:
            return f"The task is being {self.participle} already."
        if status == "broken":
            return f"The task is broken and can't be {self.participle}. {ANEW}"
        sentence = f"A task that is {status} can't be {self.participle}"
        if len(self.allowed) <= _FEW:
            accepted = ", ".join(s for s in states.TASK_STATES if s in self.allowed)
            sentence += f": {self.name} is accepted in the statuses {accepted}"
        possible = [
            c.name for c in COMMANDS.values() if status in c.allowed and c.name not in never
        ]
        return f"{sentence}. Possible now: {', '.join(possible) or 'nothing'}."


ANEW = (
    "Correct the mistake that its reason names, and submit it as a new task: with output datasets "
    "of other names, or with allowTaskDuplication: true."
)
"""To repeat a broken task is useless. Source: JEDI document, "Broken tasks"."""


def _to(doing: str, reason: str | None = None) -> frozenset[str]:
    """The statuses with an edge to this one, for this reason."""
    edges = (e for e in states.TASK.edges if e.target == doing)
    return frozenset(e.source for e in edges if reason in (None, e.reason))


_FEW = 5
"""So many statuses are worth to be listed in a sentence."""
_ENDED = states.TASK.final - {"broken"}
_HELD = frozenset({"paused", "throttled", "staging"})
_PAUSABLE = frozenset(s for s in _to("paused") if states.TASK.allows("paused", s))
"""A task that is paused has to find its way back."""

_RELEASABLE = frozenset({"scouting", "pending", "running", "ready", "assigning", "defined"})

COMMANDS: Mapping[str, Command] = {
    c.name: c
    for c in (
        Command("kill", "aborting", "killed", _to("aborting"), _ENDED),
        # once more: softly at first, hard then
        Command("finish", "finishing", "finished", _to("finishing") | {"finishing"}, _ENDED),
        Command("retry", "toretry", "retried", _to("toretry", "retry")),
        Command("recover", "toretry", "recovered", _to("toretry") - {"aborted"}),
        Command("incexec", "toincexec", "executed incrementally", _to("toincexec")),
        Command("pause", "paused", "paused", _PAUSABLE, frozenset({"paused"})),
        Command("resume", None, "resumed", _HELD),
        Command("reassign", "toreassign", "reassigned", _to("toreassign")),
        Command("avalanche", "scouted", "waved through", frozenset({"scouting"})),
        Command("release", None, "released", _RELEASABLE),
    )
}
