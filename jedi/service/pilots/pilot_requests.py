"""Requests of pilots: jobs, reports, heartbeats, logs, and sandboxes of tasks. `who` is the user
and site of the pilot's token. Answers have the form of the wire.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence, Set
from math import ceil
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import IntegrityError

from jedi.core.errors import Forbidden, JediError, NotFound, Refused
from jedi.core.knobs import Knobs
from jedi.ddm.interface import DDM
from jedi.model.jobs.attempt import HeldJob, JobFile
from jedi.model.jobs.wire import AcquireRequest, Beat, LogEntry, Report, Resources
from jedi.service.pilots import event_orders
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.jobs import dispatch, order_files
from jedi.taskbuffer.jobs.dispatch import SiteMessages
from jedi.taskbuffer.jobs.dispatch_cache import DispatchCache
from jedi.taskbuffer.schema.release import ReleaseSchema
from jedi.taskbuffer.sites import pilots as pilot_rows
from jedi.taskbuffer.users import users
from jedi.taskbuffer.users.users import Identity

Answer = dict[str, Any]
Orders = list[tuple[HeldJob, Answer]]
"""Jobs, each with its form on the wire."""

Finder = Callable[[str, str, str], str]
_PSEUDO = ("pseudo_input", "pp_input", "random_seed")
_SHA256 = re.compile("[0-9a-f]{64}")


def identify(tx: Connection, token: str, release: ReleaseSchema) -> Identity:
    """Return the owner of a token; Forbidden if it is unknown. SchemaDiffers: another release has
    migrated the database."""
    found = owners(tx, {token}, release)[token]
    if isinstance(found, Forbidden):
        raise found
    return found


def owners(
    tx: Connection, tokens: Set[str], release: ReleaseSchema
) -> dict[str, Identity | Forbidden]:
    """Return the owner of each token, or the error of an unknown one. SchemaDiffers: another
    release has migrated the database."""
    found, revision = users.holders_and_revision(tx, tokens)
    release.must_fit(revision)
    return {one: found.get(one) or _unknown_token() for one in tokens}


def _unknown_token() -> Forbidden:
    return Forbidden("The token is unknown, expired or revoked.", code="bad_token")


def acquire(
    engine: Engine,
    ddm: DDM,
    knobs: Knobs,
    who: Identity,
    request: AcquireRequest,
    anew: Callable[[], DDM] | None = None,
    first_waiting: DispatchCache | None = None,
) -> Answer:
    """Return jobs for a slot at the pilot's site, with all data that a pilot needs to run them.

    A job whose files have no location fails here, with the reason. JEDI asks storage after the
    commit: no row is locked meanwhile, and a lost answer is repeated by request_id. `anew` returns
    data management as configured now, for endpoints newer than `ddm`; `first_waiting` is the
    process's cache of sites.
    """
    return answer_of(take(engine, ddm, knobs, who, request, anew, first_waiting), knobs)


def answer_of(orders: Orders, knobs: Knobs) -> Answer:
    """Return the answer to a request for jobs."""
    return {"jobs": [order for _, order in orders], "wait_s": float(knobs.pilot.poll_s)}


def take(
    engine: Engine,
    ddm: DDM,
    knobs: Knobs,
    who: Identity,
    request: AcquireRequest,
    anew: Callable[[], DDM] | None = None,
    first_waiting: DispatchCache | None = None,
) -> Orders:
    """Return the jobs of `acquire`, each with its form on the wire."""
    must_be_of(request, pilot_site(who))
    return take_all(engine, ddm, knobs, [request], anew, first_waiting)[0]


def must_be_of(request: AcquireRequest, site: str) -> None:
    """Forbidden: the pilot's site is not that of its request."""
    if request.site != site:
        raise Forbidden(
            f"This token is for {site}, not for {request.site}.",
            code="wrong_site",
            site=request.site,
        )


def take_all(
    engine: Engine,
    ddm: DDM,
    knobs: Knobs,
    requests: Sequence[AcquireRequest],
    anew: Callable[[], DDM] | None = None,
    first_waiting: DispatchCache | None = None,
) -> list[Orders]:
    """The same for many requests of pilots, by a statement for one slot of each site.
    IntegrityError: one of several requests must be answered alone."""
    held: dict[int, list[HeldJob]] = {}
    for which in _rounds(requests):
        found = _claim(engine, [requests[i] for i in which], first_waiting or DispatchCache())
        held |= dict(zip(which, found, strict=True))
    given = [held[i] for i in range(len(requests))]
    for request, jobs in zip(requests, given, strict=True):
        if jobs and request.delegation:
            with at_once(engine) as tx:
                ids = [job.panda_id for job in jobs]
                pilot_rows.note_delegation(tx, ids, request.delegation)
    everything = [job for jobs in given for job in jobs]
    orders, wrong = _orders(everything, ddm, knobs)
    if anew and any(error.code == "endpoint_missing" for _, error in wrong):
        found_now, wrong = _orders([job for job, _ in wrong], anew(), knobs)
        orders |= found_now
    if wrong:
        with engine.begin() as tx:
            calls = [(job.site, [_failure(job, error)]) for job, error in wrong]
            dispatch.accept_all(tx, calls)
    return [
        [(job, orders[job.panda_id]) for job in jobs if job.panda_id in orders] for jobs in given
    ]


def _rounds(requests: Sequence[AcquireRequest]) -> list[list[int]]:
    """The numbers of requests, parted so that a part has one slot of each site, and no request
    twice."""
    rounds: dict[tuple[int, int], list[int]] = defaultdict(list)
    slots: dict[str, list[Resources]] = defaultdict(list)
    seen = Counter[str]()
    for number, one in enumerate(requests):
        known = slots[one.site]
        if one.resources not in known:
            known.append(one.resources)
        rounds[known.index(one.resources), seen[one.request_id]].append(number)
        seen[one.request_id] += 1
    return [*rounds.values()]


def report(tx: Connection, who: Identity, reports: Sequence[Report]) -> Answer:
    """The same as `report_all`, for one call."""
    return report_all(tx, [(pilot_site(who), reports)])[0]


def report_all(tx: Connection, calls: Sequence[SiteMessages[Report]]) -> list[Answer]:
    """Record the ends of jobs. The pilot discards the work of a `stale` attempt. `stands` is the
    end that counts for the others: the first reported one."""
    return [
        {
            "results": [
                _result(one, stands is not None) | {"stands": stands}
                for one, stands in zip(reports, ends, strict=True)
            ]
        }
        for (_, reports), ends in zip(calls, dispatch.accept_all(tx, calls), strict=True)
    ]


def heartbeat(tx: Connection, who: Identity, beats: Sequence[Beat]) -> Answer:
    """The same as `heartbeat_all`, for one call."""
    return heartbeat_all(tx, [(pilot_site(who), beats)])[0]


def heartbeat_all(tx: Connection, calls: Sequence[SiteMessages[Beat]]) -> list[Answer]:
    """Record that jobs are alive. Return the jobs to kill, with reasons, and the jobs to hold."""
    return [
        {
            "commands": [
                {"pandaid": beat.pandaid, "command": command, "why": why}
                for beat, (command, why) in zip(beats, commands, strict=True)
            ]
        }
        for (_, beats), commands in zip(calls, dispatch.beat_all(tx, calls), strict=True)
    ]


def log(tx: Connection, who: Identity, entries: Sequence[LogEntry]) -> Answer:
    """Record the last output of payloads."""
    kept = dispatch.store_tails(tx, pilot_site(who), entries)
    return {"results": [_result(one, good) for one, good in zip(entries, kept, strict=True)]}


def sandbox(tx: Connection, who: Identity, sha256: str) -> bytes:
    """Return a task's input sandbox, a tar.gz."""
    pilot_site(who)
    return sandbox_of(tx, sha256)


def sandbox_of(tx: Connection, sha256: str) -> bytes:
    """Return an input sandbox. NotFound: there is none of this sha256."""
    data = order_files.SANDBOX.row(tx, sha256=sha256) if _SHA256.fullmatch(sha256) else None
    if data is None:
        raise NotFound(f"There is no sandbox {sha256}.", code="sandbox_missing", sha256=sha256)
    return data


def pilot_site(who: Identity) -> str:
    if who.kind != "pilot" or who.site is None:
        raise Forbidden("This token does not belong to a pilot.", code="not_a_pilot")
    return who.site


def _claim(
    engine: Engine, requests: Sequence[AcquireRequest], first_waiting: DispatchCache
) -> list[list[HeldJob]]:
    for _ in range(2):
        try:
            with at_once(engine) as tx:
                return dispatch.acquire_all(tx, requests, first_waiting)
        except IntegrityError:  # the same request, sent twice, was answered at this moment
            if len(requests) > 1:
                raise
    raise Refused(
        f"Another site has used request {requests[0].request_id}. Use UUIDs as ids of requests.",
        code="request_id_taken",
        request_id=requests[0].request_id,
    )


def _orders(
    jobs: Sequence[HeldJob], ddm: DDM, knobs: Knobs
) -> tuple[dict[int, Answer], list[tuple[HeldJob, JediError]]]:
    """Return the forms of jobs on the wire by their ids, and the jobs whose files have no
    location."""
    orders, wrong = {}, []
    where = ddm.finder()
    for job in jobs:
        try:
            orders[job.panda_id] = _order(job, ddm, where, knobs)
        except JediError as error:
            wrong.append((job, error))
    return orders, wrong


def _order(job: HeldJob, ddm: DDM, where: Finder, knobs: Knobs) -> Answer:
    """Return a job in the wire's form; JediError if a file has no location."""
    wall_s = _wall_limit(job, knobs)
    return {
        "pandaid": job.panda_id,
        "lock_seq": job.lock_seq,
        "jeditaskid": job.jedi_task_id,
        "attemptnr": job.attempt_nr,
        "site": job.site,
        "cores": job.cores,
        "command": job.command,
        "texts": event_orders.payload_texts(job),
        "sandbox": job.sandbox,
        **_files(job, where),
        "stage_out": ddm.staging_where(job.site_endpoint, job.panda_id, job.lock_seq),
        "limits": {
            "wall_s": wall_s,
            "cpu_s": wall_s * max(1, job.cores),
            "memory_mb": _memory_limit(job, knobs),
            "workdir_mb": job.scratch_mb,
            "max_processes": knobs.pilot.max_processes,
            "min_free_mb": knobs.pilot.min_free_mb,
            "min_free_percent": knobs.pilot.min_free_percent,
        },
        **event_orders.parts(job, ddm, knobs),
    }


def _files(job: HeldJob, where: Finder) -> Answer:
    """Return the files of a job in the wire's form, by one pass: three take 0.9 us of the 7 that a
    job's form takes."""
    inputs, outputs, log_lfn = [], [], None
    for file in job.files:
        if file.type == "output":
            outputs.append(
                {"lfn": file.lfn, "source_name": file.source_name, "allow_missing": file.optional}
            )
        elif file.type == "log":
            log_lfn = log_lfn or file.lfn
        elif _is_read(file):
            inputs.append(_input(file, where))
    return {"inputs": inputs, "outputs": outputs, "log_lfn": log_lfn}


def _is_read(file: JobFile) -> bool:
    """Return True if the pilot brings the file, no output and no log, to the payload."""
    if file.type in _PSEUDO:
        return file.source_name is not None
    return bool(file.endpoint or file.type != "trn_log")


def _input(file: JobFile, where: Finder) -> Answer:
    """Return an input file in the wire's form; files that the task itself names have no known
    size."""
    own_path = file.source_name
    return {
        "lfn": file.lfn,
        "path": own_path or where(file.endpoint or "", file.dataset, file.lfn),
        "size": None if own_path else file.size,
        "adler32": file.adler32,
    }


def _wall_limit(job: HeldJob, knobs: Knobs) -> int:
    """Return the time limit of a job in seconds: the owner's, else more than its estimate; 0:
    none."""
    if job.max_walltime_h and job.measures_within_s is not None:
        return job.measures_within_s
    if job.max_walltime_h and job.walltime_s:
        return max(job.walltime_s, ceil(3600 * job.max_walltime_h))
    most = ceil(job.walltime_s * float(knobs.scout.limit_factor))
    return most and max(most, ceil(float(knobs.scout.least_limit_s)))


def _memory_limit(job: HeldJob, knobs: Knobs) -> int:
    """Return the memory limit of a job in MB: the owner's, or more than its scouts used; 0:
    none."""
    if not (job.measured and job.memory_mb):
        return ceil(job.memory_mb)
    most = ceil(job.memory_mb * float(knobs.scout.limit_factor))
    return max(most, int(knobs.scout.least_limit_mb))


def _failure(job: HeldJob, error: JediError) -> Report:
    return Report(
        pandaid=job.panda_id,
        lock_seq=job.lock_seq,
        status="failed",
        error_code=error.code,
        error_diag=error.sentence,
    )


def _result(asked: Report | LogEntry, accepted: bool) -> Answer:
    return {"pandaid": asked.pandaid, "verdict": "accepted" if accepted else "stale"}
