"""Operations on tasks: look at them, command them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jedi.core.errors import BadInput, JediError, Problem
from jedi.model.queries import (
    PAGE,
    JobQuery,
    ListPage,
    MostRows,
    Question,
    TaskQuery,
)
from jedi.model.tasks import reference
from jedi.service.operations.arguments import ManyTasks, TaskId
from jedi.service.operations.table import (
    ANYBODY,
    OWNER,
    OWNER_OR_PRODUCTION,
    Call,
    operation,
)
from jedi.service.tasks import commanding, task_details
from jedi.taskbuffer.reports.listings import TaskSummary


@operation("task.list", "GET", "/v1/tasks", ANYBODY)
def find(call: Call, query: TaskQuery, page: ListPage, begins: str = "") -> list[TaskSummary]:
    """List tasks, the newest first. `*` in a name matches anything; `begins`: digits with which
    ids begin; `where`: conditions such as status=running,pending, user!=ana, name~higgs*,
    since>2026-11-01 (a time without offset is UTC); `before`: the last id of the page
    before; `after`: the first id of the page behind it, on the way back."""
    unit_s = call.knobs.throttle.unit_s
    return task_details.find(call.tx, query, page, begins=begins, unit_s=unit_s)


@operation("task.jobs", "GET", "/v1/tasks/{jedi_task_id}/jobs", ANYBODY)
def jobs(
    call: Call,
    jedi_task_id: TaskId,
    query: JobQuery,
    after: TaskId | None = None,
    limit: MostRows = PAGE,
) -> list[task_details.JobSummary]:
    """List the jobs of a task, the oldest first. `where`: conditions such as status=running,failed,
    site~CERN*, exit!=0, since>2026-11-01 (a time without offset is UTC); `after`: the last id of
    the page before."""
    return task_details.jobs(call.tx, jedi_task_id, query, after=after, limit=limit)


@operation("task.parameters", "GET", "/v1/tasks/parameters", ANYBODY)
def parameters(call: Call) -> list[reference.Parameter]:
    """List the keys of a task with their values, defaults and meanings."""
    return [*reference.parameters()]


@operation("task.schema", "GET", "/v1/tasks/schema", ANYBODY)
def schema(call: Call) -> dict[str, Any]:
    """Show the JSON Schema of a task, for editors."""
    return reference.schema()


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
    found = [*_answers(call, name, ids, given, comment, unread)]
    if unread:
        raise BadInput(list(unread))
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
                noted = commanding.command(call.tx, call.who, one, name, given, comment, unread)
                possible = commanding.foreseen(call.tx, one, name, given) if call.dry_run else None
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
    written, unread = commanding.settings(settings or ())
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
