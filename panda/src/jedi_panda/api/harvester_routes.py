"""The calls of harvester: /api/v1/pilot, harvester, metaconfig, statistics and event.
Source: docs/reference/panda.md#harvester."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response

from jedi.agent.base import World
from jedi.api.application import Application
from jedi.api.authentication import Caller, PilotAuthentication
from jedi.api.errors import Busy
from jedi.core.errors import BadInput, JediError, Refused, Unreachable
from jedi.model.jobs.wire import BATCH_MAX
from jedi.taskbuffer.db.engine import at_once
from jedi_panda.api.calls import ROOT
from jedi_panda.api.envelope import PandaReply, refusal
from jedi_panda.api.pilot_bodies import BODY_MAX, CallFields, read_fields
from jedi_panda.api.pilot_door import NO_JOB, OK, sentence_of
from jedi_panda.api.pilot_fields import FieldReader
from jedi_panda.api.pilot_jobs import PandaEventCalls, PandaJobs
from jedi_panda.service import panda_harvester

NAMES = {
    "site_name": "siteName",
    "prod_source_label": "prodSourceLabel",
    "computing_element": "computingElement",
    "memory": "mem",
    "disk_space": "diskSpace",
    "resource_type": "resourceType",
    "remaining_time": "remaining_time",
    "job_id": "jobId",
    "job_status": "state",
    "attempt_nr": "attemptNr",
    "job_output_report": "xml",
    "meta_data": "metaData",
    "job_metrics": "jobMetrics",
    "pilot_error_code": "pilotErrorCode",
    "pilot_error_diag": "pilotErrorDiag",
    "exe_error_code": "exeErrorCode",
    "exe_error_diag": "exeErrorDiag",
    "trans_exit_code": "transExitCode",
    "start_time": "startTime",
    "end_time": "endTime",
    "pilot_timing": "pilotTiming",
    "cpu_consumption_time": "cpuConsumptionTime",
    "max_rss": "maxRSS",
    "max_pss": "maxPSS",
    "tot_rbytes": "totRBYTES",
    "tot_wbytes": "totWBYTES",
}
"""The names of fields in calls of pilots, by harvester's."""

NOTED = (
    "harvester/heartbeat",
    "harvester/update_workers",
    "harvester/report_worker_statistics",
    "harvester/acknowledge_commands",
    "harvester/add_dialogs",
    "harvester/update_service_metrics",
    "pilot/update_worker_status",
    "pilot/update_worker_node",
    "pilot/update_worker_node_gpu",
)
"""Calls with news about workers. JEDI knows pilots by their jobs and keeps none of it."""

SECRETS = ("creds/get_token_key", "creds/get_key_pair", "creds/get_proxy", "creds/get_access_token")
NO_SECRETS = "JEDI keeps no proxies and keys: give the pilot a token of its site by file."


HarvesterWork = Callable[[Request, Caller, CallFields], Any]
AddCall = Callable[[str, str, HarvesterWork], None]


def add_harvester_routes(
    app: Application,
    world: World,
    door: PilotAuthentication,
    jobs: PandaJobs,
    events: PandaEventCalls,
) -> None:
    """Add the calls of harvester, in PanDA's envelope."""

    def call(method: str, path: str, work: HarvesterWork) -> None:
        async def endpoint(request: Request) -> Response:
            caller = await door.who(request)
            async with door.body(request, BODY_MAX) as body:
                return await to_thread.run_sync(_answered, request, caller, bytes(body), work)

        app.route(method, ROOT + path, f"panda {path}")(endpoint)

    def acquire(request: Request, caller: Caller, fields: CallFields) -> Any:
        read = FieldReader(fields)
        n = read.whole("n_jobs", least=1, below=BATCH_MAX + 1)
        read.done()
        found = jobs.dictionaries(request, caller, plain(fields), n or 1)
        if not found:
            return {"StatusCode": NO_JOB, "errorDialog": "no jobs in PanDA", "jobs": []}
        return {"StatusCode": OK, "jobs": found}

    def update(_request: Request, caller: Caller, fields: CallFields) -> Any:
        return jobs.update(caller, plain(fields))

    def update_many(_request: Request, caller: Caller, fields: CallFields) -> Any:
        read = FieldReader(fields)
        some: list[Any] = read.nested("job_list", list)
        if len(some) > BATCH_MAX:
            read.wrong("job_list", f"has more than {BATCH_MAX} jobs")
        read.done()
        return [_enveloped(jobs, caller, one) for one in some]

    def note(_request: Request, caller: Caller, _fields: CallFields) -> Any:
        caller.confirm_in(world.engine)

    def no_secrets(_request: Request, caller: Caller, _fields: CallFields) -> Any:
        caller.confirm_in(world.engine)
        raise Refused(NO_SECRETS, code="not_here")

    call("POST", "pilot/acquire_jobs", acquire)
    call("POST", "pilot/update_job", update)
    call("POST", "pilot/update_jobs_bulk", update_many)
    call("POST", "harvester/acquire_commands", lambda _r, caller, _f: _none(world, caller))
    for path in NOTED:
        call("POST", path, note)
    for path in SECRETS:
        call("GET", path, no_secrets)
    _add_events(events, call)
    _add_questions(world, call)


def _add_events(events: PandaEventCalls, call: AddCall) -> None:
    """Add the calls of consumers of ranges."""

    def ranges(_request: Request, caller: Caller, fields: CallFields) -> Any:
        given = {"pandaID": fields.get("job_id"), "nRanges": fields.get("n_ranges")}
        return events.get(caller, given)

    def report_ranges(_request: Request, caller: Caller, fields: CallFields) -> Any:
        return events.update(caller, {"eventRanges": fields.get("event_ranges")})

    call("POST", "event/acquire_event_ranges", ranges)
    call("POST", "event/update_event_ranges", report_ranges)


def _add_questions(world: World, call: AddCall) -> None:
    """Add the calls that read alone."""

    def types(_request: Request, caller: Caller, _fields: CallFields) -> Any:
        with at_once(world.engine) as tx:
            return panda_harvester.resource_types(tx, caller.confirm(tx))

    def counts(detailed: bool) -> HarvesterWork:
        def work(_request: Request, caller: Caller, _fields: CallFields) -> Any:
            with at_once(world.engine) as tx:
                return panda_harvester.live_jobs(tx, caller.confirm(tx), detailed=detailed)

        return work

    def worker_id(_request: Request, caller: Caller, _fields: CallFields) -> Any:
        return panda_harvester.first_worker_id(caller.confirm_in(world.engine))

    def no_workers(_request: Request, caller: Caller, _fields: CallFields) -> Any:
        caller.confirm_in(world.engine)
        return {}

    call("GET", "metaconfig/get_resource_types", types)
    call("GET", "statistics/active_job_stats_by_site", counts(detailed=False))
    call("GET", "statistics/active_job_detailed_stats_by_site", counts(detailed=True))
    call("GET", "harvester/get_current_worker_id", worker_id)
    call("GET", "harvester/get_worker_statistics", no_workers)


def _none(world: World, caller: Caller) -> list[Any]:
    """No commands: JEDI commands jobs, not workers."""
    caller.confirm_in(world.engine)
    return []


def plain(fields: Mapping[str, Any]) -> CallFields:
    """The fields by the names of pilots' calls."""
    return {NAMES.get(name, name): value for name, value in fields.items()}


def _object(value: Any) -> CallFields:
    read = FieldReader({"job_list": value})
    if not isinstance(value, dict):
        read.wrong("job_list", "must have objects")
    read.done()
    return plain(value)


def _enveloped(jobs: PandaJobs, caller: Caller, update: Any) -> CallFields:
    """The envelope of one job among many; an error of one does not spoil the others."""
    try:
        return {"success": True, "message": "", "data": jobs.update(caller, _object(update))}
    except (Unreachable, Busy):
        raise
    except JediError as error:
        return {"success": False, "message": sentence_of(error), "data": None}


def _answered(
    request: Request,
    caller: Caller,
    body: bytes,
    work: HarvesterWork,
) -> Response:
    """The answer of work in the envelope, errors that are no failures of the network included."""
    try:
        data = work(request, caller, _fields(request, body))
    except (Unreachable, Busy):
        raise
    except BadInput as error:
        request.state.code = error.code
        return PandaReply(1, sentence_of(error), success=False).response()
    except JediError as error:
        request.state.code = error.code
        return refusal(error).response()
    return PandaReply(data).response()


def _fields(request: Request, body: bytes) -> CallFields:
    if request.method == "GET":
        return dict(parse_qsl(request.scope["query_string"].decode("latin-1"), max_num_fields=100))
    return read_fields(body, request.headers.get("content-type", ""))
