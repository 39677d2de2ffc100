"""Units that come with the submission: rows at once, refusals one by one, keys for ever.

Expected values: docs/reference/herds.md#explicit; docs/reference/ganga.md#submission.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from support.commanding import sound
from support.generating import catalogue, generate, rows
from support.herds import jobs
from support.task_rows import row_of
from support.units import DOCUMENT, given, unit

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import BadInput, Refused
from jedi.ddm.interface import FileInfo
from jedi.service.units.unit_details import SubmittedUnits, settle_key, submit_units
from jedi.splitter.agent import Splitter
from jedi.taskrefiner.agent import TaskRefiner

READING = {
    "taskName": "g",
    "jobParameters": [
        {
            "type": "template",
            "param_type": "input",
            "value": "cat ${IN/S} ${UNIT/Arguments}",
            "dataset": "demo:in",
        },
    ],
    "splitter": {"name": "Explicit"},
}


def made(world: World, task: int) -> list[Any]:
    """The jobs of a task whose units are there."""
    assert TaskRefiner(world).run_once() == 1
    assert ContentsFeeder(world).run_once() == 1, row_of(world, task).errordialog
    assert generate(world) == 1
    return jobs(world, task)


def unit_rows(world: World, task: int) -> list[Any]:
    return rows(world, "SELECT * FROM jedi_units WHERE jeditaskid = :t ORDER BY unit_nr", t=task)


def test_units_exist_when_the_answer_is_given(world: World) -> None:
    """Expected: the rows are written in the submission's transaction; arguments reach the job
    verbatim, dollars and percents too (row 69); the Splitter has nothing to do."""
    odd = "'a b' '$HOME %s ${Parameter}' \"é\n\""
    done = given(world, [unit("1"), unit(odd), unit("3")])
    assert (done.created, done.n_units, done.refused, done.status) == (True, 3, [], "registered")
    found = unit_rows(world, done.jedi_task_id)
    assert [one.unit_nr for one in found] == [1, 2, 3]
    assert [one.options for one in found][1] == {"Arguments": odd}
    assert [job.jobparameters for job in made(world, done.jedi_task_id)] == [
        "echo 1",
        f"echo {odd}",
        "echo 3",
    ]
    assert Splitter(world).run_once() == 0
    assert [job.unit_nr for job in jobs(world, done.jedi_task_id)] == [1, 2, 3]
    sound(world)


def test_refused_units_do_not_stop_the_others(world: World) -> None:
    """Expected (ruling, partial acceptance): accepted ones stay, refused ones are reported with
    their reason; they get no job."""
    bad = [
        {"options": {"Argument": "x"}},
        {"options": {"Arguments": 3}},
        7,
        {"options": {"Arguments": "1", "JobID": "4"}},
        {"options": {"9": "", "Arguments": ""}},
        {"options": 3},
        unit("x", "file"),
        {"options": {"Arguments": ""}, "files": "f"},
        {"options": {"Arguments": "é" * 70_000}},
    ]
    done = given(world, [unit("1"), *bad, unit("2")])
    assert {one.unit_nr: one.reason for one in done.refused} == {
        2: "It lacks option Arguments, which jobParameters name.",
        3: "Option Arguments is no text or list of texts.",
        4: "A unit has the parts options and files alone.",
        5: "Option JobID is set by JEDI.",
        6: "'9' is no name of an option.",
        7: "Its options are no object.",
        8: "It names files, and the task has no input.",
        9: "Its files are no list of names.",
        # 2 bytes each; Linux takes 128 KB less one (execve(2): MAX_ARG_STRLEN)
        10: "Option Arguments: an argument has 140000 bytes, and no program gets more than 131071. "
        "Put the text into a file of the sandbox.",
    }
    assert [job.unit_nr for job in made(world, done.jedi_task_id)] == [1, 11]
    sound(world)


def test_without_keep_going_later_units_are_not_tried(world: World) -> None:
    """Expected: "keep_going=False raises JobError at the first refusal"; accepted units stay
    submitted, refused and untried ones are failed (D1)."""
    done = given(world, [unit("1"), unit(2), unit("3")], keep_going=False)
    assert [one.unit_nr for one in done.refused] == [2, 3]
    assert done.refused[1].reason == "It was not tried: unit 2 before it was refused."
    assert [job.unit_nr for job in made(world, done.jedi_task_id)] == [1]


@pytest.mark.parametrize(
    ("units", "keep_going"), [([unit(1), unit(2)], True), ([unit(1), unit("2")], False)]
)
def test_no_accepted_unit_is_no_task(world: World, units: list[Any], keep_going: bool) -> None:
    """Expected: "If none was accepted, the job is new again, without subjobs": nothing is stored,
    and the key is free."""
    with pytest.raises(BadInput, match="Option Arguments is no text"):
        given(world, units, keep_going=keep_going)
    assert rows(world, "SELECT FROM jedi_tasks UNION ALL SELECT FROM jedi_submission_keys") == []
    assert given(world, [unit("1")]).created


def test_units_with_files(world: World) -> None:
    """Expected (rows 27, 137): a unit reads its own files, two may read the same one, a file that
    nobody has refuses its unit; a unit without files reads all."""
    catalogue(world, in_=[FileInfo(lfn, 10, "00000001") for lfn in ("a", "b", "c")])
    done = given(world, [unit("1", "a"), unit("2", "zzz"), unit("3", "b", "a")], document=READING)
    assert [(one.unit_nr, one.reason) for one in done.refused] == [
        (2, "The input has no file zzz."),
    ]
    task = done.jedi_task_id
    assert len(unit_rows(world, task)) == 3
    assert TaskRefiner(world).run_once() == 1
    sound(world)
    assert ContentsFeeder(world).run_once() == 1
    assert Splitter(world).run_once() == 1
    assert ContentsFeeder(world).run_once() == 1, row_of(world, task).errordialog
    assert generate(world) == 1
    assert [(job.unit_nr, job.jobparameters) for job in jobs(world, task)] == [
        (1, "cat a 1"),
        (3, "cat a b 3"),
    ]
    sound(world)
    whole = given(world, [unit("1"), unit("2", "c")], "k2", document={**READING, "taskName": "h"})
    assert TaskRefiner(world).run_once() == ContentsFeeder(world).run_once() == 1
    assert Splitter(world).run_once() == ContentsFeeder(world).run_once() == 1
    assert generate(world) == 1
    assert [job.jobparameters for job in jobs(world, whole.jedi_task_id)] == [
        "cat a b c 1",
        "cat c 2",
    ]


def test_same_key_is_the_same_task(world: World) -> None:
    """Expected: "the same key never makes two tasks", whatever it brings; the answer is that of
    the first submission, refusals included. Keys belong to their users."""
    first = given(world, [unit("1"), unit(2)])
    again = given(world, [unit("5")])
    assert (again.created, again.jedi_task_id) == (False, first.jedi_task_id)
    assert (again.n_units, again.refused) == (2, first.refused)
    with world.engine.begin() as tx:
        assert settle_key(tx, "anna", "k") == again
        assert settle_key(tx, "bob", "k") is None
    assert len(rows(world, "SELECT FROM jedi_tasks")) == 1


def test_settled_key_makes_no_task_later(world: World) -> None:
    """Expected (row 45): "later reconciliation gives new or submitted, never two submissions": a
    key that was answered with none is refused when it arrives."""
    with world.engine.begin() as tx:
        assert settle_key(tx, "anna", "k") is None
    with pytest.raises(Refused) as caught:
        given(world, [unit("1")])
    assert caught.value.code == "key_settled"
    assert rows(world, "SELECT FROM jedi_tasks") == []
    with world.engine.begin() as tx:
        assert settle_key(tx, "anna", "k") is None


def test_settling_waits_for_a_submission_in_progress(world: World) -> None:
    """Expected: whoever asks while the submission commits gets the task, not none."""
    answers: list[SubmittedUnits | None] = []

    def ask() -> None:
        with world.engine.begin() as tx:
            answers.append(settle_key(tx, "anna", "k"))

    with world.engine.begin() as tx:
        done = submit_units(
            tx, world.ddm, "anna", DOCUMENT, [unit("1")], Path(), "k", world.knobs, keep_going=True
        )
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join(0.3)
        assert answers == []
    asking.join(10)
    assert [one and one.jedi_task_id for one in answers] == [done.jedi_task_id]


def test_explicit_needs_its_units(world: World) -> None:
    """Expected: strategy Explicit goes with units, and units go with it alone."""
    other = {**DOCUMENT, "splitter": {"name": "Parametric", "options": {"Parameters": 2}}}
    for document in (other, {**DOCUMENT, "splitter": None}, {"splitter": {"name": "Explicit"}}):
        with pytest.raises(BadInput):
            given(world, [unit("1")], document=document)
