"""JDL from attributes, as DIRAC's clients read it.

Source: docs/reference/jdl.md#text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_NUMBER = re.compile(r"[1-9][0-9]*")
_NUMBERS = (
    "CPUTime",
    "Priority",
    "NumberOfProcessors",
    "MinNumberOfProcessors",
    "MaxNumberOfProcessors",
)
"""Attributes that DIRAC writes as numbers."""


def write(attributes: Mapping[str, Any]) -> str:
    """Return the text of a manifest, a line for each attribute. Names that JDL can't have, as a
    manifest in JSON may, are left out."""
    lines = (
        f"    {name} = {_number(name, value) or _value(value)};\n"
        for name, value in attributes.items()
        if _NAME.fullmatch(name)
    )
    return f"[\n{''.join(lines)}]\n"


def _number(name: str, value: Any) -> str | None:
    return str(value) if name in _NUMBERS and _NUMBER.fullmatch(str(value)) else None


def _value(value: Any) -> str:
    match value:
        case Mapping():
            inner = "; ".join(f"{name} = {_value(one)}" for name, one in value.items())
            return f"[ {inner} ]"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Sequence():
            return "{" + ", ".join(map(_value, value)) + "}"
    return _value(str(value))
