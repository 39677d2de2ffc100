"""The closed list of reason codes and the code agree: none is missing, none is left over."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jedi_panda
import pytest

import jedi
from jedi.core import reasons
from jedi.core.reasons import REASONS

ROOT, WIRE = Path(jedi.__file__).parent, Path(jedi_panda.__file__).parent
CODE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
NAMES = {"code", "reason_code", "error_code"}
OTHER_CODES = (
    "api",
    "cli",
    "client",
    "demo",
    "server",
    "service",
    "standalone",
    "core",
    "agent/registry",
    "watchdog/kennel",
    "brokerage/filters",
    "brokerage/nucleus",
    "brokerage/task",
    "simulator",
    "eventservice/jumbo",
    "monitor",
)
"""Where codes are no reasons: refusals that are answers to people and that no row remembers; and
why a site does not fit, or a task has no jumbo jobs: vocabularies of their own, with sentences."""
ONLY_TOLD = {
    "answer_not_kept",
    "key_reused",
    "batch_garbage",
    "batch_missing",
    "batch_refused",
    "batch_timeout",
    "catalogue_changed",
    "checksum_differs",
    "container_cycle",
    "database_account",
    "dataset_exists",
    "engine_failed",
    "event_count_failed",
    "home_closed",
    "is_container",
    "no_database_account",
    "no_dog",
    "no_plugin",
    "not_our_container",
    "not_staged",
    "other_home",
    "outside_root",
    "schema_differs",
    "source_missing",
}
"""Codes of errors whose catchers put them into a reason of their own, and one that JEDI's own
plug-ins leave no room for."""

OTHER = {"__init__", "Filter", "TransferResult"}
"""What takes codes of another kind."""


@cache
def trees() -> dict[str, ast.Module]:
    """Every module but the list itself, by its path."""
    return {
        str(path.relative_to(top)): ast.parse(path.read_text())
        for top in (ROOT, WIRE)
        for path in sorted(top.rglob("*.py"))
        if path.name != "reasons.py"
    }


def parameters(node: ast.FunctionDef | ast.ClassDef) -> list[str]:
    """The names of what a function, or the making of an object, takes."""
    if isinstance(node, ast.FunctionDef):
        return [arg.arg for arg in node.args.args if arg.arg != "self"]
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            return parameters(one)
    fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
    return [target.id for target in fields if isinstance(target, ast.Name)]


@cache
def positions() -> dict[str, set[int]]:
    """Where a function or class takes a code, by its name."""
    found: dict[str, set[int]] = {}
    for node in (n for tree in trees().values() for n in ast.walk(tree)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name not in OTHER:
            taken = parameters(node)
            for code in NAMES.intersection(taken):
                found.setdefault(node.name, set()).add(taken.index(code))
    return found


def literals(node: ast.expr) -> Iterator[str]:
    """The codes that an expression may become."""
    match node:
        case ast.Constant(value=str(value)) if CODE.fullmatch(value):
            yield value
        case ast.IfExp(body=one, orelse=other):
            yield from (*literals(one), *literals(other))
        case ast.BoolOp(values=values):
            yield from (code for value in values for code in literals(value))


def passed(call: ast.Call) -> Iterator[ast.expr]:
    """What a call gives for a code. `*held` stands for a task and its lock."""
    name = getattr(call.func, "id", getattr(call.func, "attr", ""))
    arguments: list[ast.expr] = []
    for one in call.args:
        arguments += [one] * (2 if isinstance(one, ast.Starred) else 1)
    if name not in OTHER:
        yield from (keyword.value for keyword in call.keywords if keyword.arg in NAMES)
    yield from (arguments[at] for at in positions().get(name, ()) if at < len(arguments))


def named(target: ast.expr, value: ast.expr) -> Iterator[ast.expr]:
    """What an assignment gives for a code."""
    match target, value:
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            for one, other in zip(targets, values, strict=True):
                yield from named(one, other)
        case ast.Name(id=name), _ if name in NAMES or name in ("_CODE", "LOST"):
            yield value


def used() -> dict[str, str]:
    """Every code that the program gives for something, and a module that does."""
    found: dict[str, str] = {}
    for module, tree in trees().items():
        if module.startswith(OTHER_CODES):
            continue
        for node in ast.walk(tree):
            given: list[ast.expr] = []
            match node:
                case ast.Call():
                    given += passed(node)
                case ast.Assign(targets=[target], value=value):
                    given += named(target, value)
                case ast.Dict(keys=keys, values=values):
                    given += [
                        v
                        for k, v in zip(keys, values, strict=True)
                        if isinstance(k, ast.Constant) and k.value in NAMES
                    ]
            found |= {code: module for one in given for code in literals(one)}
    return found


@cache
def words() -> frozenset[str]:
    """All words in strings of the program, and what f-strings can become of statuses."""
    texts = [
        node.value
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    plain = {word for text in texts for word in re.findall(r"[a-z0-9_]+", text)}
    ends = {
        f"{text}{end}"
        for text in plain
        if text.endswith("_")
        for end in ("done", "finished", "failed", "cancelled", "closed")
    }
    return frozenset(plain | ends)


def test_every_code_that_is_given_is_in_the_list() -> None:
    missing = {code: where for code, where in used().items() if code not in REASONS}
    assert missing.keys() == ONLY_TOLD, missing


def test_every_code_of_the_list_is_given_somewhere() -> None:
    assert REASONS.keys() - words() == set()


@pytest.mark.parametrize("code", REASONS)
def test_a_reason_is_a_sentence(code: str) -> None:
    assert CODE.fullmatch(code)
    assert re.fullmatch(r"[A-Z][^\n]{10,150}\.", REASONS[code])


def test_every_code_stands_once() -> None:
    parts = (reasons.TASKS, reasons.DATASETS, reasons.JOBS, reasons.FILES)
    assert sum(map(len, parts)) == len(REASONS)
