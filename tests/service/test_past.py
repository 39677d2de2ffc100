"""Tasks and work queues as they were: rebuilt from logs, with a bounded number of rows read."""

# Raw DELETEs and INSERTs: the log of jobs is gone; a large task is archived at once.

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, text
from support.calls import call
from support.helpers import put_file_dataset
from support.pages import nodes, plan_of, rows_of_node, vacuum
from support.situations import pilots_ask
from support.task_rows import good, put
from support.working import ENDPOINT, cycle, end_jobs

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.errors import BadInput, NotFound
from jedi.service.queues.past import QueuesThen, queues_at
from jedi.service.tasks.task_past import TaskPast, task_at
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.reports import past


def look(world: World, task_id: int, *times: datetime) -> TaskPast:
    with world.engine.begin() as tx:
        return task_at(call(tx), task_id, at=[one.isoformat() for one in times])


def look_at_queues(world: World, *times: datetime) -> list[QueuesThen]:
    with world.engine.begin() as tx:
        return queues_at(call(tx), [one.isoformat() for one in times])


def test_a_task_is_rebuilt(world: World, at: Callable[[float], None]) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    begun = clock.now()
    at(60)
    [task] = put(world, good(nFilesPerJob=1, site="SITE_A", skipScout=True))
    submitted = clock.now()
    at(120)
    pilots_ask(world)
    cycle(world, jobs_end_too=False)
    running = clock.now()
    at(3600)
    end_jobs(world, "failed")
    failed = clock.now()
    at(7200)
    pilots_ask(world)
    cycle(world)
    at(9000)

    none = look(world, task, begun).then[0]
    assert none.status is None
    assert none.open == ["The task did not exist yet."]
    first = look(world, task, submitted).then[0]
    assert (first.status, first.jobs) == ("registered", {})
    then = look(world, task, running + timedelta(minutes=5)).then[0]
    assert then.jobs == {"activated": 2}
    assert then.status in ("running", "scouting")
    assert not then.estimated
    past_of = look(world, task, failed, running)
    assert [one.jobs for one in past_of.then] == [{"failed": 2}, {"activated": 2}]
    assert {one.kind for one in past_of.moments} >= {"status"}
    assert [one.time for one in past_of.moments] == sorted(one.time for one in past_of.moments)
    now = look(world, task, clock.now() + timedelta(days=1)).then[0]
    assert now.at == clock.now()  # a time that has not come is now
    with world.engine.begin() as tx:
        assert now.status == tx.scalar(text("SELECT status FROM jedi_tasks"))


def test_jobs_whose_log_is_gone_are_unknown(world: World, at: Callable[[float], None]) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    [task] = put(world, good(nFilesPerJob=1, site="SITE_A", skipScout=True))
    pilots_ask(world)
    cycle(world, jobs_end_too=False)
    running = clock.now()
    at(60)
    end_jobs(world, "failed")
    with world.engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_jobs_statuslog"))
    found = look(world, task, running, clock.now()).then
    assert [one.jobs for one in found] == [{"unknown": 2}, {"failed": 2}]
    assert "retention.jobs_days" in found[0].open[0]


def test_knobs_that_differ_are_shown(world: World, at: Callable[[float], None]) -> None:
    [task] = put(world, good())
    before = clock.now()
    at(60)
    with world.engine.begin() as tx:
        knobs.put(tx, "agent.poll_s", 3, "test")
    [found] = look(world, task, before).then
    assert [(one.name, one.then, one.now) for one in found.knobs] == [("agent.poll_s", None, 3)]
    assert look(world, task, clock.now()).then[0].knobs == []
    assert look_at_queues(world, before)[0].knobs == found.knobs


def test_queues_are_rebuilt(world: World, at: Callable[[float], None]) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    begun = clock.now()
    at(60)
    put(world, good("a:1"), good("a:2"))
    submitted = clock.now()
    at(120)
    pilots_ask(world)
    cycle(world)
    was, between = look_at_queues(world, begun, submitted)
    assert [one.tasks for one in was.queues if one.tasks] == []
    assert [sum(one.tasks.values()) for one in between.queues if one.tasks] == [2]
    assert {status for one in between.queues for status in one.tasks} == {"registered"}
    assert was.known and between.known


def test_a_look_at_queues_takes_back_so_many_changes(
    world: World, at: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "CHANGES_MOST", 2)
    begun = clock.now()
    at(60)
    put(world, good("a:1"), good("a:2"), good("a:3"))
    [found] = look_at_queues(world, begun)
    assert not found.known
    assert "2 statuses" in found.open[0]


def test_what_is_no_time_is_refused(world: World) -> None:
    [task] = put(world, good())
    with world.engine.begin() as tx:
        with pytest.raises(BadInput):
            task_at(call(tx), task, at=["yesterday"])
        with pytest.raises(NotFound):
            task_at(call(tx), 77, at=["2026-11-26"])


_MANY = """
INSERT INTO jedi_jobs_archived (pandaid, originpandaid, jeditaskid, taskid, unit_nr, attemptnr,
  status, site, priority, cores, memory_mb, walltime_s, disk_mb, creationtime, statechangetime,
  postprocessed_at)
SELECT g, g, 5, 5, g, 1, CASE WHEN g % 4 = 0 THEN 'failed' ELSE 'finished' END, 'A', 1, 1, 0, 0, 0,
  jedi_now() - interval '2 h', jedi_now() - interval '1 h', jedi_now()
FROM generate_series(1, 20000) g
"""


def test_a_large_task_is_sampled(engine: Engine) -> None:
    with engine.begin() as tx:
        tx.execute(text("INSERT INTO jedi_tasks (jeditaskid, reqid, status) VALUES (5, 5, 'done')"))
        tx.execute(text(_MANY))
    vacuum(engine)
    times = [datetime.now(UTC)]
    plan = plan_of(
        engine,
        past._JOBS,
        task=5,
        times=times,
        most=float(past.UNITS_MOST),
        attempts=past.ATTEMPTS_MOST,
    )
    assert max(rows_of_node(node) for node in nodes(plan)) <= past.UNITS_MOST
    with engine.begin() as tx:
        [found] = task_at(call(tx), 5, at=[times[0].isoformat()]).then
    assert found.estimated
    assert sum(found.jobs.values()) == 20_000
    assert "20th" in " ".join(found.open)
