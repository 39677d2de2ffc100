"""Units of a herd before its submission: the splitter's part of a plan.

Source: docs/reference/herds.md#split.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jedi.core.errors import JediError
from jedi.core.knobs import Knobs
from jedi.model.datasets.chunk import Files
from jedi.model.splitting.units import SplitFile, Unit
from jedi.model.tasks.params import SplitterSpec
from jedi.service.brokerage.system_state import PlanCatalogue
from jedi.splitter import strategies
from jedi.splitter.plug_in import Limits


def count_units(spec: SplitterSpec, knobs: Knobs) -> int | None:
    """The number of units of a herd that divides no input; None: it divides some."""
    if strategies.describe(spec.name).after == "contents":
        return None
    return len(_plan(spec, [], knobs))


def divided(
    spec: SplitterSpec,
    named: Mapping[int, str],
    files: Mapping[int, Files],
    data: PlanCatalogue,
    knobs: Knobs,
) -> dict[int, Files]:
    """The rows of master datasets (their names by id) once they are divided; other datasets stay
    as they are. BadInput, JediError: nothing can be divided."""
    found, before = dict(files), 0
    for dataset_id, name in named.items():
        rows = files[dataset_id]
        where = data.locate(name, rows.lfns)
        units = _plan(spec, _listed(rows, where), knobs, before)
        found[dataset_id] = _of_units(rows, units, before)
        before += len(units)
    return found


def _plan(
    spec: SplitterSpec, files: Sequence[SplitFile], knobs: Knobs, before: int = 0
) -> Sequence[Unit]:
    """The units of some files; the herd has `before` units already."""
    split = knobs.split
    limits = Limits(split.max_units - before, split.timeout_s, split.memory_mb)
    units = strategies.plan(spec.name, {**spec.values, **spec.options}, files, limits)
    if not 0 < len(units) <= limits.max_units:
        many = f"more than {split.max_units}" if units else "no"
        code = "too_many_units" if units else "split_made_no_units"
        raise JediError(f"Splitter {spec.name} makes {many} units.", code=code)
    return units


def _listed(rows: Files, where: Mapping[str, Sequence[str]]) -> list[SplitFile]:
    columns = zip(
        rows.lfns, rows.sizes.tolist(), rows.events.tolist(), rows.boundaries.tolist(), strict=True
    )
    return [
        SplitFile(lfn, size, events or None, boundary or None, tuple(sorted(where.get(lfn, ()))))
        for lfn, size, events, boundary in columns
    ]


def _of_units(rows: Files, units: Sequence[Unit], before: int) -> Files:
    """A row for each file of each unit; the numbers of units count on from `before`."""
    uses = [(use, number) for number, unit in enumerate(units, before + 1) for use in unit.files]
    found = rows.take(np.array([use.position for use, _ in uses], np.int64))
    starts = np.array([use.start or 0 for use, _ in uses], np.int64)
    events = found.events
    stops = np.array(
        [
            end if use.stop is None else use.stop
            for (use, _), end in zip(uses, events.tolist(), strict=True)
        ]
    )
    return replace(
        found,
        boundaries=np.array([number for _, number in uses], np.int64),
        start_events=starts,
        events=stops - starts,
        events_left=events - stops,
    )
