"""Objects with other values of some properties, as the units of a job have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from jedi_client.errors import Problem
from jedi_client.gpi.containers import Problems, settled
from jedi_client.gpi.kinds import did_you_mean
from jedi_client.gpi.schema import Described, Property

D = TypeVar("D", bound=Described)


def overridden(obj: D, values: Mapping[str, Any]) -> D:
    """The object with other values, by dotted name. It shares all others with the first object, so
    only read it. BadInput."""
    problems: Problems = []
    new = _shallow(obj)
    for dotted, value in values.items():
        here: Any = new
        *way, last = dotted.split(".")
        for step in way:
            inner = here._values.get(step)
            if not isinstance(inner, Described):
                here = None
                break
            here._values[step] = here = _shallow(inner)
        one = _property(here, last) if here is not None else None
        if one is None:
            problems.append(unknown(obj, dotted, value))
        else:
            here._values[one.name] = one.checked(value, dotted, problems)
    return settled(new, problems)


def property_at(obj: Described, dotted: str) -> Property | None:
    """The property of an object, or of an object in it, by its dotted name."""
    here: Any = obj
    *way, last = dotted.split(".")
    for step in way:
        here = here._values.get(step)
        if not isinstance(here, Described):
            return None
    return _property(here, last)


def unknown(obj: Described, dotted: str, value: Any) -> Problem:
    """The mistake that an object lacks a property."""
    remedy = did_you_mean(dotted, _names(obj)) or "See list_defaults"
    return Problem(dotted, value, f"is no property of the {type(obj).__name__}", remedy)


def _property(obj: Described, name: str) -> Property | None:
    """The property of an object by its name, or by another name that people know it by."""
    return obj._properties.get(obj._aliases.get(name, name))


def _names(obj: Described) -> Iterator[str]:
    for name, value in obj._values.items():
        yield name
        if isinstance(value, Described):
            yield from (f"{name}.{inner}" for inner in _names(value))


def _shallow(obj: D) -> D:
    new = type(obj).__new__(type(obj))
    object.__setattr__(new, "_values", dict(obj._values))
    return new
