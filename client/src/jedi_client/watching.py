"""Watching tasks: a stream that is resumed when it breaks, or looks where no stream can be had.
Both give the same."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from jedi_client.errors import Forbidden, JediError, Unreachable, VersionTooOld
from jedi_client.models import Watched
from jedi_client.operations import Client
from jedi_client.statuses import TASK_SETTLED, TASK_STATUSES

POLL_S = 0.5
PATIENCE_S = 600.0
"""Seconds for which a service that goes away while its tasks are watched, or its database, may be
away."""

SHORTEST_S, LONGEST_S = 0.1, 5.0
"""Seconds between tries to reach it."""

MOST_TASKS = 1_000
"""Tasks that are looked for without ids, where there is no stream."""

ACTIVE = [status for status in TASK_STATUSES if status not in TASK_SETTLED]


def watch_tasks(
    jedi: Client, jedi_task_ids: Sequence[int] | None = None, *, everybody: bool = False,
    timeout_s: float | None = None, patient: bool = False,
) -> Iterator[list[Watched]]:  # fmt: skip
    """Changes of tasks until `timeout_s` is over: first all of them, then those that have changed,
    each as it is then. Without ids: the caller's active tasks, or everybody's. JEDI_WATCH=poll
    looks at the tasks again and again instead. Any JediError; Unreachable after ten minutes
    without the service, and at once if it never answers, unless `patient`."""
    known: dict[int, Watched] = {}
    first = True
    until = None if timeout_s is None else time.monotonic() + timeout_s
    for tasks in _ways(_Wanted(jedi, jedi_task_ids, everybody, until, patient), known):
        fresh = [one for one in tasks if known.get(one.task.jedi_task_id) != one]
        known |= {one.task.jedi_task_id: one for one in fresh}
        if fresh or first:
            first = False
            yield fresh


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The tasks to watch, and the end of the time for it."""

    jedi: Client
    ids: Sequence[int] | None
    everybody: bool
    until: float | None
    patient: bool

    @property
    def left_s(self) -> float:
        return math.inf if self.until is None else self.until - time.monotonic()


class _Away:
    """The time for which a service does not answer."""

    def __init__(self, patient: bool) -> None:
        self._since = math.inf if patient else -math.inf
        self.pause_s = SHORTEST_S

    def ended(self) -> None:
        """It answers."""
        self._since, self.pause_s = math.inf, SHORTEST_S

    def must_be_short(self, error: Unreachable) -> None:
        """Raise the error after PATIENCE_S, or at once if nobody is patient and the service never
        answered."""
        now = time.monotonic()
        self._since = min(self._since, now)
        if now - self._since > PATIENCE_S:
            raise error
        self.pause_s = min(2 * self.pause_s, LONGEST_S)


def _ways(wanted: _Wanted, known: Iterable[int]) -> Iterator[list[Watched]]:
    if os.environ.get("JEDI_WATCH") != "poll":
        try:
            yield from _streamed(wanted)
            return
        except (Forbidden, Unreachable):
            raise
        except JediError:
            pass  # an older service, or a proxy without streams: a mistake of ours fails again
    yield from _polled(wanted, known)


def _streamed(wanted: _Wanted) -> Iterator[list[Watched]]:
    version: str | None = None
    away = _Away(wanted.patient)
    ids = None if wanted.ids is None else [*wanted.ids]
    with Client(wanted.jedi.profile, wanted.until) as own:
        while wanted.left_s > 0:
            try:
                for event in own.task_watch(
                    jedi_task_ids=ids, everybody=wanted.everybody, since=version
                ):
                    away.ended()
                    version = event.version or version
                    if event.data is not None:
                        yield event.data
            except VersionTooOld:
                version = None
            except Unreachable as error:
                away.must_be_short(error)
            time.sleep(max(0.0, min(away.pause_s, wanted.left_s)))


def _polled(wanted: _Wanted, known: Iterable[int]) -> Iterator[list[Watched]]:
    jedi, away = wanted.jedi, _Away(wanted.patient)
    by_user = wanted.ids is None and not wanted.everybody
    user = jedi.me_show().user_name if by_user else None
    while True:
        try:
            ids = _active(jedi, user, known) if wanted.ids is None else [*wanted.ids]
            found = jedi.task_look(jedi_task_ids=ids) if ids else []
        except Unreachable as error:
            away.must_be_short(error)
        else:
            away.ended()
            yield found
        if wanted.left_s <= 0:
            return
        time.sleep(min(max(POLL_S, away.pause_s), wanted.left_s))


def _active(jedi: Client, user: str | None, known: Iterable[int]) -> list[int]:
    """The active tasks, and those known already, whose end is still to be seen."""
    found = jedi.task_list(status=ACTIVE, user=user, limit=MOST_TASKS)
    return sorted({*known, *(one.jedi_task_id for one in found)})
