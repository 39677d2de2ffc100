"""Splits under SIGKILL, and splits of bad input.

Expected values: RFC #15, "Proposed implementation": a herd has one job, its originator, or all.
"""

# Raw UPDATEs: time passes.

from __future__ import annotations

import os
import signal
from typing import Any

import psycopg
import pytest
from sqlalchemy import event, text
from support.generating import catalogue, rows
from support.herds import RFC, herd, members, refined, submitted
from support.task_rows import row_of

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import BadInput
from jedi.ddm.interface import FileInfo
from jedi.splitter.agent import Splitter

IN = {"type": "template", "param_type": "input", "value": "cat ${IN/S}", "dataset": "demo:in"}
MOST_STEPS = 60


def run_and_die(world: World, steps: int) -> bool:
    """Let a process split; it kills itself before its next step after so many statements, copies
    and commits. True: it lived."""
    pid = os.fork()
    if not pid:
        try:
            _count_down(world, steps)
            Splitter(world).run_once()
        finally:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    assert not os.WIFSIGNALED(status) or os.WTERMSIG(status) == signal.SIGKILL
    return not os.WIFSIGNALED(status)


def _count_down(world: World, steps: int) -> None:
    left = iter(range(steps))

    def step(*_: Any) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    class Counted(psycopg.Cursor[Any]):
        def execute(self, *args: Any, **kwargs: Any) -> Any:
            step()
            return super().execute(*args, **kwargs)

        def copy(self, *args: Any, **kwargs: Any) -> Any:
            step()
            return super().copy(*args, **kwargs)

    def use(connection: Any, *_: Any) -> None:
        connection.cursor_factory = Counted

    world.engine.dispose(close=False)  # they are the parent's
    event.listen(world.engine, "checkout", use)
    event.listen(world.engine, "commit", step)


def test_killed_at_each_write_a_herd_has_one_job_or_all(world: World) -> None:
    """Expected: a herd of ten values and one of five files, split in one transaction: after each
    death both have their originator alone and no divided file, or all units and files."""
    catalogue(world, **{"in": 5})
    by_files = {"name": "ByFiles", "options": {"SplitterMaxFilesPerJob": 2}}
    ten, three = refined(world, herd()), refined(world, herd(by_files, IN, taskName="f"))
    assert ContentsFeeder(world).run_once() == 1
    states = []
    for steps in range(MOST_STEPS):
        lived = run_and_die(world, steps)
        [divided] = rows(world, "SELECT count(boundaryid) FROM jedi_dataset_contents")
        kinds = [one.jobsplittype for one in members(world, ten)]
        states.append((len(kinds), kinds[0], len(members(world, three)), divided[0]))
        if lived and states[-1][0] == 10:
            break
        with world.engine.begin() as tx:
            tx.execute(text("UPDATE jedi_tasks SET lease_until = jedi_now() - interval '1 day'"))
    before, after = (1, "WillSplit", 1, 0), (10, "Splitted", 3, 5)
    assert set(states) == {before, after}
    assert states == sorted(states)
    assert states.count(before) > 8  # claims, the fence, ids, units, files, herds, moves, a commit
    units = rows(world, "SELECT originpandaid FROM jedi_units")
    assert len({*units}) == 13
    assert Splitter(world).run_once() == 0


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"Parameters.A": 3, "Parameters.B": ["x", "y"]}, "splitter.options.Parameters"),
        ({"Parameters": 3, "Parameters.B": 4}, "splitter.options.Parameters"),
        ({"Parameters": []}, "splitter.options.Parameters"),
        ({"Parameters": 3, "ParameterStep": "x"}, "splitter.options.ParameterStep"),
        ({}, "splitter.options.Parameters"),
    ],
)
def test_parameters_are_checked_at_submission(
    world: World, options: dict[str, Any], place: str
) -> None:
    with pytest.raises(BadInput) as refused:
        submitted(world, herd({**RFC, "options": options}))
    [problem] = refused.value.problems
    assert problem.path == place and problem.rule and problem.remedy


@pytest.mark.parametrize("value", ["0", "-1", "2.5", "x", ""])
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("InputDataBySE", "SplitterMaxFilesPerJob"),
        ("ByFiles", "SplitterMaxFilesPerJob"),
        ("ByEvents", "SplitterEventsPerJob"),
    ],
)
def test_sizes_are_checked_at_submission(world: World, name: str, option: str, value: str) -> None:
    with pytest.raises(BadInput, match=f"splitter.options.{option}.*a whole number, 1 or more"):
        submitted(world, herd({"name": name, "options": {option: value}}, IN))


def test_input_that_allows_no_unit_breaks_the_herd(world: World) -> None:
    """Expected: numbers of events that nobody knows are found at the split, with a remedy."""
    catalogue(world, in_=[FileInfo(f"f{n}", 10, "00000001", None, None) for n in range(3)])
    by_events = {"name": "ByEvents", "options": {"SplitterEventsPerJob": 12}}
    task = refined(world, herd(by_events, IN))
    assert ContentsFeeder(world).run_once() == 1
    assert Splitter(world).run_once() == 1
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("tobroken", "split_refused")
    assert "numbers of events of 3 of 3 files are unknown" in row.errordialog
    assert "Give nEventsPerInputFile" in row.errordialog
    assert len(members(world, task)) == 1
