"""Strategies that divide the files of the input: InputDataBySE, ByFiles, ByEvents, BySize,
ByBoundary. The last four are the limits of ordinary tasks, planned at once.

Source: docs/reference/herds.md#by-input; RFC #15, "Proposed implementation".
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from jedi.core.errors import BadInput, Problem
from jedi.model.jobs.demand import GB
from jedi.model.splitting.event_ranges import across
from jedi.model.splitting.units import FileUse, Manifest, SplitAfter, SplitFile, Unit
from jedi.splitter.cap_cutter import CapCutter, Caps, Weights, walk

MAX_FILES = "SplitterMaxFilesPerJob"
EVENTS = "SplitterEventsPerJob"
MAX_GB = "SplitterMaxGBPerJob"
CHOSEN = "SplitterChosenSE"


class ByInput:
    """A strategy that needs the files of the input; `numbers` are its options, with defaults (None:
    the option is needed; infinite: no limit)."""

    after: SplitAfter = "contents"
    numbers: ClassVar[Mapping[str, float | None]] = {}

    @property
    def options(self) -> Collection[str]:
        """The names of its options."""
        return self.numbers

    def consumes(self, manifest: Manifest) -> list[str]:
        """Return the options that say how large children are."""
        return [name for name in manifest if name in self.numbers]

    def check(self, manifest: Manifest) -> list[Problem]:
        """Return all mistakes of the options."""
        return [problem for name in self.numbers if (problem := self._problem(manifest, name))]

    def sets(self, manifest: Manifest) -> list[str]:
        """Return the options that the plan sets: none."""
        return []

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> Iterator[Unit]:
        """Yield the units; each file, or each of its events, is in exactly one."""
        raise NotImplementedError

    def _problem(self, manifest: Manifest, name: str) -> Problem | None:
        value = manifest.get(name, self.numbers[name])
        if name not in manifest and value is not None:
            return None
        text = str(value)
        whole = name != MAX_GB
        form = r"[0-9]{1,9}" if whole else r"[0-9]{1,9}(\.[0-9]{1,9})?"
        if not isinstance(value, bool) and re.fullmatch(form, text) and float(text) > 0:
            return None
        rule = "a whole number, 1 or more" if whole else "a number above 0"
        return Problem(name, value, rule, "Correct it" if name in manifest else "Give it")

    def _number(self, manifest: Manifest, name: str) -> float:
        return float(manifest.get(name, self.numbers[name]) or 0)


class InputDataBySE(ByInput):
    """Files that have a replica at one storage go together, and the storages take turns: the next
    unit comes from the storage that gave the fewest files (ties: by name)."""

    numbers: ClassVar[Mapping[str, float | None]] = {MAX_FILES: 100}

    def sets(self, manifest: Manifest) -> list[str]:
        """Return the options that the plan sets: the storage."""
        return [CHOSEN]

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> Iterator[Unit]:
        """Yield the units, with SplitterChosenSE. BadInput: a file has no replica."""
        order = sorted(range(len(files)), key=lambda n: files[n].lfn)
        held: dict[str, list[int]] = {}
        for n in order:
            for endpoint in files[n].endpoints:
                held.setdefault(endpoint, []).append(n)
        if lost := [files[n].lfn for n in order if not files[n].endpoints]:
            rule = f"{len(lost)} of the {len(files)} files have no replica, the first is {lost[0]}"
            raise BadInput([Problem("InputData", lost[0], rule, "Restore it, or leave it out")])
        most = int(self._number(manifest, MAX_FILES))
        given = dict.fromkeys(held, 0)
        left = {name: iter(numbers) for name, numbers in held.items()}
        used: set[int] = set()
        while left:
            name = min(left, key=lambda one: (given[one], one))
            taken = _take(left[name], used, most)
            if taken:
                given[name] += len(taken)
                yield Unit({CHOSEN: name}, [FileUse(n) for n in taken])
            if len(taken) < most:
                del left[name]


def _take(numbers: Iterator[int], used: set[int], most: int) -> list[int]:
    taken: list[int] = []
    for n in numbers:
        if n not in used:
            used.add(n)
            taken.append(n)
            if len(taken) == most:
                break
    return taken


class _Walked(ByInput):
    """A limit of the splitter of ordinary tasks."""

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> Iterator[Unit]:
        """Yield the units, with the files in their order."""
        weights, caps, breaks = self._limits(manifest, files)
        cuts = CapCutter(weights, breaks).cuts(caps)
        for first, last in pairwise([0, *walk(cuts, 0, len(files))]):
            yield Unit(files=[FileUse(n) for n in range(first, last)])

    def _limits(self, manifest: Manifest, files: Sequence[SplitFile]) -> tuple[Weights, Caps, Any]:
        raise NotImplementedError


class ByFiles(_Walked):
    """So many files a unit."""

    numbers: ClassVar[Mapping[str, float | None]] = {MAX_FILES: 100}

    def _limits(self, manifest: Manifest, files: Sequence[SplitFile]) -> tuple[Weights, Caps, Any]:
        return {"files": np.ones(len(files))}, {"files": self._number(manifest, MAX_FILES)}, _NONE


class BySize(_Walked):
    """At most so many GB a unit; a larger file is a unit of its own."""

    numbers: ClassVar[Mapping[str, float | None]] = {MAX_GB: None}

    def _limits(self, manifest: Manifest, files: Sequence[SplitFile]) -> tuple[Weights, Caps, Any]:
        sizes = np.array([one.size for one in files], float)
        return {"bytes": sizes}, {"bytes": self._number(manifest, MAX_GB) * GB}, _NONE


class ByBoundary(_Walked):
    """All files of a boundary id are a unit."""

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> Iterator[Unit]:
        """Yield the units in the order of the ids."""
        order = sorted(range(len(files)), key=lambda n: files[n].boundary or 0)
        for unit in super().plan(manifest, [files[n] for n in order]):
            yield Unit(files=[FileUse(order[use.position]) for use in unit.files])

    def _limits(self, manifest: Manifest, files: Sequence[SplitFile]) -> tuple[Weights, Caps, Any]:
        ids = np.array([one.boundary or 0 for one in files], np.int64)
        return {"files": np.ones(len(files))}, {}, np.flatnonzero(np.diff(ids)) + 1


_NONE = np.empty(0, np.int64)


class ByEvents(ByInput):
    """So many events a unit, across files; at most so many files, if that option is given."""

    numbers: ClassVar[Mapping[str, float | None]] = {EVENTS: None, MAX_FILES: np.inf}

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> Iterator[Unit]:
        """Yield the units. BadInput: the number of a file's events is unknown."""
        if unknown := [one.lfn for one in files if one.n_events is None]:
            rule = f"the numbers of events of {len(unknown)} of {len(files)} files are unknown"
            remedy = "Give nEventsPerInputFile, or the numbers in .dataset.yaml"
            raise BadInput([Problem("InputData", unknown[0], rule, remedy)])
        size = int(self._number(manifest, EVENTS))
        most = int(min(self._number(manifest, MAX_FILES), max(len(files), 1)))
        for first in range(0, len(files), most):
            yield from _by_events(files[first : first + most], first, size)


def _by_events(files: Sequence[SplitFile], first: int, size: int) -> Iterator[Unit]:
    """Units of `size` events of some files; `first`: the position of the first of them. A file
    without events goes with the events that follow it, or else with the last ones."""
    events = np.array([one.n_events or 0 for one in files], np.int64)
    ranges = across(events, size)
    unit_of = (ranges.before // size).tolist()
    empty = deque(np.flatnonzero(events == 0).tolist())
    uses: list[FileUse] = []
    for n, (file, start, end) in enumerate(
        zip(ranges.files.tolist(), ranges.starts.tolist(), ranges.ends.tolist(), strict=True)
    ):
        if n and unit_of[n] != unit_of[n - 1]:
            yield Unit(files=uses)
            uses = []
        while empty and empty[0] < file:
            uses.append(FileUse(first + empty.popleft()))
        uses.append(FileUse(first + file, start, end + 1))
    uses += [FileUse(first + file) for file in empty]
    if uses:
        yield Unit(files=uses)
