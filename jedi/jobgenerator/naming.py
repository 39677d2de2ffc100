"""Serial numbers and the file names made of them.

Every job, be it a new attempt, takes a new serial number, and none is used twice (seed, "Naming of
output file", option B). In a file name the number has at least six digits.
"""

from __future__ import annotations

from collections.abc import Sequence

from jedi.core.errors import JediError
from jedi.spec.generation import Output

DIGITS = 6


def padded(number: int) -> str:
    """A serial number as it stands in file names."""
    return f"{number:0{DIGITS}d}"


def middle_name(source: str, fields: Sequence[int]) -> str:
    """These fields, counted from 1, of a name whose fields have points between; a scope is none."""
    words = source.rpartition(":")[2].split(".")
    return ".".join(words[n - 1] for n in fields if n <= len(words))


def jobs_allowed(outputs: Sequence[Output], most: int) -> int:
    """Up to `most`, as many jobs as all templates have numbers for (MAXSERIALNR). JediError if a
    template has none left."""
    for output in outputs:
        left = most if output.max_serial_nr is None else output.max_serial_nr - output.serial_nr
        if left <= 0:
            raise JediError(
                f"The serial numbers of {output.dataset.name} are used up: {output.serial_nr} of "
                f"{output.max_serial_nr}. Raise MAXSERIALNR of its template, or submit a new task.",
                code="serial_numbers_used_up",
                dataset=output.dataset.name,
                max_serial_nr=output.max_serial_nr,
            )
        most = min(most, left)
    return most


def serial_numbers(output: Output, jobs: int) -> range:
    """The next serial numbers of a template."""
    return range(output.serial_nr + 1, output.serial_nr + 1 + jobs)
