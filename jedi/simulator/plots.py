"""Outcomes as pictures (matplotlib, the extra `plot`); those of two runs lie over each other, the
second one dashed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from jedi.core.errors import JediError
from jedi.simulator.measure import Outcome

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = ("-", "--")
_SITES = 8
"""Sites that get a curve of their own."""

Outcomes = Mapping[str, Outcome]
"""One or two outcomes by what they are called."""


def make_sure() -> None:
    """JediError if there is no matplotlib: to be asked before a long run."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise JediError(
            "Plots need matplotlib: `pip install 'jedi-server[plot]'`, or leave --plots out.",
            code="no_matplotlib",
        ) from error


def write_plots(outcomes: Outcomes, directory: Path) -> list[Path]:
    """Write all pictures as PNG; the files."""
    make_sure()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.use("Agg")
    directory.mkdir(parents=True, exist_ok=True)
    found = []
    for name, (title, x, y, draw) in _PICTURES.items():
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        axes.set(title=title, xlabel=x, ylabel=y)
        axes.grid(visible=True, alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        draw(axes, outcomes)
        if x == _HOUR:
            _by_day(axes, 24 * max(outcome.days for outcome in outcomes.values()))
        if not axes.get_lines():
            axes.text(0.5, 0.5, "nothing to show", ha="center", transform=axes.transAxes)
        else:
            axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8,
                        title=_title(outcomes), title_fontsize=8)  # fmt: skip
        found.append(directory / f"{name}.png")
        figure.savefig(found[-1], dpi=120)
    return found


def _utilisation(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        curves = outcome.curves
        axes.plot(curves.hours, _percent(curves.utilisation["all"]), style, color="black",
                  linewidth=2, label=run("all sites"))  # fmt: skip
        if len(outcomes) == 1:
            for site in outcome.sites[:_SITES] if len(outcome.sites) > 1 else []:
                axes.plot(curves.hours, _percent(curves.utilisation[site.site]), alpha=0.6,
                          linewidth=1, label=site.site)  # fmt: skip
    axes.set_ylim(0, 105)


def _shares(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        curves, colours = outcome.curves, _colours(outcomes)
        for share, used in curves.usage.items():
            colour = colours[share]
            axes.plot(curves.share_hours, _percent(used), style, color=colour,
                      label=run(share))  # fmt: skip
            axes.plot(curves.share_hours, _percent(curves.allocation[share]), ":", color=colour,
                      linewidth=2, alpha=0.7, label=run(f"{share}, allocated"))  # fmt: skip
    axes.set_ylim(0, 105)


def _queues(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        for share, values in outcome.curves.waiting.items():
            axes.plot(outcome.curves.hours, values, style, color=_colours(outcomes)[share],
                      label=run(share))  # fmt: skip
    axes.set_ylim(bottom=0)


def _waiting(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        for share, waits in outcome.curves.waits.items():
            if waits:
                axes.plot(waits, _ranks(waits), style, color=_colours(outcomes)[share],
                          label=run(share))  # fmt: skip
    axes.set_ylim(0, 105)
    axes.set_xlim(left=0)


def _completion(axes: Axes, outcomes: Outcomes) -> None:
    for run, outcome, style in _runs(outcomes):
        shares = dict.fromkeys(one.share for one in outcome.task_ends)
        for share in shares:
            ours = [one for one in outcome.task_ends if one.share == share]
            took = sorted(one.took_h for one in ours if one.took_h is not None)
            if took:
                part = [100 * (n + 1) / len(ours) for n in range(len(took))]
                axes.step([0.0, *took], [0.0, *part], style, where="post",
                          color=_colours(outcomes)[share], label=run(share or "none"))  # fmt: skip
    axes.set_ylim(0, 105)
    axes.set_xlim(left=0)


_HOUR = "hours after the start"
_PICTURES: Mapping[str, tuple[str, str, str, Callable[[Axes, Outcomes], None]]] = {
    "utilisation": ("Slots in use", _HOUR, "% of the slots", _utilisation),
    "shares": ("Shares: cores in use and allocated", _HOUR, "% of all", _shares),
    "queues": ("Jobs that wait for their start", _HOUR, "jobs", _queues),
    "waiting": ("How long jobs waited for their start", "hours",
                "% of the jobs waited no longer", _waiting),
    "completion": ("From submission to the end", "hours", "% of the tasks took no longer",
                   _completion),
}  # fmt: skip


def _title(outcomes: Outcomes) -> str:
    """Which run is which, where there are two."""
    runs = [f"{letter}: {fill(run, 28)}" for letter, run in zip("AB", outcomes, strict=False)]
    return "\n".join(runs if len(runs) > 1 else [])


def _by_day(axes: Axes, hours: float) -> None:
    """Marks at full days or simple parts of them, ten at most."""
    from matplotlib.ticker import MultipleLocator

    steps = (1, 2, 3, 6, 12, 24, 48, 96, 168, 336, 672)
    step = next((step for step in steps if hours / step <= 10), 1344)
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.set_xlim(0, hours)


def _colours(outcomes: Outcomes) -> dict[str, str]:
    """The colour of each share, in all runs and pictures."""
    known = {share for outcome in outcomes.values() for share in outcome.curves.waits}
    known |= {task.share for outcome in outcomes.values() for task in outcome.task_ends}
    return {share: f"C{number % 10}" for number, share in enumerate(sorted(known))}


def _runs(outcomes: Outcomes) -> list[tuple[Callable[[str], str], Outcome, str]]:
    """Each outcome with how its curves are called and drawn."""

    def named(letter: str) -> Callable[[str], str]:
        return lambda what: what if len(outcomes) == 1 else f"{what} ({letter})"

    return [
        (named(letter), outcome, style)
        for letter, outcome, style in zip("AB", outcomes.values(), _STYLES, strict=False)
    ]


def _percent(values: Sequence[float]) -> list[float]:
    return [100 * value for value in values]


def _ranks(values: Sequence[float]) -> list[float]:
    return [100 * (n + 1) / len(values) for n in range(len(values))]
