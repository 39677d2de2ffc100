"""Strategy Parametric: a child for each value of its parameters.

The values of a count follow x(0) = Start, x(n+1) = x(n) * Factor + Step, exactly, in decimals.
Source: docs/reference/herds.md#parametric; RFC #15, "Manifest changes".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation
from typing import Any

from jedi.core.errors import BadInput, Problem
from jedi.model.splitting.units import Manifest, OptionValue, SplitAfter, SplitFile, Unit
from jedi.splitter.plan import NUMBER, number_of

_OPTION = re.compile(r"(Parameters|ParameterStart|ParameterStep|ParameterFactor)(?:\.(\w+))?")
_DEFAULTS = {
    "ParameterStart": Decimal(1),
    "ParameterStep": Decimal(0),
    "ParameterFactor": Decimal(1),
}
_EXACT = Context(prec=50)
_MOST_DIGITS = 30


@dataclass(frozen=True, slots=True)
class _Vector:
    """The values of one parameter; `name` is "" for the one without a name."""

    name: str
    values: Sequence[OptionValue] | int
    start: Decimal
    step: Decimal
    factor: Decimal

    def __len__(self) -> int:
        return self.values if isinstance(self.values, int) else len(self.values)

    def __iter__(self) -> Iterator[OptionValue]:
        if not isinstance(self.values, int):
            yield from self.values
            return
        value, places = self.start, max(_places(self.start), _places(self.step))
        for n in range(self.values):
            if value and not -_MOST_DIGITS <= value.adjusted() <= _MOST_DIGITS:
                rule = f"its value {n} has more than {_MOST_DIGITS} digits"
                raise BadInput(
                    [
                        Problem(
                            _spell("ParameterFactor", self.name),
                            str(self.factor),
                            rule,
                            "Lower it, or list the values",
                        )
                    ]
                )
            yield _shown(value, places)
            value = _EXACT.add(_EXACT.multiply(value, self.factor), self.step)


class Parametric:
    """One unit for each value; named parameters go side by side."""

    after: SplitAfter = "refine"
    options = ("Parameters", *_DEFAULTS)

    def consumes(self, manifest: Manifest) -> list[str]:
        """Return the options that describe the parameters."""
        return [name for name in manifest if _OPTION.fullmatch(name)]

    def check(self, manifest: Manifest) -> list[Problem]:
        """Return all mistakes of the parameters."""
        return _read(manifest)[1]

    def sets(self, manifest: Manifest) -> list[str]:
        """Return the options that the plan sets: the value of each parameter, and the number."""
        found = filter(None, map(_OPTION.fullmatch, manifest))
        return [*dict.fromkeys(_spell("Parameter", one[2] or "") for one in found), NUMBER]

    def plan(self, manifest: Manifest, files: Sequence[SplitFile] = ()) -> Iterator[Unit]:
        """Yield the units: `Parameter` or `Parameter.NAME`, and `ParameterNumber` (from 0, in as
        many digits as the last)."""
        vectors, problems = _read(manifest)
        if problems:
            raise BadInput(problems)
        names = [_spell("Parameter", one.name) for one in vectors]
        n_units = len(vectors[0])
        for n, values in enumerate(zip(*vectors, strict=True)):
            number = number_of(n + 1, n_units)
            yield Unit({**dict(zip(names, values, strict=True)), NUMBER: number})


def _read(manifest: Manifest) -> tuple[list[_Vector], list[Problem]]:
    """Return the parameters and all their mistakes."""
    given: dict[str, dict[str, Any]] = {}
    for option, value in manifest.items():
        if found := _OPTION.fullmatch(option):
            given.setdefault(found[2] or "", {})[found[1]] = value
    problems: list[Problem] = []
    vectors = [one for name, options in given.items() if (one := _vector(name, options, problems))]
    counts = {len(one) for one in vectors}
    if len(counts) > 1:
        shown = {_spell("Parameters", one.name): len(one) for one in vectors}
        rule = "all parameters have the same number of values"
        problems.append(Problem("Parameters", shown, rule, "Give each as many values"))
    if not (vectors or problems):
        rule = "strategy Parametric needs its values"
        problems.append(Problem("Parameters", None, rule, "Give a count, or a list in braces"))
    return vectors, problems


def _vector(name: str, options: Mapping[str, Any], problems: list[Problem]) -> _Vector | None:
    before = len(problems)
    path = _spell("Parameters", name)
    values = _values(path, options.get("Parameters"), problems)
    ramp = {}
    for option, default in _DEFAULTS.items():
        ramp[option] = default
        if option in options:
            ramp[option] = _number(_spell(option, name), options[option], problems)
            if isinstance(values, list):
                rule = f"{path} is a list, whose values are given"
                problems.append(
                    Problem(_spell(option, name), options[option], rule, "Leave it out")
                )
    if len(problems) > before:
        return None
    return _Vector(name, values, *ramp.values())


def _values(path: str, value: Any, problems: list[Problem]) -> list[OptionValue] | int:
    """Return the list of values, or their number."""
    if isinstance(value, list):
        if not value:
            rule = "the list of values is empty"
            problems.append(Problem(path, value, rule, "Give one value at least"))
        return [one if isinstance(one, list) else str(one) for one in value]
    text = str(value)
    if not re.fullmatch(r"[0-9]{1,9}", text) or not int(text) or isinstance(value, bool):
        rule = "a whole number of values, 1 or more, or a list of them"
        problems.append(Problem(path, value, rule, "Give a count, or a list in braces"))
        return 0
    return int(text)


def _number(path: str, value: Any, problems: list[Problem]) -> Decimal:
    try:
        number = Decimal(str(value))
        if isinstance(value, bool) or "_" in str(value) or not number.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        rule = "a number such as 1.3"
    else:
        if not number or -_MOST_DIGITS <= number.adjusted() <= _MOST_DIGITS:
            return number
        rule = f"a number of at most {_MOST_DIGITS} digits"
    problems.append(Problem(path, value, rule, "Correct it"))
    return Decimal(0)


def _places(number: Decimal) -> int:
    """Return how many digits a number has behind its point."""
    return len(format(number, "f").partition(".")[2])


def _shown(value: Decimal, places: int) -> str:
    """Return a value without zeros at its end, beyond so many places: a product has the zeros of
    both factors, and a Factor of 1.0 would add one to each value."""
    whole, _, part = format(value, "f").partition(".")
    part = part[:places] + part[places:].rstrip("0")
    return f"{whole}.{part}" if part else whole


def _spell(option: str, name: str) -> str:
    return f"{option}.{name}" if name else option
