"""Two who want the same at once: nothing is lost, nothing happens twice, nobody waits for ever."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from job_rows import make_jobs
from sqlalchemy import Connection, Engine, text

from jedi.agent.base import World
from jedi.core import clock
from jedi.taskbuffer import checks, jobs_end
from jedi.taskbuffer.jobs import JobMove, move_jobs
from jedi.taskbuffer.jobs_end import JobEnd

DEADLINE_S = 20.0


@contextmanager
def blocked(engine: Engine, run: Callable[[Connection], Any]) -> Iterator[None]:
    """Let `run` begin a transaction that has to wait for what the caller has locked: the block
    begins when it waits, has to end what the caller began, and ends when both have committed."""

    def transaction() -> None:
        with engine.begin() as tx:
            run(tx)

    waiting = text(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    end = clock.monotonic() + DEADLINE_S
    with (
        ThreadPoolExecutor(1) as pool,
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as look,
    ):
        other = pool.submit(transaction)
        while not look.scalar(waiting):
            assert not other.done() and clock.monotonic() < end, "it did not have to wait"
        yield
        other.result(DEADLINE_S)


def test_a_job_killed_while_it_is_activated_leaves_the_queue(world: World) -> None:
    """The row in the queue is newer than what the killer's statement saw when it began."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text("UPDATE jedi_jobs SET status = 'assigned'"))
        tx.execute(text("UPDATE jedi_jobs_statuslog SET status = 'assigned'"))
        tx.execute(text("UPDATE job_stats_delta SET status = 'assigned'"))
        tx.execute(text("DELETE FROM jedi_job_ready"))
    (job,) = made.jobs
    mover = world.engine.connect()
    move_jobs(mover, [JobMove(job, "activated", "input_ready", "here")], "Mover", ["assigned"])
    ends = [JobEnd(job, "cancelled", "killed", "killed", 0, "user")]
    with blocked(world.engine, lambda tx: jobs_end.end_jobs(tx, ends, "TaskCommando")):
        mover.commit()
        mover.close()
    with world.engine.begin() as tx:
        assert jobs_end.statuses(tx, [job]) == {job: "cancelled"}
        assert tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) == 0
        found = {one.invariant: one.ids for one in checks.examine(tx) if one.violations}
    assert "ready_queue" not in found and "job_statistics" not in found
