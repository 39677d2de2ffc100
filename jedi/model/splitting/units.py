"""Units of a herd: the children that a strategy makes of one manifest.

Source: docs/reference/herds.md; RFC #15, "Manifest changes".
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from jedi.core.errors import Problem

OptionValue = str | Sequence[Any]
"""The value of an option: a text, or a list of them."""

Manifest = Mapping[str, Any]
"""Options by name, as JDL or JSON has them: texts, numbers, lists."""

SplitAfter = Literal["refine", "contents"]
"""The step of the chain after which a strategy can run: the task's parameters are known, or the
files of its input."""


@dataclass(frozen=True, slots=True)
class SplitFile:
    """An input file that a strategy divides: its events (None: unknown) and its size in bytes;
    `endpoints` hold a replica, in alphabetical order."""

    lfn: str
    size: int
    n_events: int | None = None
    boundary: int | None = None
    endpoints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileUse:
    """A file of a unit, by its position among the files; events from `start` to before `stop`
    (None: all of them)."""

    position: int
    start: int | None = None
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """A child: the options that the strategy sets, and its part of the input."""

    options: Mapping[str, OptionValue] = field(default_factory=dict)
    files: Sequence[FileUse] = ()


@dataclass(frozen=True, slots=True)
class GivenUnit:
    """A unit as it was submitted. `files`: names of its input files; None: all of the input.
    `refusal`: the reason why it can't be accepted."""

    options: Mapping[str, OptionValue]
    files: Sequence[str] | None = None
    refusal: str | None = None


class SplitStrategy(Protocol):
    """A strategy of entry point `jedi.split_strategies`. It is pure: it uses no database, no clock
    and no random number, so that two runs agree."""

    @property
    def after(self) -> SplitAfter:
        """The step of the chain after which it can run."""

    def consumes(self, manifest: Manifest) -> Iterable[str]:
        """Return the names of the options that children do not have."""

    def check(self, manifest: Manifest) -> Sequence[Problem]:
        """Return all mistakes of the strategy's options."""

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> Iterable[Unit]:
        """Return the units, in their order. BadInput: the manifest and the files allow none."""


class OwnStrategy(SplitStrategy, Protocol):
    """A strategy of JEDI: the submission knows its options and its units' options."""

    @property
    def options(self) -> Collection[str]:
        """The names of the options that it consumes."""

    def sets(self, manifest: Manifest) -> Iterable[str] | None:
        """Return the names of the options that the plan sets; None: units come with their own."""
