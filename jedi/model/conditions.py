"""Conditions on lists, as people write them: `status=running,pending`, `user!=ana`, `name~higgs*`,
`since>2026-11-01`. The service, the commands and pages share this language."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from jedi.core.errors import BadInput, Problem
from jedi.core.suggest import suggest

FieldKind = Literal["text", "number", "time"]
_FORM = re.compile(r"\s*(\w+)\s*(!=|!~|<=|>=|=|~|<|>)(.*)", re.DOTALL)
_NEXT = re.compile(r"[\s;&]+(?=\w+\s*(?:!=|!~|<=|>=|=|~|<|>))")
_OPERATORS: Mapping[FieldKind, tuple[str, ...]] = {
    "text": ("=", "!=", "~", "!~"),
    "number": ("=", "!=", "<", "<=", ">", ">="),
    "time": ("<", "<=", ">", ">="),
}
_KINDS: Mapping[FieldKind, str] = {
    "text": "text",
    "number": "a whole number",
    "time": "a time, such as 2026-11-01T12:00+01:00",
}


@dataclass(frozen=True, slots=True)
class ListField:
    """A field of a list: its kind, and all its values, if there are no others."""

    kind: FieldKind
    among: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition: several values of `=` and `~` are alternatives."""

    field: str
    operator: str
    values: tuple[Any, ...]


def split_conditions(text: str) -> list[str]:
    """The conditions of one line: a new one begins with each FIELD OPERATOR after a blank, so that
    values may hold blanks."""
    return [part for one in _NEXT.split(text) if (part := one.strip(" \t\r\n;&"))]


def parse_conditions(texts: Sequence[str], fields: Mapping[str, ListField]) -> list[Condition]:
    """The conditions in texts on these fields. BadInput names all mistakes."""
    conditions: list[Condition] = []
    problems: list[Problem] = []
    for text in texts:
        one = _parse(text, fields)
        (problems if isinstance(one, Problem) else conditions).append(one)  # type: ignore[arg-type]
    if problems:
        raise BadInput(problems)
    return conditions


def _parse(text: str, fields: Mapping[str, ListField]) -> Condition | Problem:
    form = _FORM.fullmatch(text)
    if form is None:
        rule = "a condition is FIELD OPERATOR VALUE"
        return Problem("where", text, rule, f"Write status=running; fields: {', '.join(fields)}")
    name, operator, written = form.groups()
    if name not in fields:
        return Problem(
            "where",
            text,
            f"no field is called {name}",
            suggest(name, fields, f"There are {', '.join(fields)}"),
        )
    kind = fields[name].kind
    if operator not in _OPERATORS[kind]:
        rule = f"{name} is {_KINDS[kind]}, which takes no {operator}"
        return Problem("where", text, rule, f"Write one of {' '.join(_OPERATORS[kind])}")
    try:
        values = tuple(_value(kind, part.strip()) for part in written.split(","))
    except (ValueError, OverflowError):
        return Problem("where", text, f"{name} is {_KINDS[kind]}", "Correct the value")
    if len(values) > 1 and operator[0] in "<>":
        return Problem("where", text, f"{operator} takes one value", "Write one")
    known = (operator in ("=", "!=") and fields[name].among) or values
    if unknown := [value for value in values if value not in known]:
        return Problem(
            "where",
            text,
            f"no such {name}: {unknown[0]}",
            suggest(unknown[0], known, f"There are {', '.join(known)}"),
        )
    return Condition(name, operator, values)


def _value(kind: FieldKind, text: str) -> Any:
    """A value; a time without offset is UTC."""
    if kind == "number":
        number = int(text)
        if abs(number) >= 2**63:
            raise OverflowError
        return number
    if kind == "time":
        time = datetime.fromisoformat(text)
        return time if time.tzinfo else time.replace(tzinfo=UTC)
    return text
