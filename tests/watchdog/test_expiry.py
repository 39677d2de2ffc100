"""What tasks have made for a while, at both sides of the borders of its time."""

# Raw UPDATEs: time passes.

from __future__ import annotations

import pytest
from sqlalchemy import text
from support.calls import call
from support.helpers import put_file_dataset
from support.recovery import fail_one, jobs_of, task, there
from support.task_rows import OUTPUT, row_of
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.core.errors import NotFound
from jedi.service.system import knobs
from jedi.service.tasks import commanding
from jedi.taskbuffer.housekeeping import checks
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk

pytestmark = pytest.mark.usefixtures("operators")

WHILE = {**OUTPUT, "value": "> w.${SN}", "dataset": "a:while", "transient": True}


@pytest.fixture
def done(world: World) -> int:
    """A done task over two files, with an output that is kept and one that is not."""
    put_file_dataset(world, "demo:in", {"a": b"a", "b": b"b"}, ENDPOINT)
    found = task(world, "kept", "demo:in", WHILE)
    cycle(world)
    assert row_of(world, found).status == "done"
    return found


def later(world: World, days: float) -> Counts:
    """What the dog finds so many days later."""
    with world.engine.begin() as tx:
        knobs.put(call(tx, "root"), "lifetime.failed_logs_days", "30")
        for table, column in (("jedi_tasks", "endtime"), ("jedi_datasets", "statechecktime")):
            past = f"{column} - make_interval(secs => :s)"
            tx.execute(text(f"UPDATE {table} SET {column} = {past}"), {"s": days * 86_400})
    world.refresh()
    return +walk(world, DOGS["expiry"])


def test_transient_outputs_go_and_a_task_that_goes_on_makes_them_anew(
    world: World, done: int
) -> None:
    assert later(world, 13.9) == Counts()
    assert later(world, 0.2) == Counts(expired=1)
    assert later(world, 1) == Counts()
    with pytest.raises(NotFound):
        world.ddm.dataset("a:while")
    assert len(there(world, "a:kept")) == 2
    with world.engine.begin() as tx:
        looked_at = {row.dataset_name for page in checks.made_files(tx) for row in page}
        assert "a:while" not in looked_at
        commanding.command(tx, "anna", done, "incexec")
    put_file_dataset(world, "demo:in", {"c": b"c"}, ENDPOINT)
    cycle(world)
    assert (row_of(world, done).status, len(there(world, "a:while"))) == ("done", 1)
    assert later(world, 15) == Counts(expired=1)


def test_what_others_put_there_or_still_read_stays(world: World, done: int) -> None:
    reader = task(world, "reader", "a:while")
    cycle(world, jobs_end_too=False)
    assert later(world, 15) == Counts()
    cycle(world)
    assert row_of(world, reader).status == "done"
    put_file_dataset(world, "a:while", {"mine": b"m"}, ENDPOINT)
    assert later(world, 15) == Counts(expired=1)
    assert there(world, "a:while") == ["mine"]


@pytest.mark.usefixtures("done")
def test_what_cannot_be_removed_keeps_nothing_else(world: World) -> None:
    task(world, "other", "demo:in", {**WHILE, "dataset": "a:other.while"})
    cycle(world)
    with world.engine.begin() as tx:
        knobs.put(call(tx, "root"), "watchdog.batch", "1")
    said = world.ddm.path(ENDPOINT, "a:while", "x").with_name(".dataset.yaml")
    said.mkdir()
    assert later(world, 15) == Counts(expired=1)
    said.rmdir()
    assert later(world, 1) == Counts(expired=1)


def test_logs_of_what_came_to_nothing_go_later(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"a"}, ENDPOINT)
    found = task(world, "vain", maxAttempt=1)
    cycle(world, jobs_end_too=False)
    [job] = jobs_of(world, found)
    fail_one(world, job)
    cycle(world)
    assert row_of(world, found).status == "failed"
    assert world.ddm.dataset("a:vain.log").state == "closed"
    assert later(world, 29.9) == Counts()
    assert later(world, 0.2) == Counts(expired=1)
    with pytest.raises(NotFound):
        world.ddm.dataset("a:vain.log")
