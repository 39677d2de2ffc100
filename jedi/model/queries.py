"""Questions for lists: which tasks, jobs and files, and which page of them. The door checks the
fields of a question by their types; pages, operations and statements hand it on whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, Field

from jedi.core import states
from jedi.core.errors import BadInput, Problem
from jedi.core.states import EVENT_CODES, JOB, TASK_STATES
from jedi.core.suggest import suggest
from jedi.model.conditions import Condition, ListField, parse_conditions
from jedi.model.mistakes import checked_by

TASK_FIELDS: Mapping[str, ListField] = {
    "id": ListField("number"),
    "request": ListField("number"),
    "status": ListField("text", TASK_STATES),
    "user": ListField("text"),
    "name": ListField("text"),
    "label": ListField("text"),
    "queue": ListField("number"),
    "share": ListField("text"),
    "priority": ListField("number"),
    "reason": ListField("text"),
    "since": ListField("time"),
    "changed": ListField("time"),
}
"""Fields of the list of tasks."""

JOB_FIELDS: Mapping[str, ListField] = {
    "id": ListField("number"),
    "task": ListField("number"),
    "status": ListField("text", JOB.states),
    "user": ListField("text"),
    "site": ListField("text"),
    "kind": ListField("text"),
    "unit": ListField("number"),
    "attempt": ListField("number"),
    "priority": ListField("number"),
    "exit": ListField("number"),
    "error": ListField("text"),
    "since": ListField("time"),
    "changed": ListField("time"),
}
"""Fields of lists of jobs."""

STORABLE = r"^[^\x00]*$"
"""PostgreSQL stores no NUL."""

FILE_KINDS = tuple(dict.fromkeys((*states.INPUT_TYPES, *states.MADE_TYPES)))
FILE_STATUSES = tuple(dict.fromkeys((*states.INPUT_FILE.states, *states.OUTPUT_FILE.states)))


def _words(argument: str, known: Collection[str], rule: str) -> AfterValidator:
    """Unknown words of an argument are mistakes, each with the nearest known one."""

    def check(given: list[str]) -> None:
        listed = f"There are {', '.join(known)}"
        problems = [
            Problem(argument, one, rule, suggest(one, known, listed))
            for one in given
            if one not in known
        ]
        if problems:
            raise BadInput(problems)

    return checked_by(check)


def _conditions(fields: Mapping[str, ListField]) -> AfterValidator:
    return checked_by(lambda texts: parse_conditions(texts, fields))


ListedId = Annotated[int, Field(ge=1, le=2**63 - 1)]
"""The id of a task, a job or a file."""

MOST_ROWS = 1_000_000
"""Maximum length of a list."""

MostRows = Annotated[int, Field(ge=1, le=MOST_ROWS)]
PAGE = 1_000
"""Rows of a page, unless a request says how many."""

TaskStatuses = Annotated[list[str], _words("status", TASK_STATES, "no such status")] | None
JobStatuses = Annotated[list[str], _words("status", JOB.states, "no such status of a job")] | None
FileKinds = Annotated[list[str], _words("type", FILE_KINDS, "no such type of files")] | None
FileStatuses = (
    Annotated[list[str], _words("status", FILE_STATUSES, "no such status of a file")] | None
)
RangeStatuses = (
    Annotated[list[str], _words("status", EVENT_CODES, "no such status of a range")] | None
)
TaskConditions = Annotated[list[str], Field(max_length=50), _conditions(TASK_FIELDS)] | None
JobConditions = Annotated[list[str], Field(max_length=50), _conditions(JOB_FIELDS)] | None
"""Conditions such as status=running,pending."""


@dataclass(frozen=True, slots=True)
class Question:
    """A value whose fields are arguments of requests."""


@dataclass(frozen=True, slots=True)
class ListPage(Question):
    """A page of a list. `before`: only smaller ids, the last id of the page before; `after`: those
    that follow this id, the first one of the page behind it, on the way back."""

    before: ListedId | None = None
    after: ListedId | None = None
    limit: MostRows = PAGE


ALL_ROWS = ListPage(limit=MOST_ROWS)


@dataclass(frozen=True, slots=True)
class TaskQuery(Question):
    """Tasks in these statuses (None: all), of a user, with a name (`*` in it matches anything) that
    meet conditions."""

    status: TaskStatuses = None
    user: str | None = None
    name: str | None = None
    where: TaskConditions = None

    @property
    def conditions(self) -> list[Condition]:
        """BadInput."""
        return parse_conditions(self.where or (), TASK_FIELDS)


@dataclass(frozen=True, slots=True)
class JobQuery(Question):
    """Jobs in these statuses (None: all) that meet conditions."""

    status: JobStatuses = None
    where: JobConditions = None

    @property
    def conditions(self) -> list[Condition]:
        """BadInput."""
        return parse_conditions(self.where or (), JOB_FIELDS)


@dataclass(frozen=True, slots=True)
class FileQuery(Question):
    """Files of datasets of these types (None: all but those that are to be merged) in these
    statuses (None: all)."""

    type: FileKinds = None
    status: FileStatuses = None


EVERY_TASK = TaskQuery()
EVERY_JOB = JobQuery()
EVERY_FILE = FileQuery()
