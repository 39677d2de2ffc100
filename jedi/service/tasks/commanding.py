"""Commands on tasks: this module records them, and TaskCommando carries them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from jedi.core import strictyaml
from jedi.core.errors import BadInput, Problem, Refused
from jedi.core.suggest import suggest
from jedi.model.tasks.incremental import TEXTS, change
from jedi.service.submission.submission_checks import recheck
from jedi.service.tasks import task_details
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.jobs import orders
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.tasks import commands, herds, new_tasks, preprocessing
from jedi.taskbuffer.tasks.commands import TaskCommand
from jedi.taskcommando.commands import COMMANDS, LIKE
from jedi.taskcommando.order import CommandedTask

ARGUMENTS: Mapping[str, Mapping[str, type]] = {
    "finish": {"soft": bool},
    "retry": {
        **{"keep": bool, "sole": bool, "staged": bool, "transcend": bool},
        **{"discard": bool, "sandbox": str, LIKE: int},
    },
    "recover": {"files": dict, "sole": bool},
    "incexec": {"parameters": dict, "sandbox": str},
    "reassign": {"site": str, "nucleus": str, "soft": bool, "nokill": bool},
}
"""Arguments of each command, with their types."""

_TYPES = {bool: "true or false", int: "a number", str: "text", dict: "a mapping of names to values"}
BEGINS = ("toretry", "toincexec")
"""Statuses in which the next attempt of a task begins."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Noted:
    """A recorded command. `attempt_nr`: the attempt of the task that it begins, if it does;
    `after`: the names of commands that TaskCommando takes up before it."""

    command_id: int
    name: str
    attempt_nr: int | None = None
    after: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The answer for people."""
        attempt = f", as attempt {self.attempt_nr}" if self.attempt_nr else ""
        after = f", after {', '.join(self.after)}" if self.after else ""
        return f"{self.name} is asked for{attempt}{after}."


def command(
    tx: Connection,
    who: str,
    jedi_task_id: int,
    name: str,
    arguments: Mapping[str, Any] = NOTHING,
    comment: str | None = None,
    unread: Sequence[Problem] = (),
) -> Noted:
    """Record a command on a task, such as kill or retry. It is judged by the status that the task
    has after the commands that wait already. `unread`: mistakes in the arguments that are known
    already, reported with all others.

    BadInput: no such command or argument; NotFound: no such task; Refused: not in its status. Who
    may command it is the policy of the operation that calls this.
    """
    if name not in COMMANDS:
        remedy = suggest(name, COMMANDS, f"Use one of {', '.join(COMMANDS)}")
        raise BadInput([Problem("command", name, "no such command", remedy)])
    waiting = commands.WAITING.rows(
        tx, task=jedi_task_id
    )  # first: what ends meanwhile shows in the status
    task = task_details.get(tx, jedi_task_id)
    status, asked = task.status, None
    if waiting or (name == "retry" and status == "exhausted"):  # which may go on in its attempt
        asked = _after(tx, jedi_task_id, waiting)
        status = asked.status
    if name == "incexec":
        _must_be_single(tx, jedi_task_id, status)
    first = tuple(one.command for one in waiting)
    _must_fit(tx, jedi_task_id, status, name, first)
    begins = COMMANDS[name].doing in BEGINS
    if begins:
        must_be_alone(tx, jedi_task_id)
        must_be_runnable(tx, jedi_task_id, arguments)
    problems = [*unread, *_wrong(name, arguments)]
    if (code := arguments.get("sandbox")) and not new_tasks.HAS_SANDBOX.value(tx, sha256=code):
        problems.append(Problem("sandbox", code, "no such sandbox", "Give its files"))
    if name == "reassign":
        problems += _wrong_place(tx, jedi_task_id, arguments)
    if name == "incexec":
        _must_be_preprocessed(tx, jedi_task_id)
        if isinstance(changes := arguments.get("parameters", {}), dict):
            problems += _wrong_parameters(tx, who, jedi_task_id, changes)
    if problems:
        raise BadInput(problems)
    if (like := arguments.get(LIKE)) and not commands.alike(tx, jedi_task_id, like):
        raise Refused(
            f"Task {jedi_task_id} has no failed input whose last job failed like job {like}.",
            code="nothing_to_retry",
            jedi_task_id=jedi_task_id,
            like_job=like,
        )
    number = commands.append(tx, jedi_task_id, name, who, arguments, comment)
    if begins and asked:
        mine = TaskCommand(number, jedi_task_id, name, dict(arguments), who, comment)
        begins = replace(asked, command=mine).goes_to(COMMANDS[name]) in BEGINS
    return Noted(number, name, task.attempt_nr + 1 if begins else None, first)


def _must_fit(
    tx: Connection, jedi_task_id: int, status: str, name: str, first: Sequence[str]
) -> None:
    """Refuse a command that the status, which follows from the commands that come `first`, does not
    allow."""
    refusal = COMMANDS[name].refusal(status)
    if refusal and herds.IS_HERD.value(tx, task=jedi_task_id):
        refusal = COMMANDS[name].refusal(status, never=("incexec",))
    if refusal:
        more = f" Before it comes: {', '.join(first)}." if first else ""
        raise Refused(refusal + more, code="wrong_status", jedi_task_id=jedi_task_id, status=status)


def _after(tx: Connection, jedi_task_id: int, waiting: Sequence[TaskCommand]) -> CommandedTask:
    """A task once it has taken up commands."""
    (row,) = orders.read_tasks(tx, [jedi_task_id])
    before = dict(commands.BEFORE_HOLD.rows(tx, ids=[jedi_task_id])).get(jedi_task_id)
    return CommandedTask.of(row, before).after(waiting)


def foreseen(tx: Connection, jedi_task_id: int, name: str, arguments: Mapping[str, Any]) -> str:
    """The sentence that a dry run of a possible command answers."""
    if (like := arguments.get(LIKE)) is None:
        return f"{name} is possible."
    n = commands.alike(tx, jedi_task_id, like)
    inputs = f"{n} failed inputs" if n != 1 else "1 failed input"
    return f"{name} is possible: {inputs} like that of job {like}."


def must_be_alone(tx: Connection, jedi_task_id: int) -> None:
    """Refuse a task that would fill shared output datasets (allowTaskDuplication) together with
    another task: their file names would be the same."""
    for row in datasets.FELLOWS.rows(tx, task=jedi_task_id):
        raise Refused(
            f"Task {row.jedi_task_id} fills {row.dataset_name}, too: wait for its end.",
            code="output_in_use",
            jedi_task_id=row.jedi_task_id,
            dataset=row.dataset_name,
        )


def must_be_runnable(tx: Connection, jedi_task_id: int, arguments: Mapping[str, Any]) -> None:
    """Refuse unless JEDI still has the local files of the jobs, or the command brings new ones."""
    code = new_tasks.SANDBOX_OF.row(tx, task=jedi_task_id)
    if code and not arguments.get("sandbox") and not new_tasks.HAS_SANDBOX.value(tx, sha256=code):
        raise Refused(
            f"JEDI has removed the local files of task {jedi_task_id}: retry it with --new-code, "
            "or "
            "submit it again.",
            code="sandbox_forgotten",
            jedi_task_id=jedi_task_id,
        )


def _must_be_preprocessed(tx: Connection, jedi_task_id: int) -> None:
    """Refuse if the task has a pre-processing job that has not reported its result."""
    if preprocessing.lies_ahead(tx, jedi_task_id):
        raise Refused(
            f"The pre-processing job of task {jedi_task_id} has not reported its result yet: "
            "retry the task, or submit it again.",
            code="not_preprocessed",
            jedi_task_id=jedi_task_id,
        )


def _must_be_single(tx: Connection, jedi_task_id: int, status: str) -> None:
    """Refuse a herd: its units are made once."""
    if herds.IS_HERD.value(tx, task=jedi_task_id):
        instead = "retry it, or submit" if status in COMMANDS["retry"].allowed else "submit"
        raise Refused(
            f"Task {jedi_task_id} is a herd, and its units are made once: {instead} a new one.",
            code="herd",
            jedi_task_id=jedi_task_id,
        )


def settings(written: Sequence[str]) -> tuple[dict[str, Any], list[Problem]]:
    """Parameters from texts KEY=VALUE, their values as in a task file, and the mistakes of others.
    A text that YAML can't read without quotes, such as `*`, is taken as it is written."""
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    seen: set[str] = set()
    for one in written:
        key, equals, value = one.partition("=")
        if not equals:
            problems.append(Problem("--set", one, "is KEY=VALUE", "Write nFilesPerJob=2"))
            continue
        if key in seen:
            problems.append(Problem("--set", one, f"{key} is given several times", "Give it once"))
        seen.add(key)
        try:
            found[key] = strictyaml.load(value, f"--set {key}")
        except BadInput as bad:
            if key in TEXTS and value.isprintable() and value[0] not in "\"'[{":
                found[key] = value.strip()
            else:
                problems += bad.problems
    return found, problems


def _wrong(name: str, arguments: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield problems of a command's arguments."""
    known = ARGUMENTS.get(name, {})
    for key, value in arguments.items():
        if key not in known:
            listed = f"{name} takes {', '.join(known) or 'no arguments'}"
            yield Problem(key, value, f"{name} has no such argument", suggest(key, known, listed))
        elif not isinstance(value, known[key]):
            yield Problem(key, value, f"must be {_TYPES[known[key]]}", "Correct it")


def _wrong_place(
    tx: Connection, jedi_task_id: int, arguments: Mapping[str, Any]
) -> Iterator[Problem]:
    """Yield problems of a reassignment: the task can't move, or the place is unknown or not the
    only one."""
    if dict(new_tasks.PARAMS_OF.rows(tx, ids=[jedi_task_id]))[jedi_task_id].get("disableReassign"):
        rule, remedy = "the task has disableReassign: true", "Submit it again without"
        yield Problem("disableReassign", True, rule, remedy)
    given = [key for key in ("site", "nucleus") if key in arguments]
    if not given:
        yield Problem("site", None, "no place is named", "Name a site or a nucleus")
    if len(given) > 1:
        remedy = "Name either a site or a nucleus"
        yield Problem("site", arguments["site"], "a task can only go to one place", remedy)
    if arguments.get("soft") and arguments.get("nokill"):
        yield Problem(
            "nokill", True, "soft kills queued jobs, nokill kills none", "Remove one of the two"
        )
    known = [row["site"] for row in sites.ALL_SITES.rows(tx)]
    for key in given:
        if (place := arguments[key]) not in known:
            remedy = suggest(str(place), known, "Look at the output of: jedi site list")
            yield Problem(key, place, f"no such {key}", remedy)


def _wrong_parameters(
    tx: Connection, who: str, jedi_task_id: int, changes: Mapping[str, Any]
) -> list[Problem]:
    params, problems = change(
        dict(new_tasks.PARAMS_OF.rows(tx, ids=[jedi_task_id]))[jedi_task_id], changes
    )
    if params is None:
        return problems
    named = {one.path for one in problems}
    found = recheck(tx, who, params, changes)
    return problems + [one for one in found if one.path not in named]
