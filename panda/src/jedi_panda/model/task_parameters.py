"""Task parameters of PanDA's clients as JEDI's.

prun leaves things to the server: scopes of datasets, the program that runs the payload, units that
have other names here. This module completes them; everything else stays as it was sent. Source:
docs/reference/panda.md#task-parameters.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jedi.core.errors import Problem
from jedi.core.names import scoped
from jedi_panda.model.patterns import NoShellPattern, shell_patterns

RUNNER = "./jedi-run"
"""The program that runs the payload of prun's jobs; it lies in the directory of each."""

_ARCHIVE = re.compile(r"(?:^|\s)-a\s+(\S+)")
_LIBRARY = re.compile(r"-l\s+\$\{LIB\}")
_SURL = "${SURL}"
_NUMBERS = ("pseudo_input", "number")
_SPECS = {"buildSpec": "build", "mergeSpec": "merge"}


@dataclass(frozen=True, slots=True)
class Translation:
    """A task as JEDI describes it. `archive`: the upload that its jobs unpack; None: they have
    none."""

    document: dict[str, Any]
    archive: str | None
    problems: list[Problem] = field(default_factory=list)


def with_scope(names: str) -> str:
    """Comma-separated datasets, each with its scope. A container of PanDA's may be a dataset, so
    the trailing `/` goes."""
    return ",".join(scoped(name.strip().removesuffix("/")) for name in names.split(","))


def translate(sent: Mapping[str, Any], vo: str = "") -> Translation:
    """The task that a client of PanDA's describes; `vo`: that of all such tasks. Values of a wrong
    type stay as they are: the submission refuses them by name."""
    document, problems = renamed(sent)
    if vo:
        document["vo"] = vo
    archive = _archive(document)
    _run_by(document, archive)
    return Translation(document, archive, problems)


def renamed(sent: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Parameters under JEDI's names and in its units, and those that it can't take."""
    problems: list[Problem] = []
    document = {key: value for key, value in sent.items() if value is not None}
    for key, change in _KEYS.items():
        if key in document:
            document[key] = change(document[key])
    _rename(document, problems)
    if isinstance(items := document.get("jobParameters"), list):
        found = [_item(item, f"jobParameters[{at}]", problems) for at, item in enumerate(items)]
        document["jobParameters"] = _with_output_names(found)
    if document.get("pfnList"):
        document.pop("noInput", None)
    return document, problems


def _sites(value: Any) -> Any:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _task_ids(value: Any) -> Any:
    words = value.split(",") if isinstance(value, str) else [value]
    ids = value if isinstance(value, list) else words
    return [int(one) if str(one).isdecimal() else one for one in ids]


_UNITS = {"kBFixed": "kB", "MBFixed": "MB", "GBFixed": "GB"}
"""Units of a job's own need, whatever its input is."""


def _unit(value: Any) -> Any:
    return _UNITS.get(value, value) if isinstance(value, str) else value


def _log(value: Any) -> Any:
    """A log template, also that of merged logs, which prun sends as an output."""
    if not isinstance(value, dict):
        return value
    kept = ("type", "value", "dataset", "container")
    return {**_datasets({key: value[key] for key in kept if key in value}), "param_type": "log"}


_KEYS: dict[str, Callable[[Any], Any]] = {
    "site": _sites,
    "includedSite": _sites,
    "excludedSite": _sites,
    "skipFilesUsedBy": _task_ids,
    "outDiskUnit": _unit,
    "workDiskUnit": _unit,
    "log": _log,
    "log_merge": _log,
}


def _rename(document: dict[str, Any], problems: list[Problem]) -> None:
    """Replace or refuse keys that JEDI has under other names, or not at all."""
    for key in ("includedSite", "excludedSite", "site"):
        if document.get(key) == "":
            del document[key]
    for key in [key for key in document if key.startswith("dsFor")]:
        del document[key]  # the items name the same datasets
    if "ramCountUnit" in document:
        document.setdefault("ramUnit", document.pop("ramCountUnit"))
        document.pop("ramCountUnit", None)
    prepro = document.get("preproSpec")
    if isinstance(prepro, dict) and not prepro.get("transPath"):
        rule = "reads good run lists, which only ATLAS has"
        problems.append(Problem("preproSpec", prepro, rule, "Name the files of the dataset"))


def _datasets(item: dict[str, Any]) -> dict[str, Any]:
    """An item with scopes. A container of the same name as its dataset is that dataset."""
    found = dict(item)
    for key in ("dataset", "container"):
        if isinstance(found.get(key), str):
            found[key] = with_scope(found[key])
    if found.get("container") == found.get("dataset"):
        found.pop("container", None)
    return found


def _item(item: Any, path: str, problems: list[Problem]) -> Any:
    if not isinstance(item, dict):
        return item
    kind = item.get("param_type")
    if kind in _NUMBERS:
        kept = ("type", "value", "offset", "padding", "hidden")
        return {"param_type": "number", **{key: item[key] for key in kept if key in item}}
    if kind not in ("input", "output"):
        return item
    found = _datasets({key: value for key, value in item.items() if value is not None})
    if kind == "input":
        for key in ("include", "exclude"):
            if isinstance(found.get(key), str):
                found[key] = _patterns(found[key], f"{path}.{key}", problems)
    return found


def _with_output_names(items: list[Any]) -> list[Any]:
    """Constants that repeat the names of outputs name their streams instead: what is to be merged
    has another name."""
    outputs = [one for one in items if isinstance(one, dict) and one.get("param_type") == "output"]
    streams = {str(one.get("value")): f"${{OUTPUT{n}}}" for n, one in enumerate(outputs)}
    return [_naming(one, streams) for one in items]


def _naming(item: Any, streams: Mapping[str, str]) -> Any:
    if not (isinstance(item, dict) and item.get("type") == "constant"):
        return item
    value = item.get("value")
    if isinstance(value, str):
        for name, stream in streams.items():
            value = value.replace(name, stream) if name else value
    return {**item, "value": value}


def _patterns(expressions: str, path: str, problems: list[Problem]) -> str:
    try:
        return shell_patterns(expressions)
    except NoShellPattern as error:
        rule = "is a regular expression that no pattern of the shell replaces"
        remedy = "Use letters, digits, `.*`, `.` and [abc]"
        problems.append(Problem(path, str(error), rule, remedy))
        return expressions


def _archive(document: Mapping[str, Any]) -> str | None:
    """The upload that jobs unpack: that of a build job, else that of the others."""
    build = document.get("buildSpec")
    if isinstance(build, dict) and isinstance(build.get("archiveName"), str):
        return str(build["archiveName"])
    items = document.get("jobParameters")
    for item in items if isinstance(items, list) else ():
        value = item.get("value") if isinstance(item, dict) else None
        if isinstance(value, str) and (found := _ARCHIVE.search(value)):
            return found[1]
    return None


def _run_by(document: dict[str, Any], archive: str | None) -> None:
    """Let the runner run all jobs whose program the task does not name."""
    if document.get("transPath"):
        return
    option = ""
    if isinstance(document.get("container_name"), str):
        option = f" --container-image {shlex.quote(document.pop('container_name'))}"
        document.pop("multiStepExec", None)  # the runner knows the steps
    document["transPath"] = RUNNER + option
    document["sandbox"] = [RUNNER.removeprefix("./"), *([archive] if archive else [])]
    url = document.get("sourceURL")
    for key, word in _SPECS.items():
        spec = document.get(key)
        if isinstance(spec, dict) and not spec.get("transPath"):
            document[key] = {
                **_spec(key, spec, document, archive, url),
                "transPath": f"{RUNNER} {word}",
            }


def _spec(
    key: str, spec: dict[str, Any], document: Mapping[str, Any], archive: str | None, url: Any
) -> dict[str, Any]:
    """The command of build or merge jobs. Merge jobs unpack the archive itself, and read logs only
    if these are merged."""
    found = {name: value for name, value in spec.items() if name != "tarBallViaDDM"}
    template = found.get("jobParameters")
    if key != "mergeSpec" or not isinstance(template, str):
        return found
    template = template.replace("${TRN_LOG_MERGE:LOG_MERGE}", "${TRN_LOG:LOG}")
    if "log_merge" not in document:
        template = template.replace("${TRN_LOG:LOG}", "")
    template = _LIBRARY.sub(f"-a {archive} --sourceURL {_SURL}" if archive else "", template)
    if isinstance(url, str):
        template = template.replace(_SURL, url)
    return {**found, "jobParameters": template}
