"""Pre-processing: a job that runs before the others and reports the values of ${PP_...}."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from jedi.core.errors import Problem

SPEC = "preproSpec"
_NAME = "PP(?:_[A-Z0-9]+)+"
_TOLD = re.compile(rf"\$\{{({_NAME})\}}")
_STAND_IN = re.compile(f"__({_NAME})__")
"""Stand-in for ${PP_...} in name checks before the pre-processing job reports its value."""


def fill(document: Mapping[str, Any], reported: Mapping[str, Any]) -> dict[str, Any]:
    """The task's document with the values that its job reported (NAME for ${PP_NAME}) in all texts
    but the job's own."""
    values = {f"PP_{name}": str(value) for name, value in reported.items()}
    return _changed(document, _TOLD, lambda found: values.get(found[1], found[0]))


def with_stand_ins(document: Any) -> Any:
    """Return the document with stand-ins for the names, for checks."""
    if not isinstance(document, dict) or not document.get(SPEC):
        return document
    return _changed(document, _TOLD, lambda found: f"__{found[1]}__")


def without_stand_ins(document: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse."""
    return _changed(document, _STAND_IN, lambda found: f"${{{found[1]}}}")


def is_reported(name: str) -> bool:
    """Return True if a name (of the checked document) is unknown until the job reports it."""
    return _STAND_IN.search(name) is not None


def unreported(document: Mapping[str, Any]) -> list[Problem]:
    """Return the names that the job should have reported and did not."""
    rule, remedy = "the pre-processing job did not report it", "Let it write to jedi_metadata.json"
    names: dict[str, None] = {}
    _changed(document, _TOLD, lambda found: str(names.setdefault(found[1])))
    return [
        Problem("task", f"${{{name}}}", rule, f"{remedy}: {name.removeprefix('PP_')}")
        for name in names
    ]


Substitution = Callable[[re.Match[str]], str]


def _changed(
    document: Mapping[str, Any], what: re.Pattern[str], change: Substitution
) -> dict[str, Any]:
    """The document with matches replaced, except in the description of the job itself."""
    return {k: v if k == SPEC else _in_texts(v, what, change) for k, v in document.items()}


def _in_texts(value: Any, what: re.Pattern[str], change: Substitution) -> Any:
    match value:
        case str():
            return what.sub(change, value)
        case dict():
            return {key: _in_texts(inner, what, change) for key, inner in value.items()}
        case list():
            return [_in_texts(inner, what, change) for inner in value]
    return value
