"""Placeholders for a job's own values in job parameters and file names: ${IN}, ${SN}, $JEDITASKID.

Braces mark JEDI's placeholders when the name is in capitals; everything else with a dollar sign
belongs to the shell. Source: docs/reference/task-parameters.md#placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from jedi.core.errors import Problem
from jedi.model.tasks import arithmetic

_PLACEHOLDER = re.compile(r"\$\{((?:TRN_[A-Z]+\d*:)?[A-Z][A-Z0-9_]*)(?:/([^{}]*))?\}")

_UNIT_VALUE = re.compile(r"\$\{UNIT/[^{}]*\}")
_FORM = re.compile(r"([A-Z]?)(?:\[([^][]*)\])?")
_SLICE = re.compile(r"(-?\d{1,6})?:(-?\d{1,6})?")

SYSTEM = {
    "SN": ("", "P", "M"),
    "RNDMSEED": ("", "M"),
    "SEQNUMBER": ("", "M"),
    "SKIPEVENTS": ("", "M"),
    "MAXEVENTS": ("", "M"),
    "FIRSTEVENT": ("", "M"),
    "ATTEMPTNR": ("", "M"),
    "MIDDLENAME": ("",),
    "SURL": ("",),
}
"""Placeholders that JEDI fills by itself, with the kinds of forms they have."""

LIBRARY = "LIB"
"""Placeholder of the software that a build job built."""

UNIT = "UNIT"
"""Placeholder of a herd's jobs: ${UNIT/Name} is the value of an option of the unit."""

STREAM_FORMS = ("", "L", "S", "A", "T", "E", "F")
"""The kinds of forms of an input's placeholder."""

IN_FILE_NAMES = ("SN", "MIDDLENAME")
"""Placeholders that may stand in the names of output files."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form after the slash. `kind`: a list with commas (L, E), blanks (S), commas and quotes
    (A), or as a literal (T), or the name of a file that holds them, a line each (F); six digits at
    least (P); a sum (M); empty: folded. `part`: a slice of the names."""

    kind: str
    part: slice = field(default_factory=lambda: slice(None))
    sum: arithmetic.Sum | None = None

    @classmethod
    def parse(cls, text: str) -> Form:
        """`S`, `L[0:2]`, `[1:]`, `M[#*2]`; ValueError names the mistake."""
        match = _FORM.fullmatch(text)
        if not match:
            raise ValueError("is not a form of a placeholder")
        kind, inner = match[1], match[2]
        if kind == "M":
            return cls(kind, sum=arithmetic.parse(inner or ""))
        if inner is None:
            return cls(kind)
        ends = _SLICE.fullmatch(inner)
        if not ends or kind in ("P", "F"):
            raise ValueError("has brackets without a slice such as [0:2]")
        return cls(kind, slice(*(int(end) if end else None for end in ends.groups())))


SERIAL = "${SN}"
SEQUENCE = "${SEQNUMBER}"
TASK_ID = "$JEDITASKID"
MIDDLE = "${MIDDLENAME}"


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`${name/form}` as it stands in a text."""

    name: str
    form: str
    text: str


def placeholders(text: str) -> Iterator[Placeholder]:
    """All of them, in order."""
    for match in _PLACEHOLDER.finditer(text):
        yield Placeholder(match[1], match[2] or "", match[0])


def is_option(text: str) -> bool:
    """Return True if a text may be the name of a unit's option."""
    return re.fullmatch(r"[A-Za-z_][\w.]*", text, re.ASCII) is not None


def unfilled(path: str, text: str | None, known: Collection[str]) -> Iterator[Problem]:
    """Placeholders in a text that stands in front of job parameters: nothing is filled in there."""
    for placeholder in placeholders(text or ""):
        remedy = f"Write ${placeholder.name} if it is a variable of the shell"
        if placeholder.name in known:
            remedy = "Put it into the job parameters"
        yield Problem(path, placeholder.text, "transPath has no value for the placeholder", remedy)


def stream_of(value: str, position: int) -> str:
    """The stream an input item feeds: the first placeholder that is not JEDI's own, else IN for
    the first input, IN2 for the second and so on (`position` counts from 0)."""
    for placeholder in placeholders(value):
        if placeholder.name not in (*SYSTEM, LIBRARY, UNIT):
            return placeholder.name
    return f"IN{position + 1}" if position else "IN"


def split_output(value: str) -> tuple[str, str]:
    """Split an output item into the text before the file name and the name's template: the text
    after the last `=` or blank, its serial number always written ${SN}."""
    name = re.split(r"[=\s]", value.rstrip())[-1]
    return value.rstrip().removesuffix(name), name.replace("${SN/P}", SERIAL)


PRE_MERGE_MARK = "panda.um"


def marked(name: str, *, at_end: bool) -> str:
    """The name of the source that is merged into `name`."""
    return f"{name}.{PRE_MERGE_MARK}" if at_end else f"{PRE_MERGE_MARK}.{name}"


def fill_task_id(text: str, jedi_task_id: int) -> str:
    """Put the task's number into a name."""
    return text.replace(TASK_ID, str(jedi_task_id))


def longest_name(template: str) -> str:
    """A name as a template may make it, to be checked before there is a job."""
    filled = fill_task_id(template, 10**12).replace(SERIAL, "0" * 9).replace(MIDDLE, "m" * 32)
    return _UNIT_VALUE.sub("u" * 16, filled)


def list_file(stream: str) -> str:
    """The name of the file that holds the file names of a stream (form F)."""
    return f"input_{stream}.txt"
