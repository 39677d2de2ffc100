"""`jedi`: starts, stops and shows the system, and runs its parts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from jedi_client.cli.common import (
    NO,
    Json,
    ProfileName,
    Server,
    Version,
    application,
    console,
    read_file,
    reported,
    run,
    show,
    table,
)

from jedi.cli import admin, components, network, retry_rule, snapshot, watchdog
from jedi.cli.audit import audit_app
from jedi.cli.browser import open_pages
from jedi.cli.check import check
from jedi.cli.database import must_be_here, transaction
from jedi.cli.replay import replay
from jedi.cli.simulate import simulate
from jedi.core import clock, loading
from jedi.core.errors import Unreachable
from jedi.host import logfiles

if TYPE_CHECKING:
    from jedi.service.system.status import SystemStatus
    from jedi.standalone.installation import Installation

SAID_BYTES, SAID_LINES = 2000, 6
"""Most bytes and lines to show of the log of a process that does not start."""

HERE = {"up", "down", "destroy", "status", "check", "api", "simulate", *components.GROUPS}
"""Verbs and groups about processes and the database of JEDI_HOME; the others ask the service."""

app = application(
    "JEDI: tasks over datasets become jobs at sites.\n\n"
    "Start everything on this machine with `jedi up`, then submit with `jedi-task`."
)
_GROUPS = {
    **components.GROUPS,
    **admin.GROUPS,
    **network.GROUPS,
    **snapshot.GROUPS,
    "retry-rule": retry_rule.app,
    "watchdog": watchdog.app,
}
_GROUPS["audit"] = audit_app
for _name, _group in _GROUPS.items():
    app.add_typer(_group, name=_name)
app.command()(check)
app.command()(replay)
app.command("open")(open_pages)
app.command()(simulate)


def main() -> None:
    """The console script `jedi`."""
    run(app, "jedi")


@app.callback()
def _first(
    context: typer.Context,
    server: Server = None,
    profile: ProfileName = None,
    version: Version = False,
) -> None:
    from jedi.cli.namesake import refuse_namesake

    refuse_namesake()
    if (verb := context.invoked_subcommand) in HERE:
        must_be_here(f"jedi {verb}")


@app.command()
def up(
    detach: Annotated[
        bool, typer.Option("--detach", help="Return when the system is up; it keeps running.")
    ] = False,
    sites: Annotated[
        Path | None,
        typer.Option("--sites", exists=True, dir_okay=False, help="A site file to import."),
    ] = None,
    copies: Annotated[int, typer.Option("--copies", min=1, help="Processes of each agent.")] = 1,
) -> None:
    """Start everything: the database, the service and all agents, each a supervised process.

    It stays in the foreground until Ctrl-C, which stops all as `jedi down` does.

    Example: `JEDI_HOME=~/jedi-home jedi up --detach`
    """
    loading.begin()
    begin = clock.monotonic()
    from jedi.standalone.installation import Installation

    installation = Installation.current()
    site_file = read_file(sites) if sites else None
    if site_file is not None:
        from jedi.model.sites.site_file import read_sites

        read_sites(site_file)  # its mistakes are reported before anything starts
    stay = partial(_stay_up, installation, site_file, copies, begin)
    if not detach:
        stay()
        return
    from jedi.standalone.detach import up_detached

    options = ["--copies", str(copies), *(["--sites", str(sites.absolute())] if sites else [])]
    up_detached(installation, partial(reported, stay), options, partial(typer.echo, err=True))
    _tell_where(installation, clock.monotonic() - begin)


def _stay_up(installation: Installation, site_file: str | None, copies: int, begin: float) -> None:
    """Be the supervisor, until the system ends."""
    from jedi.standalone.beginning import begun

    with begun(installation) as beginning:
        from jedi.standalone.up import up

        up(
            installation,
            beginning,
            lambda notes: _tell_where(installation, clock.monotonic() - begin, notes),
            site_file=site_file,
            copies=copies,
        )


@app.command()
def down(
    drain: Annotated[
        float,
        typer.Option("--drain", min=0, help="Seconds to wait for running jobs and their results."),
    ] = 10.0,
) -> None:
    """Stop all processes; inputs of running jobs are tried again after `jedi up`.

    Meanwhile no pilot gets a job; stderr shows the jobs that it waits for.

    Example: `jedi down --drain 300`
    """
    from jedi.standalone.down import down
    from jedi.standalone.installation import Installation

    installation = Installation.current()
    was_up = down(installation, drain, partial(typer.echo, err=True))
    typer.echo(f"JEDI in {installation.home.path} is down." if was_up else "JEDI was not up.")


@app.command()
def destroy(
    orphans: Annotated[
        list[Path] | None,
        typer.Option("--orphan", metavar="DIRECTORY", help="A database whose home is gone."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete the home, its database, tasks and logs, and the storage in it.

    The system must be down. Storage outside of the home stays, and so does another user's database.

    Example: `JEDI_HOME=/tmp/trial jedi destroy`
    """
    from jedi.standalone import destroying
    from jedi.standalone.installation import Installation

    installation = Installation.current()
    if not orphans:
        destroying.must_be_there(installation)
    doomed = orphans or [installation.home.path]
    names = ", ".join(map(str, doomed))
    if not yes:
        typer.confirm(f"Delete {names} with all its tasks?", abort=True, err=True)
    if orphans:
        for root in orphans:
            destroying.destroy_orphan(root)
    else:
        destroying.destroy(installation)
    typer.echo(f"Deleted: {names}.")


@app.command()
def status(as_json: Json = False) -> None:
    """Show processes, agents, tasks, jobs and sites; only processes if the database is away.

    Exit code 0: all is well, 1: a part is not, or the system is starting, 3: the database does not
    answer.

    Example: `jedi status --json`
    """
    from jedi.core.extensions import installed
    from jedi.service.system.status import system
    from jedi.standalone.installation import Installation

    installation = Installation.current()
    installation.check_admission()
    supervisor, record = installation.supervisor(), installation.read_record() or []
    starting = installation.starting
    value: dict[str, Any] = {
        "home": str(installation.home.path),
        "database": installation.shown_url,
        "supervisor": supervisor,
        "starting": starting,
        "draining": installation.settings.draining.exists(),
        "processes": record,
        "pages": installation.home.page_url if supervisor else None,
        "wires": installed("jedi.wires"),
        "orphans": installation.orphans(),
    }
    if starting:
        show({"healthy": False, **value, "system": None}, as_json, lambda: _show_processes(value))
        raise typer.Exit(NO)
    try:
        with transaction() as tx:
            found = system(tx)
    except Unreachable as error:
        if supervisor:
            if not as_json:
                _show_processes(value)
            raise Unreachable(error.sentence, **error.facts | value) from error
        if not as_json:
            _show_orphans(value)
        where = installation.home.path
        raise Unreachable(f"JEDI is not up in {where}: `jedi up` starts it.") from error
    late = [row["name"] for row in record if not row["ready"]] if supervisor else []
    healthy = found.healthy and not late
    value = {"healthy": healthy, **value, "system": found}
    show(value, as_json, lambda: _show_status(value, found))
    if not healthy:
        raise typer.Exit(NO)


def _show_processes(value: dict[str, Any]) -> None:
    supervisor = value["supervisor"]
    state = "draining" if value["draining"] else "starting" if value["starting"] else "up"
    print_line = console().print
    print_line(f"home        {value['home']}")
    print_line(f"database    {value['database']}")
    print_line(f"pages       {value['pages'] or 'none'}")
    print_line(f"wires       {', '.join(value['wires'].values()) or 'none'}")
    print_line(f"supervisor  {f'{state}, process {supervisor.pid}' if supervisor else 'none'}")
    restarted = [row for row in value["processes"] if row["lives"] > 1 or not row["ready"]]
    if restarted:
        table(
            ["process", "ready", "lives", "last end"],
            [[r["name"], r["ready"], r["lives"], r["last_end"]] for r in restarted],
        )
    _show_orphans(value)


def _show_orphans(value: dict[str, Any]) -> None:
    if value["orphans"]:
        table(
            ["database without its home", "home"],
            [[one.root, one.home or "unknown: of an earlier release"] for one in value["orphans"]],
        )
        console().print(
            "`jedi destroy --orphan DIRECTORY` deletes one whose home is known. A home "
            "that was moved knows its database again after `jedi up`."
        )


def _show_status(value: dict[str, Any], found: SystemStatus) -> None:
    _show_processes(value)
    rows = [
        [
            a.agent,
            a.healthy,
            "asleep" if a.asleep else a.processes,
            a.age_s and round(a.age_s),
            a.rss_kb // 1024,
            a.items,
            (a.last_error or "").partition("\n")[0],
        ]
        for a in found.agents
    ]
    headers = ["agent", "healthy", "processes", "seen s ago", "RSS MB", "items", "last error"]
    table(headers, rows, spare=("items", "RSS MB", "processes"), short=("last error",))
    table(
        ["site", "status", "slots", "jobs"],
        [[s.site, s.status, s.n_slots, s.jobs] for s in found.sites],
    )
    for what, counts in (("tasks", found.tasks), ("jobs", found.jobs)):
        words = ", ".join(f"{n} {name}" for name, n in counts.items())
        console().print(f"{what:<12}{words or 'none'}")


def _tell_where(installation: Installation, seconds: float, notes: Sequence[str] = ()) -> None:
    """The one screen of `jedi up`."""
    from jedi.taskbuffer.sites.sites import ALL_SITES

    try:
        with transaction() as tx:
            named = ", ".join(f"{s['site']} ({s['nslots']} slots)" for s in ALL_SITES.rows(tx))
    except Unreachable as error:  # it crashed since; it is healed
        named = error.sentence
    late = [row for row in installation.read_record() or [] if not row["ready"]]
    lines = [
        f"JEDI is up after {seconds:.1f} s.",
        "",
        f"  home      {installation.home.path}",
        f"  database  {installation.shown_url}",
        f"  storage   {installation.home.storage}",
        f"  logs      {installation.home.logs}",
        f"  sites     {named}",
        f"  pages     {installation.home.page_url or 'none'}",
        "",
        "  jedi open                    open the pages in a browser",
        "  jedi-task submit FILE.yaml   submit a task",
        "  jedi-task watch ID           follow it",
        "  jedi status                  show the system",
        "  jedi down                    stop everything (Ctrl-C where it runs in the foreground)",
        *(["", *notes] if notes else []),
    ]
    if late:
        names = ", ".join(row["name"] for row in late)
        lines[0] = f"JEDI is up, but after {seconds:.1f} s these are not ready: {names}."
    for log in (installation.home.logs / f"{row['name']}.log" for row in late if row["last_end"]):
        last_lines = [line for line in logfiles.tail(log, SAID_BYTES).splitlines() if line.strip()]
        lines += ["", f"{log}:", *last_lines[-SAID_LINES:]]
    console().print("\n".join(lines))


@app.command()
def api(leashed: components.Leashed = False) -> None:
    """Run the service for pilots and users until SIGTERM.

    Example: `jedi api`
    """
    from jedi.core import loading

    loading.begin()
    from jedi.standalone.parts import run_service

    run_service(leashed=leashed)
