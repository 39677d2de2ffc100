"""Conditions on lists as SQL: columns from a closed list, values always as parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jedi.model.conditions import Condition
from jedi.taskbuffer.scheduling.patterns import like

TASK_COLUMNS: Mapping[str, str] = {
    "id": "t.jeditaskid",
    "request": "t.reqid",
    "status": "t.status",
    "user": "t.username",
    "name": "t.taskname",
    "label": "t.prodsourcelabel",
    "queue": "t.workqueue_id",
    "share": "t.gshare",
    "priority": "t.currentpriority",
    "reason": "t.reason_code",
    "since": "t.creationdate",
    "changed": "t.statechangetime",
}
"""Columns of the fields of model/queries.py."""

JOB_COLUMNS: Mapping[str, str] = {
    "id": "j.pandaid",
    "task": "j.jeditaskid",
    "status": "j.status",
    "user": "j.username",
    "site": "j.site",
    "kind": "j.kind",
    "unit": "j.unit_nr",
    "attempt": "j.attemptnr",
    "priority": "j.priority",
    "exit": "j.exit_code",
    "error": "j.error_code",
    "since": "j.creationtime",
    "changed": "j.statechangetime",
}

_TYPES: Mapping[type, str] = {str: "text", int: "bigint", datetime: "timestamptz"}
_FORMS = {
    "=": "coalesce({column} = ANY(CAST(:{name} AS {type}[])), false)",
    "!=": "coalesce({column} <> ALL(CAST(:{name} AS {type}[])), true)",
    "~": "coalesce({column} LIKE ANY(CAST(:{name} AS {type}[])), false)",
    "!~": "NOT coalesce({column} LIKE ANY(CAST(:{name} AS {type}[])), false)",
}


def where(
    conditions: Sequence[Condition], columns: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """The conditions as SQL, and its parameters; `true` without conditions."""
    parts, values = ["true"], {}
    for number, one in enumerate(conditions):
        column, kind, name = columns[one.field], type(one.values[0]), f"condition_{number}"
        form = _FORMS.get(one.operator, f"{{column}} {one.operator} CAST(:{{name}} AS {{type}})")
        parts.append(form.format(column=column, name=name, type=_TYPES[kind]))
        patterns = one.operator in ("~", "!~")
        given = [like(value) for value in one.values] if patterns else [*one.values]
        values[name] = given if one.operator in _FORMS else given[0]
    return " AND ".join(parts), values
