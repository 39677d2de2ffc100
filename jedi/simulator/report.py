"""Outcomes as files: tables as CSV, and the differences of two."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from jedi.simulator.event_use import EventTotals
from jedi.simulator.measure import Curve, Curves, ShareUse, SimulationOutcome, SiteUse, TaskEnd

_TABLES: dict[str, type[Any]] = {
    "sites": SiteUse,
    "shares": ShareUse,
    "tasks": TaskEnd,
    "events": EventTotals,
}


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """One figure of two outcomes."""

    what: str
    a: float | None
    b: float | None

    @property
    def change(self) -> float | None:
        """By how much it is larger in the second."""
        return None if self.a is None or self.b is None else round(self.b - self.a, 4)


def write_tables(outcome: SimulationOutcome, directory: Path) -> list[Path]:
    """Write the tables and curves as CSV; the files."""
    directory.mkdir(parents=True, exist_ok=True)
    rows: dict[str, Sequence[Any]] = {
        "sites": outcome.sites,
        "shares": outcome.shares,
        "tasks": outcome.task_ends,
        "events": outcome.events,
    }
    paths = [
        _write(
            directory / f"{name}.csv",
            [field.name for field in fields(kind)],
            [[*asdict(row).values()] for row in rows[name]],
        )
        for name, kind in _TABLES.items()
    ]
    lines = list(_points(outcome.curves))
    paths.append(_write(directory / "curves.csv", ["curve", "name", "hour", "value"], lines))
    return paths


def differences(a: SimulationOutcome, b: SimulationOutcome) -> list[MetricDifference]:
    """The metrics of two outcomes side by side."""
    first, second = _figures(a), _figures(b)
    return [
        MetricDifference(name, first.get(name), second.get(name))
        for name in dict.fromkeys([*first, *second])
    ]


def completion_h(outcome: SimulationOutcome) -> float | None:
    """Hours that an ended task took on the average."""
    took = [one.took_h for one in outcome.task_ends if one.took_h is not None]
    return round(sum(took) / len(took), 3) if took else None


def _figures(outcome: SimulationOutcome) -> dict[str, float | None]:
    figures: dict[str, float | None] = {
        "utilisation": round(outcome.utilisation, 4),
        "hours a task takes": completion_h(outcome),
        **{f"jobs {status}": n for status, n in outcome.jobs.items()},
        **{f"jobs ended: {code}": n for code, n in outcome.ends.items()},
        **{f"tasks {status}": n for status, n in outcome.tasks.items()},
    }
    for share in outcome.shares:
        figures |= {
            f"usage of {share.share}": share.usage,
            f"median wait of {share.share} in h": share.wait_median_h,
            f"longest queue of {share.share}": share.longest_queue,
        }
    for one in outcome.events:
        figures |= {
            f"events/s of {one.task}": one.per_s,
            f"waste of {one.task}": one.waste,
            f"ranges of {one.task} redone": one.redone,
        }
    return figures


def _points(curves: Curves) -> Iterator[list[Any]]:
    for curve in ("utilisation", "waiting", "usage", "allocation", "events"):
        line: Curve
        for name, line in getattr(curves, curve).items():
            points = zip(line.hours, line.values, strict=True)
            yield from ([curve, name, hour, value] for hour, value in points if value is not None)


def _write(path: Path, head: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([head, *rows])
    return path
