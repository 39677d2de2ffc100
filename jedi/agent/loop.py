"""The loop around an agent: wake-up calls, polling, heartbeats, a graceful end."""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Callable, Collection
from typing import Any

import psycopg
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from jedi.agent.base import Agent
from jedi.core import clock
from jedi.taskbuffer.db import engine
from jedi.taskbuffer.housekeeping import agents
from jedi.taskbuffer.schema.release import SchemaDiffers, revision_of, this_release

VAIN_S = 0.2
"""Rest of an agent that was called and found nothing: one topic may call it with each job."""


class Loop:
    """Runs one agent until SIGTERM or SIGINT; the database may come and go. One that `rests` also
    ends when there was no work for the knob agent.rest_s."""

    def __init__(
        self,
        agent: Agent[Any, Any],
        ready: Callable[[], None] | None = None,
        *,
        rests: bool = False,
    ) -> None:
        self.agent = agent
        self._rests = rests
        self._worked_at = clock.monotonic()
        self.stopping = threading.Event()
        self.cycles = self.items = 0
        self.last_error: str | None = None
        self._beat_at = self._failed_at = 0.0
        self._release = this_release()
        self._ready = ready or (lambda: None)

    def install_signals(self) -> None:
        """SIGTERM and SIGINT end the loop after the present cycle."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stopping.set())

    def run(self) -> None:
        """Cycle until the process is asked to stop. From error to error the pause doubles, up to 30
        s. SchemaDiffers: another release has migrated the database."""
        try:
            self._run()
        finally:
            self.agent.close()

    def _run(self) -> None:
        pause = 0.0
        while not self.stopping.is_set():
            before = self.cycles
            try:
                self._release.must_fit_database(self.agent.world.engine)
                with WakeUp(self.agent.world.engine, self.agent.wakes) as wake_up:
                    self._serve(wake_up)
            except SchemaDiffers as error:
                self.agent.log.error("the agent ends", why=error.sentence)
                raise
            except Exception as error:
                message = str(error)[:2000]
                self.last_error = f"{clock.now().isoformat(timespec='seconds')} {message}"
                self._failed_at = clock.monotonic()
                lost = isinstance(error, (psycopg.OperationalError, DBAPIError))
                self.agent.log.error("cycle failed", error=message, exc_info=not lost)
                pause = min(30.0, pause * 2) if pause and self.cycles == before else 0.25
                self.stopping.wait(pause)

    def _serve(self, wake_up: WakeUp) -> None:
        called, heard = True, False
        while not self.stopping.is_set():
            began = clock.monotonic()
            items = self.agent.run_once() if called else self.agent.look()
            self.cycles += 1
            self.items += items
            self._beat()
            called = True
            if not items:
                if self._may_rest():
                    self._leave()
                if heard:
                    self.stopping.wait(VAIN_S)
                called = heard = wake_up.wait(self.agent.poll_s, self.stopping)
                continue
            self._worked_at = now = clock.monotonic()
            if items < self.agent.batch and (left := began + self.agent.breath_s - now) > 0:
                self.stopping.wait(left)

    def _may_rest(self) -> bool:
        """True if it is time to end until the next call of this agent."""
        rest_s = float(self.agent.world.knobs.agent.rest_s)
        if not self._rests or not rest_s or self.agent.waits:
            return False
        return clock.monotonic() - self._worked_at >= rest_s

    def _leave(self) -> None:
        with engine.at_once(self.agent.world.engine) as tx:
            agents.LEAVE.run(tx, agent=self.agent.name, process=self.agent.world.me)
        self.stopping.set()

    def _beat(self) -> None:
        """Send a heartbeat if it is time. Heartbeats show an error until no other has followed for
        the duration of a claim: a fault that comes and goes stays in sight."""
        every = float(self.agent.world.knobs.agent.heartbeat_s)
        if self._beat_at and clock.monotonic() - self._beat_at < every:
            return
        if self.last_error and clock.monotonic() - self._failed_at >= self.agent.lease_s:
            self.last_error = None
        with engine.at_once(self.agent.world.engine) as tx:
            self._release.must_fit(revision_of(tx))
            agents.BEAT.run(
                tx,
                agent=self.agent.name,
                process=self.agent.world.me,
                cycles=self.cycles,
                items=self.items,
                error=self.last_error,
                rss=resident_kb(),
            )
        if not self._beat_at:
            self._ready()
        self._beat_at = clock.monotonic()


class WakeUp:
    """Waits for a wake-up call of one of these topics, a signal or the next poll. `heard` has the
    topics of the last call."""

    def __init__(self, database: Engine, topics: Collection[str]) -> None:
        self._database, self._topics = database, {*topics, engine.KNOBS}
        self.heard: set[str] = set()
        self.connection: psycopg.Connection[Any] | None = None

    def __enter__(self) -> WakeUp:
        if engine.notifying():
            self.connection = engine.listener(self._database)
        return self

    def __exit__(self, *_: object) -> None:
        if self.connection is not None:
            self.connection.close()

    def wait(self, seconds: float, stopping: threading.Event) -> bool:
        """Return on a call for us, after `seconds`, or when `stopping` is set. False: nobody has
        called, though we listened."""
        end = clock.monotonic() + seconds
        while not stopping.is_set() and (left := end - clock.monotonic()) > 0:
            if self.connection is None:
                stopping.wait(left)
            elif self._called(min(left, 0.5)):
                return True
        return self.connection is None

    def _called(self, seconds: float) -> bool:
        assert self.connection is not None
        calls = list(self.connection.notifies(timeout=0))
        if not calls and select.select([self.connection], [], [], seconds)[0]:
            calls = list(self.connection.notifies(timeout=0))
        self.heard = self._topics & {call.payload for call in calls}
        return bool(self.heard)


def resident_kb() -> int:
    """Resident memory of this process in kB (0 without /proc)."""
    try:
        with open("/proc/self/statm") as file:  # noqa: PTH123 - read each heartbeat
            return int(file.read().split()[1]) * 4
    except OSError:
        return 0
