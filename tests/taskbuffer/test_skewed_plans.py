"""No statement meets a plan without end: in a small database of the shape of `docs/plans.md` each
is executed, and judged by rows, which do not depend on the machine."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, text
from support.databases import drop_database, new_database

from benchmarks.plans import Examination, Rules
from benchmarks.skewed_world import Size, fill
from jedi.taskbuffer.db.engine import connect

SIZE = Size().part(50)
RULES = Rules(least=50 * SIZE.large, removed=5 * SIZE.large, by_rows=True)
"""Work that grows with the square of a task's size is 2,500 times as small as at full size, and
still stands out."""
UNKNOWN = Rules(least=math.inf, removed=RULES.removed, by_rows=True, most=300 * SIZE.large)
"""Without statistics other plans may be better, but none is without end."""
_FORGET = (
    "DELETE FROM pg_statistic",
    "UPDATE pg_class SET reltuples = -1, relpages = 0 "
    "WHERE relkind IN ('r', 'i') AND relnamespace = current_schema()::regnamespace",
)


@pytest.fixture
def engine(server: str, template: str, tablespace: str | None) -> Iterator[Engine]:
    """A database of its own: its rows are no lives that a test produced."""
    url = new_database(server, template, tablespace)
    made = connect(url)
    yield made
    made.dispose()
    drop_database(server, url)


def test_no_statement_pairs_all_rows_of_a_task_with_all(engine: Engine) -> None:
    """No plan reads more than three times the rows of the best one; no join filter removes many
    times the rows of its inputs, also where the planner has no statistics yet."""
    world = fill(engine, SIZE)
    found = Examination(engine, world, 20, RULES)
    assert found.findings == []
    assert found.refused == {}
    assert len(found.judged) > 1_000
    with engine.begin() as tx:
        for statement in _FORGET:
            tx.execute(text(statement))
    assert Examination(engine, world, 20, UNKNOWN).findings == []
