"""Conversion of pydantic's errors to problems: the path, the value, the rule, the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from jedi.core.errors import Problem
from jedi.core.suggest import suggest
from jedi.model.mistakes import rule_and_remedy
from jedi.model.tasks import unsupported
from jedi.model.tasks.contradictions import NOT_YET
from jedi.model.tasks.params import (
    ITEM_MODELS,
    BuildSpec,
    JobSpec,
    LogItem,
    MergeSpec,
    SplitterSpec,
    TaskParams,
)

_REMEDIES = {
    "string_type": "Write it in quotes",
    "int_type": "Write it without quotes and without a decimal point",
    "int_from_float": "Write it without a decimal point",
    "float_type": "Write it without quotes",
    "bool_type": "Write true or false, without quotes",
}
"""Remedies in files, where they differ."""

_KINDS = "an item needs type: constant, or type: template with param_type input, output or number"


_MODELS: dict[str, type[BaseModel]] = {
    "splitter": SplitterSpec,
    "buildSpec": BuildSpec,
    "mergeSpec": MergeSpec,
    "preproSpec": JobSpec,
    "esmergeSpec": JobSpec,
}
"""The models of keys that have keys of their own; others are logs."""


def explain(error: ValidationError) -> list[Problem]:
    """Return one problem for each error, in the order of the document."""
    return [_explain(details) for details in error.errors(include_url=False)]


def path_of(loc: Sequence[int | str]) -> str:
    """Return a path such as `jobParameters[1].dataset` for pydantic's location, which also names an
    item's kind."""
    path = ""
    for i, step in enumerate(loc):
        if loc[0] == "jobParameters" and i == 2 and step in ITEM_MODELS:
            continue
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path or "task"


def _explain(details: ErrorDetails) -> Problem:
    loc, value, kind = details["loc"], details["input"], details["type"]
    path, context = path_of(loc), details.get("ctx", {})
    if kind == "missing":
        return Problem(path, None, *rule_and_remedy(details))
    if kind == "extra_forbidden":
        return Problem(path, value, *_unknown_key(loc))
    if kind.startswith("union_tag"):
        return Problem(path, value, *_unknown_kind(value))
    if kind == "value_error":
        return Problem(path, value, str(context["error"]), "Correct it")
    if kind == "string_pattern_mismatch":
        rule = "must consist of printable ASCII characters"
        return Problem(path, value, rule, "Choose another name")
    if kind == "string_type" and isinstance(value, bool):
        rule = f"must be text, but YAML reads {str(value).lower()} without quotes as a truth value"
        return Problem(path, value, rule, _REMEDIES[kind])
    rule, remedy = rule_and_remedy(details)
    return Problem(path, value, rule, context.get("remedy", _REMEDIES.get(kind, remedy)))


def _unknown_key(loc: Sequence[int | str]) -> tuple[str, str]:
    key = str(loc[-1])
    if len(loc) == 1 and key in unsupported.TASK_KEYS:
        return NOT_YET, unsupported.TASK_KEYS[key]
    model = TaskParams if len(loc) == 1 else _MODELS.get(str(loc[0]), LogItem)
    if loc[0] == "jobParameters":
        model = ITEM_MODELS[str(loc[2])]
    known = [field.alias or name for name, field in model.model_fields.items()]
    listed = f"The keys here are {', '.join(sorted(known))}" if len(loc) > 1 else "Leave it out"
    return "no such key", suggest(key, known, listed)


def _unknown_kind(item: Any) -> tuple[str, str]:
    kind = str(item.get("param_type")) if isinstance(item, dict) else ""
    if kind == "log":
        return _KINDS, "Describe the log file with the task's key log"
    if kind in unsupported.PARAM_TYPES:
        return NOT_YET, "Leave it out"
    return _KINDS, suggest(kind, ITEM_MODELS, "Give type and param_type")
