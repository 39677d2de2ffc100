"""The texts of tasks: task documents, and manifests of jobs as DIRAC writes them.

Source: docs/reference/jdl.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from pydantic import ValidationError

from jedi.core import names
from jedi.core.errors import BadInput, Problem
from jedi.model.jdl.manifest import (
    IGNORED,
    SPLITTER,
    UNIT_OPTIONS,
    JobManifest,
    contradictions,
    job_parameters,
    task_keys,
    unmapped,
)
from jedi.model.jdl.parse import parse, places
from jedi.model.splitting.variable_forms import has_variables
from jedi.model.tasks.problems import explain
from jedi.model.tasks.text import parse_text
from jedi.service.herds.herd_checks import strategy_problems
from jedi.splitter import strategies
from jedi.splitter.plug_in import SplitterFailed

JDL = "jdl"
_MARK = "Executable"
"""The attribute that every manifest has, and no task document."""


@dataclass(frozen=True, slots=True)
class ReadTask:
    """A task document, not checked yet, and warnings about its text."""

    document: Any
    warnings: tuple[str, ...] = ()
    is_manifest: bool = False


def read(text: str, format: str, who: str) -> ReadTask:
    """Return the task document in a text of YAML, JSON or JDL. BadInput with all mistakes of its
    form; the outputs of a manifest belong to `who`."""
    found = parse(text) if format == JDL else parse_text(text, format)
    if format != JDL and not _is_manifest(found):
        return ReadTask(found)
    try:
        return _of_manifest(found, who)
    except BadInput as error:
        raise BadInput(_placed(error.problems, text, format)) from None


def attributes(text: str, format: str) -> dict[str, Any] | None:
    """Return the attributes of a manifest in a text that was accepted; None: it is a task
    document."""
    found = parse(text) if format == JDL else parse_text(text, format)
    return found if format == JDL or _is_manifest(found) else None


def _is_manifest(document: Any) -> bool:
    return isinstance(document, dict) and _MARK in document


def _of_manifest(attributes: Mapping[str, Any], who: str) -> ReadTask:
    """Return the task that does the same as a manifest of a job. BadInput."""
    attributes = dict(attributes)
    splitter = attributes.pop(SPLITTER, None)
    options = _options(splitter, attributes)
    plain = {name: value for name, value in attributes.items() if name not in options}
    herd = splitter is not None
    problems = [*_differing(plain)] if herd else _without_splitter(attributes)
    try:
        manifest = JobManifest.model_validate(plain)
    except ValidationError as error:
        problems += explain(error)
        manifest = _rest(plain, {str(one["loc"][0]) for one in error.errors()})
    problems += contradictions(manifest, herd=herd)
    if problems:
        if herd:
            problems += strategy_problems(str(splitter), attributes, SPLITTER)
        raise BadInput(problems)
    document = {
        **task_keys(manifest, herd=herd),
        "jobParameters": job_parameters(manifest, names.task_scope(who), herd=herd),
    }
    if herd:
        values = {name: _texts(value) for name, value in plain.items() if name not in IGNORED}
        if manifest.output_sandbox:
            values["OutputSandbox"] = manifest.output_sandbox
        document["splitter"] = {"name": splitter, "options": options, "values": values}
    return ReadTask(document, tuple(unmapped(manifest)), is_manifest=True)


def _rest(attributes: Mapping[str, Any], wrong: Collection[str]) -> JobManifest:
    """Return the manifest without the attributes that are wrong by themselves: others may
    contradict each other, too."""
    left = {name: value for name, value in attributes.items() if name not in wrong}
    return JobManifest.model_validate({_MARK: "true", **left})


def _options(splitter: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the splitter; the submission refuses one that does not exist."""
    if splitter not in strategies.names():
        return {}
    try:
        consumed = set(strategies.describe(splitter).consumes(attributes))
    except SplitterFailed as error:
        remedy = "Ask the operator to correct the plug-in, or name another splitter"
        raise BadInput([Problem(SPLITTER, splitter, error.sentence.rstrip("."), remedy)]) from None
    return {name: value for name, value in attributes.items() if name in consumed}


def _without_splitter(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return problems of options of a splitter that the manifest does not name."""
    ours = {
        name
        for one in ("Parametric", "ByEvents", "BySize")
        for name in strategies.describe(one).consumes(attributes)
    }
    return [
        Problem(
            name,
            attributes[name],
            "is the option of a splitter, and there is none",
            "Add Splitter = Parametric;" if name.startswith("Parameter") else "Add Splitter",
        )
        for name in attributes
        if name in ours
    ]


_WORDS = (
    (r"splitter\.name", "Splitter"),
    (r"splitter\.options\.(.*)", r"\1"),
    (r"sandbox(\[\d+\])?", "InputSandbox"),
    (r"jobParameters\[\d+\]\.(dataset|files)", "InputData"),
    (r"taskName", "JobName"),
    (r"destination", "OutputSE"),
    (r"includedSite", "Site"),
    (r"excludedSite", "BannedSites"),
    (r"coreCount", "NumberOfProcessors"),
)
_REMEDIES = {
    "Add an item with param_type: input": "Add InputData",
    "Give noInput: true": "Leave InputData out",
}


def as_attributes(problems: Sequence[Problem], text: str, format: str) -> list[Problem]:
    """Return problems of a task that was made of a manifest, in the words of the manifest."""
    return _placed([*map(_as_attribute, problems)], text, format)


def _as_attribute(problem: Problem) -> Problem:
    for pattern, name in _WORDS:
        if found := re.fullmatch(pattern, problem.path):
            remedy = _REMEDIES.get(problem.remedy, problem.remedy)
            return replace(problem, path=found.expand(name), remedy=remedy)
    return problem


def _placed(problems: Sequence[Problem], text: str, format: str) -> list[Problem]:
    """Return problems with line and column of their attributes, in the order of a JDL text."""
    if format != JDL:
        return [*problems]
    found = places(text)
    by_place = [(_place(one.path, found), one) for one in problems]
    return [
        replace(one, path=f"line {line}, column {column}: {one.path}") if line else one
        for (line, column), one in sorted(by_place, key=itemgetter(0))
    ]


def _place(path: str, found: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Return line and column of an attribute, or of the first one of several with a name behind a
    point; (0, 0) if it is not there."""
    name = path if path in found else re.split(r"\W", path)[0]
    several = (place for other, place in found.items() if other.startswith(f"{name}."))
    return found.get(name) or next(several, (0, 0))


def _differing(attributes: Mapping[str, Any]) -> list[Problem]:
    """Return problems of attributes with variables that all children of a herd share."""
    rule = "is the same for all children of a herd"
    other = f"Put variables into {', '.join(UNIT_OPTIONS)}"
    remedies = {"OutputData": "Leave the variable out: JEDI adds the number of the job"}
    return [
        Problem(name, value, rule, remedies.get(name, other))
        for name, value in attributes.items()
        if name not in (*UNIT_OPTIONS, *IGNORED) and has_variables(_texts(value))
    ]


def _texts(value: Any) -> Any:
    """Return a value whose numbers are text, as those of JDL are."""
    if isinstance(value, dict):
        return [f"{name}={_texts(one)}" for name, one in value.items()]
    return [_texts(one) for one in value] if isinstance(value, list) else str(value)
