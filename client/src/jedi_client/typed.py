"""JSON as the values that annotations promise."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints


class Value:
    """An answer: equal to others with the same fields. The models share these methods, since a
    dataclass that makes its own takes four times as long to import."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


def typed(kind: Any, value: Any) -> Any:
    """`value` as `kind`: a dataclass, datetime, list, tuple, dict, or one of JSON's own types.
    Fields that a newer service adds are left out, fields that an older one lacks are None."""
    if value is None or kind is Any:
        return value
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        [one, *_] = [part for part in parts if part is not type(None)]
        return typed(one, value)
    if origin is list:
        return [typed(parts[0], one) for one in value]
    if origin is tuple:
        each = [parts[0]] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(map(typed, each, value))
    if origin is dict:
        return {key: typed(parts[1], one) for key, one in value.items()}
    if kind is datetime:
        return datetime.fromisoformat(value)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, Mapping):
        return kind(**{name: typed(one, value.get(name)) for name, one in _fields(kind).items()})
    return value


@cache
def _fields(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
