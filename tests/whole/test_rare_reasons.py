"""Reasons that little else gives: faults of ours, races, and what people do behind JEDI's back."""

# Raw UPDATEs: rare states are the point.

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from support.adder import ENDPOINT, Pilot, adder
from support.generating import SECOND, catalogue, document, generate, ready, rows
from support.helpers import put_file_dataset
from support.task_rows import good, put

from jedi.agent import registry
from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.host.home import Home
from jedi.jobgenerator.agent import JobGenerator
from jedi.pilot import metadata
from jedi.pilot.base import PayloadFailure
from jedi.standalone.down import end_pilots
from jedi.taskbuffer.db import knobs
from jedi.taskrefiner.agent import TaskRefiner


def reason(world: World) -> Any:
    [row] = rows(world, "SELECT status, reason_code FROM jedi_tasks")
    return tuple(row)


# ------------------------------------------------------------------------------- faults of ours


FAULTS = [
    ("TaskRefiner", "registered", "pending", "refining_failed"),
    ("ContentsFeeder", "defined", "pending", "feeding_failed"),
    ("TaskBroker", "assigning", "assigning", "assigning_failed"),
    ("JobGenerator", "ready", "pending", "generation_failed"),
    ("PostProcessor", "tobroken", "tobroken", "internal_error"),
    ("TaskCommando", "aborting", "aborting", "internal_error"),
]


def of_the_database(world: World) -> DBAPIError:
    """An error as the database gives it."""
    with pytest.raises(DBAPIError) as caught, world.engine.begin() as tx:
        tx.execute(text("SELECT 1 / (:secret - 42)"), {"secret": 42})
    return caught.value


@pytest.mark.parametrize("kind", ["thought", "database", "driver"])
@pytest.mark.parametrize(("name", "status", "after", "code"), FAULTS)
def test_a_task_that_an_agent_can_not_cope_with_says_so(
    world: World, name: str, status: str, after: str, code: str, kind: str
) -> None:
    """No reason is a database's message, which tells people nothing and may tell too much."""
    catalogue(world, **{"in": 1})
    [task] = ready(world, document())
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text("UPDATE jedi_tasks SET status = :s"), {"s": status})
    agent = registry.load(name)(world)
    with world.engine.begin() as tx:
        [item] = agent.claim(tx, 1)
    database = of_the_database(world)
    driver = database.orig
    assert "SELECT" in str(database) and isinstance(driver, psycopg.Error)
    errors = {"thought": ValueError("nobody thought of"), "database": database, "driver": driver}
    agent._set_aside(item, errors[kind])
    assert reason(world) == (after, code)
    [row] = rows(world, "SELECT errordialog FROM jedi_tasks WHERE jeditaskid = :t", t=task)
    for word in ("SELECT", "sqlalche", "42", str(driver)):
        assert word not in row.errordialog
    told = "nobody thought of" if kind == "thought" else "(DivisionByZero): the agent's log has"
    assert told in row.errordialog


def test_a_task_that_can_not_be_written_harms_only_itself(world: World) -> None:
    catalogue(world, **{"in": 1})
    bad, fine = put(world, good("a:one"), good("a:two"))

    class Surprised(TaskRefiner):
        def apply(self, tx: Connection, results: Any) -> None:
            super().apply(tx, results)
            if bad in {task.jedi_task_id for task, _ in results}:
                raise AttributeError("what nobody thought of")

    assert Surprised(world).run_once() == 2
    found = rows(world, "SELECT jeditaskid, status, reason_code FROM jedi_tasks ORDER BY 1")
    assert [tuple(row) for row in found] == [
        (bad, "pending", "refining_failed"),
        (fine, "defined", "refined"),
    ]


# ------------------------------------------------------------------------------- making of jobs


def test_a_generator_that_came_too_late_says_so(world: World) -> None:
    catalogue(world, **{"in": 3})
    ready(world, document())
    late = JobGenerator(world)
    with world.engine.begin() as tx:
        [item] = late.claim(tx, 1)
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_dataset_contents SET status = 'running'"))
    held = late.work(item)
    with world.engine.begin() as tx:
        late.apply(tx, [(item, held)])
    assert reason(world) == ("ready", "no_ready_files")


def test_files_for_every_job_are_more_than_a_job_may_have(world: World) -> None:
    catalogue(world, **{"in": 1, "second": 3})
    ready(world, document({**SECOND, "attributes": "nosplit"}))
    with world.engine.begin() as tx:
        knobs.put(tx, "jobgen.hard_max_files_per_job", 2, "op")
    generate(world)
    assert reason(world) == ("pending", "too_many_files_per_job")


def test_an_input_that_people_describe_wrongly_meanwhile(world: World) -> None:
    put_file_dataset(world, "demo:in", {"a": b"1\n"}, ENDPOINT)
    put(world, good())
    TaskRefiner(world).run_once()
    path = world.ddm.path(ENDPOINT, "demo:in", "a").parent / ".dataset.yaml"
    path.write_text("state: ajar\n")
    ContentsFeeder(world).run_once()
    assert reason(world) == ("tobroken", "input_malformed")


# --------------------------------------------------------------------------------- ends of jobs


def test_a_pilot_that_does_not_say_why(world: World) -> None:
    pilot = Pilot(world)
    pilot.tell(pilot.jobs[0], "failed", [])
    adder(world).run_once()
    assert pilot.error()[1] == "no_reason"


def test_metadata_of_a_payload_that_make_no_sense(world: World, tmp_path: Path) -> None:
    (tmp_path / metadata.FILE).write_text("[]")
    with pytest.raises(PayloadFailure) as wrong:
        metadata.read(tmp_path, None)
    pilot = Pilot(world)
    pilot.tell(
        pilot.jobs[0], "failed", [], error_code=wrong.value.code, error_diag=str(wrong.value)
    )
    adder(world).run_once()
    assert pilot.error() == ("payload", "bad_metadata", str(wrong.value))


def test_a_dataset_that_was_closed_while_jobs_fill_it(world: World) -> None:
    pilot = Pilot(world)
    pilot.world.ddm.close(pilot.dataset("output"))
    pilot.finish()
    adder(world).run_once()
    assert pilot.error()[:2] == ("jedi", "dataset_closed")


def test_another_file_lies_where_an_output_goes(world: World) -> None:
    pilot = Pilot(world)
    [output] = [file for file in pilot.jobs[0].files if file.type == "output"]
    path = world.ddm.path(ENDPOINT, output.dataset, output.lfn)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("somebody else's")
    pilot.finish()
    adder(world).run_once()
    assert pilot.error()[:2] == ("jedi", "target_differs")
    assert path.read_text() == "somebody else's"


def test_jobs_of_a_system_that_goes_down_are_closed(world: World) -> None:
    pilot = Pilot(world)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_pilots (pilot_id, site, host, status) "
                "VALUES ('p', 'SITE_A', :host, 'running')"
            ),
            {"host": socket.gethostname()},
        )
    end_pilots(world.engine, Home(world.settings.home))
    assert (pilot.statuses(), pilot.error()[1]) == (["closed"], "shut_down")
