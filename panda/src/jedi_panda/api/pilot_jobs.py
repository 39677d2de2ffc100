"""Jobs and ranges of events for pilots of PanDA, by the means of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request

from jedi.agent.base import World
from jedi.api.authentication import Caller
from jedi.api.memory.pilot_groups import PilotGroups
from jedi.core.errors import JediError
from jedi.ddm.interface import DDM
from jedi.model.jobs.wire import AcquireRequest, Report
from jedi.service.pilots.pilot_requests import Orders
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.dispatch import BEGINS
from jedi.taskbuffer.jobs.dispatch_cache import DispatchCache
from jedi.taskbuffer.users.users import Identity
from jedi_panda.api import pilot_events
from jedi_panda.api.job_dictionary import PARAMETERS_MAX, TooLongCommand, job_dictionary
from jedi_panda.api.pilot_bodies import CallFields
from jedi_panda.api.pilot_door import OK, no_job
from jedi_panda.api.pilot_updates import COMMANDS, slot_of, update_of
from jedi_panda.service import panda_pilots
from jedi_panda.service.panda_events import PandaEvents
from jedi_panda.service.panda_pilots import (
    AttemptEnd,
    GivenJob,
    PilotCommand,
    PilotMemory,
    PilotUpdate,
)

COLLECTORS = 4
"""Threads that collect outputs of jobs."""


class PandaJobs:
    """The jobs of pilots of PanDA, by the means of this process."""

    def __init__(
        self,
        world: World,
        fresh: Callable[[], World],
        ddm: Callable[[], DDM],
        groups: PilotGroups,
    ) -> None:
        self._world = world
        self._groups = groups
        self._collectors = CapacityLimiter(COLLECTORS)
        self._fresh = fresh
        self._ddm = ddm
        self._first_waiting = DispatchCache()
        self._memory = PilotMemory()

    def dictionaries(
        self, request: Request, caller: Caller, fields: CallFields, n: int
    ) -> list[CallFields]:
        """Return the dictionaries of up to `n` jobs for the slot in the fields of getJob."""
        asked = slot_of(fields, n)
        who = caller.confirm_in(self._world.engine)
        if self._world.settings.draining.exists():  # `jedi down` waits for what is running
            return []
        return self._dictionaries(request, who, asked, None)

    async def one_soon(
        self, request: Request, caller: Caller, fields: CallFields
    ) -> CallFields | None:
        """The dictionary of one job, taken together with requests of other pilots."""
        asked = slot_of(fields)
        orders = await self._groups.acquires.done((caller, asked))
        if not orders:
            return first_of([])
        who = Identity("pilot", asked.site, None)
        found = await to_thread.run_sync(self._dictionaries, request, who, asked, orders)
        return first_of(found)

    def _dictionaries(
        self, request: Request, who: Identity, asked: AcquireRequest, taken: Orders | None
    ) -> list[CallFields]:
        """The dictionaries of jobs, of `taken` ones first."""
        now = self._fresh()
        given = panda_pilots.give(
            now.engine,
            now.ddm,
            now.knobs,
            who,
            asked,
            self._memory,
            self._ddm,
            self._first_waiting,
            taken,
        )
        found, base = [], base_of(request, now.knobs.api.panda_url)
        for one in given:
            try:
                found.append(job_dictionary(one, base))
            except TooLongCommand:
                self._refuse(one)
        return found

    def _refuse(self, given: GivenJob) -> None:
        said = (
            f"Pilots of PanDA take a command of {PARAMETERS_MAX} characters at most, encoded, with "
            "the files made for it. Put it into a script of the sandbox."
        )
        with self._world.engine.begin() as tx:
            report = panda_pilots.failed(given.job, JediError(said, code="panda_unfit"))
            dispatch.accept_reports(tx, given.job.site, [report])

    def update(self, caller: Caller, fields: CallFields) -> CallFields:
        """Record an update; return the answer of updateJob."""
        said = update_of(fields)
        command = panda_pilots.update(
            self._world.engine, self._fresh().ddm, caller.confirm, said, self._memory
        )
        return _commanded(command)

    async def update_soon(
        self, _request: Request, caller: Caller, fields: CallFields
    ) -> CallFields | None:
        """The same, together with updates of other pilots. None: this one can't be."""
        said = update_of(fields)
        if said.lock_seq is None:
            return None
        attempt = (said.panda_id, said.lock_seq)
        if said.state not in BEGINS:
            return await self._end(caller, attempt, said)
        if not self._memory.runs(attempt):
            if said.stdout:
                return None
            stands = await self._report(caller, panda_pilots.begin_of(attempt, said))
            if stands is None:
                return _commanded("kill")
            if stands == "running":
                self._memory.note_running(attempt)
        beat = panda_pilots.beat_of(attempt, said)
        return _commanded(panda_pilots.command_of(await self._groups.beats.done((caller, [beat]))))

    async def _end(self, caller: Caller, attempt: tuple[int, int], said: PilotUpdate) -> CallFields:
        def collect() -> AttemptEnd:
            return panda_pilots.end_of(
                self._world.engine, self._fresh().ddm, caller.confirm, attempt, said, self._memory
            )

        def drop() -> None:
            for place in end.places:
                panda_pilots.drop_exchange(place)

        end = await to_thread.run_sync(collect, limiter=self._collectors)
        stands = await self._report(caller, end.report)
        await to_thread.run_sync(drop, limiter=self._collectors)
        return _commanded("kill" if stands is None else "none")

    async def _report(self, caller: Caller, report: Report) -> str | None:
        return panda_pilots.stands_of(await self._groups.reports.done((caller, [report])))


def first_of(found: Sequence[CallFields]) -> CallFields:
    """The answer of getJob."""
    return found[0] if found else dict(no_job("no jobs in PanDA"))


def _commanded(command: PilotCommand) -> CallFields:
    return {"StatusCode": OK, "command": COMMANDS[command]}


class PandaEventCalls:
    """The calls of consumers of ranges."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._events = PandaEvents(world.engine)

    def get(self, caller: Caller, fields: CallFields) -> CallFields:
        """Ranges for a consumer."""
        return {"StatusCode": OK, "eventRanges": self.ranges(caller, pilot_events.ask_of(fields))}

    def ranges(self, caller: Caller, ask: pilot_events.EventAsk) -> list[CallFields]:
        """Ranges in PanDA's form; none for a job that the site does not have."""
        who = caller.confirm_in(self._world.engine)
        lock_seq = self._events.lock_seqs(who, [ask.panda_id]).get(ask.panda_id)
        if lock_seq is None:
            return []
        return pilot_events.given(self._events.acquire(who, pilot_events.asks(ask, lock_seq)))

    def update(self, caller: Caller, fields: CallFields) -> CallFields:
        """Record results of ranges."""
        who = caller.confirm_in(self._world.engine)
        said = pilot_events.update_of(fields, self._events.endpoints(who))
        reports = said.reports(self._events.lock_seqs(who, said.panda_ids))
        with self._world.engine.begin() as tx:
            return said.answer(self._events.report(tx, who, reports)["answers"])


def base_of(request: Request, url: str) -> str:
    """The URL of the service for a pilot: knob api.panda_url, or the host that it asked."""
    if url:
        return url.rstrip("/")
    return f"{request.scope['scheme']}://{request.headers.get('host', 'localhost')}"
