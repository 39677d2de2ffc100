"""The calls of PanDA's pilots: /server/panda/..., and the documents and scripts that they fetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jedi import transformations
from jedi.agent.base import World
from jedi.api.application import Application
from jedi.api.authentication import Caller, PilotAuthentication
from jedi.api.panda import pilot_events
from jedi.api.panda.job_dictionary import (
    PARAMETERS_MAX,
    SANDBOXES,
    TRANSFORMATIONS,
    TooLongCommand,
    job_dictionary,
)
from jedi.api.panda.pilot_bodies import CallFields
from jedi.api.panda.pilot_door import OK, PilotDoor, Work, no_job
from jedi.api.panda.pilot_updates import COMMANDS, job_ids, slot_of, update_of
from jedi.api.panda.queue_documents import queue_document, storage_document
from jedi.core.errors import JediError, NotFound
from jedi.ddm.interface import DDM
from jedi.service import panda_pilots
from jedi.service.panda_events import PandaEvents
from jedi.service.panda_pilots import GivenJob, PilotMemory
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.first_waiting import FirstWaiting
from jedi.taskbuffer.sites import panda_queues

LEGACY = "/server/panda"
SCRIPTS = ("jedi-run", "jedi-command")
"""The scripts that payloads fetch, by name, in jedi/transformations."""

_SHELL = "text/x-python"


class PandaJobs:
    """The jobs of pilots of PanDA, by the means of this process."""

    def __init__(self, world: World, fresh: Callable[[], World], ddm: Callable[[], DDM]) -> None:
        self._world = world
        self._fresh = fresh
        self._ddm = ddm
        self._first_waiting = FirstWaiting()
        self._memory = PilotMemory()

    def dictionaries(
        self, request: Request, caller: Caller, fields: CallFields, n: int
    ) -> list[CallFields]:
        """Return the dictionaries of up to `n` jobs for the slot in the fields of getJob."""
        asked = slot_of(fields, n)
        who = caller.confirm_in(self._world.engine)
        now = self._fresh()
        if self._world.settings.draining.exists():  # `jedi down` waits for what is running
            return []
        given = panda_pilots.give(
            now.engine, now.ddm, now.knobs, who, asked, self._memory, self._ddm,
            self._first_waiting,
        )  # fmt: skip
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
        who = caller.confirm_in(self._world.engine)
        command = panda_pilots.update(
            self._world.engine, self._fresh().ddm, who, said, self._memory
        )
        return {"StatusCode": OK, "command": COMMANDS[command]}


class PandaEventCalls:
    """The calls of consumers of ranges."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._events = PandaEvents(world.engine)

    def get(self, _request: Request, caller: Caller, fields: CallFields) -> CallFields:
        """Ranges for a consumer."""
        return {"StatusCode": OK, "eventRanges": self.ranges(caller, pilot_events.ask_of(fields))}

    def ranges(self, caller: Caller, ask: pilot_events.EventAsk) -> list[CallFields]:
        """Ranges in PanDA's form; none for a job that the site does not have."""
        who = caller.confirm_in(self._world.engine)
        lock_seq = self._events.lock_seqs(who, [ask.panda_id]).get(ask.panda_id)
        if lock_seq is None:
            return []
        return pilot_events.given(self._events.acquire(who, pilot_events.asks(ask, lock_seq)))

    def update(self, _request: Request, caller: Caller, fields: CallFields) -> CallFields:
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
    return f"{request.url.scheme}://{request.headers.get('host', 'localhost')}"


def add_pilot_routes(
    app: Application,
    world: World,
    authentication: PilotAuthentication,
    fresh: Callable[[], World],
    ddm: Callable[[], DDM],
) -> None:
    """Add the routes of PanDA's pilots."""
    jobs = PandaJobs(world, fresh, ddm)
    door = PilotDoor(authentication, world.log)

    def call(name: str, work: Work, *, again: bool) -> None:
        async def endpoint(request: Request) -> Response:
            return await door.answer(request, work, again=again)

        for method in ("POST", "GET"):
            app.route(method, f"{LEGACY}/{name}", f"panda {name}")(endpoint)

    def get_job(request: Request, caller: Caller, fields: CallFields) -> CallFields:
        found = jobs.dictionaries(request, caller, fields, 1)
        return found[0] if found else dict(no_job("no jobs in PanDA"))

    def update_job(_request: Request, caller: Caller, fields: CallFields) -> CallFields:
        return jobs.update(caller, fields)

    def get_status(_request: Request, caller: Caller, fields: CallFields) -> CallFields:
        ids = job_ids(fields)
        with at_once(world.engine) as tx:
            found = panda_pilots.statuses(tx, caller.confirm(tx), ids)
        return {"StatusCode": OK, "status": ",".join(status for status, _ in found),
                "attemptNr": ",".join(str(attempt) for _, attempt in found)}  # fmt: skip

    def note_worker(_request: Request, caller: Caller, _fields: CallFields) -> CallFields:
        caller.confirm_in(world.engine)  # JEDI counts pilots by their jobs
        return {"StatusCode": OK}

    events = PandaEventCalls(world)
    call("getJob", get_job, again=False)
    call("getEventRanges", events.get, again=False)
    call("updateEventRanges", events.update, again=True)
    call("updateJob", update_job, again=True)
    call("getStatus", get_status, again=False)
    call("updateWorkerPilotStatus", note_worker, again=False)
    _add_documents(app, world, fresh)
    _add_scripts(app, world)


def _add_documents(app: Application, world: World, fresh: Callable[[], World]) -> None:
    """Add the documents of queues and storages, which anybody may read, as PanDA's."""

    @app.route("GET", "/cache/schedconfig/{name}", "panda queue")
    async def queue(request: Request) -> Response:
        name: str = request.path_params["name"]
        site = name.removesuffix(".json").removesuffix(".all")

        def find() -> dict[str, Any]:
            with at_once(world.engine) as tx:
                found = panda_queues.queue(tx, site)
            if found is None:
                raise NotFound(f"There is no queue {site}.", code="not_found", site=site)
            return queue_document(found)

        return JSONResponse(await to_thread.run_sync(find))

    @app.route("GET", "/cache/ddmendpoints.json", "panda storages")
    async def storages(_request: Request) -> Response:
        def find() -> dict[str, Any]:
            ddm, documents = fresh().ddm, {}
            with at_once(world.engine) as tx:
                found = panda_queues.storages(tx)
            for one in found:
                try:
                    place = ddm.exchange_where(one.endpoint)
                except NotFound:  # it is not mounted here
                    continue
                documents[one.endpoint] = storage_document(one, place)
            return documents

        return JSONResponse(await to_thread.run_sync(find))


def _add_scripts(app: Application, world: World) -> None:
    """Add the scripts of payloads and their sandboxes. Payloads have no token: only those that know
    its sha256 get a sandbox."""

    @app.route("GET", f"{TRANSFORMATIONS}/{{name}}", "panda transformation")
    async def transformation(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in SCRIPTS:
            raise NotFound(f"There is no transformation {name}.", code="not_found")
        return Response(transformations.script(name), media_type=_SHELL)

    @app.route("GET", f"{SANDBOXES}/{{sha256}}", "panda sandbox")
    async def sandbox(request: Request) -> Response:
        sha256 = request.path_params["sha256"]

        def get() -> bytes:
            with at_once(world.engine) as tx:
                return panda_pilots.sandbox(tx, sha256)

        return Response(cast(bytes, await to_thread.run_sync(get)), media_type="application/gzip")
