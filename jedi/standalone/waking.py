"""Agents that rest have no process; a thread of the supervisor looks for their work.

Twelve agents without work would hold 200 MB and twenty-four sessions. See
docs/decisions/processes.md#agents-that-rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from jedi.agent.base import Agent, World
from jedi.agent.loop import WakeUp
from jedi.agent.supervisor import Sleeper
from jedi.core import clock
from jedi.core.backoff import Backoff
from jedi.host import forks
from jedi.taskbuffer.db.engine import at_once, notifying
from jedi.taskbuffer.housekeeping import agents
from jedi.taskbuffer.tasks import tasks

LONGEST_PAUSE_S = 30.0
_BRIEF_S = 0.5
"""Longest time after which an agent that went to rest is noticed."""

Resting = Mapping[Sleeper, Agent[Any, Any]]
"""Programs without a process now, and the agents that they run."""


class Waking:
    """Looks, as idle agents do, for the work of resting ones, and calls them; `called` is called
    after that."""

    def __init__(self, world: World, sleepers: Resting, called: Callable[[], None]) -> None:
        self._world, self._sleepers, self._called = world, sleepers, called
        self._over = threading.Event()
        self._beat_at = 0.0
        self._told: list[str] = []
        self.ready = False

    def go_on(self) -> None:
        """Look until `end`, in a thread: a database that hangs holds up nobody."""
        threading.Thread(target=self._look_on, name="waking", daemon=True).start()

    def end(self) -> None:
        """Look no more."""
        self._over.set()

    def _look_on(self) -> None:
        topics = frozenset().union(*(one.wakes for one in self._sleepers.values()))
        backoff = Backoff(LONGEST_PAUSE_S)
        while not self._over.is_set():
            try:
                with WakeUp(self._world.engine, topics) as wake_up:
                    backoff = Backoff(LONGEST_PAUSE_S)
                    self._serve(wake_up)
            except Exception as error:  # without this thread agents would rest for ever
                backoff.failed(clock.monotonic())
                lost = isinstance(error, (psycopg.Error, SQLAlchemyError))
                with forks.QUIET:
                    self._world.log.warning(
                        "no look for work", error=str(error)[:500], exc_info=not lost
                    )
                self._over.wait(backoff.wait_s)

    def _serve(self, wake_up: WakeUp) -> None:
        """Look at once for an agent that has just gone to rest: it may have missed a call."""
        seen: set[Sleeper] = set()
        look_at = 0.0
        while not self._over.is_set():
            resting = {one: agent for one, agent in self._sleepers.items() if one.asleep}
            if clock.monotonic() >= look_at or not seen.issuperset(resting):
                self._look(resting)
                look_at = clock.monotonic() + self._every_s
            seen = {*resting}
            if wake_up.wait(min(_BRIEF_S, self._world.knobs.agent.poll_s), self._over):
                self._call([one for one, agent in resting.items() if agent.wakes & wake_up.heard])

    @property
    def _every_s(self) -> float:
        """Seconds between looks. Calls come at once: a look finds only missed ones."""
        knobs = self._world.knobs.agent
        return max(knobs.poll_s, knobs.heartbeat_s) if notifying() else knobs.poll_s

    def _look(self, resting: Resting) -> None:
        names = sorted({one.name for one in resting.values()})
        with forks.QUIET, at_once(self._world.engine) as tx:
            if clock.monotonic() >= self._beat_at or names != self._told:
                self._world.knobs = self._world.load_knobs(tx)  # a look needs no data management
                agents.REST.run(tx, agents=names, process=self._world.me)
                self._beat_at = clock.monotonic() + float(self._world.knobs.agent.heartbeat_s)
                self._told = names
            working = self._working(tx, resting)
        self._call(working)
        self.ready = True

    def _working(self, tx: Connection, resting: Resting) -> list[Sleeper]:
        """The programs that may have something to do."""
        if not self._world.knobs.agent.rest_s:
            return [*resting]
        simple = {
            one: agent for one, agent in resting.items() if type(agent).waiting is Agent.waiting
        }
        present = set(
            tasks.PRESENT.rows(
                tx, statuses=sorted({s for agent in simple.values() for s in agent.serves})
            )
        )
        return [
            one
            for one, agent in resting.items()
            if (present.intersection(agent.serves) if one in simple else agent.waiting(tx))
        ]

    def _call(self, found: Sequence[Sleeper]) -> None:
        for one in found:
            one.call()
        if found:
            self._called()
