"""Calls of PanDA's pilots, as both pilots send them."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from hashlib import md5
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from starlette.testclient import TestClient

from jedi.agent.base import World
from jedi.server.app import create_app
from jedi.taskbuffer.users import users

GET_JOB = {
    "siteName": "SITE_A",
    "computingElement": "SITE_A",
    "prodSourceLabel": "user",
    "diskSpace": 14336,
    "workingGroup": "",
    "cpu": 2400.0,
    "mem": 7900.0,
    "node": "node1.site.org",
    "allowOtherCountry": "False",
}
"""The fields of getJob of pilot 3.7.0.36."""

BEAT = {
    "timestamp": "2026-11-20T15:06:20+00:00",
    "siteName": "SITE_A",
    "node": "node1.site.org",
    "pilotID": "unknown|PR|3.7.0.36",
    "startTime": "1795187180.25",
    "coreCount": "1",
    "cpuConsumptionUnit": "s+Intel(R) Xeon(R) 2-Core",
    "schedulerID": "unknown",
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
    "cpuConsumptionTime": "4",
    "metaData": "",
}


def client_of(world: World, site: str | None = "SITE_A") -> TestClient:
    """A client with a pilot's token of a site; None: without a token."""
    headers = {"Accept": "application/json", "Origin": "local.pilot"}
    if site:
        with world.engine.begin() as tx:
            token = users.put_token(tx, "pilot", site=site)
        headers["Authorization"] = f"Bearer {token}"
    return TestClient(
        create_app(world),
        headers=headers,
        raise_server_exceptions=False,
        base_url="http://panda.site.org:25080",
    )


def by_form(client: TestClient, name: str, fields: dict[str, Any], **headers: str) -> Any:
    """The answer to a call as curl sends it: each value is text."""
    kind = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    return client.post(f"/server/panda/{name}", content=urlencode(fields), headers=kind)


def by_gzip(client: TestClient, name: str, fields: dict[str, Any]) -> Any:
    """The answer to a call as pilot 3.11 sends it: gzip that calls itself JSON."""
    body = gzip.compress(json.dumps(fields).encode())
    return client.post(
        f"/server/panda/{name}", content=body, headers={"Content-Type": "application/json"}
    )


def get_job(client: TestClient, **more: Any) -> dict[str, Any]:
    """The job that a pilot gets, or the answer that there is none."""
    answer = by_form(client, "getJob", {**GET_JOB, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def beat(client: TestClient, job: dict[str, Any], state: str, **more: Any) -> dict[str, Any]:
    """The answer to an update of a job."""
    fields = {**BEAT, "jobId": job["PandaID"], "attemptNr": job["attemptNr"], "state": state}
    answer = by_form(client, "updateJob", {**fields, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def end(client: TestClient, job: dict[str, Any], state: str, **more: Any) -> dict[str, Any]:
    """The answer to the last update of a job."""
    return beat(client, job, state, **{**END, **more})


def store(world: World, job: dict[str, Any], contents: dict[str, bytes]) -> str:
    """Store outputs as the pilot's copy tool does; its report of them, the field xml."""
    scopes = [one for one in job["scopeOut"].split(",") if one]
    lfns = [lfn for lfn in job["outFiles"].split(",") if lfn != job["logFile"]]
    scope_of = {job["logFile"]: job["scopeLog"], **dict(zip(lfns, scopes, strict=True))}
    endpoints = dict(zip(job["outFiles"].split(","), job["ddmEndPointOut"].split(","), strict=True))
    told = {}
    for lfn, content in contents.items():
        scope = scope_of[lfn]
        digest = md5(f"{scope}:{lfn}".encode()).hexdigest()
        root = Path(world.ddm.exchange_where(endpoints[lfn]))
        place = root.joinpath(*scope.split("."), digest[:2], digest[2:4])
        place.mkdir(parents=True, exist_ok=True)
        (place / lfn).write_bytes(content)
        told[lfn] = {
            "guid": "",
            "fsize": len(content),
            "adler32": f"{zlib.adler32(content):08x}",
            "surl": f"file://localhost{place}/{lfn}",
        }
    return json.dumps(told)


def option(job: dict[str, Any], name: str) -> list[str]:
    """The values of an option of jedi-command in jobPars, still encoded."""
    return re.findall(rf"--{name}=(\S*)", job["jobPars"])
