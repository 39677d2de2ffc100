"""Time is asked for in two places: core/clock.py and jedi_now(). So tests can turn it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

import jedi
from jedi.core import clock
from jedi.taskbuffer.schema.release import scripts

PACKAGE = Path(jedi.__file__).parent
ROOT = Path(__file__).parents[2]
PYTHON_CLOCKS = {
    *("time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today"),
    *("date.today", "func.now", "func.current_timestamp"),
}
SQL_CLOCKS = re.compile(
    r"\b(?:now|transaction_timestamp|statement_timestamp|timeofday)\(\)"
    r"|\b(?:current_timestamp|localtimestamp|current_date|current_time|localtime)\b",
    re.IGNORECASE,
)
REAL = "clock_timestamp()"


def clocks(source: str) -> Iterator[str]:
    """Every way of asking for the time in a file that is not core.clock or jedi_now()."""
    tree = ast.parse(source)
    of_all, lines = ast.get_docstring(tree) or "", source.splitlines()
    for statement in tree.body:
        said = "\n".join([of_all, *lines[statement.lineno - 1 : statement.end_lineno]])
        for node in ast.walk(statement):
            yield from _python(node)
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from _sql(node.value, said)


def _python(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        base = getattr(node.value, "attr", getattr(node.value, "id", ""))
        if f"{base}.{node.attr}" in PYTHON_CLOCKS:
            yield f"line {node.lineno}: {base}.{node.attr}"
    if isinstance(node, ast.ImportFrom) and node.module == "time":
        names = {alias.name for alias in node.names}
        yield from (f"line {node.lineno}: {name}" for name in names & {"time", "time_ns"})


def _sql(literal: str, said: str) -> Iterator[str]:
    """Words in a sentence are no SQL: it shows by a keyword in capitals. The body of jedi_now()
    is where now() belongs."""
    if not re.search(r"\b(SELECT|INSERT|UPDATE|DELETE|SET|VALUES|WHERE|AND|DEFAULT)\b", literal):
        return
    if "FUNCTION jedi_now()" not in literal:
        yield from (f"SQL: {found}" for found in SQL_CLOCKS.findall(literal))
    if REAL in literal and "real time" not in said:
        yield f"SQL: {REAL} without saying why in `real time`"


def sources() -> list[Path]:
    wire = ROOT / "panda/src/jedi_panda"
    mine = [*PACKAGE.rglob("*.py"), *wire.rglob("*.py"), *(scripts() / "versions").glob("*.py")]
    apart, exempt = {PACKAGE / "pilot", wire / "transformations"}, PACKAGE / "core/clock.py"
    return [path for path in mine if apart.isdisjoint(path.parents) and path != exempt]


def test_time_is_asked_for_in_two_places() -> None:
    found = [f"{path}: {what}" for path in sources() for what in clocks(path.read_text())]
    assert found == []


@pytest.mark.parametrize(
    ("source", "caught"),
    [
        ("import time\ntime.time()", True),
        ("from time import time", True),
        ("import datetime\ndatetime.datetime.now()", True),
        ("from datetime import date\ndate.today()", True),
        ("clock.now(); time.monotonic()", False),
        ("q = 'UPDATE t SET at = now()'", True),
        ("q = f'UPDATE t SET at = Now() WHERE x = {x}'", True),
        ("q = 'SELECT CURRENT_TIMESTAMP'", True),
        ("q = 'UPDATE t SET at = jedi_now()'", False),
        ("'''UPDATE nothing: now() is the time.'''", True),
        ("'''Ask now() for the time.'''", False),
        ("def f():\n    q = 'SELECT clock_timestamp()'", True),
        (
            "def f():\n    # real time: processes live in it\n    q = 'SELECT clock_timestamp()'",
            False,
        ),
    ],
)
def test_the_rule_bites(source: str, caught: bool) -> None:
    assert bool(list(clocks(source))) == caught


def test_python_and_sql_are_turned_together(engine: Engine) -> None:
    instant = datetime(2031, 5, 4, 3, 2, 1, tzinfo=UTC)
    clock.turn_to(instant)
    try:
        with engine.begin() as tx:
            assert tx.scalar(text("SELECT jedi_now()")) == clock.now() == instant
            tx.execute(text("INSERT INTO jedi_tasks (status, reqid) VALUES ('registered', 1)"))
            assert tx.scalar(text("SELECT creationdate FROM jedi_tasks")) == instant
    finally:
        clock.turn_to(None)
    with engine.begin() as tx:
        assert abs(tx.scalar(text("SELECT jedi_now()")) - clock.now()).total_seconds() < 60


def test_the_environment_turns_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JEDI_NOW", "2031-05-04T05:02:01+02:00")
    assert clock.now() == datetime(2031, 5, 4, 3, 2, 1, tzinfo=UTC)
