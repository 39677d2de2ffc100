"""Calls of PanDA's pilots to the service's process: getJob and updateJob, as forms."""

from __future__ import annotations

import json
import shutil
import tempfile
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from sqlalchemy import Engine, text

from benchmarks.api import (
    CLIENTS,
    PILOTS,
    RawWire,
    ServiceLoad,
    bench_service,
    load_of,
    waits_of,
    waits_of_many,
)
from benchmarks.common import Result, Work, make_world
from benchmarks.jobs_world import Shape, activated_jobs, place, site
from jedi.core.errors import JediError
from jedi.ddm.exchange import AttemptExchange
from jedi.ddm.interface import DDM

CPUS = 2
JOBS, SMOKE = 2_000, 40
GETS_S, UPDATES_S, P99_MS = 200, 1_000, 100.0
BEATS = 6
"""Heartbeats of a job of three hours, by the pilot's interval of 1800 s."""

EACH = 4 + BEATS
"""Updates of a job: it starts, runs (said twice), beats, and ends."""

SLOT = {
    "siteName": site(0),
    "computingElement": site(0),
    "prodSourceLabel": "user",
    "diskSpace": 14_336,
    "workingGroup": "",
    "cpu": 2400.0,
    "mem": 7900.0,
    "allowOtherCountry": "False",
}
ALIVE = {
    "timestamp": "2026-11-20T15:06:20+00:00",
    "siteName": site(0),
    "node": "node1",
    "pilotID": "unknown|PR|3.7.0.36",
    "startTime": "1795187180.25",
    "coreCount": "1",
    "cpuConsumptionUnit": "s+Intel(R) Xeon(R) 2-Core",
    "schedulerID": "unknown",
    "cpuConsumptionTime": "4",
    "jobMetrics": "coreCount=1 workDirSize=12345",
}
END = {
    "endTime": "1795187240.5",
    "pilotTiming": "0|0|5|0|0|0",
    "pilotLog": "",
    "pilotErrorCode": "0",
    "pilotErrorDiag": "",
    "transExitCode": "0",
    "exeErrorCode": "0",
    "exeErrorDiag": "",
    "metaData": "",
}


def measure(engine: Engine, jobs: int = JOBS) -> list[Result]:
    """Jobs, heartbeats, and all updates of whole jobs a second by two clients on two CPUs."""
    root = Path(tempfile.mkdtemp(prefix="jedi-panda-"))
    try:
        place(engine, 1, 1)
        activated_jobs(engine, Shape(2 * jobs, sites=1, shares=1))
        with engine.begin() as tx:
            tx.execute(text("UPDATE jedi_ddm_endpoints SET path = :root"), {"root": str(root)})
            tx.execute(text("DELETE FROM jedi_job_files WHERE type = 'input'"))
        with bench_service(make_world(engine, cast(DDM, None))) as service:
            gets = load_of(service, _gets, jobs // 2)
            one_by_one = load_of(service, _beats, jobs)
            beats = load_of(service, partial(_beats, pilots=PILOTS), jobs)
            rooted = replace(service, token=f"{service.token} {root}")
            lives = load_of(rooted, _lives, jobs // 4 * EACH)
    finally:
        shutil.rmtree(root)
    return [
        Result("getJob", "1/s", gets.per_s, least=GETS_S, note=_note(gets)),
        Result(
            "updateJob, heartbeats, two at a time", "1/s", one_by_one.per_s, note=_note(one_by_one)
        ),
        Result(
            f"updateJob, heartbeats, {CLIENTS * PILOTS} at a time",
            "1/s",
            beats.per_s,
            least=UPDATES_S,
            note=_note(beats),
        ),
        Result(
            f"updateJob, whole lives, {CLIENTS * PILOTS} at a time",
            "1/s",
            lives.per_s,
            note=f"{EACH} updates a job, with an output and a log of 100 bytes; {_note(lives)}",
        ),
    ]


def _note(load: ServiceLoad) -> str:
    missed = "" if load.p99_ms <= P99_MS else " GOAL MISSED"
    return f"{load.note()}; p99 {load.p99_ms:.1f} ms of {P99_MS:.0f}{missed}"


class _PilotWire(RawWire):
    """The calls of a pilot: forms."""

    def form(self, name: str, fields: dict[str, Any]) -> bytes:
        """A call as its bytes."""
        body = urlencode(fields).encode()
        found = self.request("POST", f"/server/panda/{name}", body)
        kind = b"Content-Type: application/x-www-form-urlencoded"
        return found.replace(b"Content-Type: application/json", kind, 1)

    def call(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        """The answer to a call, which must be good."""
        found: dict[str, Any] = json.loads(self.ask(self.form(name, fields)))
        if found["StatusCode"] != 0:
            raise JediError(str(found), code="benchmark_failed")
        return found


def _gets(number: int, path: str, token: str, times: int) -> Work:
    wire = _PilotWire(path, token)
    fields = {**SLOT, "node": f"get{number}"}
    return lambda: waits_of(times, lambda _: wire.call("getJob", fields))


def _beats(number: int, path: str, token: str, times: int, pilots: int = 1) -> Work:
    """Pilots that beat, each for a job that it has."""
    wires = [_PilotWire(path, token) for _ in range(pilots)]
    requests = [_beat(wire, f"beat{number}.{i}") for i, wire in enumerate(wires)]
    return lambda: waits_of_many(times, wires, requests)


def _beat(wire: _PilotWire, node: str) -> bytes:
    job = wire.call("getJob", {**SLOT, "node": node})
    fields = {**ALIVE, "jobId": job["PandaID"], "attemptNr": job["attemptNr"], "state": "running"}
    wire.call("updateJob", fields)
    return wire.form("updateJob", fields)


def _lives(number: int, path: str, token: str, times: int) -> Work:
    """Pilots that report all of their jobs' lives; they have the jobs, and made the outputs."""
    token, _, root = token.partition(" ")
    wires = [_PilotWire(path, token) for _ in range(PILOTS)]
    lives = [
        [
            request
            for job in range(times // EACH // PILOTS)
            for request in _life(wire, f"life{number}.{i}.{job}", Path(root))
        ]
        for i, wire in enumerate(wires)
    ]
    return lambda: [
        wait
        for requests in zip(*lives, strict=True)
        for wait in waits_of_many(PILOTS, wires, requests)
    ]


def _life(wire: _PilotWire, node: str, root: Path) -> list[bytes]:
    job = wire.call("getJob", {**SLOT, "node": node})
    key = {**ALIVE, "jobId": job["PandaID"], "attemptNr": job["attemptNr"]}
    end = {**key, **END, "state": "finished", "xml": _made(job, root)}
    alive = [{**key, "state": state} for state in ("starting", *["running"] * (2 + BEATS))]
    return [wire.form("updateJob", one) for one in (*alive, end)]


def _made(job: dict[str, Any], root: Path) -> str:
    """Store the outputs of a job; the field xml."""
    exchange = AttemptExchange(root / ".panda", job["PandaID"], job["attemptNr"])
    content = b"x" * 100
    told = {}
    for lfn in job["outFiles"].split(","):
        exchange.output_path(lfn).write_bytes(content)
        told[lfn] = {"guid": "", "fsize": 100, "adler32": f"{zlib.adler32(content):08x}"}
    return json.dumps(told)
