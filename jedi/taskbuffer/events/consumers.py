"""Consumers of ranges, as a process of the service remembers them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import returns

MOST = 100_000
"""Consumers, and places, that a process remembers."""

Place = tuple[int, int, int]
"""Job set, file and first event of a range: the order in which ranges are handed out."""


class KnownConsumer(NamedTuple):
    """A consumer; `jobset_id` None: it takes ranges of any job set of its task (jumbo)."""

    panda_id: int
    jedi_task_id: int
    jobset_id: int | None

    @property
    def pool(self) -> tuple[int, int]:
        """The ranges that it takes: those of its task and job set; a jumbo job, whose number is
        negative here, takes those of the job sets before it, whose inputs it has."""
        return self.jedi_task_id, self.jobset_id or -self.panda_id


_CONSUMERS = returns(KnownConsumer)("""
SELECT pandaid, jeditaskid, jobsetid
FROM jedi_consumers WHERE pandaid = ANY(CAST(:ids AS bigint[]))
""")


class ConsumerMemory:
    """A process's memory of consumers, whose facts never change, and of the places where their
    next ranges are.

    Beside an old snapshot an index keeps the entry of each range that was ever ready: who began
    at the first one each time would read them all.
    """

    def __init__(self) -> None:
        self._known: dict[int, KnownConsumer] = {}
        self._places: dict[tuple[int, int], Place] = {}

    def consumers(self, tx: Connection, panda_ids: Iterable[int]) -> dict[int, KnownConsumer]:
        """The jobs among these that are consumers."""
        known = self._known  # other threads may begin another one
        wanted = list(panda_ids)
        if unknown := [one for one in wanted if one not in known]:
            if len(known) > MOST:
                self._known = known = {one: known[one] for one in wanted if one in known}
            found = _CONSUMERS.rows(tx, ids=unknown)
            known.update((one.panda_id, one) for one in found)
        return {one: known[one] for one in wanted if one in known}

    def place(self, pool: tuple[int, int]) -> Place:
        """The place from which to look for the next ranges of a pool."""
        return self._places.get(pool, (pool[1], 0, 0))

    def note(self, pool: tuple[int, int], last: Place) -> None:
        """Remember that ranges of a pool up to the place `last` were handed out."""
        if len(self._places) > MOST:
            self._places.clear()
        self._places[pool] = last
