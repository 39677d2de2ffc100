"""A criterion of a work queue as it was compiled. criteria.py compiles it with a parser of SQL that
takes long to load: import it where it is needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class BadCriterion(ValueError):
    """The mistake in a criterion or its variables, and the remedy."""

    def __init__(self, rule: str, remedy: str, *, variables: bool = False) -> None:
        super().__init__(rule)
        self.rule = rule
        self.remedy = remedy
        self.variables = variables


@dataclass(frozen=True, slots=True)
class Criterion:
    """A condition on a row `t` of jedi_tasks, with its bound values, and the columns it reads."""

    sql: str
    values: Mapping[str, Any]
    columns: frozenset[str]


EVERY_TASK = Criterion("true", {}, frozenset())


def read_variables(text: str | None) -> dict[str, str]:
    """`p1:evgen,p2:simul` as a dictionary. BadCriterion: it has another form."""
    variables: dict[str, str] = {}
    for pair in filter(None, (text or "").split(",")):
        name, colon, value = pair.partition(":")
        name = name.strip()
        if not (colon and name.isidentifier()):
            raise BadCriterion(
                f"{pair!r} is not name:value", "Write p1:value,p2:value", variables=True
            )
        if name in variables:
            raise BadCriterion(f"{name} stands twice", "Give each variable once", variables=True)
        variables[name] = value.strip()
    return variables
