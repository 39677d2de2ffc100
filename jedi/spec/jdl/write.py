"""JDL from attributes, as DIRAC's clients read it.

Source: docs/reference/jdl.md#text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")


def write(attributes: Mapping[str, Any]) -> str:
    """Return the text of a manifest, a line for each attribute."""
    lines = (f"    {name} = {_value(value)};\n" for name, value in attributes.items())
    return f"[\n{''.join(lines)}]\n"


def _value(value: Any) -> str:
    match value:
        case Mapping():
            inner = "; ".join(f"{name} = {_value(one)}" for name, one in value.items())
            return f"[ {inner} ]"
        case str():
            if _NUMBER.fullmatch(value):
                return value
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case Sequence():
            return "{" + ", ".join(map(_value, value)) + "}"
    return str(value)
