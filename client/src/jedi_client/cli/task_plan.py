"""`jedi-task plan`: forecasts a task without submitting it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jedi_client.cli.brokerage import OtherKnobs, OtherSites, show_differences, show_sites
from jedi_client.cli.common import NO, Json, cell, console, read_file, service, show, table
from jedi_client.cli.upload import task_format, upload_all

if TYPE_CHECKING:
    from jedi_client.models import PlanWithAlternative, Span, TaskPlan


def plan(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="YAML or JSON.")],
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed; default the snapshot's, or 0.")
    ] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option(
            "--snapshot",
            exists=True,
            dir_okay=False,
            help="A snapshot of `jedi snapshot export` instead of the database.",
        ),
    ] = None,
    knobs: OtherKnobs = None,
    sites: OtherSites = None,
    as_json: Json = False,
) -> None:
    """Forecast a task: its jobs, their sites and their needs.

    Nothing is written. Exit code 1: there would be no jobs.

    Example: `jedi-task plan hello.yaml --set broker.max_sites=2`
    """
    text = {"name": str(file), "text": read_file(file), "format": task_format(file)}
    with service() as jedi:
        ask = partial(jedi.task_plan, text=text, seed=seed, knobs=knobs, sites=sites)
        if snapshot:
            found = ask(snapshot=read_file(snapshot))
        else:
            known = upload_all(jedi, [text], [file.parent], lambda _: ask())
            found = ask(sandbox=known[0] if known else None)
    for warning in found.plan.warnings:
        typer.echo(f"Warning: {warning}", err=True)
    show(found, as_json, lambda: _tell(found))
    if not (found.then or found.plan).jobs:
        raise typer.Exit(NO)


def _tell(found: PlanWithAlternative) -> None:
    _tell_plan(found.plan)
    if found.then:
        console().print("\nWith these changes:")
        _tell_plan(found.then)
        show_differences(found.differences)


def _tell_plan(plan: TaskPlan) -> None:
    print_line = console().print
    print_line(
        f"task      {plan.task_name}, of {plan.owner}, priority {plan.priority}, "
        f"in work queue {plan.work_queue}"
    )
    if plan.continues and plan.jobs:
        print_line(f"again     continues task {plan.continues}; {plan.files} files are left")
    if plan.left_out:
        print_line(f"left out  {cell(plan.left_out)}")
    if plan.nucleus:
        print_line(f"nucleus   {', '.join(plan.nucleus.chosen) or 'none'}")
        if not plan.nucleus.chosen:
            show_sites(plan.nucleus.sites, ())
    if plan.jobs:
        _tell_jobs(plan)
    else:
        print_line(f"jobs      none: {_why_not(plan)}")
    for one in filter(None, (plan.brokerage, *plan.others)):
        if plan.others:
            print_line(f"dataset   {one.dataset}: {', '.join(one.chosen) or 'nowhere'}")
        show_sites(one.sites, one.chosen)


def _why_not(plan: TaskPlan) -> str | None:
    if plan.why_not == "nothing_left":
        return f"continues task {plan.continues}; nothing is left to process"
    return plan.why_not


def _tell_jobs(plan: TaskPlan) -> None:
    print_line = console().print
    scouts = f", of which {plan.scouts} scouts come first" if plan.scouts else ""
    left = f", {plan.files_left} files are left" if plan.files_left else ""
    print_line(f"jobs      {plan.jobs}{scouts}{left}")
    if sets := plan.job_sets:
        print_line(
            f"job sets  {plan.jobs} ({sets.mode}): {sets.consumers} consumers, "
            f"{sets.ranges} ranges of events"
        )
    events = f" ({_span(plan.events_per_job)} events)" if plan.events_per_job else ""
    print_line(f"each      {_span(plan.files_per_job)} of {plan.files} files{events}")
    needs = f"{_span(plan.cores)} cores, {_span(plan.walltime_s)} s, {_span(plan.memory_mb)} MB"
    print_line(f"needs     {needs} of memory, {_span(plan.disk_mb)} MB of disk")
    print_line(f"input     {plan.local} jobs have all of it at their site")
    wait = f"about {cell(plan.wait_s)} s"
    if plan.wait_s is None:
        wait = f"unknown, since no job began there in the last week ({plan.unknown})"
    print_line(f"wait      {wait}, seed {plan.seed}")
    rows: list[list[Any]] = [
        [one.site, one.weight, one.jobs, one.unknown if one.wait_s is None else one.wait_s]
        for one in plan.at
    ]
    table(["site", "weight", "jobs", "wait s"], rows)


def _span(span: Span | None) -> str:
    if span is None:
        return "unknown"
    return cell(span.least) if span.least == span.most else f"{cell(span.least)}-{cell(span.most)}"
