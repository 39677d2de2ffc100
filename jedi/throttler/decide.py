"""Are there enough jobs? By work queue and resource type, whether more are made and how many.

Source: JEDI document, "Job throttling"; the tests are numbered as in
docs/reference/throttler-and-shares.md#throttler-tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jedi.core.knobs import Knobs
from jedi.model.scheduling.queue_file import PARTITION

FAMILIES = ("MCORE", "SCORE")
"""Beginnings of resource types that may share a cap."""


@dataclass(frozen=True, slots=True)
class ThrottledQueue:
    """A work queue as the throttler knows it. `share` None: not throttled."""

    queue_id: int
    name: str
    label: str
    partition: int | None
    share: int | None
    caps: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Jobs by stage: they run, wait at or on the way to a site, are defined, wait for others."""

    running: int = 0
    not_running: int = 0
    defined: int = 0
    waiting: int = 0

    @property
    def queued(self) -> int:
        """Jobs that could run next."""
        return self.not_running + self.defined

    def __add__(self, other: JobCounts) -> JobCounts:
        return JobCounts(
            self.running + other.running,
            self.not_running + other.not_running,
            self.defined + other.defined,
            self.waiting + other.waiting,
        )


@dataclass(frozen=True, slots=True)
class Pass:
    """Up to so many jobs may be made in this cycle; `lacking`: so few are there that all
    generators may make some at once. `least`: only tasks of at least this priority."""

    jobs: int
    lacking: bool = True
    least: int | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """No jobs now. `yields`: to work that is more urgent than all that is queued."""

    code: str
    reason: str
    facts: Mapping[str, Any]
    yields: bool = True


@dataclass(frozen=True, slots=True)
class Urgent:
    """The highest priority of tasks of a queue that want jobs, and of its activated jobs, with how
    many of these there are; `coming`: of jobs on their way there, where that was looked up."""

    queue_id: int
    waiting: int | None
    queued: int | None
    jobs: int
    coming: int | None = None


@dataclass(frozen=True, slots=True)
class QueuedWork:
    """The walltime of the queued jobs of a queue and resource type in seconds; None: nobody knows
    how long they take."""

    queue_id: int
    resource_type: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Level:
    """A limit in jobs with the load that it is compared with: of the queue, or of one shape."""

    limit: int
    load: JobCounts
    named: str


class Throttle:
    """Decides for all work queues by the counts of one moment. Sub-queues count as their outermost
    partition: JEDI works with that."""

    def __init__(
        self,
        queues: Sequence[ThrottledQueue],
        loads: Mapping[tuple[int, str], JobCounts],
        knobs: Knobs,
        urgent: Sequence[Urgent] = (),
        work: Sequence[QueuedWork] = (),
    ) -> None:
        self.queues = {queue.queue_id: queue for queue in queues}
        self.knobs = knobs
        few = knobs.throttler.few_urgent
        self.least = {u.queue_id: u.waiting or 0 for u in urgent if outranks(u, few)}
        self.above = {u.queue_id: u.waiting or 0 for u in urgent if exceeds(u)}
        self.loads: dict[tuple[int, str], JobCounts] = {}
        for (queue_id, shape), load in loads.items():
            key = (self.root(queue_id), shape)
            self.loads[key] = self.loads.get(key, JobCounts()) + load
        self.work: dict[tuple[int, str], list[float | None]] = {}
        for some in work:
            key = (self.root(some.queue_id), some.resource_type)
            self.work.setdefault(key, []).append(some.seconds)

    def root(self, queue_id: int) -> int:
        """The outermost partition of a queue, or itself."""
        seen = {queue_id}
        while (queue := self.queues.get(queue_id)) and queue.partition not in (None, PARTITION):
            if queue.partition in seen:
                break
            queue_id = queue.partition or 0
            seen.add(queue_id)
        return queue_id

    def decide(self, queue_id: int, resource_type: str | None) -> Pass | Skip:
        """For tasks of a queue and resource type; None: of all types together, as for event
        service, whose tasks make jobs of several."""
        queue = self.queues.get(self.root(queue_id))
        whole = self._load(queue_id, "")
        if queue is None or queue.share is None:  # test 0
            return ceiling(whole.queued, self.knobs.throttler.queue_cap)
        pair = self.root(queue_id), resource_type or ""
        here = whole if resource_type is None else self.loads.get(pair, JobCounts())
        verdict = self._tests(queue, here, resource_type)
        room = self._room(queue, here, resource_type)
        passing = self.above if self._firm(queue, resource_type) else self.least
        if verdict and verdict.yields and queue.label != "user" and queue_id in passing:
            return replace(room, least=passing[queue_id])
        return verdict or room

    def _firm(self, queue: ThrottledQueue, shape: str | None) -> bool:
        """Return True if work that is only as urgent as the queued jobs does not pass: more is
        queued than the queue's cap, whatever else holds."""
        most = self._cap(queue, "NQUEUECAP", shape)
        over = most is not None and most.load.queued > most.limit
        return over and bool(self.knobs.throttler.firm_cap)

    def capped(self) -> list[int]:
        """The queues that have more jobs than their cap and let only more urgent work pass."""
        return sorted(
            {
                queue_id
                for queue_id in self.queues
                for root, shape in self.loads
                if root == self.root(queue_id)
                and (queue := self.queues.get(root))
                and (self._firm(queue, shape) or self._firm(queue, None))
            }
        )

    def full(self) -> list[tuple[int, str, int | None]]:
        """The queues and resource types, with jobs, that get no more, but for tasks of at least the
        priority that stands there."""
        return [
            (queue_id, shape, verdict.least if isinstance(verdict, Pass) else None)
            for queue_id in self.queues
            for shape in sorted({s for q, s in self.loads if q == self.root(queue_id)})
            if isinstance(verdict := self.decide(queue_id, shape), Skip)
            or verdict.least is not None
        ]

    def throttles(self, queue_id: int) -> bool:
        """Return True if a queue is throttled at all."""
        queue = self.queues.get(self.root(queue_id))
        return queue is not None and queue.share is not None

    @classmethod
    def of(
        cls,
        queues: Iterable[Any],
        loads: Iterable[Any],
        knobs: Knobs,
        urgency: Callable[[list[int], list[int]], tuple[Iterable[Any], Iterable[Any]]],
    ) -> Throttle:
        """From rows: of jedi_work_queue and of loads. Of queues that are full by these, `urgency`
        finds the rows of urgent work (and, of the second ones, of jobs on their way to sites) and
        of the walltime of queued jobs, which cost more."""
        known = [
            ThrottledQueue(
                q.queue_id, q.queue_name, q.queue_type, q.partitionid, q.queue_share, _caps(q.caps)
            )
            for q in queues
            if q.status == "active"
        ]
        counts = {
            (n.queue_id, n.resource_type): JobCounts(n.running, n.not_running, n.defined, n.waiting)
            for n in loads
        }
        rough = cls(known, counts, knobs)
        if not (full := sorted({queue_id for queue_id, _, _ in rough.full()})):
            return rough
        urgent, work = urgency(full, rough.capped())
        return cls(
            known,
            counts,
            knobs,
            [Urgent(u.queue_id, u.waiting, u.queued, u.jobs or 0, u.coming) for u in urgent],
            [QueuedWork(w.queue_id, w.resource_type, w.seconds) for w in work],
        )

    def _load(self, queue_id: int, begin: str) -> JobCounts:
        """The jobs of all resource types of a queue that begin so."""
        root = self.root(queue_id)
        counts = (
            load for (q, shape), load in self.loads.items() if q == root and shape.startswith(begin)
        )
        return sum(counts, JobCounts())

    def _tests(self, queue: ThrottledQueue, here: JobCounts, shape: str | None) -> Skip | None:
        """The first test that holds, in order."""
        limit, much = self._limit(queue, here, shape), not self._short(queue, shape)
        most, ran = self._cap(queue, "NQUEUECAP", shape), self._cap(queue, "NRUNNINGCAP", shape)
        ratio = here.queued / here.running if here.running else 0.0
        bunch, patience = self._bunch(here), self.knobs.throttler.waiting_per_running
        crowd = max(patience * here.running, 2 * bunch)
        if here.running == 0 and here.queued > limit.limit and much:
            return _skip("none_running", queue, shape, here.queued, limit.limit)
        if ratio > self._threshold and limit.load.queued > limit.limit and much:
            return _skip("many_queued", queue, shape, limit.load.queued, limit.limit)
        if here.defined > limit.limit:
            return _skip("many_defined", queue, shape, here.defined, limit.limit)
        if here.waiting > crowd:
            return _skip("many_waiting", queue, shape, here.waiting, int(crowd))
        if ran and ran.load.running > ran.limit:
            return _skip("running_cap", queue, shape, ran.load.running, ran.limit, yields=False)
        if most and most.load.queued > most.limit:
            return _skip("queue_cap", queue, shape, most.load.queued, most.limit)
        return None

    @property
    def _threshold(self) -> float:
        short = self.knobs.core.work_shortage
        knobs = self.knobs.throttler
        return knobs.threshold_when_short if short else knobs.threshold

    def _short(self, queue: ThrottledQueue, shape: str | None) -> bool:
        """Return True if the queued jobs are known to be done soon, however many they are."""
        known = [] if shape is None else self.work.get((queue.queue_id, shape), [])
        seconds = [one for one in known if one is not None]
        enough = self.knobs.throttler.enough_work_s
        return 0 < len(seconds) == len(known) and sum(seconds) <= enough

    def _room(self, queue: ThrottledQueue, here: JobCounts, shape: str | None) -> Pass:
        """The number of jobs that a cycle may add."""
        limit = self._limit(queue, here, shape)
        most = self._cap(queue, "NQUEUECAP", shape)
        part = max(1, most.limit // self.knobs.throttler.cap_parts) if most else None
        jobs = part or self._bunch(here) // 2
        if part and self.knobs.throttler.firm_cap and not limit.named:
            return Pass(part, lacking=False)
        enough = limit.limit * self.knobs.throttler.lack_percent / 100
        few = limit.load.queued < enough
        if few and self.knobs.throttler.firm_cap:  # JEDI document: max(limit / 20, normal case)
            jobs = self._bunch(here) // 2
        lacking = few or limit.load.queued < here.running
        if lacking:
            jobs = max(jobs, limit.limit // self.knobs.throttler.limit_parts)
        return Pass(jobs, lacking)

    def _bunch(self, here: JobCounts) -> int:
        """The number of jobs missing to the threshold of queued jobs, within bounds."""
        missing = int(here.running * self._threshold - here.not_running)
        least, most = self.knobs.throttler.bunch_least, self.knobs.throttler.bunch_most
        return int(min(max(missing, least), most))

    def _limit(self, queue: ThrottledQueue, here: JobCounts, shape: str | None) -> Level:
        """So many may be queued in any case."""
        bunches = int(self.knobs.throttler.limit_bunches)
        plain = Level(bunches * self._bunch(here), here, "")
        return self._cap(queue, "NQUEUELIMIT", shape) or plain

    def _cap(self, queue: ThrottledQueue, kind: str, shape: str | None) -> Level | None:
        """The queue's own limit: for the resource type, its family or all; the first one decides
        the count to compare."""
        family = next((one for one in FAMILIES if (shape or "").startswith(one)), None)
        for named in filter(None, (shape, family)):
            if limit := queue.caps.get(f"{kind}_{named}"):
                return Level(limit, self._load(queue.queue_id, named), f"{kind}_{named}")
        if limit := queue.caps.get(kind):
            return Level(limit, self._load(queue.queue_id, ""), kind)
        return None


def _caps(written: Any) -> dict[str, int]:
    """The limits of a queue; an invalid one, which no file brings, has no effect."""
    items = written.items() if isinstance(written, Mapping) else ()
    return {name: limit for name, limit in items if isinstance(limit, int) and limit > 0}


def ceiling(queued: int, cap: int) -> Pass | Skip:
    """The most jobs of queues that are not throttled (knob throttler.queue_cap)."""
    if queued < cap:
        return Pass(cap - queued)
    reason = f"{queued} jobs wait in the task's work queue, as many as may ({cap})."
    return Skip("queue_full", reason, {"queued": queued, "limit": cap}, yields=False)


SAYS = {
    "none_running": "{n} jobs are queued and none runs; more than {limit} are enough",
    "many_queued": "{n} jobs are queued, many for those that run; more than {limit} are enough",
    "many_defined": "{n} jobs wait for a site; more than {limit} are enough",
    "many_waiting": "{n} jobs wait for others; more than {limit} are enough",
    "running_cap": "{n} jobs run, more than the queue's cap of {limit}",
    "queue_cap": "{n} jobs are queued, more than the queue's cap of {limit}",
}


def _skip(
    test: str, queue: ThrottledQueue, shape: str | None, n: int, limit: int, *, yields: bool = True
) -> Skip:
    where = f"Work queue {queue.name}" + (f", {shape}" if shape else "")
    facts = {
        "test": test,
        "queue": queue.name,
        "resource_type": shape,
        "observed": n,
        "limit": limit,
    }
    reason = f"{where}: {SAYS[test].format(n=n, limit=limit)}."
    return Skip("queue_throttled", reason, facts, yields)


def exceeds(urgent: Urgent) -> bool:
    """Return True if waiting work is more urgent than all that is queued, on its way or there."""
    if urgent.waiting is None:
        return False
    return all(one is None or urgent.waiting > one for one in (urgent.queued, urgent.coming))


def outranks(urgent: Urgent, few: int) -> bool:
    """Return True if waiting work passes a full queue: it is more urgent than all queued jobs, or
    as urgent, and fewer than `few` of these are queued."""
    if urgent.waiting is None:
        return False
    if urgent.queued is None or urgent.waiting > urgent.queued:
        return True
    return urgent.waiting == urgent.queued and urgent.jobs < few
