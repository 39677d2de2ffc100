"""Variables in the options of a manifest: `$Name`, `${Name}`, `$$`, and DIRAC's `%s %n %(A)s %j`.

One pass: the value of a variable is not scanned again, so no value can bring in another. Source:
docs/reference/herds.md#variables.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from jedi.model.splitting.units import OptionValue
from jedi.model.splitting.variable_forms import VARIABLE

_LETTERS = {"s": "Parameter", "n": "ParameterNumber", "j": "JobID"}


class OutOfRoomError(ValueError):
    """Replaced variables would take more room than there is."""


@dataclass(slots=True)
class Room:
    """Characters, and elements of lists, that values may still take. It bounds memory before a
    value is built: a text of 100,000 variables may stand for 100,000 long texts."""

    left: int

    def take(self, size: int) -> None:
        """Use some up. OutOfRoomError: there is not enough."""
        self.left -= size
        if self.left < 0:
            raise OutOfRoomError


def expand(
    value: OptionValue, known: Mapping[str, OptionValue], room: Room | None = None
) -> OptionValue:
    """Return a value with its known variables replaced; unknown ones stay as they are. A list in
    place of a whole text makes that a list, and its elements take the place of an element.
    OutOfRoomError."""
    room = room or Room(sys.maxsize)
    if isinstance(value, str):
        whole = VARIABLE.fullmatch(value)
        if whole and not isinstance(known.get(_name(whole), ""), str):
            return known[_name(whole)]
        return VARIABLE.sub(lambda found: _text(found, known, room), value)
    expanded: list[OptionValue] = []
    for one in value:
        new = expand(one, known, room)
        if isinstance(one, str) and not isinstance(new, str):
            room.take(len(new))
            expanded += new
        else:
            expanded.append(new)
    return expanded


def _name(found: re.Match[str]) -> str:
    if found["named"]:
        return f"Parameter.{found['named']}"
    return found["braced"] or found["bare"] or _LETTERS.get(found["letter"] or "", "")


def _text(found: re.Match[str], known: Mapping[str, OptionValue], room: Room) -> str:
    if found["dollar"]:
        return "$"
    value = known.get(_name(found))
    if value is None:
        return found[0]
    text = value if isinstance(value, str) else ",".join(map(str, value))
    room.take(len(text))
    return text
