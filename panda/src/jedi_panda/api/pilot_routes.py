"""The calls of PanDA's pilots: /server/panda/..., and the documents and scripts that they fetch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jedi.agent.base import World
from jedi.api.application import Application
from jedi.api.authentication import Caller, PilotAuthentication
from jedi.api.memory.pilot_groups import PilotGroups
from jedi.core.errors import NotFound
from jedi.ddm.interface import DDM
from jedi.service.pilots import pilot_requests
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.sites import panda_queues
from jedi_panda import transformations
from jedi_panda.api.harvester_routes import add_harvester_routes
from jedi_panda.api.job_dictionary import (
    SANDBOXES,
    TRANSFORMATIONS,
)
from jedi_panda.api.pilot_bodies import CallFields
from jedi_panda.api.pilot_door import OK, PilotDoor, SmallWork, Work
from jedi_panda.api.pilot_jobs import PandaEventCalls, PandaJobs, first_of
from jedi_panda.api.pilot_updates import job_ids
from jedi_panda.api.queue_documents import queue_document, storage_document
from jedi_panda.service import panda_pilots

LEGACY = "/server/panda"
SCRIPTS = ("jedi-run", "jedi-command")
"""The scripts that payloads fetch, by name, in transformations/."""

_SHELL = "text/x-python"


def add_pilot_routes(
    app: Application,
    world: World,
    authentication: PilotAuthentication,
    fresh: Callable[[], World],
    ddm: Callable[[], DDM],
    groups: PilotGroups,
) -> None:
    """Add the routes of PanDA's pilots."""
    jobs, events = PandaJobs(world, fresh, ddm, groups), PandaEventCalls(world)
    door = PilotDoor(authentication, world.log)

    def call(name: str, work: Work, *, again: bool, soon: SmallWork | None = None) -> None:
        async def endpoint(request: Request) -> Response:
            return await door.answer(request, work, again=again, soon=soon)

        for method in ("POST", "GET"):
            app.route(method, f"{LEGACY}/{name}", f"panda {name}")(endpoint)

    def get_job(request: Request, caller: Caller, fields: CallFields) -> CallFields:
        return first_of(jobs.dictionaries(request, caller, fields, 1))

    def update_job(_request: Request, caller: Caller, fields: CallFields) -> CallFields:
        return jobs.update(caller, fields)

    def get_status(_request: Request, caller: Caller, fields: CallFields) -> CallFields:
        ids = job_ids(fields)
        with at_once(world.engine) as tx:
            found = panda_pilots.statuses(tx, caller.confirm(tx), ids)
        return {
            "StatusCode": OK,
            "status": ",".join(status for status, _ in found),
            "attemptNr": ",".join(str(attempt) for _, attempt in found),
        }

    def note_worker(_request: Request, caller: Caller, _fields: CallFields) -> CallFields:
        caller.confirm_in(world.engine)  # JEDI counts pilots by their jobs
        return {"StatusCode": OK}

    call("getJob", get_job, again=False, soon=jobs.one_soon)
    call("getEventRanges", lambda _r, caller, fields: events.get(caller, fields), again=False)
    call("updateEventRanges", lambda _r, caller, fields: events.update(caller, fields), again=True)
    call("updateJob", update_job, again=True, soon=jobs.update_soon)
    call("getStatus", get_status, again=False)
    call("updateWorkerPilotStatus", note_worker, again=False)
    add_harvester_routes(app, world, authentication, jobs, events)
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
                found = panda_queues.QUEUE.row(tx, site=site)
            if found is None:
                raise NotFound(f"There is no queue {site}.", code="not_found", site=site)
            return queue_document(found)

        return JSONResponse(await to_thread.run_sync(find))

    @app.route("GET", "/cache/ddmendpoints.json", "panda storages")
    async def storages(_request: Request) -> Response:
        def find() -> dict[str, Any]:
            ddm, documents = fresh().ddm, {}
            with at_once(world.engine) as tx:
                found = panda_queues.STORAGES.rows(tx)
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
                return pilot_requests.sandbox_of(tx, sha256)

        return Response(cast(bytes, await to_thread.run_sync(get)), media_type="application/gzip")
