"""Ranges of events for consumers that pilots of PanDA run. They name a job alone; its attempt is
the last one that a pilot of the site got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, Engine

from jedi.api.memory.range_desk import RangeDesk
from jedi.model.jobs.event_wire import ConsumerReports, RangeAsks
from jedi.service.pilots import event_ranges
from jedi.service.pilots.pilot_requests import Answer, pilot_site
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.jobs import panda_attempts
from jedi.taskbuffer.sites import panda_queues
from jedi.taskbuffer.users.users import Identity


class PandaEvents:
    """Ranges of events, by the means of this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._memory = ConsumerMemory()
        self._desk = RangeDesk(engine, self._memory)

    def lock_seqs(self, who: Identity, panda_ids: Sequence[int]) -> Mapping[int, int]:
        """The last attempts of jobs of the site, by PandaID."""
        with at_once(self._engine) as tx:
            found = panda_attempts.standings(tx, pilot_site(who), panda_ids)
        return {one.panda_id: one.lock_seq for one in found.values()}

    def endpoints(self, who: Identity) -> Sequence[str]:
        """The endpoints where the site writes, the usual one first."""
        with at_once(self._engine) as tx:
            queue = panda_queues.QUEUE.row(tx, site=pilot_site(who))
        return queue.writes if queue else ()

    def acquire(self, who: Identity, asked: RangeAsks) -> Answer:
        """Return ranges for consumers."""
        return self._desk.acquire(who, asked)

    def report(self, tx: Connection, who: Identity, said: ConsumerReports) -> Answer:
        """Record results of ranges."""
        return event_ranges.report(tx, who, said.reports, self._memory)
