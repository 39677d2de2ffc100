"""The TaskBroker on a real database: production tasks get a nucleus, or a reason."""

# Raw UPDATEs: space of endpoints that a dog measures; a task changes in between.

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import text
from support.commanding import add_inputs, ask, cycle, sound
from support.dogs import run
from support.generating import Catalogue, catalogue, document, generate, ready, rows
from support.situations import make_due, set_sites
from support.task_rows import row_of

from jedi.agent.base import World
from jedi.brokerage.agent import TaskBroker
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.ddm.interface import Space
from jedi.model.sites.snapshot import Snapshot
from jedi.taskbuffer.sites import decisions
from jedi.watchdog.dog import Counts


def assigning(world: World, n: int = 1) -> list[int]:
    """Production tasks that are fed."""
    ids = ready(world, *(document(output=f"a:{i}") for i in range(n)), label="managed")
    assert {row_of(world, t).status for t in ids} == {"assigning"}
    return ids


def set_space(world: World, **free: float | None) -> None:
    with world.engine.begin() as tx:
        for site, gb in free.items():
            tx.execute(
                text("UPDATE jedi_ddm_endpoints SET space_free = :gb WHERE site = :site"),
                {"gb": gb, "site": site},
            )


def test_the_active_nucleus_with_most_free_space(world: World) -> None:
    ddm = catalogue(world, in_=2)
    ids = assigning(world, 3)
    set_space(world, SITE_A=500, SITE_B=900)
    assert TaskBroker(world).run_once() == 3
    for task in ids:
        row = row_of(world, task)
        assert (row.status, row.nucleus, row.reason_code) == ("ready", "SITE_B", "nucleus_chosen")
        assert row.errordialog == "SITE_B has the most free space."
    places = rows(world, "SELECT DISTINCT type, destination FROM jedi_datasets ORDER BY type")
    assert [tuple(p) for p in places] == [
        ("input", None),
        ("log", "SITE_B_DATADISK"),
        ("output", "SITE_B_DATADISK"),
    ]
    decisions = rows(world, "SELECT * FROM jedi_broker_decisions")
    assert [(d.broker, d.chosen, d.weights) for d in decisions] == [
        ("nucleus", ["SITE_B"], [900.0])
    ] * 3
    (kept,) = rows(world, "SELECT * FROM jedi_snapshots")
    assert Snapshot.unpack(kept.data).hash == kept.snapshot_hash == decisions[0].snapshot_hash
    # and the outputs of the jobs go there, wherever these run
    assert generate(world) == 3
    assert {endpoint for _, endpoint in ddm.made} == {"SITE_B_DATADISK"}


def test_work_that_rests_is_still_work(world: World) -> None:
    """JEDI document, "Task brokerage": "The total sum of task RWs in the nucleus"."""
    catalogue(world, in_=2)
    (task,) = assigning(world)
    set_space(world, SITE_A=500, SITE_B=900)
    assert TaskBroker(world).run_once() == 1

    def works_at() -> list[str]:
        with world.engine.begin() as tx:
            return [one.nucleus for one in decisions.WORK_AT_NUCLEI.rows(tx)]

    assert works_at() == ["SITE_B"]
    ask(world, task, "pause")
    cycle(world)
    assert row_of(world, task).status == "paused"
    assert works_at() == ["SITE_B"]
    ask(world, task, "kill")
    cycle(world)
    assert works_at() == []


def test_the_nucleus_asked_for(world: World) -> None:
    catalogue(world, in_=1)
    (task,) = ready(world, document(nucleus="SITE_A"))
    set_space(world, SITE_A=500, SITE_B=900)
    assert TaskBroker(world).run_once() == 1
    row = row_of(world, task)
    assert (row.status, row.nucleus) == ("ready", "SITE_A")
    assert row.errordialog == "SITE_A was asked for."
    places = rows(world, "SELECT destination FROM jedi_datasets WHERE type = 'output'")
    assert [place.destination for place in places] == ["SITE_A_DATADISK"]


def test_outputs_with_a_token_go_to_that_space_of_the_nucleus(world: World) -> None:
    catalogue(world, in_=1)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_ddm_endpoints (ddm_endpoint, site, path, token) "
                "VALUES ('SITE_A_SCRATCH', 'SITE_A', '/scratch', 'T')"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, default_write) "
                "VALUES ('SITE_A', 'SITE_A_SCRATCH', false)"
            )
        )
    task = document(nucleus="SITE_A")
    task["jobParameters"][-1]["token"] = "T"
    ready(world, task)
    assert TaskBroker(world).run_once() == 1
    places = rows(world, "SELECT type, destination FROM jedi_datasets WHERE destination <> ''")
    assert {one.type: one.destination for one in places} == {
        "output": "SITE_A_SCRATCH",
        "log": "SITE_A_DATADISK",
    }


def test_a_nucleus_that_is_down_is_passed_over(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = assigning(world)
    set_space(world, SITE_A=500, SITE_B=900)
    with world.engine.begin() as tx:
        set_sites(tx, "SITE_B", state="DOWN")
    TaskBroker(world).run_once()
    assert row_of(world, task).nucleus == "SITE_A"


def test_no_nucleus_yet(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = assigning(world)
    with world.engine.begin() as tx:
        set_sites(tx, state="DOWN")
    TaskBroker(world).run_once()
    row = row_of(world, task)
    assert (row.status, row.nucleus, row.reason_code) == ("assigning", None, "no_nucleus")
    assert row.errordialog == (
        "No nucleus can take the task: 2 sites: 2 nucleus_inactive (the nucleus is not ACTIVE)."
    )
    assert row.next_run_at is not None
    assert TaskBroker(world).run_once() == 0  # it waits
    with world.engine.begin() as tx:
        set_sites(tx, state="ACTIVE")
        make_due(tx)
    TaskBroker(world).run_once()
    assert row_of(world, task).status == "ready"


def test_without_a_nucleus_for_too_long(world: World, at: Callable[[float], None]) -> None:
    """JEDI document: "both production and analysis tasks will go to exhausted if they are timed-out
    while pending in the brokerage", after 7 days. A retry chooses a nucleus again."""
    at(0)
    add_inputs(world, 1)
    (task,) = assigning(world)
    set_sites(world, state="DOWN")
    TaskBroker(world).run_once()
    at(7 * 86_400)
    make_due(world)
    TaskBroker(world).run_once()
    assert run(world, "pending") == Counts()
    at(7 * 86_400 + 1)
    assert run(world, "pending") == Counts(pending_timeout=1)
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("exhausted", "pending_timeout")
    assert row.errordialog.startswith("Without a nucleus for more than 604800 s: No nucleus can")
    set_sites(world, state="ACTIVE")
    ask(world, task, "retry", row.username)
    cycle(world, ContentsFeeder, TaskBroker)
    row = row_of(world, task)
    assert row.nucleus is not None and row.status == "ready"
    sound(world)


class Roomy(Catalogue):
    """Data management that sees how much room there is."""

    room: Mapping[str, float] = {"SITE_A_DATADISK": 70.0, "SITE_B_DATADISK": 60.0}

    def space(self, endpoint: str) -> Space:
        return Space(free_gb=self.room[endpoint], total_gb=100.0)


def test_room_that_nobody_noted_is_measured(world: World) -> None:
    files: Any = {"demo:in": catalogue(world, in_=1).list_files("demo:in")}
    ddm: Any = Roomy(files)
    (task,) = assigning(world)
    world.load_ddm = lambda _tx, _knobs: ddm
    set_space(world, SITE_A=None, SITE_B=None)
    TaskBroker(world).run_once()
    assert row_of(world, task).nucleus == "SITE_A"
    assert rows(world, "SELECT weights FROM jedi_broker_decisions")[0].weights == [70.0]


def test_a_task_that_was_killed_meanwhile_is_left_alone(world: World) -> None:
    catalogue(world, in_=2)
    (task,) = assigning(world)

    class Late(TaskBroker):
        def _apply_all(self, results: Any) -> None:
            with world.engine.begin() as tx:
                tx.execute(text("UPDATE jedi_tasks SET status = 'aborting'"))
            super()._apply_all(results)

    Late(world).run_once()
    row = row_of(world, task)
    assert (row.status, row.nucleus) == ("aborting", None)
