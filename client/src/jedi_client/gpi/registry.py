"""Registries of jobs and of templates, as a session sees them.

Source: docs/reference/ganga.md#registries.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from jedi_client.gpi.interfaces import Kind, Record
from jedi_client.gpi.report import NoSuchJob
from jedi_client.gpi.slices import FACTS, JobSlice, alike, matches, must_be_known
from jedi_client.gpi.status import LIVE

if TYPE_CHECKING:
    from jedi_client.gpi.report import Report


class Held(Protocol):
    """An object of a registry: it reads its document again once that has changed."""

    def outdated(self, version: int) -> None: ...


J = TypeVar("J", bound=Held)
SYNC_S = 0.2
"""Seconds after which a listing looks for changes of other sessions."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A change of a record: before and after; None: there was none, or there is none now."""

    id: int
    before: Record | None
    after: Record | None


class Registry(Generic[J]):
    """The jobs, or the templates, of a session. A job is one object for as long as it is referred
    to: `jobs(j.id) is j`."""

    def __init__(self, session: Any, kind: Kind, make: Any) -> None:
        self.session, self.kind, self._make = session, kind, make
        self._lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Forget all that was read: the store is another one now."""
        self._index: dict[int, Record] = {}
        self._live: set[int] = set()
        self._change, self._synced_at = 0, float("-inf")
        self._objects: WeakValueDictionary[int, J] = WeakValueDictionary()
        self._turns: list[Turn] = []

    def __call__(self, key: Any = None) -> Any:
        """This registry; or the job of an id, of a name that only one job has, of "i.k" or of
        (i, k). NoSuchJob."""
        match key:
            case None:
                return self
            case bool():
                raise NoSuchJob(f'{key!r} is no id. Give a number, a name, or "i.k".')
            case int():
                return self.job(key)
            case str():
                return self._named(key)
            case [int(id), *ks]:
                return self._inside(id, ks)
        raise NoSuchJob(f'{key!r} is no id. Give a number, a name, "i.k" or (i, k).')

    def job(self, id: int) -> J:
        """The job of an id. NoSuchJob."""
        with self._lock:
            self.sync(float("-inf") if id not in self._index else SYNC_S)
            if id not in self._index:
                where = "This registry has none." if not self._index else "See ids()."
                where += f" {self.kind}s[{id}] counts from the end." if id < 0 else ""
                raise NoSuchJob(f"There is no {self.kind} {id}. {where}", id=id)
            found = self._objects.get(id)
            if found is None:
                found = self._objects[id] = self._make.held(self, id)
            return found

    def ids(self) -> list[int]:
        """All ids, ascending."""
        with self._lock:
            self.sync()
            return sorted(self._index)

    def select(self, minid: int | None = None, maxid: int | None = None, **values: Any) -> Any:
        """The jobs with these values; see `Slice.select`."""
        return self._all().select(minid, maxid, **values)

    def matching(self, ids: Sequence[int], wanted: dict[str, Any]) -> Sequence[int]:
        """The ids of the jobs that have all these values. Records are asked first, since their jobs
        need not be loaded."""
        must_be_known(wanted, [*FACTS, *self._make._properties])
        if "status" in wanted:
            self.session.monitor.look()
        known = {
            name: value for name, value in wanted.items() if name in ("status", "name", "comment")
        }
        with self._lock:
            left = [
                id
                for id in ids
                if (one := self._index.get(id))
                and all(alike(getattr(one, name), value) for name, value in known.items())
            ]
        others = {name: value for name, value in wanted.items() if name not in known}
        return [id for id in left if matches(self.job(id), others)] if others else left

    @property
    def read_only(self) -> bool:
        """True if this session may only read; see `take_over`."""
        return bool(self.session.store.read_only)

    def take_over(self) -> None:
        """Get the right to write from the session that has it: that one only reads from then on. A
        registry on this machine needs none."""
        self.session.store.take_over()

    def export(self, path: str | os.PathLike[str], *, append: bool = False) -> Report:
        """Write all jobs to a file; see `JobSlice.export`."""
        return JobSlice(self, self.ids()).export(path, append=append)

    def load(self, path: str | os.PathLike[str]) -> Any:
        """New jobs, and templates, like those of an export, in their folders, as a slice. All
        mistakes at once; nothing is stored then. BadInput."""
        from jedi_client.gpi.exports import load
        from jedi_client.gpi.schema import values_of

        made = load(self.session.store, path, lambda document: values_of(self._make, document))
        self.sync(float("-inf"))
        return JobSlice(self, [one.id for one in made[self.kind]])

    def wait(self, timeout_s: float | None = None, timeout: float | None = None) -> Any:
        """Wait until all jobs have ended that are live now, for `timeout` s at most.
        TimeoutError."""
        return JobSlice(self, sorted(self.live())).wait(timeout_s, timeout)

    def watch(self, observer: Callable[[Any], object]) -> Any:
        """Call `observer` for each change of a job, also one by another session, whenever this
        session looks. The answer stops it: `watching.stop()`."""
        return self.session.monitor.observe(observer)

    @property
    def monitoring(self) -> bool:
        """Ask backends for states, when they are read."""
        return bool(self.session.monitor.on)

    @monitoring.setter
    def monitoring(self, on: bool) -> None:
        self.session.monitor.on = on

    @property
    def guid(self) -> str:
        """The GUID of the registry; with a job's id, it names the job for ever."""
        return str(self.session.store.guid)

    def __getitem__(self, key: Any) -> Any:
        """The job at a place, from the end with a negative one; a slice; the job of a name."""
        return self._all()[key] if isinstance(key, int | slice) else self(key)

    def __iter__(self) -> Iterator[J]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self.ids())

    def __bool__(self) -> bool:
        """True: an empty registry is one, too."""
        return True

    def __contains__(self, one: object) -> bool:
        """True for a job or an id of this registry."""
        return (
            one in self.ids()
            if isinstance(one, int)
            else any(one is job for job in (self._objects.get(id) for id in self.ids()))
        )

    def __getattr__(self, name: str) -> Any:
        remedy = ""
        if name in ("submit", "kill", "resubmit", "remove", "copy"):
            remedy = f". For all of them: {self.kind}s.select().{name}()"
        raise AttributeError(f"{self.kind}s has no {name}{remedy}", name=name, obj=self)

    def __repr__(self) -> str:
        return repr(self._all())

    def _repr_html_(self) -> str:
        return self._all()._repr_html_()

    def _all(self) -> JobSlice:
        return JobSlice(self, self.ids())

    def _named(self, text: str) -> Any:
        """The job of a text: "12", "12.7", or a name."""
        parts = text.split(".")
        if all(part.isascii() and part.isdigit() for part in parts):
            return self._inside(int(parts[0]), list(map(int, parts[1:])))
        with self._lock:
            self.sync(float("-inf"))
            ids = sorted(id for id, one in self._index.items() if one.name == text)
        if not ids:
            raise NoSuchJob(f"There is no {self.kind} {text!r}. See ids().", name=text)
        if ids[1:]:
            listed = ", ".join(map(str, ids))
            raise NoSuchJob(f"Several have the name {text!r}: {listed}. Name an id.", ids=ids)
        return self.job(ids[0])

    def _inside(self, id: int, ks: Sequence[Any]) -> Any:
        found: Any = self.job(id)
        for k in ks[:1]:
            found = found.subjobs(k)
        if ks[1:]:
            raise NoSuchJob(f"Subjob {found.fqid} has no subjobs. Give two numbers at most.")
        return found

    # Records, for jobs and the monitor

    def record(self, id: int) -> Record:
        """The record of a job, as it was read last. NoSuchJob if it was removed."""
        found = self.known(id)
        if found is None:
            raise NoSuchJob(f"{self.kind.capitalize()} {id} was removed.", id=id)
        return found

    def known(self, id: int) -> Record | None:
        """The record of a job, as it was read last; None: there is none."""
        with self._lock:
            return self._index.get(id)

    def watched(self, others: Collection[int]) -> list[Record]:
        """The records of live jobs, and of the others that exist."""
        with self._lock:
            found = map(self._index.get, self._live.union(others))
            return [one for one in found if one is not None]

    def live(self) -> set[int]:
        """The ids of jobs that a backend may change, or whose submission is not settled."""
        with self._lock:
            return set(self._live)

    def add(self, job: J, record: Record) -> None:
        """Hold a new job."""
        with self._lock:
            self._objects[record.id] = job
            self.learn(record)

    def learn(self, record: Record) -> None:
        """Take a record that a store answered."""
        with self._lock:
            before = self._index.get(record.id)
            if before is not None and before.change >= record.change:
                return
            self._index[record.id] = record
            (self._live.add if record.status in (*LIVE, "unknown") else self._live.discard)(
                record.id
            )
            self._turns.append(Turn(record.id, before, record))
            held = self._objects.get(record.id)
        if held is not None:
            held.outdated(record.version)

    def lose(self, id: int) -> None:
        """Forget a removed job."""
        with self._lock:
            before = self._index.pop(id, None)
            self._live.discard(id)
            self._objects.pop(id, None)
            if before is not None:
                self._turns.append(Turn(id, before, None))

    def sync(self, age_s: float = SYNC_S) -> None:
        """Learn the changes of other sessions, unless that was done `age_s` ago or later."""
        with self._lock:
            now = time.monotonic()
            if now - self._synced_at < age_s:
                return
            store, since = self.session.store, self._change
            for record in store.list(self.kind, since):
                self._change = max(self._change, record.change)
                self.learn(record)
            for id in store.removed(self.kind, since) if self._index else ():
                self.lose(id)
            self._synced_at = now

    def turns(self) -> list[Turn]:
        """The changes since the last question."""
        with self._lock:
            found, self._turns = self._turns, []
        return found
