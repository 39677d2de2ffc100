"""Kinds of the values of properties. Each checks a value, copies it, and makes JSON of it."""

from __future__ import annotations

import math
import os
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from jedi_client.errors import Problem
from jedi_client.gpi.containers import (
    CheckedDict,
    CheckedList,
    Kind,
    Part,
    Problems,
    checked_dict,
    checked_list,
    mistake_of_text,
)

_INTEGERS = 2**63


class Scalar:
    """A string, an integer, a number, or True or False."""

    _TITLES: Mapping[type, str] = {
        str: "a string",
        int: "an integer",
        float: "a number",
        bool: "True or False",
    }

    def __init__(self, type_: type) -> None:
        self.type, self.title = type_, self._TITLES[type_]

    def check(self, value: Any, path: str, problems: Problems) -> Any:
        found = _scalar(self.type, value)
        if found is None:
            problems.append(Problem(path, value, f"is not {self.title}", self._remedy(value)))
        elif self.type is str and (mistake := mistake_of_text(found)):
            problems.append(Problem(path, value, *mistake))
        elif self.type is int and not -_INTEGERS <= found < _INTEGERS:
            problems.append(Problem(path, value, "is too large", "Give an integer of 64 bits"))
        elif self.type is float and not math.isfinite(found):
            problems.append(Problem(path, value, "is not finite", "Give a finite number"))
        return found

    def copied(self, value: Any) -> Any:
        return value

    def document(self, value: Any) -> Any:
        return value

    def _remedy(self, value: Any) -> str:
        if self.type is str and isinstance(value, int | float):
            return f"Write {str(value)!r}"
        if isinstance(value, str) and _number(value) is not None and self.type is not bool:
            return f"Write {value.strip()}, without quotes"
        return f"Give {self.title}"


def _scalar(type_: type, value: Any) -> Any:
    """The value as one of JSON's own types; None if it is something else."""
    if type(value) is type_:
        return value
    if type_ is str:
        if isinstance(value, os.PathLike):
            value = os.fspath(value)
        return str(value) if isinstance(value, str) else None
    if type_ is bool or isinstance(value, bool | str):
        return None
    if type_ is float:
        return float(value) if isinstance(value, int | float) else None
    return value.__index__() if hasattr(value, "__index__") else None


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


class OneOf(Scalar):
    """One of some values of one type: `Literal`."""

    def __init__(self, values: Sequence[Any]) -> None:
        super().__init__(type(values[0]))
        self.values = tuple(values)
        self.title = "one of " + ", ".join(map(repr, values))

    def check(self, value: Any, path: str, problems: Problems) -> Any:
        found = _scalar(self.type, value)
        if found not in self.values:
            remedy = did_you_mean(value, self.values) or f"Give {self.title}"
            problems.append(Problem(path, value, f"is not {self.title}", remedy))
        return found


class Optional:
    """A value of another kind, or None."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def check(self, value: Any, path: str, problems: Problems) -> Any:
        return None if value is None else self.kind.check(value, path, problems)

    def copied(self, value: Any) -> Any:
        return None if value is None else self.kind.copied(value)

    def document(self, value: Any) -> Any:
        return None if value is None else self.kind.document(value)


class Listed:
    """A list whose elements have one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def check(self, value: Any, path: str, problems: Problems) -> Any:
        return checked_list(self.kind, value, path, problems)

    def copied(self, value: Any) -> Any:
        return CheckedList(self.kind, map(self.kind.copied, value))

    def document(self, value: Any) -> Any:
        return [self.kind.document(one) for one in value]


class Mapped:
    """A dict with strings as keys, whose values have one kind."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def check(self, value: Any, path: str, problems: Problems) -> Any:
        return checked_dict(self.kind, value, path, problems)

    def copied(self, value: Any) -> Any:
        return CheckedDict(self.kind, {key: self.kind.copied(v) for key, v in value.items()})

    def document(self, value: Any) -> Any:
        return {key: self.kind.document(v) for key, v in value.items()}


class Json:
    """Any JSON; a described object becomes its document."""

    def check(self, value: Any, path: str, problems: Problems) -> Any:
        if value is None or type(value) is bool:
            return value
        if isinstance(value, _Object):
            return self.check(value.document(), path, problems)
        if isinstance(value, Mapping):
            return Mapped(self).check(value, path, problems)
        if isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray):
            return Listed(self).check(value, path, problems)
        for type_ in (str, int, float):
            if _scalar(type_, value) is not None:
                return Scalar(type_).check(value, path, problems)
        rule = "is neither a number, a string, True, False, None, nor a list or dict of these"
        problems.append(Problem(path, value, rule, "Give a value that JSON has"))
        return None

    def copied(self, value: Any) -> Any:
        return self.check(value, "", [])

    def document(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self.document(v) for key, v in value.items()}
        return [self.document(v) for v in value] if isinstance(value, list) else value


class _Object(Part):
    """A described object, as kinds see it; `schema.Described` is its only subclass."""

    @classmethod
    def accept(cls, value: Any, path: str, problems: Problems) -> Any:
        """The value as an object of this class."""
        raise NotImplementedError

    def copy(self) -> Any:
        raise NotImplementedError

    def document(self) -> dict[str, Any]:
        raise NotImplementedError


class ObjectOf:
    """An object of a described class."""

    def __init__(self, class_: type[_Object]) -> None:
        self.type = class_

    def check(self, value: Any, path: str, problems: Problems) -> Any:
        return self.type.accept(value, path, problems)

    def copied(self, value: Any) -> Any:
        return value.copy()

    def document(self, value: Any) -> Any:
        return value.document()


def kind_of(annotation: Any) -> Kind:
    """The kind that an annotation describes. `Annotated[Any, X]` is X, which users may also assign
    in its short forms."""
    origin, args = get_origin(annotation), get_args(annotation)
    if annotation is Any:
        return Json()
    if origin is Annotated:
        return kind_of(args[1])
    if origin is Literal:
        return OneOf(args)
    if origin in (Union, types.UnionType):
        others = [one for one in args if one is not types.NoneType]
        if len(others) == 1 and len(args) == 2:
            return Optional(kind_of(others[0]))
    elif origin is list:
        return Listed(kind_of(args[0]))
    elif origin is dict and args[0] is str:
        return Mapped(kind_of(args[1]))
    elif annotation in (str, int, float, bool):
        return Scalar(annotation)
    elif isinstance(annotation, type) and issubclass(annotation, _Object):
        return ObjectOf(annotation)
    raise TypeError(f"no kind of properties has the annotation {annotation!r}")


def did_you_mean(value: Any, names: Iterable[Any]) -> str | None:
    """A remedy that names the nearest of some names."""
    from difflib import get_close_matches

    near = get_close_matches(str(value), [str(name) for name in names], 1)
    return f"Did you mean {near[0]}?" if near else None
