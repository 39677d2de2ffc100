"""Plug-ins: classes of applications, backends, splitters, mergers and datasets, by entry points.

A distribution declares each class under its own name, in the group of its base:

    [project.entry-points."jedi_client.applications"]
    Gaudi = "my_package.gaudi:Gaudi"

Source: docs/reference/ganga.md#plug-ins.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jedi_client.errors import BadInput, Problem
from jedi_client.gpi.kinds import did_you_mean
from jedi_client.gpi.schema import (
    Described,
    PluginUnusable,
    Property,
    base,
    class_named,
    concrete,
    declared,
    load,
    load_named,
    schema_of,
)

if TYPE_CHECKING:
    pass


def list_applications() -> list[str]:
    """Names of the applications of this client and of plug-ins."""
    return _names("applications")


def list_backends() -> list[str]:
    """Names of the backends of this client and of plug-ins."""
    return _names("backends")


def list_splitters() -> list[str]:
    """Names of the splitters of this client and of plug-ins."""
    return _names("splitters")


def list_mergers() -> list[str]:
    """Names of the mergers of this client and of plug-ins."""
    return _names("mergers")


def list_datasets() -> list[str]:
    """Names of the kinds of datasets of this client and of plug-ins."""
    return _names("datasets")


def list_defaults(part: str | type[Described] | Described) -> dict[str, Any]:
    """The default of every property of a class, an object, or a name such as Script. None: the
    property has none."""
    return {
        one.name: None if one.required else _plain(one.first())
        for one in schema_of(_class_of(part))
    }


def list_choices(part: str | type[Described] | Described, name: str) -> list[Any] | None:
    """The values that a property may have now, such as the versions of an application. None: all
    values of its type."""
    choices = _property(_class_of(part), name).choices()
    return None if choices is None else list(choices)


def _names(category: str) -> list[str]:
    """All names of a category. A plug-in that can't be loaded is left out, with a warning."""
    load_named("")
    for point in declared(category):
        if point.name not in Described._classes:
            try:
                load(point, category)
            except PluginUnusable as error:
                warnings.warn(error.sentence, stacklevel=3)
    return sorted(one.__name__ for one in concrete(base(category)))


def _class_of(part: str | type[Described] | Described) -> type[Described]:
    if isinstance(part, Described):
        return type(part)
    if isinstance(part, type):
        return part
    found = class_named(part)
    if found is None:
        remedy = did_you_mean(part, Described._classes) or "See list_applications, list_backends"
        raise BadInput([Problem("name", part, "is no known class", remedy)])
    return found


def _property(cls: type[Described], name: str) -> Property:
    name = cls._aliases.get(name, name)
    if name not in cls._properties:
        remedy = did_you_mean(name, cls._properties) or f"Properties: {', '.join(cls._properties)}"
        raise BadInput([Problem("property", name, f"{cls.__name__} has no such one", remedy)])
    return cls._properties[name]


def _plain(value: Any) -> Any:
    """A value as people print it: plain lists and dicts."""
    plain: Callable[[Any], Any] = dict if isinstance(value, dict) else list
    return plain(value) if isinstance(value, dict | list) else value
