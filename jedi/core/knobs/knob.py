"""A live setting: its type, unit, range, meaning, and its value in both presets."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Generic, Never, NoReturn, TypeVar, overload

from jedi.core.errors import BadInput, Problem

PRESETS = ("classic", "current")
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Knob(Generic[T]):
    """A declared setting. The type of `classic` is its type; `pairs`: a text of names with a number
    each (see `numbers`). Read from a `Component`, it is its value."""

    classic: T
    current: T
    unit: str
    least: float | None
    most: float | None
    among: tuple[str, ...]
    pairs: bool
    meaning: str = ""
    component: str = ""
    key: str = ""

    def __set_name__(self, kind: type[Component], key: str) -> None:
        object.__setattr__(self, "key", key)

    @overload
    def __get__(self, component: None, kind: type[Component]) -> Knob[T]: ...
    @overload
    def __get__(self, component: Component, kind: type[Component]) -> T: ...
    def __get__(self, component: Component | None, kind: type[Component]) -> Any:
        return self if component is None else component._values[self.key]

    def __set__(self, component: Component, value: Never) -> NoReturn:
        raise AttributeError(f"{self.key} is frozen")

    def means(self, meaning: str) -> Knob[T]:
        """The knob with its meaning."""
        return replace(self, meaning=meaning)

    @property
    def name(self) -> str:
        """`component.key`."""
        return f"{self.component}.{self.key}"

    @property
    def _in_unit(self) -> str:
        return f" [{self.unit}]" if self.unit else ""

    def default(self, preset: str) -> Any:
        """The value of a preset."""
        return self.classic if preset == "classic" else self.current

    def check(self, value: Any) -> Any:
        """The value, converted from text if need be; BadInput names the rule it breaks."""
        kind: type[Any] = type(self.classic)
        if isinstance(value, str) and kind is not str:
            with suppress(ValueError):
                value = json.loads(value)
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise self._bad(value, f"is {_KINDS[kind]}{self._in_unit}")
        if self.pairs:
            self._check_pairs(value)
        elif self.least is not None and value < self.least:
            raise self._bad(value, f"is at least {self.least}{self._in_unit}")
        elif self.most is not None and value > self.most:
            raise self._bad(value, f"is at most {self.most}{self._in_unit}")
        if self.among and value not in self.among:
            raise self._bad(value, f"is one of {', '.join(self.among)}")
        return value

    def _check_pairs(self, value: str) -> None:
        try:
            pairs = numbers(value)
        except ValueError:
            raise self._bad(value, f"is pairs like a=1, b=2{self._in_unit}") from None
        least = -math.inf if self.least is None else self.least
        if not all(least <= number < math.inf for number in pairs.values()):
            raise self._bad(value, f"has numbers of at least {self.least}{self._in_unit}")

    def _bad(self, value: Any, rule: str) -> BadInput:
        example = self.classic or "a=1, b=2" if self.pairs else self.classic
        remedy = f"Give a value like {'true' if example is True else repr(example)}"
        return BadInput([Problem(self.name, value, f"{self.name} {rule}", remedy)])


def knob(
    classic: T,
    unit: str = "",
    *,
    current: T | None = None,
    least: float | None = None,
    most: float | None = None,
    among: tuple[str, ...] = (),
    pairs: bool = False,
) -> Knob[T]:
    """A knob; without `current`, both presets have the same value."""
    return Knob(classic, classic if current is None else current, unit, least, most, among, pairs)


def switch(classic: int, *, current: int | None = None) -> Knob[int]:
    """A knob that is 0 or 1."""
    return knob(classic, "0/1", current=current, least=0, most=1)


class Component:
    """The knobs of one component: its class has their declarations, an object their values."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values


def words(value: str) -> list[str]:
    """The words of a knob that holds several, with commas or blanks between them."""
    return value.replace(",", " ").split()


def numbers(value: str) -> dict[str, float]:
    """The numbers of a knob such as `simul=1000, pile=1500`, by name; ValueError: it has another
    form."""
    pairs = [word.rpartition("=") for word in words(value)]
    if not all(name for name, _, _ in pairs):
        raise ValueError(value)
    return {name: float(number) for name, _, number in pairs}
