"""What handles many jobs looks at each a few times: it costs by the batch, not by its square."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from sqlalchemy import Connection, Engine, event, text
from support.job_rows import make_jobs
from support.plans import handled

from jedi.agent.base import World
from jedi.model.jobs.wire import Beat, Report, Resources
from jedi.taskbuffer.db import statement
from jedi.taskbuffer.db.engine import value
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import dispatch

JOBS = 300


def explain(engine: Engine, patch: pytest.MonkeyPatch) -> dict[str, tuple[float, str]]:
    """To which the dearest node of each statement is added that this engine executes from now on;
    it is tried first, and taken back, by a plan that has to go row by row: what then is found by
    no index is compared each with each. (A bad estimate is enough for such a plan.)"""
    dearest: dict[str, tuple[float, str]] = {}

    def note(_connection: Any, cursor: Any, sql: str, values: Any, *_: Any) -> None:
        with cursor.connection.transaction(force_rollback=True), cursor.connection.cursor() as own:
            own.execute("SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off")
            own.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", values)
            dearest[sql] = max(handled(own.fetchone()[0][0]["Plan"]))

    def by_psycopg(tx: Connection, sql: str, values: Any) -> Any:
        note(None, tx.connection.cursor(), sql, values)
        return value(tx, sql, values)

    event.listen(engine, "before_cursor_execute", note)
    patch.setattr(statement, "value", by_psycopg)
    return dearest


def test_nothing_is_joined_each_with_each(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = world.engine
    with engine.begin() as tx:
        make_jobs(tx, JOBS)
        held = dispatch.acquire(tx, "SITE_A", JOBS, Resources(cores=1), "r", "p")
        tx.execute(text("ANALYZE"))
    who = [(job.panda_id, job.lock_seq) for job in held]
    dearest = explain(engine, monkeypatch)
    statuses: tuple[Literal["running", "finished"], ...] = ("running", "finished")
    for status in statuses:
        with engine.begin() as tx:
            said = [Report(pandaid=job, lock_seq=seq, status=status) for job, seq in who]
            dispatch.accept_reports(tx, "SITE_A", said)
        with engine.begin() as tx:
            dispatch.beat(tx, "SITE_A", [Beat(pandaid=job, lock_seq=seq) for job, seq in who])
    with engine.begin() as tx:
        assert len(job_ends.reported(tx, JOBS)) == JOBS
        ends = [JobEnd(job.panda_id, "finished", "x", "x") for job in held]
        assert len(job_ends.end_jobs(tx, ends, "me")) == JOBS
    assert len(dearest) >= 8
    for sql, (rows, node) in dearest.items():
        assert rows < JOBS * JOBS / 10, f"{node}: {rows:,.0f} rows in {sql}"
