"""`jedi-job`: show one job, hold it, release it, cancel it, get its outputs."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jedi_client.cli.common import (
    NO,
    DryRun,
    Json,
    ProfileName,
    Server,
    Version,
    application,
    cell,
    console,
    run,
    service,
    show,
    table,
)
from jedi_client.cli.download import fetch, plan_copies
from jedi_client.cli.job_log import follow_log
from jedi_client.cli.task_commands import CommandComment
from jedi_client.cli.task_common import JobConditions, file_part, job_ids, job_statuses
from jedi_client.cli.task_results import KeepDays, show_printed
from jedi_client.statuses import JOB_LIVE

if TYPE_CHECKING:
    from jedi_client.models import AnsweredJob, JobDetails

app = application(
    "Show, hold, release and cancel jobs; get their outputs. Each command names attempts "
    "(PandaIDs), and never touches later attempts.\n\n"
    "Exit codes: 0 yes, 1 no, 2 wrong use or input, 3 the system does not answer."
)


_argument = partial(typer.Argument, min=1, max=2**63 - 1, autocompletion=job_ids)
Job = Annotated[int, _argument(metavar="PANDAID", help="The job's id.")]
Jobs = Annotated[list[int], _argument(metavar="PANDAID...", help="Job ids.")]


def main() -> None:
    """The console script `jedi-job`."""
    run(app, "jedi-job")


@app.callback()
def _first(server: Server = None, profile: ProfileName = None, version: Version = False) -> None:
    """Options of all commands."""


@app.command("show")
def show_job(job: Job, as_json: Json = False) -> None:
    """Show a job: status and PGI state, history, and the latest attempts.

    Example: `jedi-job show 17`
    """
    with service() as jedi:
        found = jedi.job_show(job)
    show(found, as_json, lambda: _show(found))


def _show(found: JobDetails) -> None:
    job = found.job
    place = f"{job.pgi_state}{f' ({job.pgi_substate})' if job.pgi_substate else ''}"
    facts = {
        "job": job.panda_id,
        "attempt": job.attempt_nr,
        "first attempt": job.origin_panda_id if job.attempt_nr > 1 else None,
        "latest attempts": [one for one in found.latest if one != job.panda_id] or None,
        "kind": job.kind,
        "job set": job.jobset_id,
        "task": job.jedi_task_id,
        "owner": job.user_name,
        "status": job.status,
        "sub-status": job.substatus,
        "PGI state": place,
        "held": job.hold_reason,
        "held since": job.hold_since,
        "held until": job.hold_deadline,
        "to be held": job.hold_next if job.status in JOB_LIVE else None,
        "kill code": job.kill_code,
        "site": job.site,
        "pilot": job.pilot_id,
        "handed to": job.delegation_kind,
        "queue": job.delegation_queue,
        "id there": job.delegation_id,
        "exit code": job.exit_code,
        "error code": job.error_code,
        "error": job.error_diag,
        "command": found.command,
        "outputs kept until": job.retention,
        "purged": job.purged_at,
    }
    table(["what", "value"], [[k, v] for k, v in facts.items() if v is not None])
    if found.files:
        rows = [[f.type, file_part(f), f.size, f.endpoint, f.dataset] for f in found.files]
        table(
            ["type", "file", "bytes", "endpoint", "dataset"],
            rows,
            spare=("endpoint",),
            short=("file", "dataset"),
        )
    if found.ranges:
        counts = [[one.status, one.n_ranges, one.n_events] for one in found.ranges]
        table(["ranges", "number", "events"], counts)
    steps = [[s.time, s.status, s.agent, s.reason or s.reason_code] for s in found.steps]
    table(["since", "status", "agent", "reason"], steps)
    held = [[one.resource, one.allocated_at, one.released_at] for one in found.allocations]
    table(["allocated", "from", "to"], held)


@app.command("list")
def list_jobs(
    status: Annotated[
        list[str] | None,
        typer.Option("--status", autocompletion=job_statuses, help="With this status; repeatable."),
    ] = None,
    user: Annotated[
        str | None, typer.Option("--user", help="Jobs of this user instead of yours.")
    ] = None,
    where: JobConditions = None,
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="PANDAID", min=1, help="Only older jobs than this one."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most rows.")] = 50,
    as_json: Json = False,
) -> None:
    """List your jobs, of all tasks, the newest first.

    Example: `jedi-job list --status running --where "site~CERN*"`
    """
    with service() as jedi:
        found = jedi.job_list(user=user, status=status, where=where, before=before, limit=limit)
    headers = [
        "job",
        "task",
        "name",
        "kind",
        "attempt",
        "status",
        "site",
        "created",
        "started",
        "wall s",
        "exit",
        "error",
    ]
    rows = [
        [
            j.panda_id,
            j.jedi_task_id,
            j.task_name,
            j.kind,
            j.attempt_nr,
            j.status,
            j.site,
            j.creation_time,
            j.start_time,
            j.wall_s,
            j.exit_code,
            j.error_code,
        ]
        for j in found
    ]
    spare = ("attempt", "wall s", "exit", "started", "kind", "created", "site")
    short = ("name", "error")
    show(found, as_json, lambda: table(headers, rows, spare=spare, short=short))


@app.command()
def cancel(
    jobs: Jobs, comment: CommandComment = None, dry_run: DryRun = False, as_json: Json = False
) -> None:
    """Cancel jobs: their inputs are tried again if attempts are left.

    To end the work as a whole, kill the task. Example: `jedi-job cancel 17 --comment "hangs"`
    """
    with service() as jedi:
        answers = jedi.job_cancel(panda_ids=jobs, comment=comment, dry_run=dry_run)
    _show_answers(answers, dry_run, as_json)


@app.command()
def hold(
    jobs: Jobs,
    after: Annotated[
        bool,
        typer.Option("--after", help="Hold them after they have run, before outputs are stored."),
    ] = False,
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Hold jobs: nothing happens to them until they are released or cancelled.

    Jobs in pilots can be held only at sites that allow it, and for a limited time.
    Example: `jedi-job hold 17 18`
    """
    with service() as jedi:
        answers = jedi.job_hold(panda_ids=jobs, after=after, comment=comment, dry_run=dry_run)
    _show_answers(answers, dry_run, as_json)


@app.command()
def release(
    jobs: Jobs,
    force: Annotated[
        bool, typer.Option("--force", help="Don't check that the inputs exist.")
    ] = False,
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Release held jobs. With holdJobs: manual_stage_in, the inputs that the owner copies must be
    at the endpoint of the jobs, with the recorded size and adler32.

    Example: `jedi-job release 17 18`
    """
    with service() as jedi:
        answers = jedi.job_release(panda_ids=jobs, force=force, comment=comment, dry_run=dry_run)
    _show_answers(answers, dry_run, as_json)


def _show_answers(answers: list[AnsweredJob], dry_run: bool, as_json: bool) -> None:
    """Show the jobs as they are then, and the refusals. Exit code 1: something is refused."""
    found = [one.job for one in answers if one.job]
    refused = [one for one in answers if not one.accepted]

    def people() -> None:
        rows = [
            [job.panda_id, job.status, job.pgi_state, job.hold_next, job.kill_code] for job in found
        ]
        if rows:
            table(["job", "status", "PGI state", "to be held", "kill code"], rows)

    show(answers, as_json, people, dry_run=dry_run)
    for one in refused:
        console(stderr=True).print(one.sentence, style="red", soft_wrap=True)
    if refused:
        raise typer.Exit(NO)


@app.command()
def log(
    job: Job,
    pilot: Annotated[
        bool, typer.Option("--pilot", help="The output of its pilot in the batch job.")
    ] = False,
    follow: Annotated[
        bool, typer.Option("-f", "--follow", help="Print new lines until the job ends.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the output of a payload; while it runs, the last lines from its pilot.

    Example: `jedi-job log -f 17`
    """
    if follow and not pilot and not as_json:
        follow_log(job)
        return
    with service() as jedi:
        printed = jedi.job_log(job, pilot=pilot)
    show(printed, as_json, lambda: show_printed(printed))


@app.command()
def output(
    job: Job,
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", file_okay=False, help="Directory to copy them to."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the outputs of a job, or copy them and verify adler32. Exit code 1: there are none.

    Example: `jedi-job output 17 --to results`
    """
    with service() as jedi:
        found = jedi.job_outputs(job)
        fetch(jedi, plan_copies(found, f"jobs/{job}/outputs", to) if to else [])
        none = None if found else _no_outputs(jedi.job_show(job))
    rows = [[file.lfn, file.dataset, file.size, file.adler32] for file in found]
    show(
        found,
        as_json,
        lambda: typer.echo(none) if none else table(["file", "dataset", "bytes", "adler32"], rows),
    )
    if none:
        if as_json:
            typer.echo(none, err=True)
        raise typer.Exit(NO)


def _no_outputs(found: JobDetails) -> str:
    """The sentence why a job has no outputs now."""
    job = found.job
    if job.purged_at:
        return f"The outputs of job {job.panda_id} were removed at {cell(job.purged_at)}."
    if job.status in JOB_LIVE:
        return f"Job {job.panda_id} is {job.status}: its outputs are not stored yet."
    if job.status != "finished":
        later = [one for one in found.latest if one != job.panda_id]
        where = f" Its latest attempts: {', '.join(map(str, later))}." if later else ""
        return f"Job {job.panda_id} is {job.status}: JEDI keeps outputs of finished jobs.{where}"
    if any(file.type.endswith("output") for file in found.files):
        return f"Job {job.panda_id} is finished: JEDI keeps none of its outputs any more."
    return f"Job {job.panda_id} is finished: its task declares no outputs for it."


@app.command()
def purge(
    jobs: Jobs,
    after: KeepDays = 0.0,
    comment: CommandComment = None,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Remove the outputs of jobs: within a minute or, with `--after`, after that many days. Logs
    stay.

    Example: `jedi-job purge 17 18`
    """
    with service() as jedi:
        answers = jedi.job_purge(panda_ids=jobs, after_days=after, comment=comment, dry_run=dry_run)
    _show_answers(answers, dry_run, as_json)
