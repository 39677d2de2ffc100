"""Operations on tasks: look at them, command them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jedi.core.errors import BadInput, JediError, Problem
from jedi.model.queries import (
    PAGE,
    FileQuery,
    JobQuery,
    ListPage,
    MostRows,
    Question,
    RangeStatuses,
    TaskQuery,
)
from jedi.model.tasks import reference
from jedi.service import cleaning, commands, events, past, priorities, tasks, waiting, watching
from jedi.service import why as reasons
from jedi.service.operations.arguments import Days, IdsInQuery, ManyTasks, Moments, TaskId
from jedi.service.operations.table import (
    ANYBODY,
    OWNER,
    OWNER_OR_PRODUCTION,
    Call,
    EventStream,
    operation,
)
from jedi.taskbuffer.reports.job_listings import JobMetadata
from jedi.taskbuffer.reports.listings import DatasetSummary, FileSummary, Step, TaskSummary


@operation("task.list", "GET", "/v1/tasks", ANYBODY)
def find(call: Call, query: TaskQuery, page: ListPage, begins: str = "") -> list[TaskSummary]:
    """List tasks, the newest first. `*` in a name matches anything; `begins`: digits with which
    ids begin; `where`: conditions such as status=running,pending, user!=ana, name~higgs*,
    since>2026-11-01 (a time without offset is UTC); `before`: the last id of the page
    before; `after`: the first id of the page behind it, on the way back."""
    unit_s = call.knobs.throttle.unit_s
    return tasks.find(call.tx, query, page, begins=begins, unit_s=unit_s)


@operation("task.show", "GET", "/v1/tasks/{jedi_task_id}", ANYBODY)
def show(call: Call, jedi_task_id: TaskId) -> tasks.TaskDetails:
    """Show a task: status, reason, datasets, jobs by status, causes of failures."""
    return tasks.show(call.tx, jedi_task_id)


@operation("task.document", "GET", "/v1/tasks/{jedi_task_id}/document", ANYBODY)
def document(call: Call, jedi_task_id: TaskId) -> dict[str, Any]:
    """Show the parameters of a task, with defaults filled in."""
    return tasks.document(call.tx, jedi_task_id)


@operation("task.jobs", "GET", "/v1/tasks/{jedi_task_id}/jobs", ANYBODY)
def jobs(
    call: Call,
    jedi_task_id: TaskId,
    query: JobQuery,
    after: TaskId | None = None,
    limit: MostRows = PAGE,
) -> list[tasks.JobSummary]:
    """List the jobs of a task, the oldest first. `where`: conditions such as status=running,failed,
    site~CERN*, exit!=0, since>2026-11-01 (a time without offset is UTC); `after`: the last id of
    the page before."""
    return tasks.jobs(call.tx, jedi_task_id, query, after=after, limit=limit)


@operation("task.metadata", "GET", "/v1/tasks/{jedi_task_id}/metadata", ANYBODY)
def metadata(call: Call, jedi_task_id: TaskId, limit: MostRows = PAGE) -> list[JobMetadata]:
    """List what the payloads of a task's finished jobs reported about themselves."""
    return tasks.metadata(call.tx, jedi_task_id, limit)


@operation(
    "task.descendants", "GET", "/v1/tasks/{jedi_task_id}/jobs/{panda_id}/descendants", ANYBODY
)
def descendants(call: Call, jedi_task_id: TaskId, panda_id: TaskId) -> list[tasks.JobSummary]:
    """List the jobs that replace a job of a task now, the worst first."""
    return tasks.descendants(call.tx, jedi_task_id, panda_id)


@operation("task.datasets", "GET", "/v1/tasks/{jedi_task_id}/datasets", ANYBODY, heavy=True)
def datasets(call: Call, jedi_task_id: TaskId) -> list[DatasetSummary]:
    """List the datasets of a task with the numbers of their files."""
    return tasks.datasets(call.tx, jedi_task_id)


@operation("task.files", "GET", "/v1/tasks/{jedi_task_id}/files", ANYBODY)
def files(
    call: Call,
    jedi_task_id: TaskId,
    query: FileQuery,
    after: TaskId | None = None,
    limit: MostRows = PAGE,
) -> list[FileSummary]:
    """List the files of a task, inputs and outputs, by dataset. `after`: the id of the last file of
    the page before."""
    return tasks.files(call.tx, jedi_task_id, query, after=after, limit=limit)


@operation("task.events", "GET", "/v1/tasks/{jedi_task_id}/events", ANYBODY, heavy=True)
def task_events(
    call: Call,
    jedi_task_id: TaskId,
    panda_id: TaskId | None = None,
    status: RangeStatuses = None,
    limit: MostRows = PAGE,
) -> events.TaskEvents:
    """Show the ranges of events of a task: their numbers by status, file and consumer, the rate, a
    forecast. `panda_id`: those of a job; `status`: those in these statuses; then also each range.
    `limit`: most files, consumers and ranges."""
    return events.show(call.tx, jedi_task_id, panda_id, status, limit)


@operation("task.history", "GET", "/v1/tasks/{jedi_task_id}/history", ANYBODY)
def history(call: Call, jedi_task_id: TaskId) -> list[Step]:
    """List the statuses that a task had."""
    return tasks.history(call.tx, jedi_task_id)


@operation("task.why", "GET", "/v1/tasks/{jedi_task_id}/why", ANYBODY, heavy=True)
def why(call: Call, jedi_task_id: TaskId) -> reasons.TaskHold:
    """Show the reason why a task waits, or why it ended."""
    return reasons.why(call.tx, jedi_task_id, call.knobs)


@operation("task.at", "GET", "/v1/tasks/{jedi_task_id}/at", ANYBODY, heavy=True)
def at_time(call: Call, jedi_task_id: TaskId, at: Moments) -> past.TaskPast:
    """Show a task as it was at one time or two, from its logs, with the events around the first.
    Times such as 2026-11-26T12:00 are UTC. A large task's jobs are estimated from a sample."""
    return past.task_at(call.tx, jedi_task_id, at)


@operation("task.parameters", "GET", "/v1/tasks/parameters", ANYBODY)
def parameters(call: Call) -> list[reference.Parameter]:
    """List the keys of a task with their values, defaults and meanings."""
    return [*reference.parameters()]


@operation("task.schema", "GET", "/v1/tasks/schema", ANYBODY)
def schema(call: Call) -> dict[str, Any]:
    """Show the JSON Schema of a task, for editors."""
    return reference.schema()


@operation("task.look", "GET", "/v1/tasks/look", ANYBODY)
def look(call: Call, jedi_task_ids: IdsInQuery, jobs: bool = True) -> list[waiting.Watched]:
    """Show tasks at a glance, and whether the wait for each is over; without `jobs`, their live
    jobs are not counted."""
    unit_s = call.knobs.throttle.unit_s
    return waiting.look(call.tx, jedi_task_ids, jobs=jobs, unit_s=unit_s)


@operation("task.watch", "GET", "/v1/tasks/watch", ANYBODY)
def watch(
    call: Call,
    jedi_task_ids: IdsInQuery | None = None,
    everybody: bool = False,
    since: str | None = None,
) -> EventStream:
    """Stream changes of tasks as server-sent events: of these tasks, else of the caller's active
    ones, or of everybody's. The first event has all of them; `since`: only those that changed after
    the version in the `id` of an earlier event, as does the header `Last-Event-ID`."""
    if jedi_task_ids is not None and everybody:
        rule = "can't be combined with jedi_task_ids"
        raise BadInput([Problem("everybody", everybody, rule, "Leave one of them out")])
    selection = watching.TaskSelection(
        None if jedi_task_ids is None else frozenset(jedi_task_ids),
        None if everybody or jedi_task_ids is not None else call.who,
    )
    if since is None:
        if jedi_task_ids:
            waiting.look(call.tx, jedi_task_ids)
        return EventStream(selection, None)
    version = watching.read_version(since)
    watching.must_be_kept(call.tx, version, selection)
    return EventStream(selection, version)


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer for one task of many: accepted as command `command_id` (None: a dry run), or
    refused with the code and the sentence of the error. `attempt_nr`: the attempt that begins by
    it, if one does."""

    jedi_task_id: int
    accepted: bool
    sentence: str
    command_id: int | None = None
    error: str | None = None
    attempt_nr: int | None = None


def _command(
    call: Call,
    name: str,
    ids: Sequence[int],
    comment: str | None,
    unread: Sequence[Problem] = (),
    **arguments: Any,
) -> list[Answered]:
    """Command each task; a refusal does not stop the others. Wrong arguments stop all; `unread` are
    those that are known already."""
    given = {key: value for key, value in arguments.items() if value}
    found = [*_answers(call, name, dict.fromkeys(ids), given, comment, unread)]
    if unread:
        raise BadInput(list(unread))
    call.name_objects(
        "task",
        *(
            [one.jedi_task_id for one in found if one.accepted is accepted]
            for accepted in (True, False)
        ),
    )
    return found


def _answers(
    call: Call,
    name: str,
    ids: Iterable[int],
    given: dict[str, Any],
    comment: str | None,
    unread: Sequence[Problem],
) -> Iterator[Answered]:
    for one in ids:
        try:
            with call.tx.begin_nested():
                noted = commands.command(call.tx, call.who, one, name, given, comment, unread)
                possible = commands.foreseen(call.tx, one, name, given) if call.dry_run else None
        except BadInput:
            raise
        except JediError as error:
            yield Answered(one, False, error.sentence, error=error.code)
        else:
            yield Answered(
                one,
                True,
                possible or noted.sentence,
                None if possible else noted.command_id,
                attempt_nr=noted.attempt_nr,
            )


@operation("task.kill", "POST", "/v1/tasks/kill", OWNER, dry_run=True)
def kill(call: Call, jedi_task_ids: ManyTasks, comment: str | None = None) -> list[Answered]:
    """Kill tasks: their jobs end, and finished outputs stay."""
    return _command(call, "kill", jedi_task_ids, comment)


@operation("task.finish", "POST", "/v1/tasks/finish", OWNER, dry_run=True)
def finish(
    call: Call, jedi_task_ids: ManyTasks, soft: bool = False, comment: str | None = None
) -> list[Answered]:
    """Finish tasks early with their present outputs; `soft` lets running jobs end."""
    return _command(call, "finish", jedi_task_ids, comment, soft=soft)


@dataclass(frozen=True, slots=True)
class RetryOptions(Question):
    """Options of a retry (docs/commands.md)."""

    keep: bool = False
    sole: bool = False
    discard: bool = False
    staged: bool = False
    transcend: bool = False
    sandbox: str | None = None
    like_job: TaskId | None = None


@operation("task.retry", "POST", "/v1/tasks/retry", OWNER_OR_PRODUCTION, dry_run=True)
def retry(
    call: Call,
    *,
    jedi_task_ids: ManyTasks,
    options: RetryOptions,
    comment: str | None = None,
) -> list[Answered]:
    """Try failed files of tasks again; `sandbox`: sha256 of new code; `like_job`: a failed job:
    only files whose last job failed by the same cause (code, source, exit code)."""
    return _command(call, "retry", jedi_task_ids, comment, **asdict(options))


@operation("task.incexec", "POST", "/v1/tasks/incexec", OWNER, dry_run=True)
def incexec(
    call: Call,
    jedi_task_ids: ManyTasks,
    parameters: dict[str, Any] | None = None,
    settings: list[str] | None = None,
    sandbox: str | None = None,
    comment: str | None = None,
) -> list[Answered]:
    """Continue tasks that have ended, with new files of their inputs or changed parameters.
    `settings`: parameters as KEY=VALUE, the values as in a task file."""
    written, unread = commands.settings(settings or ())
    changed = {**(parameters or {}), **written}
    return _command(
        call, "incexec", jedi_task_ids, comment, unread, parameters=changed, sandbox=sandbox
    )


@operation("task.pause", "POST", "/v1/tasks/pause", OWNER, dry_run=True)
def pause(call: Call, jedi_task_ids: ManyTasks, comment: str | None = None) -> list[Answered]:
    """Pause tasks: they start nothing new, and running jobs run to their end."""
    return _command(call, "pause", jedi_task_ids, comment)


@operation("task.resume", "POST", "/v1/tasks/resume", OWNER, dry_run=True)
def resume(call: Call, jedi_task_ids: ManyTasks, comment: str | None = None) -> list[Answered]:
    """Resume paused tasks."""
    return _command(call, "resume", jedi_task_ids, comment)


@operation("task.avalanche", "POST", "/v1/tasks/avalanche", OWNER, dry_run=True)
def avalanche(call: Call, jedi_task_ids: ManyTasks, comment: str | None = None) -> list[Answered]:
    """Release all jobs of tasks without waiting for their scouts."""
    return _command(call, "avalanche", jedi_task_ids, comment)


@operation("task.release", "POST", "/v1/tasks/release", OWNER, dry_run=True)
def release(call: Call, jedi_task_ids: ManyTasks, comment: str | None = None) -> list[Answered]:
    """Stop waiting for files from tape: jobs read the tape themselves."""
    return _command(call, "release", jedi_task_ids, comment)


@operation("task.reassign", "POST", "/v1/tasks/reassign", OWNER, dry_run=True)
def reassign(
    call: Call,
    jedi_task_ids: ManyTasks,
    site: str | None = None,
    nucleus: str | None = None,
    soft: bool = False,
    nokill: bool = False,
    comment: str | None = None,
) -> list[Answered]:
    """Send tasks to another site or nucleus."""
    return _command(
        call,
        "reassign",
        jedi_task_ids,
        comment,
        site=site,
        nucleus=nucleus,
        soft=soft,
        nokill=nokill,
    )


@operation("task.set_priority", "PUT", "/v1/tasks/{jedi_task_id}/priority", OWNER, dry_run=True)
def set_priority(call: Call, jedi_task_id: TaskId, priority: int) -> priorities.Changed:
    """Change the priority of a task and of its waiting jobs."""
    call.subject = f"task {jedi_task_id}"
    return priorities.change(call.tx, call.who, jedi_task_id, priority)


@operation("task.clean", "POST", "/v1/tasks/{jedi_task_id}/clean", OWNER, dry_run=True, heavy=True)
def clean(
    call: Call,
    jedi_task_id: TaskId,
    after_days: Days = 0.0,
    comment: str | None = None,
) -> list[cleaning.Cleaned]:
    """Remove the outputs of a task that has ended, now or in some days."""
    call.subject = f"task {jedi_task_id}"
    return cleaning.clean(call.tx, call.who, jedi_task_id, after_days, comment)
