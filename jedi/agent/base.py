"""Base of all agents: claim, work, apply.

*Claim* takes work in one short transaction under a lease. *Work* thinks, without a transaction,
about one item at a time. *Apply* writes all results in one short transaction, fenced by the
lock_seq of the claim. A worker that stalls and comes back writes nothing; one that is only slow
keeps its claim.
"""

from __future__ import annotations

import os
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Generic, Protocol, TypeVar, final

import psycopg
import structlog
from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, OperationalError

from jedi.agent.apart import CAN_FORK, NO_PLACE, Apart
from jedi.agent.plugins import PluginFailed
from jedi.core import crash
from jedi.core.errors import JediError, LockLost, NotWritten
from jedi.core.knobs import Knobs
from jedi.core.settings import Settings
from jedi.ddm.interface import DDM
from jedi.host import forks
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.tasks import tasks


class Leased(Protocol):
    """A task under a lease."""

    @property
    def jedi_task_id(self) -> int: ...
    @property
    def lock_seq(self) -> int: ...


_ITEMS_FAULT = (
    JediError,
    OSError,
    ValueError,
    ArithmeticError,
    LookupError,
    TypeError,
    AttributeError,
    ImportError,
    RuntimeError,
)
"""Unforeseen errors of one item, of its plug-in too: the agent sets it aside, and the others
continue."""

_LATE_S = 0.5
"""Seconds that an idle agent waits for plug-ins before it looks for other work again."""

Item = TypeVar("Item")
Task = TypeVar("Task", bound=Leased)
Result = TypeVar("Result")


@dataclass
class World:
    """Things that an agent may use: the database, data management, knobs, settings and its log."""

    engine: Engine
    settings: Settings
    load_knobs: Callable[[Connection], Knobs]
    load_ddm: Callable[[Connection, Knobs], DDM]
    log: Any = field(default_factory=structlog.get_logger)
    knobs: Knobs = field(default_factory=Knobs)

    def refresh(self) -> None:
        """Read the knobs, and with them data management, as they are now."""
        with self.engine.begin() as tx:
            self.read(tx)

    def read(self, tx: Connection) -> None:
        """The same, in a transaction that goes on."""
        self.knobs = self.load_knobs(tx)
        self._ddm = self.load_ddm(tx, self.knobs)

    @property
    def ddm(self) -> DDM:
        """Data management as configured at the last refresh."""
        return self._ddm

    @cached_property
    def me(self) -> str:
        """This process, as lockedby names it (at most 40 characters, as in the JEDI document)."""
        return f"{socket.gethostname()[:24]}-{os.getpid()}"


class Agent(ABC, Generic[Item, Result]):
    """A stateless worker; any number of processes may run the same agent."""

    name: ClassVar[str]
    wakes: ClassVar[frozenset[str]] = frozenset()
    """Topics of `engine.wake` that mean work for this agent."""
    serves: ClassVar[Sequence[str]] = ()
    """Statuses of the tasks that it claims; see `waiting`."""
    breath_s: ClassVar[float] = 0.2
    """A cycle that was not full lasts so long at least. Meanwhile work gathers: a cycle takes 5 to
    30 ms of processor time, however little it finds."""
    waits = True
    """The last look found that there may be something to claim."""
    _claimed: Sequence[Item] = ()
    """Items of a cycle that has not ended well."""
    _idle = False
    """The last cycle found nothing to do."""
    _known: Knobs | None = None

    def __init__(self, world: World) -> None:
        self.world = world
        self.log = world.log.bind(agent=self.name)
        self._apart = Apart[Item](self._work_apart)

    @property
    def batch(self) -> int:
        """The number of items that one claim takes."""
        return int(self.world.knobs[f"{self.name.lower()}.batch"])

    @property
    def lease_s(self) -> float:
        """The duration of a claim, in seconds."""
        return float(self.world.knobs.agent.lease_s)

    @property
    def poll_s(self) -> float:
        """The time after which an idle agent looks again unasked, in seconds."""
        return float(self.world.knobs.agent.poll_s)

    def waiting(self, tx: Connection) -> bool:
        """Return True if there may be something to claim, by one statement: an idle agent asks
        nothing else."""
        return not self.serves or tasks.ANY_IN.value(tx, statuses=self.serves)

    @abstractmethod
    def claim(self, tx: Connection, limit: int) -> list[Item]:
        """Take up to `limit` items, under a lease, highest priority first."""

    def keep(self, tx: Connection, items: Sequence[Item]) -> None:
        """Prolong the claim: the batch is still being worked on."""

    def give_back(self, tx: Connection, items: Sequence[Item]) -> None:
        """End the claim at once: the results could not be written."""

    def prepare(self, items: Sequence[Item]) -> None:
        """Do the work on all claimed items that is cheaper together. It raises nothing on account
        of an item: the rest is done, or fails, when `work` comes to that item."""

    @abstractmethod
    def work(self, item: Item) -> Result:
        """Think about one item; no transaction is open. A JediError becomes `trouble`."""

    def plug_ins(self, item: Item) -> str:
        """The plug-ins of other people that work on an item; empty: none does. They may hang: the
        agent works on such an item in another process, whose result has JEDI's own classes."""
        return ""

    @property
    def plugin_s(self) -> float:
        """The longest time of their work on one item, in seconds."""
        return float(self.world.knobs.agent.plugin_s)

    def note(self, item: Item, result: Result) -> None:
        """Account for a result, before the next item of the batch is worked on."""

    @abstractmethod
    def apply(self, tx: Connection, results: Sequence[tuple[Item, Result]]) -> None:
        """Write the results of the whole batch in one set of statements."""

    def tidy(self, results: Sequence[tuple[Item, Result]]) -> None:
        """Do the work outside the database that follows from the writes; no transaction is open. It
        is not done if we die before it."""

    @abstractmethod
    def trouble(self, tx: Connection, item: Item, error: Exception) -> None:
        """An item could not be worked on or applied: say so where people look, let it wait. Its
        text may stand in a reason: an error of the database comes as NotWritten."""

    def knobs_changed(self) -> None:
        """Forget the items put off in memory: delays and causes may be otherwise now."""

    def look(self) -> int:
        """A cycle, if there may be something to do."""
        with at_once(self.world.engine) as tx:
            self.waits = self.waiting(tx)
        return self.run_once() if self.waits else 0

    def run_once(self) -> int:
        """One cycle, with knobs and endpoints as they are now; how many items were claimed, or are
        in the hands of plug-ins."""
        late = self._late()
        with self.world.engine.begin() as tx:
            self.world.read(tx)
            if self._known is not None and self._known != self.world.knobs:
                self.knobs_changed()
            self._known = self.world.knobs
            self._drop(tx)
            if behind := self._apart.items:
                self.keep(tx, behind)
            items = self._claimed = self.claim(tx, self.batch)
        self._idle = not items
        if not items:
            return len(behind) + late
        crash.point(self.name.lower(), "claimed")
        with self._kept([*items, *behind]):
            results = self._work_all(items)
        try:
            self._apply_all(results)
        except (DBAPIError, psycopg.Error):
            with suppress(DBAPIError, psycopg.Error), self.world.engine.begin() as tx:
                self._drop(tx)
            raise
        self._claimed = ()
        return len(items)

    @final
    def close(self) -> None:
        """End the work of plug-ins that do not answer, and give its claim back: the agent ends."""
        if behind := self._apart.items:
            self._apart.close()
            with suppress(DBAPIError, psycopg.Error), self.world.engine.begin() as tx:
                self.give_back(tx, behind)

    @final
    def _late(self) -> int:
        """Write the answers of plug-ins that were slow; their number. An idle agent waits for them
        a little."""
        found = self._apart.late(self.plugin_s, _LATE_S if self._idle else 0.0)
        before = self._claimed
        self._claimed = [*before, *(item for item, _ in found)]  # until all are written
        for item, answer in found:
            if self._good(item, answer):
                self._apply_all([(item, answer)])
        self._claimed = before
        return len(found)

    @final
    def _drop(self, tx: Connection) -> None:
        """Give back the claim of a cycle whose write, or answer, was lost: nobody died, and a claim
        that merely ends would look like it."""
        if self._claimed:
            self.give_back(tx, self._claimed)

    def _work_all(self, items: Sequence[Item]) -> list[tuple[Item, Result]]:
        """Work on one item after the other; a bad one harms only itself, and so does a plug-in."""
        self.prepare(items)
        results: list[tuple[Item, Result]] = []
        theirs = [item for item in items if CAN_FORK and self.plug_ins(item)]
        unworked: list[Item] = []
        for item, answer in chain(self._own(items, theirs), self._apart.done(theirs)):
            if answer is NO_PLACE:
                unworked.append(item)
            elif self._good(item, answer):
                self.note(item, answer)
                results.append((item, answer))
        if unworked:
            self._idle = len(unworked) == len(items)
            with self.world.engine.begin() as tx:
                self.give_back(tx, unworked)
        return results

    @final
    def _own(self, items: Sequence[Item], theirs: Sequence[Item]) -> Iterator[tuple[Item, Any]]:
        """The items without plug-ins of other people, each with its result or its error."""
        apart = {*map(id, theirs)}
        for item in items:
            if id(item) not in apart:
                try:
                    yield item, self.work(item)
                except (LockLost, *_ITEMS_FAULT) as error:
                    yield item, error

    @final
    def _work_apart(self, item: Item) -> Result:
        """Work on an item in its process, which works on others after it."""
        result = self.work(item)
        self.note(item, result)
        return result

    @final
    def _good(self, item: Item, answer: Any) -> bool:
        """Return True for a result; an error sets its item aside."""
        if isinstance(answer, PluginFailed) and not answer.facts:
            answer = answer.of(self.plug_ins(item))
        if isinstance(answer, Exception):
            self._set_aside(item, answer)
        return not isinstance(answer, Exception)

    @final
    @contextmanager
    def _kept(self, items: Sequence[Item]) -> Iterator[None]:
        """Keep the claim as long as the block takes: checksums of new files may take hours."""
        if type(self).keep is Agent.keep:  # there is nothing to keep: a thread costs 0.1 ms
            yield
            return
        done = threading.Event()

        def prolong() -> None:
            while not done.wait(self.lease_s / 3):
                # at worst the claim is lost, and what was made under it
                with forks.QUIET, suppress(DBAPIError), self.world.engine.begin() as tx:
                    self.keep(tx, items)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(prolong)
            try:
                yield
            finally:
                done.set()

    def _apply_all(self, results: Sequence[tuple[Item, Result]]) -> None:
        """Apply the batch; if it fails, one by one, so that a bad item harms only itself."""
        if not results:
            return
        try:
            self._apply(results)
        except (DBAPIError, psycopg.Error, *_ITEMS_FAULT) as error:
            if _lost(error) or _full(error):
                raise
            if len(results) == 1:
                self._set_aside(results[0][0], error)
                return
            self.log.warning("batch failed, trying one by one", error=str(error)[:500])
            for one in results:
                self._apply_all([one])

    @final
    def _apply(self, results: Sequence[tuple[Item, Result]]) -> None:
        with self.world.engine.begin() as tx:
            self.apply(tx, results)
            crash.point(self.name.lower(), "before_commit")
        crash.point(self.name.lower(), "after_commit")
        self.tidy(results)

    @final
    def _set_aside(self, item: Item, error: Exception) -> None:
        if isinstance(error, LockLost):
            self.log.warning("lock lost", item=_short(item))
            return
        ours = isinstance(error, JediError)
        self.log.error(
            "trouble",
            item=_short(item),
            error=str(error)[:2000],
            kind=type(error).__name__,
            exc_info=None if ours else error,
        )
        with self.world.engine.begin() as tx:
            self.trouble(tx, item, _shown(error))


class TaskAgent(Agent[Task, Result]):
    """An agent whose items are tasks under a lease."""

    def keep(self, tx: Connection, items: Sequence[Task]) -> None:
        held = [(task.jedi_task_id, task.lock_seq) for task in items]
        tasks.renew(tx, held, self.lease_s)

    def give_back(self, tx: Connection, items: Sequence[Task]) -> None:
        tasks.put_off(tx, [(task.jedi_task_id, task.lock_seq) for task in items])


def _shown(error: Exception) -> Exception:
    """An error as people may read it in a reason: the database's message is for the log."""
    if isinstance(error, (DBAPIError, psycopg.Error)):
        passing = isinstance(error, (OperationalError, psycopg.OperationalError))
        return NotWritten(type(getattr(error, "orig", error)).__name__, passing=passing)
    return error


def _lost(error: Exception) -> bool:
    """The connection to the database has ended."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated
    return isinstance(error, psycopg.OperationalError)


def _full(error: Exception) -> bool:
    """The database's disk or memory is full (class 53 of SQL's codes), which no item causes."""
    code: str | None = getattr(getattr(error, "orig", error), "sqlstate", None)
    return (code or "").startswith("53")


def _short(item: Any) -> str:
    for name in ("jeditaskid", "jedi_task_id", "pandaid", "panda_id"):
        if hasattr(item, name):
            return f"{name}={getattr(item, name)}"
    return repr(item)[:100]
