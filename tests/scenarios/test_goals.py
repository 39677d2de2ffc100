"""How tasks end in a real system: below their goal, and at it."""

from __future__ import annotations

import pytest
from scenarios.real_system import System, until
from support.calls import call

from jedi.core.settings import caller
from jedi.service.system import knobs
from jedi.service.tasks import task_details

pytestmark = pytest.mark.long

PICKY = "grep -hv 001"
"""Fails for the second file of a dataset."""


def test_a_person_decides_about_what_is_missing(system: System) -> None:
    lines = system.texts("user:some", 4, "DISK_A")
    task = system.copying("user:some", PICKY, nFilesPerJob=1, maxAttempt=1, useExhausted=True)
    assert system.settle(task) == ["exhausted"]
    assert "That is 75.0 %, less than the goal of 100 %." in (system.show(task).task.reason or "")
    system.check()
    system.ask("finish", task)
    until(lambda: system.show(task).task.status == "finished", "the task is finished")
    assert system.lines(task) == [line for line in lines if "001" not in line]
    system.check()


def test_enough_is_enough(system: System) -> None:
    """With the goal reached, the last file is not tried for the hundredth time."""
    system.texts("user:enough", 4, "DISK_A")
    with system.engine.begin() as tx:
        knobs.put(call(tx, caller()), "watchdog.goal_period_s", "0.5")
    task = system.copying(
        "user:enough", PICKY, nFilesPerJob=1, maxAttempt=100, goal=75, noThrottle=True
    )
    assert system.settle(task) == ["finished"]
    with system.engine.begin() as tx:
        told = [
            step.reason
            for step in task_details.history(call(tx), task)
            if step.status == "finishing"
        ]
    assert "The goal of 75 % is reached." in str(told)
    system.check()
