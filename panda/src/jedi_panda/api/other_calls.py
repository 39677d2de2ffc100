"""Calls on jobs, the system, credentials and events; and those that JEDI has no answer for."""

from __future__ import annotations

import ast
from typing import Annotated, Any

from pydantic import Field

from jedi.core.errors import BadInput, NotFound, Problem, Refused
from jedi_panda.api.calls import Asking, CallArguments, panda_call
from jedi_panda.api.envelope import PandaReply
from jedi_panda.api.task_calls import Id, ShortText, TaskArguments
from jedi_panda.api.task_views import job_description

JobIds = Annotated[list[Id], Field(min_length=1, max_length=1_000)]


class NoArguments(CallArguments):
    """A call without arguments."""


class JobArguments(CallArguments):
    """Jobs of a call."""

    job_ids: JobIds


@panda_call("POST", "job/get_description", JobArguments)
@panda_call("POST", "job/get_description_incl_archive", JobArguments)
def describe_jobs(ask: Asking, given: JobArguments) -> PandaReply:
    """Jobs with their files; None stands for an unknown one."""
    return PandaReply([_described(ask, one) for one in given.job_ids])


def _described(ask: Asking, panda_id: int) -> dict[str, Any] | None:
    try:
        return job_description(ask("job.show", panda_id=panda_id))
    except NotFound:
        return None


@panda_call("POST", "job/kill", JobArguments)
def kill_jobs(ask: Asking, given: JobArguments) -> PandaReply:
    """Cancel jobs: for each, whether it is accepted, and the sentence."""
    answers = ask("job.cancel", panda_ids=given.job_ids)
    return PandaReply([[one["accepted"], one["sentence"]] for one in answers])


class JobStatusArguments(CallArguments):
    """Jobs in a query, separated by commas or given several times."""

    job_ids: list[ShortText]


@panda_call("GET", "job/get_status", JobStatusArguments)
def job_status(ask: Asking, given: JobStatusArguments) -> PandaReply:
    """Statuses of jobs."""
    words = [word for text in given.job_ids for word in text.split(",") if word]
    if wrong := [word for word in words if not word.isdecimal()]:
        raise BadInput([Problem("job_ids", one, "is no PandaID", "Send numbers") for one in wrong])
    found = ask("job.look", panda_ids=list(map(int, words)))
    return PandaReply(
        [
            {"job_id": one["panda_id"], "status": one["status"], "sub_status": one["substatus"]}
            for one in found
        ]
    )


@panda_call("GET", "job/get_metadata_for_analysis_jobs", TaskArguments)
def job_metadata(ask: Asking, given: TaskArguments) -> PandaReply:
    """Metadata that the payloads of a task's finished jobs reported."""
    found = ask("task.metadata", jedi_task_id=given.task_id)
    return PandaReply([{"PandaID": one["panda_id"], "metadata": one["metadata"]} for one in found])


class DebugArguments(CallArguments):
    """A job whose output somebody wants to see while it runs."""

    job_id: Id
    mode: bool = True


@panda_call("POST", "job/set_debug_mode", DebugArguments)
def debug(ask: Asking, given: DebugArguments) -> PandaReply:
    """JEDI shows the last lines of every running job, so nothing needs to change."""
    [job] = ask("job.look", panda_ids=[given.job_id])
    sentence = f"See the last lines of the job with: jedi-job log {job['panda_id']}"
    return PandaReply(sentence, sentence)


@panda_call("GET", "system/is_alive", NoArguments)
def is_alive(ask: Asking, _given: NoArguments) -> PandaReply:
    """The service answers."""
    return PandaReply(message=f"JEDI is alive, {ask.caller.user_name}.")


@panda_call("GET", "system/get_attributes", NoArguments)
def attributes(ask: Asking, _given: NoArguments) -> PandaReply:
    """The caller as the service knows him."""
    me = ask("me.show")
    return PandaReply(
        {
            "environment": {
                "REMOTE_USER": me["user_name"],
                "ROLE": me["role"],
                "SCOPE": me["task_scope"],
                "WAY": me["way"],
            }
        }
    )


@panda_call("GET", "creds/get_user_secrets", NoArguments)
def secrets(_ask: Asking, _given: NoArguments) -> PandaReply:
    """JEDI keeps no secrets: an empty object, as JSON in a text."""
    return PandaReply("{}")


class EventArguments(CallArguments):
    """Jobs whose ranges of events are asked for: `{'task_id': 1, 'panda_id': 2}` as texts."""

    job_task_ids: list[ShortText]


@panda_call("GET", "event/get_event_range_statuses", EventArguments)
def event_statuses(ask: Asking, given: EventArguments) -> PandaReply:
    """Statuses of ranges by job."""
    found = {}
    for text in given.job_task_ids:
        one = _literal(text)
        events = ask("task.events", jedi_task_id=one["task_id"], panda_id=one["panda_id"])
        found[one["panda_id"]] = {each["range_id"]: each["status"] for each in events["ranges"]}
    return PandaReply(found)


def _literal(text: str) -> dict[str, int]:
    """An object that a client wrote in Python's way. BadInput."""
    try:
        found = ast.literal_eval(text)
        return {key: int(found[key]) for key in ("task_id", "panda_id")}
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError):
        rule, remedy = "is no {'task_id': 1, 'panda_id': 2}", "Send both numbers"
        raise BadInput([Problem("job_task_ids", text[:80], rule, remedy)]) from None


_REFUSED = {
    ("POST", "job/submit"): "JEDI makes jobs from tasks: submit a task with prun.",
    ("POST", "creds/set_user_secrets"): "JEDI keeps no secrets of users.",
    ("POST", "workflow/submit_workflow_raw_request"): "JEDI runs no workflows of PanDA's: submit "
    "tasks that name their parents.",
    ("GET", "workflow/get_workflow_details"): "JEDI runs no workflows of PanDA's.",
}
"""Calls that JEDI refuses, and why."""


def _refuse(method: str, path: str, sentence: str) -> None:
    @panda_call(method, path, NoArguments)
    def refuse(_ask: Asking, _given: NoArguments) -> PandaReply:
        raise Refused(sentence, code="not_here")


for (_method, _path), _sentence in _REFUSED.items():
    _refuse(_method, _path, _sentence)
