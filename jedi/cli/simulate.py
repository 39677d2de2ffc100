"""`jedi simulate`: tries out a policy before it meets a grid."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from jedi_client.cli.common import NO, Json, cleaning_up, console, read_file, show, table

if TYPE_CHECKING:
    from jedi.simulator.measure import SimulationOutcome
    from jedi.simulator.scenario import Scenario

_MOST = 20
"""Most lines of a table for people; the files have all."""


def simulate(
    scenario: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="A scenario: docs/simulate.md.")
    ],
    knobs: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KNOB=VALUE", help="Use this value of a knob; repeatable."),
    ] = None,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--compare",
            metavar="A B",
            help="Run it twice, each time with other knobs: a YAML file of them, "
            "or KNOB=VALUE,KNOB=VALUE; '' changes none.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", file_okay=False, help="Write tables as CSV here.")
    ] = None,
    plots: Annotated[
        bool, typer.Option("--plots", help="Write plots as PNG, too (needs matplotlib).")
    ] = False,
    scale: Annotated[
        float, typer.Option("--scale", min=0.001, max=1000, help="Factor on slots and files.")
    ] = 1.0,
    seed: Annotated[int | None, typer.Option("--seed", min=0, help="Random seed.")] = None,
    as_json: Json = False,
) -> None:
    """Run days of a made-up grid in minutes: the real agents, brokers and database (one of its
    own, gone afterwards), with sites, pilots, files and time simulated.

    Nothing of the present home is read or written. The same scenario and seed give the same
    result. Exit code 1: the records do not agree, or agents had troubles nobody thought of.

    Example: `jedi simulate shares.yaml --out results --plots --set core.preset=current`
    """
    from jedi.core.errors import BadInput, Problem
    from jedi.simulator import plots as pictures
    from jedi.simulator.knobsets import read_knobs, read_pairs

    if plots:
        pictures.make_sure()
        if out is None:
            raise BadInput([Problem("--plots", None, "plots are files", "Give --out DIRECTORY")])
    found = _read(scenario, scale, seed)
    always = {**found.knobs, **read_pairs("--set", knobs or ())}
    sets = {name: read_knobs("--compare", name) for name in compare or ("",)}
    with cleaning_up():
        outcomes = {
            name or "as it is": _run(found.model_copy(update={"knobs": {**always, **values}}))
            for name, values in sets.items()
        }
    empty = _write(outcomes, out, plots=plots) if out else []
    _show(outcomes, as_json)
    if out and not as_json:
        _tell_files(out, empty, plots=plots)
    if any(outcome.wrong or outcome.troubles for outcome in outcomes.values()):
        raise typer.Exit(NO)


def _read(path: Path, scale: float, seed: int | None) -> Scenario:
    from jedi.simulator.scenario import read_scenario

    scenario = read_scenario(read_file(path))
    if scale != 1:
        scenario = scenario.smaller(scale)
    return scenario if seed is None else scenario.model_copy(update={"seed": seed})


def _run(scenario: Scenario) -> SimulationOutcome:
    """Run one simulation, with a progress bar."""
    from rich.progress import Progress

    from jedi.simulator.measure import measure
    from jedi.simulator.run import simulate

    screen = console(stderr=True)
    with Progress(console=screen, disable=not screen.is_terminal, transient=True) as progress:
        bar = progress.add_task(f"{scenario.days:g} days", total=1.0)
        return measure(simulate(scenario, lambda part: progress.update(bar, completed=part)))


def _write(outcomes: dict[str, SimulationOutcome], out: Path, *, plots: bool) -> list[str]:
    """Write tables, and pictures if asked for; the titles of pictures that would be empty."""
    from jedi.simulator.plots import write_plots
    from jedi.simulator.report import write_tables

    for place, outcome in zip("AB", outcomes.values(), strict=False):
        write_tables(outcome, out / place if len(outcomes) > 1 else out)
    return write_plots(outcomes, out) if plots else []


def _tell_files(out: Path, empty: list[str], *, plots: bool) -> None:
    console().print(f"Tables {'and pictures ' if plots else ''}are in {out}.")
    for title in empty:
        console().print(f'The picture "{title}" is not written: it would be empty.')


def _show(outcomes: dict[str, SimulationOutcome], as_json: bool) -> None:
    from jedi.simulator.report import differences

    if len(outcomes) == 1:
        [outcome] = outcomes.values()
        show(outcome, as_json, lambda: _tell(outcome))
    else:
        a, b = outcomes.values()
        changes = differences(a, b)
        rows = [[d.what, d.a, d.b, d.change] for d in changes]
        value = {"runs": outcomes, "differences": changes}
        show(value, as_json, lambda: table(["", *outcomes, "change"], rows))


def _tell(outcome: SimulationOutcome) -> None:
    from jedi.simulator.report import completion_h

    print_line = console().print
    took = completion_h(outcome)
    print_line(outcome.about)
    print_line(f"days         {outcome.days:g}")
    print_line(f"utilisation  {100 * outcome.utilisation:.1f} % of the slots")
    for what in ("jobs", "ends", "tasks", "held"):
        counts: dict[str, int] = getattr(outcome, what)
        print_line(f"{what:<13}{', '.join(f'{n} {name}' for name, n in counts.items()) or 'none'}")
    if took is not None:
        print_line(f"a task took  {took:.1f} h on the average")
    table(
        [
            "share",
            "used %",
            "allocated %",
            "started",
            "median wait h",
            "95 % wait h",
            "longest queue",
        ],
        [
            [
                s.share,
                _percent(s.usage),
                _percent(s.allocation),
                s.started,
                s.wait_median_h,
                s.wait_95_h,
                s.longest_queue,
            ]
            for s in outcome.shares
        ],
    )
    table(
        ["site", "slots", "used %", "finished", "failed", "closed"],
        [
            [s.site, s.slots, _percent(s.utilisation), s.finished, s.failed, s.closed]
            for s in outcome.sites[:_MOST]
        ],
    )
    if outcome.events:
        table(
            ["task", "events", "merged", "events/s", "ranges", "redone", "waste %"],
            [
                [e.task, e.events, e.merged, e.per_s, e.ranges, e.redone, _percent(e.waste)]
                for e in outcome.events
            ],
        )
    if len(outcome.sites) > _MOST:
        print_line(f"... and {len(outcome.sites) - _MOST} more sites.")
    for what in (*outcome.wrong, *(f"{n} times {say}" for say, n in outcome.troubles.items())):
        print_line(f"WRONG: {what}", style="red")


def _percent(part: float | None) -> float | None:
    return None if part is None else round(100 * part, 1)
