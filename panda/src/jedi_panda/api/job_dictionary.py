"""A job as PanDA's pilots get it: a flat dictionary, lists joined by commas.
Source: docs/reference/panda.md#job-dictionary."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from jedi.model.jobs.attempt import JobFile
from jedi_panda.service.panda_pilots import GivenJob

TRANSFORMATIONS = "/trf/user"
SANDBOXES = "/trf/sandbox"
"""Paths of scripts and of sandboxes, which payloads fetch without a token."""

OWN_COMMAND = "./jedi-run "
"""The beginning of commands that prun submits: its transformation is JEDI's."""

PARAMETERS_MAX = 100_000
"""Characters of jobPars: the pilot gives them to a shell as one argument, of 128 KB at most."""

_NONE = "NULL"
_SAFE = "/:._-+@,"
_GUIDS = uuid.UUID("3d1f0c59-6f1c-5d0e-8f6e-0d5f4f1f7a11")


class TooLongCommand(Exception):
    """The command of a job, with its files made for it, does not fit into jobPars."""


def job_dictionary(given: GivenJob, base: str) -> dict[str, Any]:
    """Return the dictionary of a job; `base`: the service as its pilot reaches it.

    attemptNr is the attempt's lock_seq: pilots return it with each update, and nothing else of the
    dictionary but the PandaID. TooLongCommand: the command is too long."""
    job, order = given.job, given.order
    transformation, parameters = _run(given, base)
    if len(parameters) > PARAMETERS_MAX:
        raise TooLongCommand
    limits = order["limits"]
    return {
        "StatusCode": 0,
        "PandaID": job.panda_id,
        "taskID": job.jedi_task_id,
        "jobsetID": _jobset(order) or job.panda_id,
        "jobDefinitionID": job.jedi_task_id,
        "reqID": job.jedi_task_id,
        "attemptNr": job.lock_seq,
        "jobName": f"jedi.{job.jedi_task_id}.{job.panda_id}",
        "prodSourceLabel": "user",
        "processingType": "jedi",
        "prodUserID": "jedi",
        "currentPriority": 1000,
        "transformation": transformation,
        "jobPars": parameters,
        "homepackage": _NONE,
        "swRelease": _NONE,
        "cmtConfig": _NONE,
        "coreCount": max(job.cores, 1),
        "maxCpuCount": limits["cpu_s"],
        "maxWalltime": limits["wall_s"],
        "minRamCount": limits["memory_mb"],
        "maxDiskCount": limits["workdir_mb"],
        "transferType": _NONE,
        "eventService": "True" if order.get("events") else "False",
        "eventServiceMerge": "False",
        "sourceSite": _NONE,
        "destinationSE": job.site,
        "cloud": _NONE,
        "nucleus": _NONE,
        "debug": "False",
        **_inputs(given),
        **_outputs(given),
    }


def _jobset(order: Mapping[str, Any]) -> int | None:
    events = order.get("events")
    return events["jobset_id"] if events else None


# ------------------------------------------------------------------------------------ the files


def _inputs(given: GivenJob) -> dict[str, Any]:
    """The parallel lists of inputs. Without inputs each is NULL."""
    files = {file.lfn: file for file in given.job.files}
    some = given.order["inputs"]
    of = [files.get(one["lfn"]) for one in some]
    datasets = _joined(file.dataset if file else _NONE for file in of)
    return {
        "inFiles": _joined(one["lfn"] for one in some),
        "realDatasetsIn": datasets,
        "prodDBlocks": datasets,
        "dispatchDblock": datasets,
        "dispatchDBlockToken": _joined(_NONE for _ in some),
        "prodDBlockToken": _joined(_NONE for _ in some),
        "GUID": _joined(
            (file and file.guid) or _guid(one["lfn"]) for one, file in zip(some, of, strict=True)
        ),
        "fsize": _joined(str(one["size"] or 0) for one in some),
        "checksum": _joined(f"ad:{one['adler32']}" if one["adler32"] else _NONE for one in some),
        "scopeIn": _joined(given.inputs.scope_in for _ in some),
        "ddmEndPointIn": _joined((file and file.endpoint) or _NONE for file in of),
    }


def _outputs(given: GivenJob) -> dict[str, Any]:
    """The parallel lists of outputs, the log among them; scopeOut is without it. An output that its
    job may do without is not in them: the transformation stores it, if it is there."""
    outputs = [file for file in products(given) if file.type == "output"]
    log = log_of(given)
    lfns = [*(file.lfn for file in outputs), log]
    datasets = _joined([*(file.dataset for file in outputs), _dataset_of_log(given) or _NONE])
    endpoints = _joined(given.job.site_endpoint for _ in lfns)
    return {
        "outFiles": _joined(lfns),
        "realDatasets": datasets,
        "destinationDblock": datasets,
        "destinationDBlockToken": _joined(_NONE for _ in lfns),
        "dispatchDBlockTokenForOut": _joined(_NONE for _ in lfns),
        "ddmEndPointOut": endpoints,
        "fileDestinationSE": _joined(given.job.site for _ in lfns),
        "scopeOut": ",".join(given.outputs.scope_out for _ in outputs),
        "logFile": log,
        "logGUID": _guid(f"{given.job.panda_id}.{given.job.lock_seq}.{log}"),
        "scopeLog": given.outputs.scope_out,
    }


def products(given: GivenJob) -> list[JobFile]:
    """The outputs that the pilot stores, and the log."""
    return [
        file
        for file in given.job.files
        if file.type == "log" or (file.type == "output" and not file.optional)
    ]


def log_of(given: GivenJob) -> str:
    """The name of the log. The pilot makes one for each job: one that the job does not want goes
    with the exchange directory."""
    job = given.job
    return given.order["log_lfn"] or f"log.{job.panda_id}.{job.lock_seq}.tgz"


def _dataset_of_log(given: GivenJob) -> str | None:
    return next((file.dataset for file in given.job.files if file.type == "log"), None)


def _joined(values: Iterator[Any] | Sequence[Any]) -> str:
    return ",".join(map(str, values)) or _NONE


def _guid(name: str) -> str:
    return str(uuid.uuid5(_GUIDS, name))


# -------------------------------------------------------------------------------------- the run


def _run(given: GivenJob, base: str) -> tuple[str, str]:
    """The URL of the transformation, and its parameters."""
    command: str = given.order["command"]
    if command.startswith(OWN_COMMAND):
        return f"{base}{TRANSFORMATIONS}/jedi-run", command.removeprefix(OWN_COMMAND)
    return f"{base}{TRANSFORMATIONS}/jedi-command", " ".join(_options(given, base))


def _options(given: GivenJob, base: str) -> Iterator[str]:
    """The options of jedi-command. Each value is percent-encoded: the pilot takes some words out of
    jobPars, and puts quotes anew around others."""
    job, order = given.job, given.order
    environment = {
        "JEDITASKID": job.jedi_task_id,
        "PANDAID": job.panda_id,
        "ATTEMPTNR": job.attempt_nr,
        "SITE": job.site,
        "CORECOUNT": job.cores,
    }
    for name, value in environment.items():
        yield _option("env", f"{name}={value}")
    if sha256 := order["sandbox"]:
        yield _option("sandbox", f"{base}{SANDBOXES}/{sha256}")
    for name, text in order["texts"].items():
        yield _option("text", f"{name}={text}")
    for one in order["outputs"]:
        source = one["source_name"] or one["lfn"]
        if one["allow_missing"]:
            yield _option("deliver", f"{source}={given.outputs.output_path(one['lfn'])}")
        elif source != one["lfn"]:
            yield _option("rename", f"{source}={one['lfn']}")
    yield _option("command", order["command"])


def _option(name: str, value: str) -> str:
    return f"--{name}={quote(value, safe=_SAFE)}"
