"""Serial numbers and the file names made of them.

Every job, also a new attempt, takes a new serial number, and none is used twice (JEDI document,
"Naming of output file", option B). In a file name the number has at least six digits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from jedi.core import names
from jedi.core.errors import JediError
from jedi.model.jobs.generation import JobOutput

DIGITS = 6
MARK = "\0"
"""Stands for a serial number in a name that has none yet."""


def padded(number: int) -> str:
    """A serial number as it stands in file names."""
    return f"{number:0{DIGITS}d}"


def middle_name(source: str, fields: Sequence[int]) -> str:
    """These fields, counted from 1, of a name whose fields have points between; a scope is none."""
    words = source.rpartition(":")[2].split(".")
    return ".".join(words[n - 1] for n in fields if n <= len(words))


def jobs_allowed(outputs: Sequence[JobOutput], most: int) -> int:
    """Up to `most`, as many jobs as all templates have numbers for (MAXSERIALNR). JediError if a
    template has none left."""
    for output in outputs:
        left = most if output.max_serial_nr is None else output.max_serial_nr - output.serial_nr
        if left <= 0:
            raise _used_up(output, output.serial_nr)
        most = min(most, left)
    return most


def name_files(
    output: JobOutput, stems: Sequence[str], inputs: Callable[[int, str], bool] = lambda *_: False
) -> tuple[list[int], list[str]]:
    """The serial number and the file name of each job. `stems` are the names with MARK in place of
    the number; `inputs` says whether a job reads a file of this name, in the directory where it
    writes: it would lose that input, so the number is left out. JediError: no number helps."""
    numbers: list[int] = []
    found: list[str] = []
    number = output.serial_nr
    for job, stem in enumerate(stems):
        number += 1
        while inputs(job, name := stem.replace(MARK, padded(number))):
            if MARK not in stem:
                raise output_is_input(name)
            number += 1
        numbers.append(number)
        found.append(name)
    if output.max_serial_nr is not None and number > output.max_serial_nr:
        raise _used_up(output, number)
    return numbers, found


def output_is_input(name: str) -> JediError:
    """A job would write its output over its input."""
    return JediError(
        f"A job would write its output {name} over its input of that name. "
        "Submit the task anew with another name for the output.",
        code="output_is_input",
        lfn=name,
    )


def must_be_name(name: str) -> None:
    """JediError if values of a unit make an output's name no file name."""
    try:
        names.lfn(name)
    except ValueError as error:
        raise JediError(
            f"The values of a unit make the name {name!r} of an output, which {error}. Submit the "
            "task anew with other values.",
            code="bad_unit_value",
            lfn=name,
        ) from None


def must_not_be_read(source_name: str | None, inputs: Collection[str]) -> None:
    """JediError if the payload's own name of an output is that of an input of one of the jobs."""
    if source_name is not None and source_name in inputs:
        raise output_is_input(source_name)


def _used_up(output: JobOutput, number: int) -> JediError:
    return JediError(
        f"The serial numbers of {output.dataset.name} are used up: {number} of "
        f"{output.max_serial_nr}. Raise MAXSERIALNR of its template, or submit a new task.",
        code="serial_numbers_used_up",
        dataset=output.dataset.name,
        max_serial_nr=output.max_serial_nr,
    )
