"""Named arguments of operations and of pages, read from their functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, create_model

from jedi.model.queries import Question


@dataclass(frozen=True)
class Signature:
    """The named arguments of a function behind its first one. In the place of a Question stand its
    fields."""

    run: Callable[..., Any]

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of the function's own arguments, and of its answer."""
        return get_type_hints(self.run, include_extras=True)

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The named arguments with their types, in their order."""
        return {one.name: one for one in self._parameters()}

    def _parameters(self) -> Iterator[inspect.Parameter]:
        _, *own = inspect.signature(self.run).parameters.values()
        for one in own:
            if kind := self._questions.get(one.name):
                hints = get_type_hints(kind, include_extras=True)
                for part in inspect.signature(kind).parameters.values():
                    yield part.replace(annotation=hints[part.name])
            else:
                yield one.replace(annotation=self.hints[one.name])

    @cached_property
    def _questions(self) -> dict[str, type[Question]]:
        return {
            name: hint
            for name, hint in self.hints.items()
            if isinstance(hint, type) and issubclass(hint, Question)
        }

    def own(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The function's own arguments from the named ones; a whole Question stays one."""
        rest = dict(given)
        questions = {
            name: kind(**{one.name: rest.pop(one.name) for one in fields(kind) if one.name in rest})
            for name, kind in self._questions.items()
            if name not in rest
        }
        return {**rest, **questions}


def model_of(
    title: str, parameters: Mapping[str, inspect.Parameter], config: ConfigDict
) -> type[BaseModel]:
    """The model of named arguments. Names that it does not have are mistakes."""
    fields: Any = {
        name: (one.annotation, ... if one.default is one.empty else one.default)
        for name, one in parameters.items()
    }
    config = {"extra": "forbid", "allow_inf_nan": False, **config}
    return create_model(f"{title}Arguments", __config__=config, **fields)
