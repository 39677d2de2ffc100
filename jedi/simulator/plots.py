"""Outcomes as pictures (matplotlib, the extra `plot`); two runs lie over each other, the second one
dashed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from jedi.core.errors import JediError
from jedi.simulator.job_times import BOOSTED
from jedi.simulator.measure import Curve, SimulationOutcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--")
_SITES = 8
"""Sites that get a curve of their own."""

Outcomes = Mapping[str, SimulationOutcome]
"""One or two outcomes by name."""


def make_sure() -> None:
    """JediError: matplotlib is missing. Ask before a long run."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise JediError(
            "Plots need matplotlib: `pip install 'jedi-server[plot]'`, or leave --plots out.",
            code="no_matplotlib",
        ) from error


def write_plots(outcomes: Outcomes, directory: Path) -> list[str]:
    """Write all pictures as PNG but empty ones; the titles of these."""
    make_sure()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    empty = []
    for name, (title, x, y, draw) in _PICTURES.items():
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(visible=True, alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, outcomes)
        if x == _HOUR:
            _by_day(axes, 24 * max(outcome.days for outcome in outcomes.values()))
        file = directory / f"{name}.png"
        if not _shows(axes):
            file.unlink(missing_ok=True)  # of an earlier run
            empty.append(title)
            continue
        axes.legend(
            loc="center left",
            bbox_to_anchor=(1, 0.5),
            frameon=False,
            fontsize=8,
            title=_title(outcomes),
            title_fontsize=8,
        )
        figure.savefig(file, dpi=120)
    return empty


def _shows(axes: Axes) -> bool:
    """True if a curve has two points, or one with a mark."""
    lines = [(line, np.isfinite(np.asarray(line.get_ydata(), float))) for line in axes.get_lines()]
    return any(there.sum() > (line.get_marker() == "None") for line, there in lines)


def _utilisation(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        curves = outcome.curves.utilisation
        axes.plot(
            *_percent(curves["all"]), style, color="black", linewidth=2, label=run("all sites")
        )
        if len(outcomes) == 1:
            for site in outcome.sites[:_SITES] if len(outcome.sites) > 1 else []:
                axes.plot(*_percent(curves[site.site]), alpha=0.6, linewidth=1, label=site.site)
    axes.set_ylim(0, 105)


def _shares(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        curves, looks = outcome.curves, _looks(outcomes)
        for share, used in curves.usage.items():
            axes.plot(*_percent(used), style, **looks[share], label=run(share))
        for share, allocated in curves.allocation.items():
            look = {**looks[share], "linewidth": 2, "alpha": 0.7}
            axes.plot(*_percent(allocated), ":", **look, label=run(f"{share}, allocated"))
    axes.set_ylim(0, 105)


def _queues(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        for share, curve in outcome.curves.waiting.items():
            axes.plot(
                curve.hours, _broken(curve), style, **_looks(outcomes)[share], label=run(share)
            )
    axes.set_ylim(bottom=0)


def _waiting(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        for share, waits in outcome.curves.waits.items():
            if waits:
                axes.plot(
                    waits,
                    _ranks(waits),
                    style,
                    **_looks(outcomes)[share],
                    markevery=max(1, len(waits) // 10),
                    label=run(share),
                )
    axes.set_ylim(0, 105)
    axes.set_xlim(left=0)


def _completion(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        for share in dict.fromkeys(one.share for one in outcome.task_ends):
            ours = [one for one in outcome.task_ends if one.share == share]
            ends = sorted((one.took_h, one.boosted) for one in ours if one.took_h is not None)
            if not ends:
                continue
            colour = _looks(outcomes)[share]["color"]
            points = [(took, 100 * (n + 1) / len(ours)) for n, (took, _) in enumerate(ends)]
            axes.step(
                *_columns([(0.0, 0.0), *points]),
                style,
                where="post",
                color=colour,
                label=run(share or "none"),
            )
            boosted = [at for at, (_, was) in zip(points, ends, strict=True) if was]
            if boosted:
                axes.plot(
                    *_columns(boosted),
                    "o",
                    color=colour,
                    markersize=4,
                    fillstyle="none",
                    label=run(share + BOOSTED),
                )
    axes.set_ylim(0, 105)
    axes.set_xlim(left=0)


def _events(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        curves = outcome.curves.events
        if "all" in curves:
            axes.plot(
                curves["all"].hours,
                _broken(curves["all"]),
                style,
                color="black",
                linewidth=2,
                label=run("all sites"),
            )
        sites = [one.site for one in outcome.sites if one.site in curves][:_SITES]
        for number, site in enumerate(sites if len(sites) > 1 else []):
            axes.plot(
                curves[site].hours,
                _broken(curves[site]),
                style,
                color=f"C{number}",
                alpha=0.6,
                linewidth=1,
                label=run(site),
            )
    axes.set_ylim(bottom=0)


_HOUR = "hours after the start"
_PICTURES: Mapping[str, tuple[str, str, str, Callable[[Axes, Outcomes], None]]] = {
    "utilisation": ("Cores in use", _HOUR, "% of the cores of the slots", _utilisation),
    "shares": ("Shares: cores in use and allocated", _HOUR, "% of all", _shares),
    "queues": ("Jobs that wait for their start", _HOUR, "jobs", _queues),
    "waiting": (
        "How long jobs waited for their start",
        "hours",
        "% of the jobs waited no longer",
        _waiting,
    ),
    "completion": (
        "From submission to the end",
        "hours",
        "% of the tasks took no longer",
        _completion,
    ),
    "events": ("Events that consumers processed", _HOUR, "events/s", _events),
}


def _title(outcomes: Outcomes) -> str:
    """The legend's title, which names the two runs; empty for one run."""
    runs = [f"{letter}: {fill(run, 28)}" for letter, run in zip("AB", outcomes, strict=False)]
    return "\n".join(runs if len(runs) > 1 else [])


def _by_day(axes: Axes, hours: float) -> None:
    """Marks at full days or simple parts of them, ten at most."""
    from matplotlib.ticker import MultipleLocator

    steps = (1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 672)
    step = next((step for step in steps if hours / step <= 10), 1344)
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.set_xlim(0, hours)


def _looks(outcomes: Outcomes) -> dict[str, dict[str, Any]]:
    """The look of each share's curves in all runs and pictures. The curves of its boosted jobs have
    its colour, and points."""
    known = {share for outcome in outcomes.values() for share in outcome.curves.waits}
    known |= {share for outcome in outcomes.values() for share in outcome.curves.allocation}
    known |= {task.share for outcome in outcomes.values() for task in outcome.task_ends}
    own = sorted({share.removesuffix(BOOSTED) for share in known})
    colours = {share: f"C{number % 10}" for number, share in enumerate(own)}
    boosted: dict[str, Any] = {"marker": "o", "markersize": 3, "linewidth": 0.8, "alpha": 0.7}
    return {
        share: {
            "color": colours[share.removesuffix(BOOSTED)],
            **(boosted if share.endswith(BOOSTED) else {}),
        }
        for share in sorted({*known, *own})
    }


def _runs(outcomes: Outcomes) -> list[tuple[Callable[[str], str], SimulationOutcome, str]]:
    """Each outcome with how its curves are called and drawn."""

    def named(letter: str) -> Callable[[str], str]:
        return lambda what: what if len(outcomes) == 1 else f"{what} ({letter})"

    return [
        (named(letter), outcome, style)
        for letter, outcome, style in zip("AB", outcomes.values(), _STYLES, strict=False)
    ]


def _percent(curve: Curve) -> tuple[list[float], list[float]]:
    """The points of a curve: hours and percentages."""
    return curve.hours, [100 * value for value in _broken(curve)]


def _broken(curve: Curve) -> list[float]:
    """Its values; matplotlib breaks the line where one is NaN."""
    return [nan if value is None else value for value in curve.values]


def _columns(points: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [x for x, _ in points], [y for _, y in points]


def _ranks(values: Sequence[float]) -> list[float]:
    return [100 * (n + 1) / len(values) for n in range(len(values))]
