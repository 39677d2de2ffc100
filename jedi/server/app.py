"""The whole service, put together: routes for pilots, operations, wires and pages, over service/.

Each answers in a thread, which waits for the database (jedi/api/authentication.py).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import copy
from dataclasses import asdict
from functools import cache, partial
from typing import Any

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jedi.agent.base import World
from jedi.api.application import Application
from jedi.api.authentication import AnswerForm, Caller, PilotAuthentication
from jedi.api.event_routes import add_event_routes
from jedi.api.health import DatabaseWatch, SharedQuestion
from jedi.api.identity import CallerAuthentication
from jedi.api.knobs import CurrentKnobs
from jedi.api.memory.combiner import Combiner
from jedi.api.memory.pilot_groups import PilotGroups, acquiring, by_sites
from jedi.api.metrics import Metrics, is_local
from jedi.api.observation import Observation
from jedi.api.openapi import ALWAYS, KNOWN, SENT, document, says
from jedi.api.operations import add_operations
from jedi.api.rates import WrongTokens
from jedi.api.wires import Service, add_wires
from jedi.core import clock
from jedi.core.knobs.service import OidcKnobs
from jedi.ddm.interface import DDM
from jedi.model.jobs.event_wire import ConsumerReports, PieceAsk, RangeAsks
from jedi.model.jobs.wire import AcquireRequest, Beats, LogEntries, Reports
from jedi.monitor.acting import add_actions
from jedi.monitor.code_flow import CodeFlow
from jedi.monitor.login import LoginWays
from jedi.monitor.routes import add_monitor
from jedi.service.pilots import pilot_requests
from jedi.service.pilots.pilot_requests import Answer, Orders
from jedi.service.users import oidc
from jedi.taskbuffer.db.engine import at_once, connect, limit_statements
from jedi.taskbuffer.db.sessions import follow_work
from jedi.taskbuffer.schema.release import this_release

REFRESH_S = 5.0
"""Knobs and endpoints are at most this old."""

BODY_MAX = 16 * 2**20
"""Maximum bytes of a request. A job's report with the longest tail and the most metadata has 0.2
MB."""

ACQUIRE_MAX = 2**18
FEW_JOBS = 10
"""Jobs of an answer that takes less time to write than a thread to begin."""

HEARTBEAT_MAX = 2**20
"""Maximum bytes of heartbeats: a thousand with all figures have 0.4 MB."""


class CurrentContext:
    """The world, with knobs and data management as they were at most REFRESH_S ago."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._lock = threading.Lock()
        self._until = 0.0

    def __call__(self) -> World:
        with self._lock:
            if clock.monotonic() >= self._until:
                self._world.refresh()
                self._until = clock.monotonic() + REFRESH_S
        return self._world

    def ddm(self) -> DDM:
        """Data management as it is now."""
        with self._lock:
            self._until = 0.0
        return self().ddm


def create_app(world: World, connections: Callable[[], int] = lambda: 0) -> Application:
    """The application over a database and the data management it configures; `connections` counts
    those that are open."""
    pilots_world = _of_pilots(world)
    fresh, knobs, release = CurrentContext(pilots_world), CurrentKnobs(world), this_release()
    engines = (world.engine, pilots_world.engine)
    metrics = Metrics(engines, connections)
    app = Application(Observation(metrics, knobs, world.log), world.log)
    app.state.database = database = DatabaseWatch(world, engines, release)
    follow_work(world.engine)

    def provider() -> OidcKnobs:
        return fresh().knobs.oidc

    @app.route("GET", "/v1/login", "login", says(*ALWAYS, token=False))
    async def ways_to_log_in(_request: Request) -> Response:
        facts = oidc.login_facts(await to_thread.run_sync(provider))
        return JSONResponse(asdict(facts), headers={"Cache-Control": "no-cache"})

    wrong_tokens = WrongTokens(knobs)
    authentication = CallerAuthentication(world.engine, provider, wrong_tokens, world.log)
    _itself(app, database.readiness, metrics, knobs, authentication)
    engine = pilots_world.engine
    door = PilotAuthentication(engine, release, database.must_answer, wrong_tokens)
    groups = PilotGroups(
        Combiner(acquiring(pilots_world, fresh, fresh.ddm)),
        Combiner(by_sites(engine.begin, pilot_requests.report_all)),
        Combiner(by_sites(partial(at_once, engine), pilot_requests.heartbeat_all)),
    )
    _pilots(app, pilots_world, door, fresh, groups)
    add_event_routes(app, pilots_world, door)
    operations = add_operations(app, world, authentication, knobs, release, database.must_answer)
    add_wires(Service(app, operations, provider, pilots_world, door, groups, fresh, fresh.ddm))
    LoginWays(operations, CodeFlow(provider, world.log), wrong_tokens, world.log).add_to(app)
    add_monitor(app, operations, world.log)
    add_actions(app, operations, world.log)
    bodies = (AcquireRequest, Reports, Beats, LogEntries, RangeAsks, ConsumerReports, PieceAsk)

    @cache
    def described() -> bytes:  # to make it takes a third of a second
        return bytes(JSONResponse(document(app.routes, bodies)).body)

    @app.route("GET", "/openapi.json", "document")
    async def openapi(_request: Request) -> Response:
        return Response(await to_thread.run_sync(described), media_type="application/json")

    return app


def _of_pilots(world: World) -> World:
    """The same world with connections for pilots alone: people can't use them up."""
    url = world.engine.url.render_as_string(hide_password=False)
    engine = connect(url, "jedi api pilots")
    limit_statements(engine, lambda: world.knobs.api.statement_s)
    found = copy(world)  # with its data management
    found.engine = engine
    return found


def _itself(
    app: Application,
    ready: SharedQuestion[None],
    metrics: Metrics,
    knobs: CurrentKnobs,
    authentication: CallerAuthentication,
) -> None:
    """Add the routes that show the state of the service itself."""
    ok = b'{"status":"ok"}'

    @app.route("GET", "/health", "health", says(500, token=False))
    async def health(_request: Request) -> Response:
        return Response(ok, media_type="application/json")

    @app.route("GET", "/ready", "ready", says(*ALWAYS, token=False))
    async def is_ready(_request: Request) -> Response:
        await ready()
        return Response(ok, media_type="application/json")

    @app.route("GET", "/metrics", "metrics", says(*ALWAYS, *KNOWN, token=None, answer="text/plain"))
    async def figures(request: Request) -> Response:
        known = "authorization" in request.headers
        if known or not (is_local(request) or knobs().api.metrics_open == "on"):
            request.state.caller = (await authentication(request)).user_name
        return await metrics.answer()


def _pilots(
    app: Application,
    world: World,
    door: PilotAuthentication,
    fresh: CurrentContext,
    groups: PilotGroups,
) -> None:
    once = partial(at_once, world.engine)
    sent = (*ALWAYS, *KNOWN, *SENT)

    def jobs(orders: Orders) -> Answer:
        return pilot_requests.answer_of(orders, fresh().knobs)

    slot = AnswerForm[AcquireRequest, AcquireRequest, Orders](
        lambda asked: asked, jobs, lambda asked: asked.n > FEW_JOBS
    )
    ends = AnswerForm[Reports, Any, Answer](lambda said: said.reports, lambda done: done)
    alive = AnswerForm[Beats, Any, Answer](lambda said: said.beats, lambda done: done)

    @app.route("POST", "/v1/pilot/acquire", "pilot acquire", says(*sent, 409, body=AcquireRequest))
    async def acquire(request: Request) -> Response:
        return await door.answer_together(
            request, AcquireRequest, ACQUIRE_MAX, groups.acquires, slot
        )

    @app.route("POST", "/v1/pilot/report", "pilot report", says(*sent, body=Reports))
    async def report(request: Request) -> Response:
        return await door.answer_together(request, Reports, BODY_MAX, groups.reports, ends)

    @app.route("POST", "/v1/pilot/heartbeat", "pilot heartbeat", says(*sent, body=Beats))
    async def heartbeat(request: Request) -> Response:
        return await door.answer_together(request, Beats, HEARTBEAT_MAX, groups.beats, alive)

    @app.route("POST", "/v1/pilot/log", "pilot log", says(*sent, body=LogEntries))
    async def log(request: Request) -> Response:
        def keep(caller: Caller, message: LogEntries) -> Answer:
            with once() as tx:
                return pilot_requests.log(tx, caller.confirm(tx), message.entries)

        return await door.answer(request, LogEntries, BODY_MAX, keep)

    archive = says(*ALWAYS, *KNOWN, 404, answer="application/gzip")

    @app.route("GET", "/v1/sandbox/{sha256}", "pilot sandbox", archive)
    async def sandbox(request: Request) -> Response:
        caller, sha256 = await door.who(request), request.path_params["sha256"]

        def get() -> bytes:
            with once() as tx:
                return pilot_requests.sandbox(tx, caller.confirm(tx), sha256)

        return Response(await to_thread.run_sync(get), media_type="application/gzip")
