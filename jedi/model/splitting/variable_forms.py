"""The forms of variables in the options of a manifest.

Source: docs/reference/herds.md#variables.
"""

from __future__ import annotations

import re

from jedi.model.splitting.units import OptionValue

VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<braced>[A-Za-z_][\w.]*)\}|(?P<bare>[A-Za-z_]\w*))"
    r"|%(?:\((?P<named>[A-Za-z_]\w*)\)s|(?P<letter>[snj]))",
    re.ASCII,
)


def has_variables(value: OptionValue) -> bool:
    """Return True if a value contains the form of a variable, known or not."""
    if isinstance(value, str):
        return VARIABLE.search(value) is not None
    return any(has_variables(one) for one in value)


def without_variables(text: str) -> str:
    """Return a text without its variables, known or not."""
    return VARIABLE.sub("", text)
