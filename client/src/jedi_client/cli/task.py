"""`jedi-task`: submit tasks, show them, command them, get their outputs."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer

from jedi_client.cli import access, task_follow, task_herd, task_reference, task_results
from jedi_client.cli.common import (
    Json,
    ProfileName,
    Server,
    Version,
    application,
    cell,
    console,
    counted,
    percent,
    read_file,
    run,
    service,
    show,
    table,
)
from jedi_client.cli.common import status as status_of
from jedi_client.cli.dataset import dataset_app
from jedi_client.cli.execute import execute
from jedi_client.cli.layout import TASKS
from jedi_client.cli.task_commands import (
    avalanche,
    change,
    finish,
    incexec,
    kill,
    pause,
    reassign,
    recover,
    release,
    resume,
    retry,
)
from jedi_client.cli.task_common import (
    JobConditions,
    TaskArgument,
    file_part,
    job_ids,
    job_statuses,
    statuses,
)
from jedi_client.cli.task_events import events
from jedi_client.cli.task_plan import plan
from jedi_client.cli.task_why import list_by_turn, why
from jedi_client.cli.upload import SUFFIXES, submitting, upload_all
from jedi_client.terminal import harmless

if TYPE_CHECKING:
    from jedi_client.models import (
        DatasetSummary,
        FailureCause,
        JobMetric,
        JobSummary,
        Submitted,
        TaskDetails,
    )

app = application(
    "Submit, show and command tasks; get their outputs.\n\n"
    "Exit codes: 0 yes, 1 no (the task failed, was aborted, finished only in part, ...), "
    "2 wrong use or input, 3 the system does not answer, 4 time is up."
)


MOST_ROWS = 1_000_000
"""Rows that the service gives at most."""
PAGE = 1000
"""Default number of rows for people; programs get all."""

Limit = Annotated[
    int | None, typer.Option("--limit", min=1, help=f"Most rows; default {PAGE}, or all as JSON.")
]


class ListOrder(StrEnum):
    """Orders of the list."""

    NEWEST = "newest"
    GENERATION = "generation"


def main() -> None:
    """The console script `jedi-task`."""
    run(app, "jedi-task")


@app.callback()
def _first(server: Server = None, profile: ProfileName = None, version: Version = False) -> None:
    """Options of all commands."""


def _must_exist(files: list[Path]) -> list[Path]:
    for file in files:
        if str(file) != "-" and not file.is_file():
            raise typer.BadParameter(f"{file} is not a file")
    return files


@app.command()
def submit(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", callback=_must_exist, help="YAML, JSON or JDL; - is standard input."
        ),
    ],
    key: Annotated[
        str | None,
        typer.Option("--key", help="Your key for it: a repeat gives the same task, no other one."),
    ] = None,
    validate: Annotated[
        bool,
        typer.Option("--validate", "--dry-run", help="Only check whether it can be submitted."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Submit a task, or a collection: several files, a list, or several documents of YAML in one.
    JEDI stores all or none, and reports all mistakes at once.

    Example: `jedi-task submit hello.yaml`
    """
    texts = {file: sys.stdin.read() if str(file) == "-" else read_file(file) for file in files}
    written = [
        {"name": str(file), "text": text, "format": _format(file, text)}
        for file, text in texts.items()
    ]
    with submitting() as jedi:
        ask = partial(jedi.task_submit, texts=written, key=key)
        sandboxes = upload_all(
            jedi,
            written,
            [file.parent for file in texts],
            lambda known: ask(sandboxes=known, dry_run=True),
        )
        done = ask(sandboxes=sandboxes, dry_run=validate)
    warnings = [*dict.fromkeys(warning for one in done for warning in one.warnings)]
    for warning in warnings:
        typer.echo(f"Warning: {warning}", err=True)
    if validate:
        names = ", ".join(map(str, texts))
        value = {"valid": True, "warnings": warnings}
        show(value, as_json, lambda: typer.echo(f"{names} can be submitted."))
        return
    ids = [
        {
            "jedi_task_id": one.jedi_task_id,
            "status": one.status,
            "attempt_nr": one.attempt_nr,
            "warnings": one.warnings,
        }
        for one in done
    ]
    sentences = "\n".join(map(_submitted, done))
    show(ids if done[0].name else ids[0], as_json, lambda: typer.echo(sentences))


_BLANK = r"(?:\s|;|#[^\n]*\n|//[^\n]*\n|/\*.*?\*/)*"
_JDL = re.compile(rf"{_BLANK}\[?{_BLANK}[A-Za-z_][\w.]*\s*=", re.DOTALL)


def _format(file: Path, text: str) -> str:
    """By the file's name, else by its first words."""
    if known := SUFFIXES.get(file.suffix.lower()):
        return known
    if _JDL.match(text):
        return "jdl"
    return "json" if text.lstrip()[:1] in ("{", "[") else "yaml"


def _submitted(done: Submitted) -> str:
    if done.again:
        return (
            f"This is task {done.jedi_task_id} again: attempt {done.attempt_nr}, with new and "
            f"failed inputs ({done.status})."
        )
    known = "is submitted" if done.created else "was submitted under this key before"
    return f"Task {done.jedi_task_id} {known} ({done.status})."


@app.command("list")
def list_tasks(
    status: Annotated[
        list[str] | None,
        typer.Option("--status", autocompletion=statuses, help="With this status; repeatable."),
    ] = None,
    user: Annotated[str | None, typer.Option("--user", help="Tasks of this user.")] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="With this name; * is anything.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="Such as status=running,pending, user!=ana, name~higgs*, priority>=900 or "
            "since>2026-11-01 (UTC, or with an offset); repeatable, all hold.",
        ),
    ] = None,
    order: Annotated[
        ListOrder, typer.Option("--order", help="generation: the order in which tasks get jobs.")
    ] = ListOrder.NEWEST,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows.")] = 20,
    as_json: Json = False,
) -> None:
    """List tasks, the newest first; or the ones without all jobs, in the order of job generation.

    Example: `jedi-task list --status running --name "word*" --where "since>2026-11-01"`
    """
    if order is ListOrder.GENERATION:
        list_by_turn(limit, as_json)
        return
    with service() as jedi:
        found = jedi.task_list(user=user, name=name, status=status, where=where, limit=limit)
    headers = [
        *("task", "name", "user", "status", "%", "files", "done", "failed", "running"),
        *("changed", "reason"),
    ]
    rows = [
        [
            t.jedi_task_id,
            t.task_name,
            t.user_name,
            t.status,
            percent(t),
            counted(t),
            t.n_files_finished,
            t.n_files_failed,
            t.n_jobs_running,
            t.state_change_time,
            t.reason_code,
        ]
        for t in found
    ]
    spare, short = ("user", "done", "changed", "files", "reason"), ("name", "reason")
    show(found, as_json, lambda: table(headers, rows, spare=spare, short=short, colours=TASKS))


@app.command("show")
def show_task(task: TaskArgument, as_json: Json = False) -> None:
    """Show a task: its status and reason, its datasets, its jobs, errors of jobs.

    Example: `jedi-task show 1`
    """
    with service() as jedi:
        found = jedi.task_show(task)
    show(found, as_json, lambda: _show_details(found))


def _show_details(found: TaskDetails) -> None:
    task, print_line = found.task, console().print
    print_line(f"task      {task.jedi_task_id}  {task.task_name}, of {task.user_name}")
    print_line("status   ", status_of(task.status), f"since {cell(task.state_change_time)}")
    print_line(f"reason    {task.reason or task.reason_code or 'none'}")
    if found.pgi:
        print_line(f"PGI state {found.pgi[0]} ({found.pgi[1]})")
    if task.next_run_at:
        print_line(f"next look {cell(task.next_run_at)}")
    print_line(
        f"submitted {cell(task.creation_date)}, priority {task.priority}, attempt {task.attempt_nr}"
    )
    print_line(
        f"{task.unit:10}{task.n_files_finished} of {task.n_files} finished, "
        f"{task.n_files_failed} failed"
    )
    print_line(f"jobs      {cell(found.jobs) or 'none'}")
    gone, leaving = found.purging.gone, found.purging.leaving
    said = [f"{gone} gone"] if gone else []
    said += [f"{leaving} kept until {cell(found.purging.leaving_at)}"] if leaving else []
    if said:
        print_line(f"outputs   of jobs: {', '.join(said)}")
    if found.measured:
        print_line(f"measured  {', '.join(map(_figure, found.measured))}")
    _show_datasets(found.datasets)
    for d in found.datasets:
        if d.n_left_out:
            print_line(
                f"left out  of {d.name}: {cell(d.left_out)} "
                f"(jedi-task files {task.jedi_task_id} --status skipped)"
            )
    if found.forecasts:
        table(
            ["of its jobs", "foreseen", "measured", "unit"],
            [[one.name, one.foreseen, one.true, one.unit] for one in found.forecasts],
        )
    if found.failures:
        table(
            ["failed", "cause", "source", "exit code", "latest job", "message"],
            [_failure(one) for one in found.failures],
            spare=("source",),
        )


def _show_datasets(datasets: Sequence[DatasetSummary]) -> None:
    headers = [
        *("dataset", "type", "status", "files", "finished", "failed", "missing", "left out"),
        "attributes",
    ]
    rows = [
        [
            d.name,
            d.type,
            d.status,
            d.n_files,
            d.n_files_finished,
            d.n_files_failed,
            d.n_files_missing,
            d.n_left_out,
            d.attributes,
        ]
        for d in datasets
    ]
    spare = ("attributes", "missing", "type", "files")
    table(headers, rows, spare=spare, short=("dataset",))


def _figure(one: JobMetric) -> str:
    """A figure of jobs with its unit, and its origin if finished jobs did not measure it."""
    text = f"{one.name} {one.value} {one.unit or ''}".rstrip()
    if one.origin == "failed jobs":
        text += " (failed jobs needed it"
        return text + (f", finished ones {one.measured})" if one.measured else ")")
    return f"{text} (as submitted)" if one.origin == "task" else text


def _failure(one: FailureCause) -> list[Any]:
    said = shorten(one.error_diag or "", SAID)
    return [one.jobs, one.error_code, one.error_source, one.exit_code, one.panda_id, said]


@app.command()
def jobs(
    task: TaskArgument,
    failed: Annotated[
        bool, typer.Option("--failed", help="Failed jobs, with the end of their stderr.")
    ] = False,
    status: Annotated[
        list[str] | None,
        typer.Option("--status", autocompletion=job_statuses, help="With this status; repeatable."),
    ] = None,
    of: Annotated[
        int | None,
        typer.Option(
            "--of",
            metavar="PANDAID",
            autocompletion=job_ids,
            help="Jobs that replace this one now, the worst first.",
        ),
    ] = None,
    where: JobConditions = None,
    after: Annotated[
        int | None,
        typer.Option("--after", metavar="PANDAID", min=1, help="Only newer jobs than this one."),
    ] = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """List the jobs of a task (`jedi-job list`: of all tasks).

    Example: `jedi-task jobs 1 --status failed --where "exit!=1" --where "site~CERN*"`
    """
    wanted = ["failed", *(status or ())] if failed else status
    with service() as jedi:
        if of is None:
            found = jedi.task_jobs(
                task, status=wanted, where=where, after=after, limit=_most(limit, as_json)
            )
        else:
            found = jedi.task_descendants(task, of)

    def people() -> None:
        (_show_failed if failed else _show_jobs)(found)
        _tell_cut(found, limit)

    show(found, as_json, people)


def _show_jobs(found: list[JobSummary]) -> None:
    table(
        [
            "job",
            "after",
            "unit",
            "kind",
            "attempt",
            "status",
            "site",
            "inputs",
            "wall s",
            "cpu s",
            "MB",
            "exit",
            "error",
        ],
        [
            [
                j.panda_id,
                j.predecessors,
                j.unit_nr,
                j.kind,
                j.attempt_nr,
                j.status,
                j.site,
                j.n_inputs,
                j.wall_s,
                j.cpu_s,
                None if j.max_rss_kb is None else j.max_rss_kb // 1024,
                j.exit_code,
                j.error_code,
            ]
            for j in found
        ],
        spare=("after", "unit", "cpu s", "MB", "inputs", "kind", "exit", "wall s"),
        short=("error",),
    )


STDERR_LINES = 20
SAID = 200
"""Characters of an error message in tables; `jedi-job show` has all."""


def _show_failed(found: list[JobSummary]) -> None:
    print_line = console().print
    if not found:
        print_line("No job failed.")
    for job in found:
        # one that was ended from outside may have said 0 all the same
        code = f"exit code {job.exit_code}" if job.exit_code else "no exit code"
        print_line(
            f"job {job.panda_id}, unit {job.unit_nr}, attempt {job.attempt_nr} "
            f"at {job.site}: {code}, {job.error_code or 'no error code'}"
        )
        for line in (job.error_diag, *(job.retry_effects or ())):
            if line:
                print_line(f"  {harmless(line)}")
        for line in (job.stderr_tail or "").splitlines()[-STDERR_LINES:]:
            print_line(f"  | {harmless(line)}", soft_wrap=True)


@app.command()
def files(
    task: TaskArgument,
    kind: Annotated[
        list[str] | None, typer.Option("--type", help="input, output, log, ...; repeatable.")
    ] = None,
    status: Annotated[
        list[str] | None, typer.Option("--status", help="With this status; repeatable.")
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(
            "--after", metavar="FILEID", min=1, help="Only files behind this one; --json shows ids."
        ),
    ] = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """List the files of a task, inputs and outputs.

    Example: `jedi-task files 1 --type input --status failed`
    """
    with service() as jedi:
        found = jedi.task_files(
            task, type=kind, status=status, after=after, limit=_most(limit, as_json)
        )
    rows = [
        [
            file_part(f),
            f.type,
            f.reason or f.status,
            f.size,
            f.adler32,
            f.attempt_nr,
            f.failed_attempt,
            f.panda_id,
        ]
        for f in found
    ]
    headers = ["file", "type", "status", "bytes", "adler32", "attempt", "failures", "job"]

    def people() -> None:
        table(headers, rows, spare=("adler32", "failures", "attempt", "bytes"), short=("file",))
        last = found[-1].file_id if found else 0
        _tell_cut(found, limit, f"--after {last} shows the next ones")

    show(found, as_json, people)


def _most(limit: int | None, as_json: bool) -> int:
    return limit or (MOST_ROWS if as_json else PAGE)


def _tell_cut(found: Sequence[object], limit: int | None, more: str = "--limit shows more") -> None:
    if limit is None and len(found) == PAGE:
        console(stderr=True).print(f"There may be more than these {PAGE}: {more}.")


for _verb in (
    kill,
    finish,
    retry,
    recover,
    incexec,
    pause,
    resume,
    reassign,
    avalanche,
    release,
):
    app.command()(_verb)
app.command()(why)
app.command("exec")(execute)
app.command("set")(change)
app.command()(plan)
app.command("params")(task_reference.params)
app.command("schema")(task_reference.schema)
app.command("log")(task_results.log)
app.command()(events)
app.command()(task_herd.herd)
app.command()(task_herd.chain)
app.command()(task_herd.jdl)
app.command("watch")(task_follow.watch)
app.command("wait")(task_follow.wait)
app.command("get")(task_results.get)
app.command("clean")(task_results.clean)
app.command()(access.login)
app.command()(access.logout)
app.command()(access.whoami)
app.add_typer(access.token_app, name="token")
app.add_typer(dataset_app, name="dataset")
