"""Conditions on lists as SQL: columns from a closed list, values always as parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jedi.core.states import JOB, TASK_STATES
from jedi.model.conditions import Condition, FieldKind, parse_conditions
from jedi.taskbuffer.scheduling.patterns import like


@dataclass(frozen=True, slots=True)
class ListField:
    """A field of a list: its column and kind, and all its values, if there are no others."""

    column: str
    kind: FieldKind
    among: Collection[str] = ()


TASK_FIELDS: Mapping[str, ListField] = {
    "id": ListField("t.jeditaskid", "number"),
    "request": ListField("t.reqid", "number"),
    "status": ListField("t.status", "text", TASK_STATES),
    "user": ListField("t.username", "text"),
    "name": ListField("t.taskname", "text"),
    "label": ListField("t.prodsourcelabel", "text"),
    "queue": ListField("t.workqueue_id", "number"),
    "share": ListField("t.gshare", "text"),
    "priority": ListField("t.currentpriority", "number"),
    "reason": ListField("t.reason_code", "text"),
    "since": ListField("t.creationdate", "time"),
    "changed": ListField("t.statechangetime", "time"),
}
"""Fields of the list of tasks."""

JOB_FIELDS: Mapping[str, ListField] = {
    "id": ListField("j.pandaid", "number"),
    "task": ListField("j.jeditaskid", "number"),
    "status": ListField("j.status", "text", JOB.states),
    "user": ListField("j.username", "text"),
    "site": ListField("j.site", "text"),
    "kind": ListField("j.kind", "text"),
    "unit": ListField("j.unit_nr", "number"),
    "attempt": ListField("j.attemptnr", "number"),
    "priority": ListField("j.priority", "number"),
    "exit": ListField("j.exit_code", "number"),
    "error": ListField("j.error_code", "text"),
    "since": ListField("j.creationtime", "time"),
    "changed": ListField("j.statechangetime", "time"),
}
"""Fields of lists of jobs."""


def read_conditions(texts: Sequence[str], fields: Mapping[str, ListField]) -> list[Condition]:
    """The conditions in texts on these fields. BadInput names all mistakes."""
    kinds = {name: field.kind for name, field in fields.items()}
    among = {name: field.among for name, field in fields.items() if field.among}
    return parse_conditions(texts, kinds, among)


_TYPES: Mapping[FieldKind, str] = {"text": "text", "number": "bigint", "time": "timestamptz"}
_FORMS = {
    "=": "coalesce({column} = ANY(CAST(:{name} AS {type}[])), false)",
    "!=": "coalesce({column} <> ALL(CAST(:{name} AS {type}[])), true)",
    "~": "coalesce({column} LIKE ANY(CAST(:{name} AS {type}[])), false)",
    "!~": "NOT coalesce({column} LIKE ANY(CAST(:{name} AS {type}[])), false)",
}


def where(
    conditions: Sequence[Condition], fields: Mapping[str, ListField]
) -> tuple[str, dict[str, Any]]:
    """The conditions as SQL, and its parameters; `true` without conditions."""
    parts, values = ["true"], {}
    for number, one in enumerate(conditions):
        field, name = fields[one.field], f"condition_{number}"
        form = _FORMS.get(one.operator, f"{{column}} {one.operator} CAST(:{{name}} AS {{type}})")
        parts.append(form.format(column=field.column, name=name, type=_TYPES[field.kind]))
        patterns = one.operator in ("~", "!~")
        given = [like(value) for value in one.values] if patterns else [*one.values]
        values[name] = given if one.operator in _FORMS else given[0]
    return " AND ".join(parts), values
