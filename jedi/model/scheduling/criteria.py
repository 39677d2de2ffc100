"""CRITERIA of work queues: a condition on a task, written in SQL, with named VARIABLES.

Nothing of the text reaches the database: it is parsed, every piece of it must be one that is
known here, and the condition is written anew with all its values bound. So a criterion has no way
to call, to change or to look at anything but the task, and none to fail for one task and not for
another. Source: JEDI document, "The JEDI_Work_Queue table".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from jedi.core.suggest import suggest
from jedi.model.scheduling.criterion import (
    EVERY_TASK,
    BadCriterion,
    Criterion,
    read_variables,
)

DIALECT = "postgres"
CASTS = {"text": "text", "integer": "bigint"}
"""Types of columns, with the type in which their values are compared."""
MAX_NESTED = 20
"""Maximum depth of parentheses and of negations."""
MAX_JOINED = 200
"""Maximum number of AND and OR in a criterion: each is a level of the parsed condition."""

_COMPARED: Mapping[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.Like: "LIKE",
    exp.ILike: "ILIKE",
}
_JOINS = frozenset(["AND", "OR"])
_QUOTED = frozenset([sqlglot.TokenType.STRING, sqlglot.TokenType.IDENTIFIER])
_BEFORE = frozenset(["NOT", "-", "+", "~", "!"])
_CALLED: Mapping[type[exp.Expr], str] = {exp.Lower: "lower", exp.Upper: "upper"}
_KNOWN = "=, <>, <, <=, >, >=, IN, LIKE, ILIKE, BETWEEN, IS NULL, AND, OR, NOT, lower() and upper()"


def compile_criterion(
    criteria: str | None, variables: str | None, columns: Mapping[str, str], prefix: str
) -> Criterion:
    """The condition behind CRITERIA and VARIABLES; no criteria at all hold for every task.

    `columns` of jedi_tasks have their types (a key of CASTS, or anything else for columns that
    can't be compared); bound values are named `prefix`1, `prefix`2, … BadCriterion names the first
    mistake.
    """
    given = read_variables(variables)
    if not (criteria or "").strip():
        if given:
            raise BadCriterion("variables without criteria", "Leave them out", variables=True)
        return EVERY_TASK
    writer = _Writer(given, columns, prefix)
    parsed = _parse(criteria or "")
    try:
        sql = writer.condition(parsed)
    except RecursionError:  # a::text::text..., say
        raise _too_deep() from None
    if unused := sorted(given.keys() - writer.used):
        raise BadCriterion(
            f"the criteria do not use {', '.join(unused)}",
            "Leave it out, or use it",
            variables=True,
        )
    return Criterion(sql, writer.values, frozenset(writer.columns))


@cache
def _parse(criteria: str) -> exp.Expr:
    """The one condition in a text."""
    try:
        tokens = sqlglot.tokenize(criteria, read=DIALECT)
        if any(token.comments for token in tokens):
            raise BadCriterion("comments are not allowed", "Leave them out")
        if any(token.text == ";" for token in tokens):
            raise BadCriterion(
                "the criteria have more than one condition", "Write one, without a semicolon"
            )
        words = [token.text.upper() for token in tokens if token.token_type not in _QUOTED]
        if sum(word in _JOINS for word in words) > MAX_JOINED:
            rule = f"the criteria join more than {MAX_JOINED} conditions"
            raise BadCriterion(rule, "Write IN (...) instead of many OR")
        if _nested(words) > MAX_NESTED:
            raise _too_deep()
        return sqlglot.parse_one(criteria, into=exp.Condition, dialect=DIALECT)
    except (SqlglotError, RecursionError) as error:
        rule = "the criteria are not an SQL condition"
        raise BadCriterion(rule, "Write one, such as processingType IN (:p1,:p2)") from error


def _too_deep() -> BadCriterion:
    return BadCriterion("the criteria are nested too deeply", f"Nest at most {MAX_NESTED} levels")


def _nested(words: Iterable[str]) -> int:
    """The depth of parentheses, with the words that stand before an operand there."""
    depth = deepest = before = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        before = 0 if word in _JOINS or word == "," else before + (word in _BEFORE)
        deepest = max(deepest, depth + before)
    return deepest


class _Writer:
    """Writes a parsed condition anew; it refuses unknown parts."""

    def __init__(self, given: Mapping[str, str], columns: Mapping[str, str], prefix: str) -> None:
        self.given = given
        self.known = columns
        self.prefix = prefix
        self.values: dict[str, Any] = {}
        self.columns: set[str] = set()
        self.used: set[str] = set()

    def condition(self, node: exp.Expr) -> str:
        """Something that is true or false."""
        if node.args.get("negate"):
            plain = node.copy()
            plain.set("negate", None)
            return f"(NOT {self.condition(plain)})"
        match node:
            case exp.Paren():
                return self.condition(node.this)
            case exp.Not():
                return f"(NOT {self.condition(node.this)})"
            case exp.And() | exp.Or():
                word = "AND" if isinstance(node, exp.And) else "OR"
                return f"({self.condition(node.this)} {word} {self.condition(node.expression)})"
            case exp.Is(expression=exp.Null()):
                return f"({self.operand(node.this, self.kind(node.this))} IS NULL)"
            case exp.In() if not {"query", "unnest", "field"} & _present(node):
                return self.among(node)
            case exp.Between():
                three = node.this, node.args["low"], node.args["high"]
                of = self.kind(*three)
                value, low, high = (self.operand(one, of) for one in three)
                return f"({value} BETWEEN {low} AND {high})"
            case _ if type(node) in _COMPARED:
                return self.comparison(node)
        raise self.refusal(node)

    def comparison(self, node: exp.Expr) -> str:
        of = self.kind(node.this, node.expression)
        if isinstance(node, (exp.Like, exp.ILike)):
            if of != "text":
                rule = f"LIKE compares text, but {node.this.sql(DIALECT)} is none"
                raise BadCriterion(rule, "Use =")
            self.check_pattern(node.expression)
        left, right = self.operand(node.this, of), self.operand(node.expression, of)
        return f"({left} {_COMPARED[type(node)]} {right})"

    def check_pattern(self, node: exp.Expr) -> None:
        """A pattern is known beforehand and complete: else it could fail for some tasks."""
        while isinstance(node, (exp.Paren, *_CALLED)):
            node = node.this
        variables = isinstance(node, exp.Placeholder)
        if not variables and not isinstance(node, exp.Literal):
            rule = f"LIKE wants a fixed pattern, but {node.sql(DIALECT)[:60]} is none"
            raise BadCriterion(rule, "Write the pattern in quotes")
        pattern = self.given.get(node.name, "") if variables else node.name
        if (len(pattern) - len(pattern.rstrip("\\"))) % 2:
            raise BadCriterion(
                "the pattern ends with a backslash that escapes nothing",
                "Write \\\\ for a backslash",
                variables=variables,
            )

    def among(self, node: exp.In) -> str:
        if not node.expressions:
            raise BadCriterion("IN () is never true", "List values in it")
        of = self.kind(node.this, *node.expressions)
        listed = ", ".join(self.operand(one, of) for one in node.expressions)
        return f"({self.operand(node.this, of)} IN ({listed}))"

    def kind(self, *nodes: exp.Expr) -> str:
        """Return the type of a comparison: that of the column among the operands, else text, or
        number if all are."""
        for node in nodes:
            for column in node.find_all(exp.Column):
                return self.kind_of(column)
        literal = (isinstance(one, exp.Literal) and not one.is_string for one in nodes)
        return "integer" if all(literal) else "text"

    def operand(self, node: exp.Expr | None, of: str) -> str:
        """Something that has a value of kind `of`."""
        match node:
            case exp.Paren():
                return self.operand(node.this, of)
            case exp.Column():
                return self.column(node, of)
            case exp.Placeholder() if node.name:
                return self.variable(node.name, of)
            case exp.Literal():
                return self.literal(node, node.name, of)
            case exp.Neg(this=exp.Literal()):
                return self.literal(node.this, f"-{node.this.name}", of)
            case _ if type(node) in _CALLED and of == "text":
                assert node is not None
                return f"{_CALLED[type(node)]}({self.operand(node.this, of)})"
        raise self.refusal(node)

    def kind_of(self, node: exp.Column) -> str:
        """Return the type of a column: a key of CASTS."""
        name = node.name.lower()
        if node.table:
            raise BadCriterion(f"{node.sql(DIALECT)} names a table", f"Write {node.name}")
        if name not in self.known:
            remedy = suggest(name, self.known, "See docs/columns.md")
            raise BadCriterion(f"{node.name} is not a column of jedi_tasks", remedy)
        if self.known[name] not in CASTS:
            raise BadCriterion(f"{node.name} can't be compared", "Use another column")
        return self.known[name]

    def column(self, node: exp.Column, of: str) -> str:
        name = node.name.lower()
        if self.kind_of(node) != of:
            raise BadCriterion(
                f"{node.name} is compared with a value of another type",
                "Compare text with text, numbers with numbers",
            )
        self.columns.add(name)
        return f"t.{name}"

    def literal(self, node: exp.Literal, value: str, of: str) -> str:
        if of == "text" and not node.is_string:
            rule = f"{value} is a number, and it is compared with text"
            raise BadCriterion(rule, f"Write it in quotes: '{value}'")
        return self.bound(value, of)

    def variable(self, name: str, of: str) -> str:
        if name not in self.given:
            raise BadCriterion(f":{name} has no value", f"Give it: {name}:value", variables=True)
        self.used.add(name)
        return self.bound(self.given[name], of)

    def bound(self, value: str, of: str) -> str:
        if of == "integer" and not re.fullmatch(r"-?[0-9]{1,18}", value):
            raise BadCriterion(f"{value!r} is compared with a number", "Give a whole number")
        name = f"{self.prefix}{len(self.values) + 1}"
        self.values[name] = int(value) if of == "integer" else value
        return f"CAST(:{name} AS {CASTS[of]})"

    def refusal(self, node: exp.Expr | None) -> BadCriterion:
        shown = node.sql(DIALECT)[:60] if node is not None else "nothing"
        return BadCriterion(f"{shown} is not allowed in criteria", f"There are {_KNOWN}")


def _present(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}
