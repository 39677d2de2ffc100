"""The routes: thin over service/. An error is {code, sentence, facts}.

Endpoints are plain functions, which FastAPI runs in threads: they wait for the database.
"""

from __future__ import annotations

import threading
from functools import partial
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as NoConnection
from starlette.exceptions import HTTPException

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.errors import (
    BadInput,
    Forbidden,
    JediError,
    NotFound,
    Problem,
    Refused,
    Unreachable,
)
from jedi.ddm.interface import DDM
from jedi.service import pilots
from jedi.spec.wire import AcquireRequest, Beats, LogEntries, Reports
from jedi.taskbuffer.engine import at_once
from jedi.taskbuffer.heads import Heads

REFRESH_S = 5.0
"""Knobs and endpoints are at most this old."""

BODY_MAX = 64 * 2**20
"""Bytes of a request, which is read before its token is looked at; the longest tails of BATCH_MAX
jobs take 20 MB."""

_STATUS = {BadInput: 422, Forbidden: 403, NotFound: 404, Refused: 409, Unreachable: 503}
_UNKNOWN_CALLER = ("no_token", "bad_token")

Answer = dict[str, Any]
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]


def _token(found: _Credentials) -> str:
    if found is None:
        raise Forbidden("Say who you are: Authorization: Bearer TOKEN.", code="no_token")
    return found.credentials


Token = Annotated[str, Depends(_token)]


class Fresh:
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


def create_app(world: World) -> FastAPI:
    """The application over a database and the data management it configures."""
    app = FastAPI(title="JEDI", docs_url=None, redoc_url=None, max_body_size=BODY_MAX)
    fresh, once, heads = Fresh(world), partial(at_once, world.engine), Heads()

    @app.get("/health")
    def health() -> Answer:
        with once() as tx:
            tx.exec_driver_sql("SELECT 1")
        return {"status": "ok"}

    @app.post("/v1/pilot/acquire")
    def acquire(body: AcquireRequest, token: Token) -> Answer:
        with once() as tx:
            who = pilots.identify(tx, token)
        now = fresh()
        if world.settings.draining.exists():  # `jedi down` waits for what is running
            return {"jobs": [], "wait_s": now.knobs["pilot.poll_s"]}
        return pilots.acquire(now.engine, now.ddm, now.knobs, who, body, fresh.ddm, heads)

    @app.post("/v1/pilot/report")
    def report(body: Reports, token: Token) -> Answer:
        with world.engine.begin() as tx:  # all of it or nothing
            return pilots.report(tx, pilots.identify(tx, token), body.reports)

    @app.post("/v1/pilot/heartbeat")
    def heartbeat(body: Beats, token: Token) -> Answer:
        with once() as tx:
            return pilots.heartbeat(tx, pilots.identify(tx, token), body.beats)

    @app.post("/v1/pilot/log")
    def log(body: LogEntries, token: Token) -> Answer:
        with once() as tx:
            return pilots.log(tx, pilots.identify(tx, token), body.entries)

    @app.get("/v1/sandbox/{sha256}")
    def sandbox(sha256: str, token: Token) -> Response:
        with once() as tx:
            data = pilots.sandbox(tx, pilots.identify(tx, token), sha256)
        return Response(data, media_type="application/gzip")

    _handle_errors(app, world.log)
    return app


def _handle_errors(app: FastAPI, log: Any) -> None:
    @app.exception_handler(JediError)
    def refuse(_request: Request, error: JediError) -> JSONResponse:
        return _answer(_status(error), error)

    @app.exception_handler(RequestValidationError)
    def explain(_request: Request, error: RequestValidationError) -> JSONResponse:
        return _answer(422, BadInput([_problem(one) for one in error.errors()]))

    @app.exception_handler(HTTPException)
    def decline(request: Request, error: HTTPException) -> JSONResponse:
        sentence = f"{request.method} {request.url.path}: {error.detail}."
        return _answer(error.status_code, JediError(sentence, code=f"http_{error.status_code}"))

    @app.exception_handler(NoConnection)
    @app.exception_handler(OperationalError)
    def away(request: Request, error: OperationalError | NoConnection) -> JSONResponse:
        why = str(getattr(error, "orig", error))[:500]
        log.error("database away", path=request.url.path, error=why)
        return _answer(503, Unreachable("The database does not answer. Try again."))

    @app.exception_handler(Exception)
    def broken(request: Request, error: Exception) -> JSONResponse:
        log.error("request failed", path=request.url.path, exc_info=error)
        said = "The service failed; its log says why. Try again."
        return _answer(500, JediError(said, code="internal"))


def _problem(error: dict[str, Any]) -> Problem:
    """What pydantic found, in ASCII: the input may hold what UTF-8 does not."""
    path = ".".join(ascii(part).strip("'") for part in error["loc"][1:])
    return Problem(path, ascii(error.get("input"))[:200], error["msg"], "Correct the request")


def _status(error: JediError) -> int:
    if error.code in _UNKNOWN_CALLER:
        return 401
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def _answer(status: int, error: JediError) -> JSONResponse:
    body = {"code": error.code, "sentence": error.sentence, "facts": error.facts}
    return JSONResponse(jsonable_encoder(body), status_code=status)
