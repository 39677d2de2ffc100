"""Watching tasks: a stream that is resumed when it breaks, or looks where no stream can be had.
Both give the same."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from jedi_client.errors import Forbidden, JediError, Unreachable, VersionTooOld
from jedi_client.models import Watched
from jedi_client.operations import Client
from jedi_client.statuses import TASK_SETTLED, TASK_STATUSES

POLL_S = 0.5
PATIENCE_S = 600.0
"""Seconds for which a service that goes away while its tasks are watched, or its database, may be
away."""

NOTICE_S = 1.0
"""Seconds after which its absence is worth a word: a service that restarts is back before."""

SHORTEST_S, LONGEST_S = 0.1, 5.0
"""Seconds between tries to reach it."""

MOST_TASKS = 1_000
"""Tasks that are looked for without ids or a stream."""

LASTING = ("bad_certificate", "socket_closed", "not_jedi")
"""Reasons for a service's silence that waiting does not mend."""

T = TypeVar("T")

ACTIVE = [status for status in TASK_STATUSES if status not in TASK_SETTLED]


def watch_tasks(
    jedi: Client,
    jedi_task_ids: Sequence[int] | None = None,
    *,
    everybody: bool = False,
    timeout_s: float | None = None,
    absent: Absence | None = None,
) -> Iterator[list[Watched]]:
    """Changes of tasks until `timeout_s` is over: first all of them, then changed ones, each as it
    is then. Without ids: the caller's active tasks, or everybody's. JEDI_WATCH=poll looks at the
    tasks again and again instead. Any JediError; Unreachable after ten minutes without the service,
    and at once if it never answers, unless `absent` says otherwise."""
    known: dict[int, Watched] = {}
    first = True
    until = None if timeout_s is None else time.monotonic() + timeout_s
    wanted = _Wanted(jedi, jedi_task_ids, everybody, until, absent or Absence(begun=True))
    for tasks in _ways(wanted, known):
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
    absent: Absence

    @property
    def left_s(self) -> float:
        return math.inf if self.until is None else self.until - time.monotonic()


class Absence:
    """The time for which a service does not answer: until a time of the monotonic clock, if there
    is one, else PATIENCE_S. `begun`: it counts as long over until the service answers first.
    `notice` is called once for each absence."""

    def __init__(
        self,
        until: float | None = None,
        *,
        begun: bool = False,
        notice: Callable[[Unreachable], object] | None = None,
    ) -> None:
        self._until, self._notice = until, notice
        self._since = -math.inf if begun else math.inf
        self._noticed = False
        self.pause_s = SHORTEST_S

    def over(self) -> None:
        """It answers."""
        self._since, self._noticed, self.pause_s = math.inf, False, SHORTEST_S

    def goes_on(self, error: Unreachable) -> None:
        """It does not answer. Raise the error if it has lasted too long, or if waiting does not
        help."""
        now = time.monotonic()
        self._since = min(self._since, now)
        end = self._since + PATIENCE_S if self._until is None else self._until
        if error.code in LASTING or now >= end:
            raise error
        if self._notice and not self._noticed and now - self._since >= NOTICE_S:
            self._noticed = True
            self._notice(error)
        self.pause_s = min(2 * self.pause_s, LONGEST_S, end - now)

    def outlast(self, ask: Callable[[], T]) -> T:
        """The answer to a question, as soon as the service gives it. Unreachable."""
        while True:
            try:
                answer = ask()
            except Unreachable as error:
                self.goes_on(error)
                time.sleep(self.pause_s)
            else:
                self.over()
                return answer


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
    away = wanted.absent
    ids = None if wanted.ids is None else [*wanted.ids]
    with Client(wanted.jedi.profile, wanted.until) as own:
        while wanted.left_s > 0:
            try:
                for event in own.task_watch(
                    jedi_task_ids=ids, everybody=wanted.everybody, since=version
                ):
                    away.over()
                    version = event.version or version
                    if event.data is not None:
                        yield event.data
            except VersionTooOld:
                version = None
            except Unreachable as error:
                away.goes_on(error)
            time.sleep(max(0.0, min(away.pause_s, wanted.left_s)))


def _polled(wanted: _Wanted, known: Iterable[int]) -> Iterator[list[Watched]]:
    jedi, away = wanted.jedi, wanted.absent
    by_user = wanted.ids is None and not wanted.everybody
    user = away.outlast(jedi.me_show).user_name if by_user else None
    while True:
        try:
            ids = _active(jedi, user, known) if wanted.ids is None else [*wanted.ids]
            found = jedi.task_look(jedi_task_ids=ids) if ids else []
        except Unreachable as error:
            away.goes_on(error)
        else:
            away.over()
            yield found
        if wanted.left_s <= 0:
            return
        time.sleep(min(max(POLL_S, away.pause_s), wanted.left_s))


def _active(jedi: Client, user: str | None, known: Iterable[int]) -> list[int]:
    """The active tasks, and the known ones, whose end is still to be seen."""
    found = jedi.task_list(status=ACTIVE, user=user, limit=MOST_TASKS)
    return sorted({*known, *(one.jedi_task_id for one in found)})
