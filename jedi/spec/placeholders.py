"""What stands for a job's own values in job parameters and file names: ${IN}, ${SN}, $JEDITASKID.

Braces mark JEDI's placeholders when the name is in capitals; everything else with a dollar sign
belongs to the shell. Source: engine.md §2.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_PLACEHOLDER = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?:/([^{}]*))?\}")

SYSTEM = {
    "SN": ("", "P"),
    "RNDMSEED": ("",),
    "SKIPEVENTS": ("",),
    "MAXEVENTS": ("",),
    "FIRSTEVENT": ("",),
    "ATTEMPTNR": ("",),
}
"""Placeholders that JEDI fills by itself, with what may follow the slash."""

STREAM_FORMS = ("", "L", "S")
"""What may follow the slash of an input's placeholder."""

SERIAL = "${SN}"
TASK_ID = "$JEDITASKID"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`${name/form}` as it stands in a text."""

    name: str
    form: str
    text: str


def placeholders(text: str) -> Iterator[Placeholder]:
    """All of them, in order."""
    for found in _PLACEHOLDER.finditer(text):
        yield Placeholder(found[1], found[2] or "", found[0])


def stream_of(value: str, position: int) -> str:
    """The stream an input item feeds: the first placeholder that is not JEDI's own, else IN for
    the first input, IN2 for the second and so on (`position` counts from 0)."""
    for found in placeholders(value):
        if found.name not in SYSTEM:
            return found.name
    return f"IN{position + 1}" if position else "IN"


def split_output(value: str) -> tuple[str, str]:
    """What stands before the file name of an output item, and the name's template: the text after
    the last `=` or blank, its serial number always written ${SN}."""
    name = re.split(r"[=\s]", value.rstrip())[-1]
    return value.rstrip().removesuffix(name), name.replace("${SN/P}", SERIAL)


def fill_task_id(text: str, jedi_task_id: int) -> str:
    """Put the task's number into a name."""
    return text.replace(TASK_ID, str(jedi_task_id))


def longest_name(template: str) -> str:
    """A name as a template may make it, to be checked before there is a job."""
    return fill_task_id(template, 10**12).replace(SERIAL, "0" * 9)
