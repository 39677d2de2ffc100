"""From a manifest and its input to the units of a herd as they are written: options with their
variables replaced.

Source: docs/reference/herds.md#variables; RFC #15, "Manifest changes".
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from jedi.core.errors import BadInput, Problem
from jedi.model.jdl.manifest import FILE_NAMES, UNSAFE
from jedi.model.splitting.units import OptionValue, Unit
from jedi.model.splitting.variable_forms import has_variables
from jedi.model.tasks.shell_words import too_long
from jedi.splitter.variables import Room, expand

SPLIT_ID, SOURCE, JOB_ID = "SplitID", "SplitSourceJob", "JobID"
OF_JEDI = (SPLIT_ID, SOURCE, JOB_ID)
"""Options that every unit has from JEDI."""
INPUT_DATA, NUMBER = "InputData", "ParameterNumber"


def own_options(unit_nr: int, n_units: int, origin: int, source: int) -> dict[str, str]:
    """The options that follow from a unit's number and PandaID. Unit 1 has SplitID 0, and all as
    many digits as the number of units."""
    split_id = f"{unit_nr - 1:0{len(str(n_units))}}"
    return {SPLIT_ID: split_id, SOURCE: str(source), JOB_ID: str(origin)}


def number_of(unit_nr: int, n_units: int) -> str:
    """DIRAC's number of a unit: from 0, with as many digits as the last one."""
    return f"{unit_nr - 1:0{len(str(n_units - 1))}}"


def logical_name(dataset: str, lfn: str) -> str:
    """The name of a file of a dataset, as manifests have it."""
    return f"LFN:/{dataset.replace(':', '/', 1)}/{lfn}"


def render_units(
    units: Sequence[Unit],
    origins: Sequence[int],
    values: Mapping[str, OptionValue],
    most: int,
    names: Sequence[str] = (),
) -> list[str]:
    """The own options of each unit as JSON: values with variables, replaced, and the strategy's
    values. The first of `origins` is the originator. `names` of all files of the input, of which
    the unit's own are its InputData. OutOfRoomError: they have more than `most` characters.
    BadInput: a file of a manifest has a name that the shell divides."""
    fixed = {name: value for name, value in values.items() if not has_variables(value)}
    open_values = {name: value for name, value in values.items() if name not in fixed}
    if INPUT_DATA not in json.dumps([*open_values.values()]):
        names = ()
    n_units, source, room = len(units), origins[0], Room(most)
    found = []
    for number, (unit, origin) in enumerate(zip(units, origins, strict=True), 1):
        own = own_options(number, n_units, origin, source)
        known = {NUMBER: number_of(number, n_units), **fixed, **unit.options, **own}
        if names and unit.files:
            known[INPUT_DATA] = [*dict.fromkeys(names[use.position] for use in unit.files)]
        left = Room(room.left)
        new = {name: expand(value, known, left) for name, value in open_values.items()}
        if problems := [*_names_of_files(number, new), *_too_long(number, new)]:
            raise BadInput(problems)
        found.append(json.dumps({**new, **unit.options}))
        room.take(len(found[-1]))
    return found


def _names_of_files(number: int, options: Mapping[str, OptionValue]) -> list[Problem]:
    """Problems of the names of files that a unit's values made."""
    return [
        Problem(
            f"{name} of unit {number}",
            file,
            "it has a blank or a character of the shell",
            "Use values without them in names of files, such as $SplitID",
        )
        for name in FILE_NAMES
        for file in flat(options.get(name, ()))
        if UNSAFE.search(file)
    ]


def _too_long(number: int, options: Mapping[str, OptionValue]) -> list[Problem]:
    """Problems of values that became too long for any program."""
    return [
        Problem(
            f"{name} of unit {number}", text[:80], why, "Put the text into a file of the sandbox"
        )
        for name, value in options.items()
        for text in flat(value)
        if (why := too_long(text))
    ]


def flat(value: OptionValue) -> list[str]:
    """The texts of a value."""
    if isinstance(value, str):
        return [value]
    return [text for one in value for text in flat(one)]
