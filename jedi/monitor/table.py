"""The table of pages: routes, the menu, the exports and the tests of pages follow from it.

A page is a function of an Ask and of named arguments, which stand in the path and in the query. It
asks operations, and returns a View.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from jedi.model.queries import Question
from jedi.monitor.sheets import Sheet
from jedi.service.operations.all_operations import TABLE
from jedi.service.operations.signature import Signature, model_of
from jedi.service.operations.table import Call, KnownCaller, Operation

Topic = Literal["tasks", "jobs", "decisions", "knobs", "audit", "agents"]
"""Kinds of changes that a page follows (operation `system.changes`)."""

FORMS = ("csv", "json", "file")
"""Values of the argument `as`: a table of the page as CSV, its tables as JSON, the page with all
that it needs as one file."""

SeveralTexts = Annotated[list[str], Field(max_length=50)] | None
"""An argument of pages that may stand in the address several times."""

RESERVED = ("as", "table")
"""Arguments of every page."""


@dataclass(frozen=True)
class View:
    """The content of a page: `facts` for its template, and its `sheets`, which it shows and
    exports. `title`: its heading, and the name of its tab."""

    title: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    sheets: tuple[Sheet, ...] = ()

    def sheet(self, name: str) -> Sheet | None:
        """The sheet of this name; None: the page has none."""
        return next((one for one in self.sheets if one.name == name), None)


@dataclass(frozen=True)
class Ask:
    """Operations, asked in one read-only transaction on behalf of the caller."""

    call: Call
    check: Callable[[Operation, dict[str, Any]], dict[str, Any]]
    place: Callable[[Operation, KnownCaller], AbstractContextManager[None]]
    """A place for an operation of a caller; see jedi/api/heavy.py."""

    def __call__(self, name: str, /, *questions: Question, **arguments: Any) -> Any:
        """The answer of an operation that changes nothing, as its own types. Raises as it does."""
        operation = TABLE[name]
        if operation.changes:
            raise ValueError(f"a page changes nothing: {name}")
        asked = {part.name: getattr(one, part.name) for one in questions for part in fields(one)}
        given = {key: one for key, one in {**asked, **arguments}.items() if one is not None}
        with self.place(operation, self.call.caller):
            return operation(self.call, **self.check(operation, given))

    @property
    def may_operate(self) -> bool:
        """True if the caller is an operator whose token suffices for all verbs."""
        return self.call.caller.scope == "all" and self.call.role == "operator"


@dataclass(frozen=True)
class Page:
    """A row of the table. `menu`: its entry in the menu; None: it has none. `topics`: the changes
    after which an open page is read again; `operators`: the menu shows it to operators alone."""

    name: str
    path: str
    template: str
    run: Callable[..., View]
    menu: str | None
    topics: tuple[Topic, ...]
    operators: bool = False

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        """The arguments that the path holds."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of the named arguments."""
        return {name: one.annotation for name, one in self.parameters.items()}

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.run)

    @cached_property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The named arguments, in their order."""
        return self.signature.parameters

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """The model of the named arguments."""
        return model_of(self.name.title(), self.parameters, ConfigDict())

    def __call__(self, ask: Ask, arguments: Mapping[str, Any]) -> View:
        """The view of the page, for these named arguments."""
        return self.run(ask, **self.signature.own(arguments))


PAGES: dict[str, Page] = {}
"""All pages by name; `all_pages` fills it. The menu has their order."""

_F = TypeVar("_F", bound=Callable[..., View])


def page(
    name: str,
    path: str,
    *,
    menu: str | None = None,
    topics: tuple[Topic, ...] = (),
    operators: bool = False,
) -> Callable[[_F], _F]:
    """Enter a function into the table; its template is templates/NAME.html."""

    def enter(run: _F) -> _F:
        if name in PAGES:
            raise ValueError(f"two pages are called {name}")
        PAGES[name] = Page(name, path, f"{name}.html", run, menu, topics, operators)
        return run

    return enter
