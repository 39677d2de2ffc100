"""Calls on tasks: submission, commands, questions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AliasChoices, Field

from jedi.core.errors import BadInput, NotFound, Problem
from jedi_panda.api.calls import Asking, CallArguments, panda_call
from jedi_panda.api.envelope import PandaReply, number_of
from jedi_panda.api.task_views import (
    SUPER_STATUS,
    dataset_files,
    job_facts,
    task_details,
    task_facts,
)
from jedi_panda.model.task_parameters import renamed

Id = Annotated[int, Field(ge=1, le=2**63 - 1)]
ShortText = Annotated[str, Field(max_length=2_000)]
PAGE = 10_000
LISTED_MAX = 10_000
"""Tasks of one list."""


class TaskArguments(CallArguments):
    """The task of a call."""

    task_id: Id


class NewTaskArguments(CallArguments):
    """A task as prun describes it."""

    task_parameters: dict[str, Any]
    parent_tid: Id | None = None


@panda_call("POST", "task/submit", NewTaskArguments)
def submit(ask: Asking, given: NewTaskArguments) -> PandaReply:
    """Submit a task. prun reads its id from the message."""
    done = ask("panda.submit", task_parameters=given.task_parameters, parent_tid=given.parent_tid)
    task_id, warnings = done["jedi_task_id"], done["warnings"]
    sentence = "succeeded" if done["created"] else "continues an earlier task"
    return PandaReply(task_id, "\n".join([f"{sentence}. new jediTaskID={task_id}", *warnings]))


# -------------------------------------------------------------------------------------- commands


def _command(ask: Asking, verb: str, task_id: int, **arguments: Any) -> PandaReply:
    [answer] = ask(f"task.{verb}", jedi_task_ids=[task_id], **arguments)
    if answer["accepted"]:
        return PandaReply(answer["sentence"], answer["sentence"])
    return PandaReply(number_of(answer["error"]), answer["sentence"], success=False)


VERBS = {
    "kill": "kill",
    "pause": "pause",
    "resume": "resume",
    "release": "release",
    "avalanche": "avalanche",
    "reactivate": "retry",  # failed files are tried again
    "reload_input": "incexec",  # with the files that the inputs have now
}
"""JEDI's command for each of PanDA's that has no arguments."""


def _enter(name: str, verb: str) -> None:
    @panda_call("POST", f"task/{name}", TaskArguments)
    def command(ask: Asking, given: TaskArguments) -> PandaReply:
        return _command(ask, verb, given.task_id)


for _name, _verb in VERBS.items():
    _enter(_name, _verb)


class FinishArguments(TaskArguments):
    """`soft`: running jobs may end."""

    soft: bool = False


@panda_call("POST", "task/finish", FinishArguments)
def finish(ask: Asking, given: FinishArguments) -> PandaReply:
    """Finish a task with its present outputs."""
    return _command(ask, "finish", given.task_id, soft=given.soft)


class RetryArguments(TaskArguments):
    """A retry, with parameters that change."""

    new_parameters: dict[str, Any] | None = None


ACCEPTED, CONTINUES = 0, 3
"""pbook takes 0 for a retry, and 3 for one with changed parameters."""


@panda_call("POST", "task/retry", RetryArguments)
def retry(ask: Asking, given: RetryArguments) -> PandaReply:
    """Retry failed files; or continue a task with changed parameters."""
    if not given.new_parameters:
        reply = _command(ask, "retry", given.task_id)
        return PandaReply(ACCEPTED, reply.message) if reply.success else reply
    parameters, problems = renamed(given.new_parameters)
    if problems:
        raise BadInput(problems)
    reply = _command(ask, "incexec", given.task_id, parameters=parameters)
    return PandaReply(CONTINUES, reply.message) if reply.success else reply


class IncreaseArguments(TaskArguments):
    """More attempts of a task's files."""

    increase: Annotated[int, Field(ge=1, le=1_000)] = 3


@panda_call("POST", "task/increase_attempts", IncreaseArguments)
def increase_attempts(ask: Asking, given: IncreaseArguments) -> PandaReply:
    """Continue a task whose files may have more attempts."""
    ask("task.increase_attempts", jedi_task_id=given.task_id, increase=given.increase)
    return PandaReply(ACCEPTED, f"{given.increase} more attempts are asked for.")


# ------------------------------------------------------------------------------------- questions

_FILTERS = ("jediTaskID", "reqID", "status", "superStatus", "taskName", "userName")


class ListArguments(CallArguments):
    """A list of tasks that changed since a time (UTC); `filters`: a JSON object."""

    n_tasks: Annotated[int, Field(ge=1)] = 500
    since: ShortText | None = None
    filters: ShortText | None = None


@panda_call("GET", "task/get_tasks_detailed_info_since", ListArguments)
def list_tasks(ask: Asking, given: ListArguments) -> PandaReply:
    """List the caller's tasks, or those of another user whom a filter names."""
    filters = _filters(given.filters)
    where = [f"changed>={given.since.strip().replace(' ', 'T')}Z"] if given.since else []
    for key, field in (("jediTaskID", "id"), ("reqID", "request")):
        if key in filters:
            where.append(f"{field}={filters[key]}")
    found = ask(
        "task.list",
        user=filters.get("userName") or ask.caller.user_name,
        name=filters.get("taskName"),
        status=_statuses(filters),
        where=where or None,
        limit=min(given.n_tasks, LISTED_MAX),
    )
    return PandaReply([task_facts(one) for one in found])


def _filters(text: str | None) -> dict[str, str]:
    try:
        found = json.loads(text) if text else {}
        if not isinstance(found, dict):
            raise ValueError("it is no object")
    except (ValueError, RecursionError) as error:
        rule, remedy = f"is no JSON object ({error})", 'Write {"status": "running"}'
        raise BadInput([Problem("filters", (text or "")[:80], rule, remedy)]) from None
    if problems := [
        Problem("filters", key, "is no filter", f"Use one of {', '.join(_FILTERS)}")
        for key in found
        if key not in _FILTERS
    ]:
        raise BadInput(problems)
    return {key: str(value) for key, value in found.items() if value not in (None, "")}


def _statuses(filters: dict[str, str]) -> list[str] | None:
    """The statuses that both filters leave; all if there is none."""
    status, above = filters.get("status"), filters.get("superStatus")
    if above is None:
        return [status] if status else None
    found = [one for one, name in SUPER_STATUS.items() if name == above]
    if not found:
        known = ", ".join(sorted({*SUPER_STATUS.values()}))
        raise BadInput([Problem("superStatus", above, "is none", f"Use one of {known}")])
    return [one for one in found if status in (None, one)] or [status or ""]


@panda_call("GET", "task/get_status", TaskArguments)
def get_status(ask: Asking, given: TaskArguments) -> PandaReply:
    """The status of a task."""
    return PandaReply(ask("task.show", jedi_task_id=given.task_id)["task"]["status"])


@panda_call("GET", "task/get_task_parameters", TaskArguments)
def get_parameters(ask: Asking, given: TaskArguments) -> PandaReply:
    """The parameters of a task, as JEDI has them."""
    return PandaReply(ask("task.document", jedi_task_id=given.task_id))


class DetailArguments(TaskArguments):
    """Details of a task."""

    include_parameters: bool = False
    include_status: bool = False


@panda_call("GET", "task/get_details", DetailArguments)
def get_details(ask: Asking, given: DetailArguments) -> PandaReply:
    """A task, with its parameters if wanted."""
    found = task_details(ask("task.show", jedi_task_id=given.task_id))
    if given.include_parameters:
        found["taskParams"] = ask("task.document", jedi_task_id=given.task_id)
    return PandaReply(found)


@panda_call("GET", "task/get_detailed_info", TaskArguments)
def get_detailed_info(ask: Asking, given: TaskArguments) -> PandaReply:
    """A task with its datasets and jobs."""
    return PandaReply(task_details(ask("task.show", jedi_task_id=given.task_id)))


@panda_call("GET", "task/get_parent_detailed_info", TaskArguments)
def get_parent(ask: Asking, given: TaskArguments) -> PandaReply:
    """The task that a task follows."""
    parent = ask("task.document", jedi_task_id=given.task_id).get("parentTaskName")
    owner = ask("task.show", jedi_task_id=given.task_id)["task"]["user_name"]
    found = ask("task.list", user=owner, name=parent, limit=1) if parent else []
    if not found:
        raise NotFound(f"Task {given.task_id} has no parent.", jedi_task_id=given.task_id)
    return PandaReply(task_details(ask("task.show", jedi_task_id=found[0]["jedi_task_id"])))


class ModifiedArguments(CallArguments):
    """Tasks that changed since a time."""

    since: ShortText
    dn: ShortText | None = None
    min_task_id: Id | None = None
    prod_source_label: ShortText | None = Field(
        default=None, validation_alias=AliasChoices("prod_source_label", "task_type")
    )


@panda_call("GET", "task/get_tasks_modified_since", ModifiedArguments)
def get_modified(ask: Asking, given: ModifiedArguments) -> PandaReply:
    """The tasks of the caller that changed since a time, by id."""
    where = [f"changed>={given.since.strip().replace(' ', 'T')}Z"]
    if given.min_task_id:
        where.append(f"id>{given.min_task_id}")
    if given.prod_source_label:
        where.append(f"label={given.prod_source_label}")
    found = ask("task.list", user=ask.caller.user_name, where=where, limit=LISTED_MAX)
    return PandaReply({one["jedi_task_id"]: task_facts(one) for one in found})


def _jobs(ask: Asking, task_id: int, status: list[str] | None = None) -> Iterator[dict[str, Any]]:
    after = None
    while page := ask("task.jobs", jedi_task_id=task_id, status=status, after=after, limit=PAGE):
        yield from page
        if len(page) < PAGE:
            return
        after = page[-1]["panda_id"]


@panda_call("GET", "task/get_job_ids", TaskArguments)
def get_job_ids(ask: Asking, given: TaskArguments) -> PandaReply:
    """The ids of a task's jobs."""
    return PandaReply([one["panda_id"] for one in _jobs(ask, given.task_id)])


class JobListArguments(TaskArguments):
    """Jobs of a task."""

    unsuccessful_only: bool = False


@panda_call("GET", "task/get_job_descriptions", JobListArguments)
def get_job_descriptions(ask: Asking, given: JobListArguments) -> PandaReply:
    """The jobs of a task, or those that did not succeed."""
    status = ["failed", "cancelled", "closed"] if given.unsuccessful_only else None
    return PandaReply([job_facts(one, given.task_id) for one in _jobs(ask, given.task_id, status)])


class FileArguments(TaskArguments):
    """Types of datasets."""

    dataset_types: list[ShortText] = Field(default_factory=lambda: ["input", "pseudo_input"])


@panda_call("GET", "task/get_datasets_and_files", FileArguments)
def get_files(ask: Asking, given: FileArguments) -> PandaReply:
    """The datasets of a task with their files."""
    types = given.dataset_types
    datasets = ask("task.show", jedi_task_id=given.task_id)["datasets"]
    files = ask("task.files", jedi_task_id=given.task_id, type=types)
    return PandaReply(dataset_files([one for one in datasets if one["type"] in types], files))
