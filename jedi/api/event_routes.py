"""The routes of consumers: ranges of events, and reports on them; and of merge jobs: pieces."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from jedi.agent.base import World
from jedi.api.application import Application
from jedi.api.authentication import Caller, PilotAuthentication
from jedi.api.memory.range_desk import RangeDesk
from jedi.api.openapi import ALWAYS, KNOWN, SENT, says
from jedi.model.jobs.event_wire import ConsumerReports, PieceAsk, RangeAsks
from jedi.service.pilots import event_pieces, event_ranges
from jedi.service.pilots.pilot_requests import Answer
from jedi.taskbuffer.events.consumers import ConsumerMemory

ASKS_MAX = 2**18
REPORTS_MAX = 24 * 2**20
"""Maximum bytes of reports: 100,000 ranges, each with its endpoint, have 15 MB."""


def add_event_routes(app: Application, world: World, door: PilotAuthentication) -> None:
    """Add the routes of consumers and merge jobs."""
    memory = ConsumerMemory()
    desk = RangeDesk(world.engine, memory)
    sent = (*ALWAYS, *KNOWN, *SENT)

    @app.route("POST", "/v1/pilot/event_ranges", "pilot event_ranges", says(*sent, body=RangeAsks))
    async def ranges(request: Request) -> Response:
        def give(caller: Caller, asked: RangeAsks) -> Answer:
            return desk.acquire(caller.confirm_in(world.engine), asked)

        return await door.answer(request, RangeAsks, ASKS_MAX, give)

    @app.route(
        "POST", "/v1/pilot/event_reports", "pilot event_reports", says(*sent, body=ConsumerReports)
    )
    async def report(request: Request) -> Response:
        def note(caller: Caller, said: ConsumerReports) -> Answer:
            with world.engine.begin() as tx:
                return event_ranges.report(tx, caller.confirm(tx), said.reports, memory)

        return await door.answer(request, ConsumerReports, REPORTS_MAX, note)

    @app.route("POST", "/v1/pilot/event_pieces", "pilot event_pieces", says(*sent, body=PieceAsk))
    async def pieces(request: Request) -> Response:
        def give(caller: Caller, asked: PieceAsk) -> Answer:
            with world.engine.begin() as tx:
                return event_pieces.some(tx, caller.confirm(tx), asked, world.ddm)

        return await door.answer(request, PieceAsk, ASKS_MAX, give)
