"""Monitoring: states are read on demand, from the backends not more often than they allow.

Source: docs/reference/ganga.md#monitoring.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from jedi_client.gpi.any_job import AnyJob
from jedi_client.gpi.connections import REFRESH_S, Connections
from jedi_client.gpi.interfaces import Record
from jedi_client.gpi.registry import Turn
from jedi_client.gpi.status import ENDED, LIVE, is_news
from jedi_client.gpi.submission import settle


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a job: `status` with the new one, `subjobs` with the numbers of changed ones, or
    `removed`."""

    job: int
    what: str
    value: Any


class Watching:
    """An observer of changes, until `stop`. `job`: the only one that it observes."""

    def __init__(self, monitor: Monitor, job: int | None, observer: Callable[[Change], object]):
        self._monitor, self.job, self.observer = monitor, job, observer

    def stop(self) -> None:
        """End the observation."""
        self._monitor.unobserve(self)


class Watch:
    """The changes of a job, one after the other, until it has ended."""

    def __init__(self, monitor: Monitor, job: AnyJob) -> None:
        self._monitor, self._job = monitor, job
        self._changes: list[Change] = []

    def __iter__(self) -> Iterator[Change]:
        watching = self._monitor.observe(self._changes.append, self._job.id)
        try:
            while True:
                self._monitor.look()
                yield from self._taken()
                if self._over():
                    return
                time.sleep(self._monitor.pause([self._job.id]))
        finally:
            watching.stop()

    async def __aiter__(self) -> AsyncIterator[Change]:
        watching = self._monitor.observe(self._changes.append, self._job.id)
        try:
            while True:
                await asyncio.to_thread(self._monitor.look)
                for change in self._taken():
                    yield change
                if self._over():
                    return
                await asyncio.sleep(self._monitor.pause([self._job.id]))
        finally:
            watching.stop()

    def _taken(self) -> list[Change]:
        taken = list(self._changes)
        del self._changes[: len(taken)]
        return taken

    def _over(self) -> bool:
        known = self._monitor.known(self._job.id)
        return not self._changes and (known is None or known.status in ("new", *ENDED))


class Monitor:
    """The looks of a session at the store and the backends. `on`: ask backends. `errors`: the last
    error of each connection or observer; none of them stops the others."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self._lock = threading.RLock()
        self.on = True
        self._watchings: list[Watching] = []
        self.forget()

    def forget(self) -> None:
        """Forget all connections and observers: the store is another one now."""
        self.connections = Connections()
        self.errors: dict[str, Exception] = {}
        self._asked_at: dict[str, float] = {}
        self._due: set[int] = set()
        self._seen: dict[int, dict[int, str]] = {}
        self._watchings.clear()

    def look(self) -> None:
        """Learn the states of all jobs, each at most as old as its backend allows."""
        with self._lock:
            jobs = self._session.jobs
            jobs.sync()
            if self.on:
                by_backend: dict[str, list[Record]] = defaultdict(list)
                for record in jobs.watched(self._due):
                    if record.backend is not None:
                        by_backend[record.backend].append(record)
                for key, records in by_backend.items():
                    try:
                        self._ask(key, records)
                    except Exception as error:  # noqa: BLE001 - a plug-in stops no other backend
                        self.errors[key] = error
            self.dispatch()

    def expire(self, job: int) -> None:
        """Ask for a job at the next look, also if it has ended: a verb has changed it."""
        with self._lock:
            record = self.known(job)
            if record is not None:
                self._asked_at.pop(str(record.backend), None)
                self._due.add(job)

    def wait(
        self, ids: Sequence[int], timeout_s: float | None = None, timeout: float | None = None
    ) -> None:
        """Wait until jobs have ended. `timeout` is `timeout_s` by the name that Python's own
        functions use. TimeoutError. New jobs don't count as ended: JobError."""
        from jedi_client.gpi.report import JobError

        limits = [limit_s for limit_s in (timeout_s, timeout) if limit_s is not None]
        end = time.monotonic() + min(limits) if limits else None
        while True:
            self.look()
            left = [one for one in map(self.known, ids) if one and one.status not in ENDED]
            if not left:
                return
            if new := [one.id for one in left if one.status == "new"]:
                raise JobError(f"Job {new[0]} is new: it does not run. Submit it.", ids=new)
            rest = float("inf") if end is None else end - time.monotonic()
            if rest <= 0:
                first = left[0]
                raise TimeoutError(f"Job {first.id} is still {first.status} ({len(left)} jobs).")
            time.sleep(min(rest, self.pause(ids)))

    def watch(self, job: AnyJob) -> Watch:
        """The changes of a job until its end."""
        return Watch(self, job)

    def observe(self, observer: Callable[[Change], object], job: int | None = None) -> Watching:
        """Call an observer for each change that a look finds, of one job or of all."""
        with self._lock:
            self.dispatch()
            for id in [job] if job is not None else self._session.jobs.live():
                if id not in self._seen:
                    self._seen[id] = self._units(id)
            watching = Watching(self, job, observer)
            self._watchings.append(watching)
            return watching

    def unobserve(self, watching: Watching) -> None:
        """End an observation; a second time, nothing happens."""
        with self._lock:
            self._watchings = [one for one in self._watchings if one is not watching]
            if not self._watchings:
                self._seen.clear()

    def dispatch(self) -> None:
        """Tell the observers the changes since the last time, in their order."""
        with self._lock:
            turns = self._session.jobs.turns()
            watched = {one.job for one in self._watchings}
            turns = [one for one in turns if watched & {None, one.id}]
            for change in self._changes(turns):
                for watching in list(self._watchings):
                    if watching.job not in (None, change.job):
                        continue
                    try:
                        watching.observer(change)
                    except Exception as error:  # noqa: BLE001 - an observer harms nobody
                        self.errors[repr(watching.observer)] = error

    def known(self, id: int) -> Record | None:
        """The record of a job, as it was read last; None: it was removed."""
        found: Record | None = self._session.jobs.known(id)
        return found

    def pause(self, ids: Sequence[int]) -> float:
        """Seconds until the next look can bring news of jobs."""
        keys = {one.backend for one in map(self.known, ids) if one and one.backend}
        periods = []
        for key in keys:
            try:
                periods.append(self.connections.period(key))
            except Exception as error:  # noqa: BLE001 - see `look`
                self.errors[key] = error
        return min(periods, default=REFRESH_S)

    def _ask(self, key: str, records: Sequence[Record]) -> None:
        """Ask a backend for its jobs, unless it was asked a moment ago. One request for all."""
        now, store = time.monotonic(), self._session.store
        if now - self._asked_at.get(key, float("-inf")) < self.connections.period(key):
            return
        self._asked_at[key] = now
        for record in records:
            if record.status in ("submitting", "unknown"):
                self._settle(record.id)
        current = [one for one in map(self.known, [one.id for one in records]) if one]
        running = {
            str(one.backend_id): one
            for one in current
            if (one.status in LIVE or one.id in self._due) and one.backend_id is not None
        }
        if not running or store.read_only:
            return
        cursors = {id: one.cursor for id, one in running.items()}
        states = self.connections.to(key).states(cursors)
        self._due -= {one.id for one in running.values()}
        news = {
            running[one.backend_id].id: one
            for one in states
            if one.backend_id in running and is_news(running[one.backend_id], one)
        }
        since = {id: running[state.backend_id].cursor for id, state in news.items()}
        for record in store.note(news, datetime.now(UTC), since) if news else ():
            self._session.jobs.learn(record)
        self.errors.pop(key, None)

    def _settle(self, id: int) -> None:
        """Settle a submission; its error does not stop the questions for other jobs."""
        try:
            settle(self._session.jobs.job(id))
            self.errors.pop(f"job {id}", None)
        except Exception as error:  # noqa: BLE001 - nor the settling of one job another
            self.errors[f"job {id}"] = error

    def _changes(self, turns: Sequence[Turn]) -> Iterator[Change]:
        """The changes of jobs: first of their subjobs, then of themselves."""
        last = {turn.id: turn for turn in turns}
        for turn in turns:
            if turn.after is None:
                self._seen.pop(turn.id, None)
                yield Change(turn.id, "removed", None)
                continue
            if last[turn.id] is turn:
                before, now = self._seen.get(turn.id, {}), self._units(turn.id)
                self._seen[turn.id] = now
                if changed := [k for k in now if before.get(k) != now[k]]:
                    yield Change(turn.id, "subjobs", changed)
            if turn.before is None or turn.before.status != turn.after.status:
                yield Change(turn.id, "status", turn.after.status)

    def _units(self, id: int) -> dict[int, str]:
        """The statuses of the units of a job by number."""
        known = self.known(id)
        if known is None or known.status == "new":
            return {}
        return {one.state.k: one.state.status for one in self._session.store.units(id)}
