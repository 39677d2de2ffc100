"""Watching tasks: versions, and the changes between two of them (docs/decisions/watching.md)."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from sqlalchemy import Connection

from jedi.core import states
from jedi.core.errors import BadInput, Problem, VersionTooOld
from jedi.service.operations.arguments import IdsInQuery
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.tasks import waiting
from jedi.service.tasks.waiting import SETTLED, Watched
from jedi.taskbuffer.reports import changes
from jedi.taskbuffer.reports.changes import ChangeQuestion, Mark

KEPT_S = 3_600
"""Seconds for which a version can be resumed from."""

FAR = 2**31
"""Transactions after which those of rows can't be compared any more."""

ACTIVE = tuple(status for status in states.TASK_STATES if status not in SETTLED)
_FORM = re.compile(r"([0-9a-f]{8})-(\d{1,18})-(\d{1,18}|x)-(\d{1,12})")


class Version(NamedTuple):
    """A version of all tasks: a place in the history of a database. `log_id`: the last status log
    row before which no other can still commit; None: not known yet."""

    history: str
    bound: int
    log_id: int | None
    time: int

    def __str__(self) -> str:
        log_id = "x" if self.log_id is None else self.log_id
        return f"{self.history}-{self.bound}-{log_id}-{self.time}"


@dataclass(frozen=True, slots=True)
class TaskSelection:
    """Tasks that somebody watches: `ids`; without them all active ones, of user `user_name` if it
    is set."""

    ids: frozenset[int] | None = None
    user_name: str | None = None

    def has(self, watched: Watched) -> bool:
        """True if this active task, or task that was active, belongs to the selection."""
        if self.ids is not None:
            return watched.task.jedi_task_id in self.ids
        return self.user_name is None or watched.task.user_name == self.user_name


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer that is a stream of server-sent events: the tasks that it follows, and the version
    that its reader has."""

    EVENT: ClassVar[Any] = list[Watched]
    """The data of an event."""

    selection: TaskSelection
    since: Version | None


def read_version(text: str) -> Version:
    """The version that a client sends back. BadInput."""
    found = _FORM.fullmatch(text)
    if not found:
        rule = "is no version that a stream of tasks has sent"
        raise BadInput([Problem("since", text[:80], rule, "Leave it out")])
    history, bound, log_id, time = found.groups()
    return Version(history, int(bound), None if log_id == "x" else int(log_id), int(time))


def must_be_kept(tx: Connection, since: Version, selection: TaskSelection) -> None:
    """VersionTooOld: the changes since a version can't be given."""
    now = changes.mark(tx)
    if (
        since.history != now.history
        or not 0 <= now.next - since.bound < FAR
        or now.time - since.time > KEPT_S
        or (since.log_id is None and selection.ids is None)
    ):
        raise VersionTooOld(
            "This version is too old: list again, that is, watch without a version.",
            code="version_too_old",
        )


class LogBound:
    """The last status log row before which no other can still commit. Rows take their numbers
    while their transactions run, hence those below a number are decided once all transactions that
    ran when the number was seen have ended."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, int]] = deque()
        self.log_id: int | None = None

    def note(self, mark: Mark) -> None:
        """Learn from the next mark."""
        self._waiting.append((mark.next, mark.log_id or 0))
        while self._waiting and self._waiting[0][0] <= mark.bound:
            self.log_id = self._waiting.popleft()[1]
        if len(self._waiting) > 2:  # a long transaction: those in between say no more
            self._waiting = deque([self._waiting[0], self._waiting[-1]])


class Change(NamedTuple):
    """A task as it is, and whether it has changed since the version asked for."""

    watched: Watched
    newer: bool


def look(tx: Connection, question: ChangeQuestion, unit_s: float) -> tuple[Mark, list[Change]]:
    """Tasks with the mark of the same snapshot, by one statement."""
    mark, found = changes.changed(tx, question, ACTIVE, unit_s)
    return mark, [
        Change(Watched(task, task.status in SETTLED and not asked), newer)
        for task, newer, asked in found
    ]


def question_of(
    ids: Collection[int],
    fresh: Sequence[TaskSelection],
    active: bool,
    since: Sequence[Version],
    whole: bool,
) -> ChangeQuestion:
    """The question that serves many watchers at once: those of `fresh` have seen nothing yet, all
    others the version in `since`; `whole`: read every task."""
    new = frozenset(one for selection in fresh for one in selection.ids or ())
    logs = [version.log_id for version in since if version.log_id is not None]
    return ChangeQuestion(
        [*ids],
        frozenset(ids) if whole else new,
        active,
        active and (whole or any(selection.ids is None for selection in fresh)),
        min((version.bound for version in since), default=None),
        min(logs, default=None),
    )


@operation("task.watch", "GET", "/v1/tasks/watch", ANYBODY)
def watch(
    call: Call,
    jedi_task_ids: IdsInQuery | None = None,
    everybody: bool = False,
    since: str | None = None,
) -> EventStream:
    """Stream changes of tasks as server-sent events: of these tasks, else of the caller's active
    ones, or of everybody's. The first event has all of them; `since`: only those that changed after
    the version in the `id` of an earlier event, as does the header `Last-Event-ID`."""
    if jedi_task_ids is not None and everybody:
        rule = "can't be combined with jedi_task_ids"
        raise BadInput([Problem("everybody", everybody, rule, "Leave one of them out")])
    selection = TaskSelection(
        None if jedi_task_ids is None else frozenset(jedi_task_ids),
        None if everybody or jedi_task_ids is not None else call.who,
    )
    if since is None:
        if jedi_task_ids:
            waiting.look(call, jedi_task_ids)
        return EventStream(selection, None)
    version = read_version(since)
    must_be_kept(call.tx, version, selection)
    return EventStream(selection, version)
