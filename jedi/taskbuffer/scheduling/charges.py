"""The use of work queues, as a process that hands out jobs knows it: as it read it last, and with
the jobs that it handed out since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core import clock
from jedi.model.jobs.wire import Resources
from jedi.model.scheduling.dealing import Dealing
from jedi.model.scheduling.shares import ShareNode
from jedi.taskbuffer.db.engine import prepared
from jedi.taskbuffer.db.planning import EITHER_WAY
from jedi.taskbuffer.db.statement import answers
from jedi.taskbuffer.scheduling.shares import JOBS, SHARE

PAUSES, SAVED_S = 50, 5.0
"""The part of its time, one in so many, that a process spends on reading what queues use: where
that takes 0.4 ms, 50 reads a second. Time without requests is saved, up to 5 s of it: for 250 reads
at once, since ends of jobs show only there."""

_prepared = prepared(
    "Any plan reads all of job_stats and its deltas, and queues by key.", EITHER_WAY
)
# Queues with jobs are active, whatever the last run of the shares found.
_USE = answers(_prepared)(f"""
WITH {JOBS}
SELECT json_agg(json_build_array(q.queue_name, q.queue_id, q.partitionid, {SHARE},
  q.stretchable IS NOT DISTINCT FROM 1,
  coalesce(s.active, false) OR coalesce(j.running + j.queued, 0) > 0, coalesce(j.running, 0)))
FROM jedi_work_queue q LEFT JOIN jobs j USING (queue_id)
  LEFT JOIN jedi_queue_shares s USING (queue_id)
WHERE q.status = 'active'
""")

UNBOUNDED = 2**31 - 1
_NO_LIMIT = {name: 0 if name.startswith("min_") else UNBOUNDED for name in Resources.model_fields}


class Head(NamedTuple):
    """A share at a site, with the priority and the number of its first job there."""

    gshare: str
    priority: int
    panda_id: int


Heads = dict[str, list[Head]]
"""Shares that have jobs, by sites."""


class Charges:
    """The account of a process and its threads. Two processes do not see each other's jobs for
    as long as PAUSES says: meanwhile a queue gets up to a job too many from each, or as often what
    it was behind by."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.dealing = Dealing()
        self.queues: dict[str, int] = {}
        self._due = 0.0
        self._open: list[Deals] = []

    def refresh(self, tx: Connection) -> None:
        """Read the use of queues, if it is time."""
        if (began := clock.monotonic()) <= self._due:
            return
        found = _USE.value(tx) or ()
        dealing = Dealing([ShareNode(*row) for _, *row in found])
        self._due = max(self._due, began - SAVED_S) + PAUSES * (clock.monotonic() - began)
        with self.lock:
            self.dealing = dealing
            self.queues = {name: queue for name, queue, *_ in found}
            for deals in self._open:
                self._charge(deals.planned, 1)

    @contextmanager
    def deals(self) -> Iterator[Deals]:
        """Jobs that one statement hands out: charged as planned at once, as they are in the end."""
        deals = Deals(self)
        self._open.append(deals)
        try:
            yield deals
        finally:
            with self.lock:
                self._open.remove(deals)
                self._charge(deals.planned, -1)
                self._charge(deals.real, 1)

    def _charge(self, cores: Mapping[int | None, int], times: int) -> None:
        for queue, some in cores.items():
            self.dealing.charge(queue, times * some)


class Deals:
    """Cores of work queues that a statement is to hand out, and those that it handed out."""

    def __init__(self, charges: Charges) -> None:
        self._charges = charges
        self._dealt: dict[str, list[tuple[int, int]]] = {}
        self._spare: dict[str, int] = {}
        self.planned: dict[int | None, int] = defaultdict(int)
        self.real: dict[int | None, int] = defaultdict(int)

    def slot(
        self, site: str, size: Resources, heads: Sequence[Head], n: int, *, spare: bool
    ) -> dict[str, Any]:
        """A site's slot, and the shares that its next `n` jobs come from, in their order: `mosts`
        of each; with `spare`, then of each all `but` those, for shares that have less."""
        queues = [self._charges.queues.get(head.gshare) for head in heads]
        cores = max(1, size.min_cores)
        with self._charges.lock:
            dealt = self._charges.dealing.deal(queues, n, cores)
            for i, count in dealt:
                self.planned[queues[i]] += count * cores
        parts = [(heads[i], count, 0) for i, count in dealt if count]
        if spare:
            parts += [(heads[i], n, count) for i, count in dealt if n > count]
            self._spare[site] = n
        self._dealt[site] = dealt
        return {
            "site": site,
            "shares": [head.gshare for head, _, _ in parts],
            "priorities": [head.priority for head, _, _ in parts],
            "firsts": [head.panda_id for head, _, _ in parts],
            "mosts": [most for _, most, _ in parts],
            "buts": [but for _, _, but in parts],
            **{name: most or _NO_LIMIT[name] for name, most in vars(size).items()},
        }

    def given(self, site: str, cores: int, share: str, queue: int) -> tuple[str, str]:
        """Note a job that was handed out, and the work queue of its task. Returns its place."""
        self.real[self._charges.queues.get(share, queue)] += cores
        return site, share

    def left(self, site: str, heads: list[Head], got: Mapping[tuple[str, str], int]) -> list[Head]:
        """The shares that may have more jobs: they gave as many as they were to give, and all of
        them enough. `heads` itself if those are all."""
        places = [(site, head.gshare) for head in heads]
        if (spare := self._spare.get(site)) and sum(got.get(one, 0) for one in places) < spare:
            return []
        short = {i for i, count in self._dealt[site] if count and count > got.get(places[i], 0)}
        return [one for i, one in enumerate(heads) if i not in short] if short else heads
