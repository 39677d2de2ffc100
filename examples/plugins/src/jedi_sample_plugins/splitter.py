"""From a manifest and its input files to the units of a herd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from jedi.core.errors import BadInput, Problem
from jedi.model.splitting.units import FileUse, Manifest, SplitFile, Unit

WIDTH = "SplitterRunDigits"


class ByRun:
    """All files of a run are a unit: `run0042.part1.root` belongs to run 0042. With option
    SplitterRunDigits = 2, files of runs 4200 to 4299 go together."""

    after: Literal["contents"] = "contents"

    def consumes(self, manifest: Manifest) -> list[str]:
        return [name for name in manifest if name == WIDTH]

    def check(self, manifest: Manifest) -> list[Problem]:
        value = str(manifest.get(WIDTH, "9"))
        if re.fullmatch("[1-9]", value):
            return []
        return [Problem(WIDTH, value, "a number from 1 to 9", "Correct it")]

    def plan(self, manifest: Manifest, files: Sequence[SplitFile]) -> Iterator[Unit]:
        width = int(manifest.get(WIDTH, "9"))
        runs: dict[str, list[FileUse]] = {}
        for position, file in enumerate(files):
            found = re.search(r"run(\d+)", file.lfn)
            if not found:
                rule = "the name of the file has no run, such as run0042"
                raise BadInput([Problem("InputData", file.lfn, rule, "Leave the file out")])
            runs.setdefault(found[1][:width], []).append(FileUse(position))
        for run, uses in sorted(runs.items()):
            yield Unit({"Run": run}, uses)
