"""SQL is text in named constants: no function of taskbuffer writes a statement of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.sources import programs

import jedi.taskbuffer
from jedi.taskbuffer.db.quick import Prepared
from tools.statementdocs import statements

TASKBUFFER = Path(jedi.taskbuffer.__file__).parent
BUILT = {
    "db/engine.py:plain",
    "housekeeping/checks.py:_examine",
    "housekeeping/retention.py:statement",
    "jobs/generation.py:_use_inputs",
    "reports/job_listings.py:_listed",
    "reports/found_jobs.py:_search",
    "reports/listings.py:_find",
    "reports/owned_jobs.py:_owned",
    "reports/task_groups.py:_groups",
    "scheduling/queues.py:_matching",
    "scheduling/queues.py:mistake",
    "sites/sites.py:_merge",
    "tasks/tasks.py:_claiming",
}
"""Functions that complete a template, a constant too, from declared sets or compiled criteria."""


def inside(path: str, source: str) -> Iterator[tuple[str, ast.expr]]:
    """The calls inside functions that make a statement: the file with the function, and the SQL."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                match node:
                    case (
                        ast.Call(func=ast.Name(id="text" | "changes"), args=[argument, *_])
                        | ast.Call(func=ast.Call(func=ast.Name(id="returns")), args=[argument])
                    ):
                        yield f"{path}:{function.name}", argument


def all_inside() -> list[tuple[str, ast.expr]]:
    return [
        found
        for path in sorted(TASKBUFFER.rglob("*.py"))
        for found in inside(str(path.relative_to(TASKBUFFER)), path.read_text())
    ]


def literal(argument: ast.expr) -> bool:
    """Whether a statement, or a part of it, is written in the call itself."""
    return any(
        isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in ast.walk(argument)
    )


def test_the_parser_sees_statements_inside_functions() -> None:
    source = 'A = text("SELECT 1")\ndef f(x):\n    text("SELECT 1")\n    text(A.format(x=x))\n'
    assert [(w, literal(a)) for w, a in inside("a.py", source)] == [
        ("a.py:f", True),
        ("a.py:f", False),
    ]


def test_each_statement_is_a_constant() -> None:
    assert [where for where, argument in all_inside() if literal(argument)] == []


def test_only_these_functions_complete_a_statement() -> None:
    assert {where for where, _ in all_inside()} == BUILT


def test_each_statement_has_a_purpose() -> None:
    found = list(statements())
    assert [f"{s.module}.{s.name}" for s in found if not s.purpose] == []


def test_each_statement_that_is_planned_once_says_why() -> None:
    assert [s.name for s in statements() if isinstance(s.text, Prepared) and not s.text.why] == []


def test_no_function_passes_untyped_rows_on() -> None:
    """Rows are values of declared types (db/statement.py) for all their readers: 128 functions
    passed `Row[Any]`, for which no type checker knows a column."""
    assert [str(path) for path in programs() if "Row[" in path.read_text()] == []


def untyped(path: str, source: str) -> Iterator[str]:
    """The functions that read columns of rows without a declared type by their names."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef):
            held = {name for node in ast.walk(function) for name in _rows(node, frozenset())}
            held |= {name for node in ast.walk(function) for name in _rows(node, frozenset(held))}
            for node in ast.walk(function):
                match node:
                    case ast.Attribute(value=ast.Name(id=name), attr=column) if name in held:
                        if column not in RESULT:
                            yield f"{path}:{function.name}"


RESULT = {"rowcount", "keys", "all", "one", "one_or_none", "first", "scalars", "scalar_one", "pop"}


def _rows(node: ast.AST, held: frozenset[str]) -> Iterator[str]:
    """The names that a node gives to results, or to rows of results with names in `held`."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_result(value, held):
            yield name
        case ast.NamedExpr(target=ast.Name(id=name), value=value) if _is_result(value, held):
            yield name
        case ast.For(target=ast.Name(id=name), iter=value) if _is_result(value, held):
            yield name
        case ast.comprehension(target=ast.Name(id=name), iter=value) if _is_result(value, held):
            yield name


def _is_result(value: ast.expr, held: frozenset[str]) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(attr="execute")):
            return True
        case ast.Call(func=ast.Attribute(value=inner, attr="all" | "one" | "one_or_none")):
            return _is_result(inner, held)
        case ast.IfExp(body=inner):
            return _is_result(inner, held)
        case ast.Name(id=name):
            return name in held
    return False


def test_the_parser_sees_columns_of_untyped_rows() -> None:
    source = (
        "def f(tx):\n    rows = tx.execute(A)\n    return [row.id for row in rows]\n"
        "def g(tx):\n    return [row.id for row in A.rows(tx)]\n"
    )
    assert [*untyped("a.py", source)] == ["a.py:f"]


def test_no_function_reads_untyped_rows_by_name() -> None:
    """A misspelt column is an error of mypy, not of the task that reads it."""
    found = {
        where
        for path in sorted(TASKBUFFER.rglob("*.py"))
        for where in untyped(str(path.relative_to(TASKBUFFER)), path.read_text())
    }
    assert found == set()
