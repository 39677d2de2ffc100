"""The database lets every declared move pass and refuses every other one."""

# Raw UPDATEs: the guards of statuses are the point.

from __future__ import annotations

import json

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError
from support.helpers import insert_states

from jedi.core import states
from jedi.core.states import Machine
from jedi.taskbuffer.schema.ddl import trigger_name
from tools.docs import states_page

machines = pytest.mark.parametrize("machine", states.MACHINES, ids=lambda m: m.name)

# One call for all pairs: what the database did with each attempt.
TRY_ALL = """
CREATE FUNCTION pg_temp.try_all(attempts jsonb) RETURNS TABLE (source text, target text, end_ text)
LANGUAGE plpgsql AS $$
DECLARE refused text; attempt jsonb;
BEGIN
  FOR attempt IN SELECT * FROM jsonb_array_elements(attempts) LOOP
    source := attempt->>0; target := attempt->>1;
    BEGIN
      {update};
      end_ := CASE WHEN FOUND THEN 'passed' ELSE 'no such row' END;
      RAISE EXCEPTION USING ERRCODE = 'JE001';  -- back to where the row was
    EXCEPTION
      WHEN SQLSTATE 'JE001' THEN NULL;
      WHEN check_violation THEN
        GET STACKED DIAGNOSTICS refused = CONSTRAINT_NAME;
        end_ := refused;
    END;
    RETURN NEXT;
  END LOOP;
END $$
"""


BESIDE = {
    states.JOB.table: ", postprocessed_at = CASE WHEN target = 'finished' THEN jedi_now() END",
    "jedi_dataset_contents": ", reason = CASE WHEN target = 'skipped' THEN 'no_events' END",
}
"""Columns that a CHECK binds to the status."""


def stored(machine: Machine, status: str) -> str:
    """A status as the machine's column holds it."""
    return str(states.EVENT_CODES[status]) if machine is states.EVENT else status


def attempt(engine: Engine, machine: Machine, pairs: list[tuple[str, str]]) -> dict[str, set[str]]:
    """Try each move on a row of its own; what the database said -> the moves it said it to."""
    kind = "smallint" if machine is states.EVENT else "text"
    update = (
        f"UPDATE {machine.table} SET status = CAST(target AS {kind})"
        f"{BESIDE.get(machine.table, '')} "
        f"WHERE status = CAST(source AS {kind})"
    )
    coded = [[stored(machine, status) for status in pair] for pair in pairs]
    said: dict[str, set[str]] = {}
    with engine.begin() as tx:
        insert_states(tx, machine)
        tx.execute(text(TRY_ALL.format(update=update)))
        found = tx.execute(
            text("SELECT * FROM pg_temp.try_all(CAST(:pairs AS jsonb))"),
            {"pairs": json.dumps(coded)},
        )
        for row, (source, target) in zip(found, pairs, strict=True):
            said.setdefault(row.end_, set()).add(f"{source} -> {target}")
    return said


@machines
def test_declared_moves_pass(engine: Engine, machine: Machine) -> None:
    said = attempt(engine, machine, sorted(machine.pairs))
    assert said.keys() == {"passed"}, said


@machines
def test_every_other_move_is_refused(engine: Engine, machine: Machine) -> None:
    said = attempt(engine, machine, machine.forbidden())
    assert said.keys() == {trigger_name(machine)}, said


@machines
def test_staying_is_no_move(engine: Engine, machine: Machine) -> None:
    said = attempt(engine, machine, [(status, status) for status in machine.states])
    assert said.keys() == {"passed"}, said


@machines
def test_unknown_statuses_are_refused(engine: Engine, machine: Machine) -> None:
    unknown = "11" if machine is states.EVENT else "sleeping"
    with pytest.raises(IntegrityError, match=f"{machine.table}_status_ck"), engine.begin() as tx:
        insert_states(tx, machine, [unknown])


def test_a_refusal_names_the_move(engine: Engine) -> None:
    with engine.begin() as tx:
        insert_states(tx, states.TASK, ["done"])
    sentence = "forbidden move of task in jedi_tasks: done -> running"
    with pytest.raises(IntegrityError, match=sentence), engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET status = 'running'"))


def test_two_machines_share_a_table_by_type(engine: Engine) -> None:
    """`running -> prepared` is a move of output files only."""
    with engine.begin() as tx:
        insert_states(tx, states.INPUT_FILE, ["running"])
        insert_states(tx, states.OUTPUT_FILE, ["running"])
    update = "UPDATE jedi_dataset_contents SET status = 'prepared' WHERE type = :type"
    with engine.begin() as tx:
        assert tx.execute(text(update), {"type": "output"}).rowcount == 1
    with pytest.raises(IntegrityError, match="input file"), engine.begin() as tx:
        tx.execute(text(update), {"type": "input"})


def test_each_move_of_a_task_names_its_origin() -> None:
    """Expected: "the table is generated from one list that names its source per edge"; moves of
    PanDA that no agent needs are dropped (docs/reference/task-states.md#moves)."""
    assert {edge.origin for edge in states.TASK.edges} == {"JEDI document", "PanDA", "ruling"}
    dropped = {
        *(("toincexec", end) for end in ("done", "finished", "failed", "aborted", "exhausted")),
        *(("rerefine", "ready"), ("rerefine", "prepared"), ("ready", "preprocessing")),
        ("exhausted", "passed"),
    }
    assert not dropped & states.TASK.pairs
    assert "| origin |" in states_page()


def test_every_status_can_be_reached() -> None:
    for machine in states.MACHINES:
        reached = set(machine.initial)
        while more := {b for a, b in machine.pairs if a in reached} - reached:
            reached |= more
        told = {"picked", "partial"} if machine is states.INPUT_FILE else set()
        assert reached == machine.states.keys() - told, machine.name


@pytest.mark.parametrize(
    ("rule", "columns"),
    [
        ("status", "status = 'asleep'"),
        ("substatus", "substatus = 'tired'"),
        ("held", "hold_kind = 'manual_stage_out'"),  # docs/reference/pgi.md#holds: after its pilot
        ("finished", "status = 'finished'"),
        ("postprocessed", "postprocessed_at = jedi_now()"),
        ("purged", "purged_at = jedi_now()"),
    ],
)
def test_a_job_that_breaks_a_rule_names_it(engine: Engine, rule: str, columns: str) -> None:
    with engine.begin() as tx:
        insert_states(tx, states.JOB, ["holding", "running"])
    with pytest.raises(IntegrityError) as refused, engine.begin() as tx:
        tx.execute(text(f"UPDATE jedi_jobs SET {columns} WHERE pandaid = 2"))
    assert refused.value.orig.diag.constraint_name == f"jedi_jobs_{rule}_ck"  # type: ignore[union-attr]
    assert f"jedi_jobs_{rule}_ck" in str(refused.value)
