"""Objects of the database besides tables: the clock, the guards of the edges, the views.

All guards are generated from core/states.py. A guard is a row trigger whose WHEN clause lists the
allowed moves; the function behind it only raises, so an allowed move costs less than 3 %, where a
plpgsql test in the function costs 25 %. It fires after the update: one before it locks and logs
each row once more. The list is read from its beginning, hence usual moves come first. Each
statement parses its WHEN clause anew: jobs and files, which may come one at a time, have the
unusual moves in a function, which saves a statement 15 to 40 us, and lists are one literal.
"""

from __future__ import annotations

from jedi.core import states
from jedi.core.states import Machine
from jedi.taskbuffer.db.sql_lists import among, listed
from jedi.taskbuffer.schema import job_rules
from jedi.taskbuffer.schema.herd_tables import HERD_MEMBERS_VIEW
from jedi.taskbuffer.schema.pgi_views import JOB_ALLOCATIONS_VIEW, JOB_STATES_VIEW, TASK_STATES_VIEW

USUAL = {
    "job": [
        "activated>sent",
        "sent>starting",
        "starting>running",
        "sent>running",
        "running>holding",
        "holding>finished",
    ],
    "input file": ["ready>running", "running>finished", "running>ready"],
    "output file": ["defined>running", "running>finished", "defined>finished"],
    "event range": ["0>6", "0>1", "1>3", "3>6", "6>9"],
}
"""The most frequent moves of each machine."""

CLOCK = """
CREATE OR REPLACE FUNCTION jedi_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE AS
$$ SELECT coalesce(nullif(current_setting('jedi.now', true), '')::timestamptz, now()) $$
"""

REFUSE = """
CREATE OR REPLACE FUNCTION jedi_refuse_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'forbidden move of % in %: % -> %',
    TG_ARGV[0], TG_TABLE_NAME, OLD.status, NEW.status
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END $$
"""

FILES_VIEW = """
CREATE VIEW jedi_files AS
SELECT jeditaskid, datasetid, min(fileid) AS fileid, lfn, min(type) AS type, count(*) AS ranges,
       CASE WHEN count(*) = 1 THEN min(status)
            WHEN bool_and(status = 'finished') THEN 'finished'
            WHEN bool_or(status = 'finished') THEN 'partial'
            WHEN bool_or(status = 'running') THEN 'running'
            WHEN bool_or(status = 'ready') THEN 'ready'
            ELSE min(status) END AS status,
       max(attemptnr) AS attemptnr, max(failedattempt) AS failedattempt
FROM jedi_dataset_contents GROUP BY jeditaskid, datasetid, lfn
"""


def trigger_name(machine: Machine) -> str:
    """Name of the trigger that guards a machine."""
    return f"guard_{machine.name.replace(' ', '_')}"


def _moves(machine: Machine) -> list[str]:
    codes = states.EVENT_CODES if machine is states.EVENT else {}
    return [f"{codes.get(a, a)}>{codes.get(b, b)}" for a, b in sorted(machine.pairs)]


_BY_FUNCTION = (states.JOB, states.INPUT_FILE, states.OUTPUT_FILE)
"""Machines whose unusual moves a function knows."""


def _may_move(machine: Machine) -> str:
    """Name of the function that knows the moves of a machine."""
    return f"jedi_{machine.name.replace(' ', '_')}_may_move"


def _knows_moves(machine: Machine) -> str:
    return f"""
CREATE OR REPLACE FUNCTION {_may_move(machine)}(before text, after text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN before || '>' || after IN ({listed(_moves(machine))});
END $$
"""


def functions() -> list[str]:
    """The statements that make what tables and guards call; tables need the first ones."""
    return [
        CLOCK,
        job_rules.IS_SOUND,
        job_rules.TO_BOOK_FUNCTION,
        REFUSE,
        *map(_knows_moves, _BY_FUNCTION),
    ]


def _forbidden(machine: Machine) -> str:
    usual = USUAL.get(machine.name, [])
    if machine in _BY_FUNCTION:
        moves, rest = usual, f" AND NOT {_may_move(machine)}(OLD.status, NEW.status)"
    else:
        moves, rest = [*dict.fromkeys(usual + _moves(machine))], ""
    return among("(OLD.status || '>' || NEW.status)", moves, negate=True) + rest


def guard(machine: Machine) -> str:
    """CREATE TRIGGER that refuses every move which is not an edge of the machine."""
    rows = ""
    if machine.types:
        rows = f" AND {among('OLD.type', machine.types, negate=machine.negate_types)}"
    return (
        f"CREATE TRIGGER {trigger_name(machine)} AFTER UPDATE OF status ON {machine.table} "
        f"FOR EACH ROW WHEN (OLD.status <> NEW.status{rows} "
        f"AND {_forbidden(machine)}) "
        f"EXECUTE FUNCTION jedi_refuse_move('{machine.name}')"
    )


def guards() -> list[str]:
    """All statements that put the guards and views in place."""
    views = (FILES_VIEW, JOB_STATES_VIEW, TASK_STATES_VIEW, JOB_ALLOCATIONS_VIEW, HERD_MEMBERS_VIEW)
    return [*(guard(m) for m in states.MACHINES), *views]
