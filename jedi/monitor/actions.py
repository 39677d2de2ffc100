"""The table of actions: changes that pages offer. Each is an operation with its own policy; a page
offers it to callers who may, for rows in a status where it makes sense. The service refuses anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args

from jedi.core import states
from jedi.model.sites.site_file import SiteEntry
from jedi.service.jobs import job_details
from jedi.service.operations.all_operations import TABLE
from jedi.service.operations.table import SCOPES, KnownCaller, Operation
from jedi.taskcommando.commands import COMMANDS

Given = Mapping[str, Sequence[str]]
"""The texts of a form by field."""


@dataclass(frozen=True)
class Field:
    """A field of an action's form, named as an argument of the operation. `settings.NAME`: one of
    its settings."""

    name: str
    label: str
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True)
class Action:
    """A row of the table. `kind`: the kind of its objects; `ids`: the argument that names them;
    `statuses`: those in which it makes sense (None: all); `in_lists`: lists offer it for many rows;
    `final`: nothing undoes it; `one_of`: fields of which it needs one;
    `one_by_one`: each object has a request, though one could name all;
    `said`: the sentence about an answer that has none itself."""

    operation: Operation
    kind: str
    label: str
    ids: str
    fields: tuple[Field, ...] = ()
    statuses: Collection[str] | None = None
    in_lists: bool = True
    final: bool = False
    one_of: tuple[str, ...] = ()
    one_by_one: bool = False
    said: Callable[[Any], str] = lambda _answer: "Done."

    @property
    def name(self) -> str:
        """The name of its operation."""
        return self.operation.name

    @cached_property
    def takes_many(self) -> bool:
        """True if one request names all objects."""
        return self.ids not in self.operation.in_path and not self.one_by_one

    @property
    def plural(self) -> str:
        """The kind of many objects."""
        return f"{self.kind}s"

    def input_type(self, field: Field) -> str:
        """The form of a field: flag, number, lines or text."""
        name, _, setting = field.name.partition(".")
        types = _types(self.operation.hints[name])
        if setting:
            return "text"
        return next((form for kind, form in _FORMS.items() if kind in types), "text")

    def arguments(self, given: Given) -> dict[str, Any]:
        """The arguments of the operation from the texts of a form; empty fields do not count. A
        text that is no number stays one: the model of the operation refuses it."""
        found: dict[str, Any] = {}
        for field in self.fields:
            texts = [one for one in given.get(field.name, ()) if one.strip()]
            if not texts:
                continue
            name, _, setting = field.name.partition(".")
            if setting:
                found.setdefault(name, []).append(f"{setting}={texts[0]}")
            else:
                found[name] = _READ[self.input_type(field)](texts[0])
        return found

    def is_complete(self, given: Given) -> bool:
        """True if a form has all fields without which the operation makes no sense."""
        filled = {name for name, texts in given.items() if "".join(texts).strip()}
        needed = {one.name for one in self.fields if one.required}
        return needed <= filled and (not self.one_of or bool(filled.intersection(self.one_of)))

    def may(self, caller: KnownCaller, role: str, owner: str | None) -> bool:
        """True if a caller may probably do it to an object of an owner (None: of anybody)."""
        if SCOPES.index(caller.scope) < SCOPES.index(self.operation.scope):
            return False
        match self.operation.policy.name:
            case "operator":
                return role == "operator"
            case "owner":
                return role == "operator" or owner in (None, caller.user_name)
            case "owner_or_production":
                return role != "user" or owner in (None, caller.user_name)
        return True


_FORMS = {bool: "flag", int: "number", float: "number", list: "lines"}
_TEXTS = {str, bool}


def _types(hint: Any) -> set[Any]:
    """The plain types of an annotation; a union with text is a text."""
    inner = get_args(hint)
    if hint in _FORMS or hint in (str, type(None)) or not inner:
        return {hint}
    if getattr(hint, "__origin__", None) is list:
        return {list}
    found = set[Any]().union(*(_types(one) for one in inner if not _is_note(one)))
    return {str} if str in found else found


def _is_note(one: Any) -> bool:
    """True for the part of an Annotated that is not a type."""
    return not (isinstance(one, type) or get_args(one))


def _number(written: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(written)
        except ValueError:
            continue
    return written


_READ: Mapping[str, Callable[[str], Any]] = {
    "flag": lambda _written: True,
    "number": _number,
    "text": str,
    "lines": lambda written: [one.strip() for one in written.splitlines() if one.strip()],
}


# --- sentences about answers ---------------------------------------------------------------------


def _changes(answer: Any) -> str:
    shown = [
        f"{one['attribute']}: {one['old'] or 'unset'} → {one['new'] or 'unset'}" for one in answer
    ]
    return "; ".join(shown) + "." if shown else "It is so already: nothing changes."


def _priority(answer: Any) -> str:
    return f"Priority {answer['priority']}, also for {answer['jobs']} queued jobs."


def _knob(answer: Any) -> str:
    value = answer["value"]
    return " ".join([f"The value is {value if value != '' else 'empty'}.", *answer["warnings"]])


def _counts(answer: Any) -> str:
    shown = ", ".join(f"{n} {reason}" for reason, n in answer.items())
    return f"It ran: {shown}." if shown else "It ran, and found nothing to do."


def _recovered(answer: Any) -> str:
    made = ", ".join(
        f"{sum(map(len, one['files'].values()))} by task {one['jedi_task_id']}"
        for one in answer["tasks"]
    )
    gone = f" {len(answer['gone'])} lost inputs can't be made again." if answer["gone"] else ""
    return f"Lost files that are made again: {made}.{gone}"


def _cleaned(answer: Any) -> str:
    return f"{len(answer)} datasets are to be removed."


# --- the table -----------------------------------------------------------------------------------

COMMENT = Field("comment", "Comment, for the history")
ACTIONS: dict[str, Action] = {}
"""All actions by the name of their operation, in the order of their buttons."""


def _enter(name: str, label: str, ids: str, *fields: Field, **more: Any) -> None:
    kind = more.pop("kind", name.partition(".")[0])
    ACTIONS[name] = Action(TABLE[name], kind, label, ids, fields, **more)


def _task(verb: str, label: str, *fields: Field, **more: Any) -> None:
    _enter(
        f"task.{verb}",
        label,
        "jedi_task_ids",
        *fields,
        COMMENT,
        statuses=COMMANDS[verb].allowed,
        **more,
    )


def _job(verb: str, label: str, *fields: Field, **more: Any) -> None:
    _enter(
        f"job.{verb}",
        label,
        "panda_ids",
        *fields,
        COMMENT,
        statuses=job_details.POSSIBLE[verb],
        **more,
    )


_SOFT = Field("soft", "Let running jobs end")
_SITE_STATUSES = get_args(SiteEntry.model_fields["status"].annotation)
_DAYS = Field("after_days", "In days (empty: now)")

_task("pause", "Pause")
_task("resume", "Resume")
_task("avalanche", "Release all jobs without scouts")
_task("release", "Do not wait for tape")
_task(
    "retry",
    "Retry",
    Field("keep", "Keep the parameters of scouts"),
    Field("sole", "This task alone, without its followers"),
    Field("discard", "Discard events that are done"),
    Field("like_job", "Only inputs that failed like this job"),
)
_task(
    "recover",
    "Make lost outputs again",
    Field("files", "These files, one a line (empty: all)"),
    Field("sole", "This task alone, without its followers"),
    one_by_one=True,
    said=_recovered,
)
_task(
    "incexec",
    "Continue with new inputs",
    Field("settings", "Parameters, KEY=VALUE a line"),
    in_lists=False,
)
_task(
    "reassign",
    "Reassign",
    Field("site", "To this site"),
    Field("nucleus", "or to this nucleus"),
    _SOFT,
    Field("nokill", "Keep the jobs there are"),
    one_of=("site", "nucleus"),
)
_enter(
    "task.set_priority",
    "Set priority",
    "jedi_task_id",
    Field("priority", "Priority", required=True),
    said=_priority,
    statuses=states.TASK_STATES.keys() - states.TASK.final,
)
_task("finish", "Finish", _SOFT)
_task("kill", "Kill", final=True)
_enter(
    "task.clean",
    "Remove outputs",
    "jedi_task_id",
    _DAYS,
    COMMENT,
    said=_cleaned,
    statuses=states.TASK.final,
    in_lists=False,
    final=True,
)

_job("release", "Release", Field("force", "Without a check of inputs"))
_job("hold", "Hold", Field("after", "After they have run, before outputs are stored"))
_job("cancel", "Cancel", final=True)
_job("purge", "Remove outputs", _DAYS, final=True)

_enter(
    "site.set",
    "Set status",
    "site",
    Field("settings.status", "Status", _SITE_STATUSES, required=True),
    COMMENT,
    said=_changes,
)
_enter(
    "config.set",
    "Set",
    "name",
    Field("value", "Value", required=True),
    kind="knob",
    said=_knob,
    in_lists=False,
)
_enter("config.unset", "Unset", "name", kind="knob", said=_knob)
_enter("dog.run", "Run now", "dog", said=_counts)
_enter(
    "token.revoke",
    "Revoke",
    "token_id",
    said=lambda _answer: "The token is no longer valid.",
    final=True,
)


def offered(
    kind: str, caller: KnownCaller, role: str, owner: str | None = None, status: str | None = None
) -> list[Action]:
    """The actions that a page offers to a caller, for objects of a kind. `status`: of the one
    object; None: of many, or of unknown ones."""
    return [
        one
        for one in ACTIONS.values()
        if one.kind == kind
        and one.may(caller, role, owner)
        and (status is None or one.statuses is None or status in one.statuses)
    ]
