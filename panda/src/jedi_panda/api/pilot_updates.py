"""Calls of PanDA's pilots about their jobs as values: slots, updates, and commands as words.
Source: docs/reference/panda.md#updates."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, cast
from uuid import uuid4

from jedi.core import names
from jedi.model.jobs.wire import (
    DIAG_MAX,
    FILES_MAX,
    TAIL_MAX,
    AcquireRequest,
    Delegation,
    Measures,
    Resources,
)
from jedi_panda.api.pilot_bodies import CallFields, json_of
from jedi_panda.api.pilot_errors import failure_of
from jedi_panda.api.pilot_fields import FieldReader, epoch
from jedi_panda.service.panda_pilots import PilotUpdate, ReportedFile

STATES = ("starting", "running", "holding", "transferring", "finished", "failed")
"""States that pilots report. `holding` is a failure that another pilot might mend: JEDI tries the
inputs again instead. `transferring`: the job runs."""

JOBS_MOST = 1_000
COMMANDS = {"none": "NULL", "hold": "NULL", "kill": "tobekilled"}
"""The words for JEDI's commands. PanDA's pilots can't hold a job."""

_ADLER32 = re.compile(r"(?:ad:)?([0-9a-fA-F]{1,8})")
_GUID = re.compile(r"[0-9A-Fa-f-]{1,36}")
_METADATA_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_MCORE, _SCORE = "MCORE", "SCORE"
_FILE_MAX = 2**60


def slot_of(fields: CallFields, n: int = 1) -> AcquireRequest:
    """Return the request behind getJob. BadInput names all mistakes.

    JEDI's shares and priorities choose the job: its task, user, working group and label are not the
    pilot's to choose."""
    read = FieldReader(fields)
    site = read.needed("siteName")
    memory, disk = read.number("mem"), read.number("diskSpace")
    left = read.number("remaining_time")
    shape = read.text("resourceType").upper()
    read.done()
    resources = Resources(
        cores=1 if shape.startswith(_SCORE) else 0,
        min_cores=2 if shape.startswith(_MCORE) else 0,
        memory_mb=_bounded(memory),
        disk_mb=_bounded(disk),
        walltime_s=_bounded(left),
    )
    return AcquireRequest(
        request_id=uuid4().hex,
        pilot_id=_pilot_id(read),
        site=site,
        n=n,
        resources=resources,
        delegation=_worker(read),
    )


def _bounded(number: float | None) -> int:
    return min(int(number or 0), 2**31 - 1)


def _pilot_id(read: FieldReader) -> str:
    """The node of a pilot, and the worker that harvester gave it."""
    words = [read.text(name) for name in ("node", "harvester_id", "worker_id")]
    said = " ".join(word for word in words if word) or "unknown"
    return re.sub(r"[/\x00-\x1f\x7f]", "_", f"panda {said}")[:256]


def _worker(read: FieldReader) -> Delegation | None:
    system, worker = read.text("harvester_id", 100), read.text("worker_id", 100)
    if not (system and worker):
        return None
    return Delegation(
        kind="grid", queue=read.text("computingElement") or None, id=f"{system}:{worker}"
    )


# ------------------------------------------------------------------------------------- updateJob


def update_of(fields: CallFields, before: str = "") -> PilotUpdate:
    """Return the update behind updateJob. BadInput names all mistakes."""
    read = FieldReader(fields, before)
    panda_id = read.needed_whole("jobId")
    attempt = read.whole("attemptNr", below=2**63)
    state = read.choice("state", STATES)
    pilot_code = read.whole("pilotErrorCode", least=-(2**31)) or 0
    payload_code = read.whole("exeErrorCode", least=-(2**31)) or 0
    exit_code = read.whole("transExitCode", least=-(2**31))
    pilot_diag = read.long_text("pilotErrorDiag", DIAG_MAX)
    payload_diag = read.long_text("exeErrorDiag", DIAG_MAX)
    stdout = read.long_text("stdout", TAIL_MAX)
    files = _files(read)
    measures = _measures(read, fields)
    read.done()
    final = state in ("finished", "failed", "holding")
    failure = None
    if final and (state != "finished" or pilot_code):
        failure = failure_of(pilot_code, pilot_diag, payload_code, payload_diag, exit_code or 0)
    return PilotUpdate(
        panda_id=panda_id,
        lock_seq=attempt,
        state=_state(state, failed=failure is not None),
        started_at=_instant(fields, "startTime") if state != "starting" else None,
        ended_at=_instant(fields, "endTime"),
        exit_code=exit_code,
        failure=failure,
        stdout=stdout or None,
        measures=measures,
        files=files,
        metadata=_metadata(fields) if final else {},
    )


State = Literal["starting", "running", "finished", "failed"]


def _state(state: str, *, failed: bool) -> State:
    if failed:
        return "failed"
    return "running" if state == "transferring" else cast(State, state)


def _instant(fields: CallFields, name: str) -> datetime | None:
    found = epoch(fields, name)
    return None if found is None else datetime.fromtimestamp(found, UTC)


def _measures(read: FieldReader, fields: CallFields) -> Measures:
    """The measurements that JEDI keeps. What the pilot does not know is not there, or -1."""
    cpu = _figure(fields, "cpuConsumptionTime", 2**36)
    begin, end = epoch(fields, "startTime"), epoch(fields, "endTime")
    wall = _payload_s(fields) or (end - begin if begin and end and end > begin else None)
    return Measures(
        cpu_s=cpu,
        wall_s=wall,
        max_rss_kb=_int(_figure(fields, "maxRSS", 2**40)),
        max_pss_kb=_int(_figure(fields, "maxPSS", 2**40)),
        read_bytes=_int(_figure(fields, "totRBYTES", _FILE_MAX)),
        write_bytes=_int(_figure(fields, "totWBYTES", _FILE_MAX)),
        workdir_kb=_int(_workdir_kb(read)),
    )


def _figure(fields: Mapping[str, Any], name: str, below: float) -> float | None:
    try:
        found = float(fields.get(name) or -1)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if 0 <= found < below else None


def _int(number: float | None) -> int | None:
    return None if number is None else int(number)


def _payload_s(fields: CallFields) -> float | None:
    """Seconds of the payload: the third number of pilotTiming."""
    parts = str(fields.get("pilotTiming") or "").split("|")
    return (_figure({"s": parts[2]}, "s", 2**36) or None) if len(parts) > 3 else None


def _workdir_kb(read: FieldReader) -> float | None:
    """The size of the work directory, of jobMetrics in bytes."""
    found = re.search(r"workDirSize=(\d{1,18})", read.long_text("jobMetrics", 4_000))
    return int(found[1]) / 1000 if found else None


def _files(read: FieldReader) -> dict[str, ReportedFile]:
    """The outputs in `xml`, which is JSON: {lfn: {fsize, adler32, guid}}."""
    found: dict[str, ReportedFile] = {}
    told: dict[str, Any] = read.nested("xml", dict)
    if len(told) > FILES_MAX:
        read.wrong("xml", f"has more than {FILES_MAX} files")
        return found
    for lfn, value in told.items():
        one = FieldReader(value if isinstance(value, dict) else {}, f"xml.{lfn[:80]}.")
        try:
            names.lfn(lfn)
        except ValueError as error:
            read.wrong("xml", f"{ascii(lfn)[:80]}: {error}")
            continue
        if not isinstance(value, dict):
            read.wrong("xml", f"{ascii(lfn)[:80]}: must be an object")
            continue
        size = one.whole("fsize", below=_FILE_MAX)
        adler = _ADLER32.fullmatch(one.text("adler32"))
        if one.has("adler32") and not adler:
            one.wrong("adler32", "must be 8 hexadecimal digits")
        guid = one.text("guid")
        read.problems += one.problems
        found[lfn] = ReportedFile(
            size,
            adler[1].lower().zfill(8) if adler else None,
            guid if _GUID.fullmatch(guid) else None,
        )
    return found


def _metadata(fields: CallFields) -> dict[str, str | bool | int | float]:
    """Names in capitals of metaData, which payloads of JEDI report; the job reports of others have
    none."""
    value = fields.get("metaData")
    if not isinstance(value, str) or len(value) > 2**20:
        return {}
    try:
        found = json_of(value)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {
        name: one
        for name, one in found.items()
        if _METADATA_NAME.fullmatch(name) and isinstance(one, str | bool | int | float)
    }


def job_ids(fields: CallFields, name: str = "ids") -> list[int]:
    """Return the PandaIDs of a list or of a text with commas."""
    read = FieldReader(fields)
    value = fields.get(name)
    parts = value if isinstance(value, list) else str(value or "").split(",")
    if not read.has(name):
        read.needed(name)
    elif len(parts) > JOBS_MOST:
        read.wrong(name, f"has more than {JOBS_MOST} jobs")
    elif not all(str(one).strip().isdecimal() and len(str(one)) < 19 for one in parts):
        read.wrong(name, "must be PandaIDs, separated by commas")
    read.done()
    return [int(str(one)) for one in parts]
