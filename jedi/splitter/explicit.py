"""Strategy Explicit: the units come with the submission, with their own options and files.

Source: docs/reference/herds.md#explicit.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jedi.core.errors import BadInput, Problem
from jedi.model.splitting.units import (
    FileUse,
    GivenUnit,
    Manifest,
    SplitAfter,
    SplitFile,
    Unit,
)
from jedi.model.tasks.shell_words import too_long
from jedi.splitter.plan import OF_JEDI, flat

EXPLICIT = "Explicit"
"""The name of the strategy."""

_OPTION = re.compile(r"[A-Za-z_][\w.]{0,127}", re.ASCII)
_PARTS = ("options", "files")


class Explicit:
    """The strategy of units that the submitter has planned."""

    after: SplitAfter = "refine"
    options = ()

    def consumes(self, manifest: Manifest) -> list[str]:
        """Return the options that children do not have: none."""
        return []

    def check(self, manifest: Manifest) -> list[Problem]:
        """Return mistakes of options: it has none of its own."""
        return []

    def sets(self, manifest: Manifest) -> None:
        """Return None: units come with their own options."""

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> list[Unit]:
        """BadInput: it plans no unit."""
        rule = "its units come with the submission"
        raise BadInput([Problem("splitter.name", EXPLICIT, rule, "Use operation unit.submit")])


FileDatasets = Mapping[str, Sequence[str]] | None
"""The datasets that have a file, by its name; None: they are not known yet."""


def judge(
    units: Sequence[Any], needed: Collection[str], known: FileDatasets, datasets: Sequence[str]
) -> list[GivenUnit]:
    """Return the units, each with its refusal. `needed`: options that a unit must have; `datasets`:
    the input."""
    return [_judge(one, needed, known, datasets) for one in units]


def _judge(
    unit: Any, needed: Collection[str], known: FileDatasets, datasets: Sequence[str]
) -> GivenUnit:
    if not isinstance(unit, dict) or not unit.keys() <= {*_PARTS}:
        return GivenUnit({}, None, f"A unit has the parts {' and '.join(_PARTS)} alone.")
    options, files = unit.get("options", {}), unit.get("files")
    if refusal := _wrong_options(options, needed):
        return GivenUnit({}, None, refusal)
    if files is None:
        why = f"It reads all files of datasets {', '.join(datasets)}; a unit reads files of one."
        return GivenUnit(options, refusal=why if len(datasets) > 1 else None)
    if refusal := _wrong_files(files, known, datasets):
        return GivenUnit(options, None, refusal)
    return GivenUnit(options, [*dict.fromkeys(files)])


def _wrong_options(options: Any, needed: Collection[str]) -> str | None:
    if not isinstance(options, dict):
        return "Its options are no object."
    for name, value in options.items():
        if not _OPTION.fullmatch(name):
            return f"{name[:80]!r} is no name of an option."
        if name in OF_JEDI:
            return f"Option {name} is set by JEDI."
        if not _is_text(value):
            return f"Option {name} is no text or list of texts."
        if why := next(filter(None, map(too_long, flat(value))), None):
            return f"Option {name}: {why}. Put the text into a file of the sandbox."
    if lacking := next((name for name in needed if name not in options), None):
        return f"It lacks option {lacking}, which jobParameters name."
    return None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(map(_is_text, value)))


def _wrong_files(files: Any, known: FileDatasets, datasets: Sequence[str]) -> str | None:
    if not isinstance(files, list) or not files or not all(isinstance(f, str) for f in files):
        return "Its files are no list of names."
    if not datasets:
        return "It names files, and the task has no input."
    if known is None:
        return None
    if missing := [name for name in files if name not in known]:
        more = f" and {len(missing) - 1} more" if missing[1:] else ""
        return f"The input has no file {missing[0]}{more}."
    if unclear := next((name for name in files if len(known[name]) > 1), None):
        return f"File {unclear} is in datasets {' and '.join(known[unclear])}."
    if len({known[name][0] for name in files}) > 1:
        return "Its files are of several datasets."
    return None


def divide(units: Sequence[GivenUnit], lfns: Sequence[str]) -> list[Unit]:
    """Return the parts of units in the files of the input, without options. BadInput: a file of a
    unit is gone."""
    places = {lfn: n for n, lfn in enumerate(lfns)}
    everything = [FileUse(n) for n in range(len(lfns))]
    found = []
    for number, unit in enumerate(units, 1):
        if unit.refusal:
            found.append(Unit())
            continue
        if gone := [name for name in unit.files or () if name not in places]:
            rule = f"unit {number} reads it, and the input has it no more"
            raise BadInput([Problem("files", gone[0], rule, "Submit the others in a new job")])
        uses = everything if unit.files is None else [FileUse(places[f]) for f in unit.files]
        found.append(Unit(files=uses))
    return found
