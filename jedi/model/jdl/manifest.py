"""The manifest of a job as DIRAC writes it: its attributes, typed, and the task that does the same.

Source: docs/reference/jdl.md#attributes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
)

from jedi.core.errors import Problem
from jedi.core.suggest import suggest
from jedi.model.splitting.variable_forms import has_variables, without_variables

_BY_SERVER = "the server knows it from the submission"
IGNORED = {
    **dict.fromkeys(
        ("Owner", "OwnerGroup", "OwnerDN", "VirtualOrganization", "DIRACSetup"), _BY_SERVER
    ),
    "LogLevel": "logs are whole",
}
"""Attributes without effect, and the reason."""
SPLITTER = "Splitter"
UNIT_OPTIONS = (
    "Executable",
    "Arguments",
    "StdOutput",
    "StdError",
    "OutputSandbox",
    "ExecutionEnvironment",
    "JobName",
)
"""Attributes that may differ between the children of a herd."""

_SPELLINGS = (("Site", "Sites"), ("BannedSites", "BannedSite"), ("Tags", "Tag"))
"""Attributes that may be written in two ways, the usual one first."""

_LFN = re.compile(r"(?:LFN:)?/+([^/]+)/([^/]+)/([^/]+)", re.IGNORECASE)
UNSAFE = re.compile(r"[\s;&|<>\"'`\\]")
"""Characters that the shell reads, or that divide a name."""
FILE_NAMES = ("StdOutput", "StdError", "OutputSandbox")
"""Attributes with names of files that a job writes for itself."""

_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_COMMENT = re.compile(r"(?:^|[\s;&|()])#")
_ARCHIVE = "sandbox.${SN}.tgz"
_HERD_ARCHIVE = "sandbox.${UNIT/SplitID}.${SN}.tgz"
_SHOWN = 100_000
"""Bytes of the ends of the streams that the log of the job has."""
_DATASET = "jdl.$JEDITASKID"


def _one(value: Any) -> Any:
    """A number is text as well; a list of one is its element."""
    if isinstance(value, list) and len(value) == 1:
        [value] = value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


def _many(value: Any) -> Any:
    """A single value is a list of one."""
    return [_one(one) for one in (value if isinstance(value, list) else [value])]


def _number(value: Any) -> Any:
    """A text of digits is a number."""
    value = _one(value)
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,30}", value) else value


def _truth(value: Any) -> Any:
    """True and yes, in any case, are true."""
    words = {"true": True, "yes": True, "false": False, "no": False}
    return words.get(value.lower(), value) if isinstance(value, str) else value


_Line = Annotated[str, BeforeValidator(_one), StringConstraints(max_length=100_000)]
_Name = Annotated[str, BeforeValidator(_one), StringConstraints(min_length=1, max_length=1_000)]
_Names = Annotated[list[Annotated[str, StringConstraints(min_length=1)]], BeforeValidator(_many)]
_Seconds = Annotated[int, BeforeValidator(_number), Field(strict=True, ge=1, le=2**31 - 1)]
_Count = Annotated[int, BeforeValidator(_number), Field(strict=True, ge=1, le=1024)]


class JobManifest(BaseModel):
    """The attributes that have a counterpart. Others are extras, which are named in warnings."""

    model_config = ConfigDict(extra="allow", frozen=True)

    executable: _Name = Field(alias="Executable")
    arguments: _Line = Field("", alias="Arguments")
    job_name: _Name | None = Field(None, alias="JobName")
    job_group: _Name | None = Field(None, alias="JobGroup")
    job_type: _Name | None = Field(None, alias="JobType")
    std_output: _Name | None = Field(None, alias="StdOutput")
    std_error: _Name | None = Field(None, alias="StdError")
    input_sandbox: _Names = Field([], alias="InputSandbox")
    output_sandbox: _Names = Field([], alias="OutputSandbox")
    input_data: _Names = Field([], alias="InputData")
    output_data: _Names = Field([], alias="OutputData")
    output_se: _Names = Field([], alias="OutputSE")
    site: _Names = Field([], validation_alias=AliasChoices(*_SPELLINGS[0]))
    banned_sites: _Names = Field([], validation_alias=AliasChoices(*_SPELLINGS[1]))
    platform: _Name | None = Field(None, alias="Platform")
    cpu_time: _Seconds | None = Field(None, alias="CPUTime")
    priority: Annotated[int, BeforeValidator(_number), Field(strict=True, ge=0, le=10)] = Field(
        1, alias="Priority"
    )
    processors: _Count | None = Field(None, alias="NumberOfProcessors")
    min_processors: _Count | None = Field(None, alias="MinNumberOfProcessors")
    max_processors: _Count | None = Field(None, alias="MaxNumberOfProcessors")
    whole_node: Annotated[bool, BeforeValidator(_truth)] = Field(False, alias="WholeNode")
    tags: _Names = Field([], validation_alias=AliasChoices(*_SPELLINGS[2]))
    environment: _Names = Field([], alias="ExecutionEnvironment")


def contradictions(manifest: JobManifest, *, herd: bool) -> Iterator[Problem]:
    """Yield problems of attributes that can't stand together, or have no counterpart here."""
    limits = [manifest.min_processors, manifest.max_processors]
    if manifest.processors and any(limits):
        rule = "stands beside MinNumberOfProcessors or MaxNumberOfProcessors"
        yield Problem("NumberOfProcessors", manifest.processors, rule, "Keep one way")
    if all(limits) and (limits[0] or 0) > (limits[1] or 0):
        rule = f"is less than MinNumberOfProcessors, {limits[0]}"
        yield Problem("MaxNumberOfProcessors", limits[1], rule, "Raise it")
    if manifest.site and not set(manifest.site) - set(manifest.banned_sites):
        yield Problem("Site", manifest.site, "all are banned", "Name another one")
    if len(manifest.output_se) > 1:
        rule = "outputs go to one endpoint"
        yield Problem("OutputSE", manifest.output_se, rule, "Name one")
    for name in manifest.input_sandbox:
        if name.upper().startswith(("LFN:", "SB:")):
            yield Problem("InputSandbox", name, "is no local file", "Put it into InputData")
    if _COMMENT.search(_QUOTED.sub("x", manifest.arguments)):
        rule = "to the shell, # begins a comment: the rest would be lost"
        yield Problem("Arguments", manifest.arguments, rule, "Put it in single quotes")
    yield from _spelling_problems(manifest)
    yield from _environment_problems(manifest, herd)
    yield from _input_problems(manifest, herd)
    names = (
        ("StdOutput", [manifest.std_output]),
        ("StdError", [manifest.std_error]),
        ("OutputSandbox", manifest.output_sandbox),
        ("OutputData", manifest.output_data),
    )
    for path, several in names:
        for name in filter(None, several):
            if UNSAFE.search(name):
                rule = "the name has a blank or a character that the shell reads"
                yield Problem(path, name, rule, "Choose another name")


def _spelling_problems(manifest: JobManifest) -> Iterator[Problem]:
    extra = manifest.model_extra or {}
    for first, second in _SPELLINGS:
        if second in extra:
            rule = f"stands beside {first}, which is the same"
            yield Problem(second, extra[second], rule, "Keep one")


def _environment_problems(manifest: JobManifest, herd: bool) -> Iterator[Problem]:
    varies = herd and _varies(manifest)
    for item in manifest.environment:
        if varies and UNSAFE.search(item):
            rule = "has a blank or a character that the shell reads, beside a variable"
            yield Problem("ExecutionEnvironment", item, rule, "Put it into Arguments")
        if not re.match(r"[A-Za-z_]\w*=", item, re.ASCII):
            yield Problem("ExecutionEnvironment", item, "is not NAME=value", "Correct it")


def _input_problems(manifest: JobManifest, herd: bool) -> Iterator[Problem]:
    files = _files(manifest)
    if files and len(files) < len(manifest.input_data):
        rule = "files stand beside datasets"
        yield Problem("InputData", manifest.input_data, rule, "Name files only, or datasets only")
        return
    wrong = [name for name in manifest.input_data if not files and (":" not in name or "/" in name)]
    for name in wrong:
        rule = "is no dataset and no file of one"
        remedy = "Write scope:dataset, or LFN:/scope/dataset/file"
        yield Problem("InputData", name, rule, remedy)
    named = {dataset for dataset, _ in files}
    if len(named) > 1:
        rule = f"names files of {len(named)} datasets"
        remedy = "Name files of one dataset, or whole datasets with a Splitter"
        yield Problem("InputData", sorted(named), rule, remedy)
    elif not (herd or wrong or files) and len({*manifest.input_data}) > 1:
        rule = f"one job reads files of one dataset, and these are {len({*manifest.input_data})}"
        yield Problem("InputData", manifest.input_data, rule, "Give a Splitter, such as ByFiles")


def unmapped(manifest: JobManifest) -> Iterator[str]:
    """Yield a warning for each attribute that has no effect."""
    aliases = [field.alias for field in JobManifest.model_fields.values()]
    known = [*filter(None, aliases), *(first for first, _ in _SPELLINGS)]
    for name in manifest.model_extra or {}:
        if name in IGNORED:
            yield f"{name} has no effect: {IGNORED[name]}."
        else:
            remedy = suggest(name, known, "Leave it out.")
            yield f"{name} has no counterpart in JEDI and no effect. {remedy}"
    for tag in manifest.tags:
        if tag not in ("WholeNode", "MultiProcessor"):
            yield f"Tag {tag} has no counterpart in JEDI and no effect."


def task_keys(manifest: JobManifest, *, herd: bool) -> dict[str, Any]:
    """Return the keys of the task, but for its job parameters and its splitter."""
    whole = manifest.whole_node or "WholeNode" in manifest.tags
    keys: dict[str, Any] = {
        "taskName": _task_name(manifest, herd=herd),
        "campaign": manifest.job_group,
        "processingType": manifest.job_type,
        "architecture": manifest.platform,
        "baseWalltime": manifest.cpu_time,
        "taskPriority": 900 + 100 * manifest.priority,
        "coreCount": 0 if whole else manifest.processors or manifest.min_processors,
        "maxCoreCount": manifest.max_processors,
        "includedSite": ",".join(manifest.site),
        "excludedSite": ",".join(manifest.banned_sites),
        "destination": "".join(manifest.output_se),
        "sandbox": manifest.input_sandbox,
        "noInput": None if manifest.input_data else True,
        **({} if herd else _one_job(manifest)),
    }
    return {key: value for key, value in keys.items() if value not in (None, "", [])}


def _task_name(manifest: JobManifest, *, herd: bool) -> str:
    """Return the name of the job, which in a herd loses its variables, else of its executable."""
    base = _base(manifest.executable)
    for name in (manifest.job_name or base, base):
        if left := (without_variables(name) if herd else name).strip(" _.:-"):
            return left
    return "job"


def _one_job(manifest: JobManifest) -> dict[str, Any]:
    """Return the keys that make one job of everything, without scouts."""
    if not manifest.input_data:
        return {"nFiles": 1}
    files = _files(manifest)
    return {"nFilesPerJob": len(files) or 1000, "skipScout": True}


def job_parameters(manifest: JobManifest, scope: str, *, herd: bool) -> list[dict[str, Any]]:
    """Return the job parameters: the command, its inputs and its outputs. The outputs are datasets
    of a `scope`. In a `herd` the options are the unit's."""
    line = _line(manifest, herd)
    outputs = []
    for name in map(_base, manifest.output_data):
        stem, dot, ending = name.partition(".")
        written = f"{stem}.{{}}{dot}{ending}"
        line += f" && mv {name} {written.format('${SN/P}')}"
        output = _output(written.format("${SN}"), f"{scope}:{_DATASET}.data")
        outputs.append(output | {"hidden": True})
    inputs = [_input(manifest)] if manifest.input_data else []
    if not manifest.output_sandbox:
        return [*inputs, _constant(line), *outputs]
    kept = _option("OutputSandbox", " ".join(manifest.output_sandbox), herd)
    archive = _HERD_ARCHIVE if herd else _ARCHIVE
    return [
        *inputs,
        _constant(f"{line}; code=$?; {_shown(manifest, herd)}tar --ignore-failed-read -czf"),
        _output(archive, f"{scope}:{_DATASET}"),
        _constant(f"{kept}; exit $code"),
        *outputs,
    ]


def _line(manifest: JobManifest, herd: bool) -> str:
    """Return the command: the executable with its environment and arguments, and its streams into
    files, if the output sandbox has these."""
    name = manifest.executable
    words = [_option("Executable", name, herd)]
    if name in map(_base, manifest.input_sandbox):
        words = [f"chmod +x {name};", f"./{name}"]
    if manifest.environment:
        quoted = " ".join(map(shlex.quote, manifest.environment))
        varies = herd and _varies(manifest)
        words.insert(-1, f"env {_option('ExecutionEnvironment', quoted, varies)}")
    if manifest.arguments:
        words.append(_option("Arguments", manifest.arguments, herd))
    words += [f"{mark} {file}" for mark, file in _streams(manifest, herd)]
    return " ".join(words)


def _varies(manifest: JobManifest) -> bool:
    """Return True if the environment has variables, which differ between children."""
    return has_variables(manifest.environment)


def _streams(manifest: JobManifest, herd: bool) -> list[tuple[str, str]]:
    """Return the marks of the streams that go into files of the output sandbox, and the files."""
    streams = ((">", "StdOutput", manifest.std_output), ("2>", "StdError", manifest.std_error))
    return [
        (mark, _option(option, file, herd))
        for mark, option, file in streams
        if file and file in manifest.output_sandbox
    ]


def _shown(manifest: JobManifest, herd: bool) -> str:
    """Return the commands that show the ends of these files: a failed job has no output."""
    where = {">": "", "2>": " >&2"}
    return "".join(
        f"tail -c {_SHOWN} {file}{where[mark]}; " for mark, file in _streams(manifest, herd)
    )


def _option(name: str, value: str, herd: bool) -> str:
    return f"${{UNIT/{name}}}" if herd else value


def _base(name: str) -> str:
    return re.split(r"[/:]", name)[-1]


def _constant(value: str) -> dict[str, Any]:
    return {"type": "constant", "value": value}


def _output(name: str, dataset: str) -> dict[str, Any]:
    return {"type": "template", "param_type": "output", "value": name, "dataset": dataset}


def _files(manifest: JobManifest) -> list[tuple[str, str]]:
    """Return dataset and name of each file that InputData names."""
    matches = map(_LFN.fullmatch, manifest.input_data)
    return [(f"{one[1]}:{one[2]}", one[3]) for one in matches if one]


def _input(manifest: JobManifest) -> dict[str, Any]:
    """Return the input item, which adds nothing to the command: the files lie in the directory."""
    files = _files(manifest)
    names = [dataset for dataset, _ in files] or manifest.input_data
    chosen = {"files": [lfn for _, lfn in files]} if files else {}
    return {
        "type": "template",
        "param_type": "input",
        "value": "${IN}",
        "hidden": True,
        "dataset": ",".join(dict.fromkeys(names)),
        **chosen,
    }
