"""Plug-ins of any kind that hang, raise or die hold their own task only, and others go on at once.

Expected: JEDI document, "Plugins to generate jobs based on various usecases": colleagues of each
use case maintain its plug-in.
"""

# Raw UPDATEs: a task gets another label.

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from support.commanding import add_inputs, end, jobs, status, take
from support.dogs import run as run_dog
from support.embedded import wait_for
from support.event_sets import jumbo_jobs_task
from support.generating import catalogue, document, ready
from support.plug_ins import KINDS, installed, set_limit, source_of
from support.situations import make_due
from support.task_rows import put, row_of

from jedi.agent.apart import Apart
from jedi.agent.base import Agent, World
from jedi.brokerage.agent import TaskBroker
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.host import forks
from jedi.host.processes import started
from jedi.jobgenerator.agent import JobGenerator
from jedi.mover.agent import Mover
from jedi.postprocessor.agent import PostProcessor
from jedi.taskrefiner.agent import TaskRefiner

ACTS = {
    "hangs": "time.sleep(3600)",
    "spins": "while True: pass",
    "raises": "raise ValueError('no such run')",
    "dies": "os._exit(3)",
    "is no class of JEDI's": "return Strange()",
}
SAID = {
    "raises": "ValueError: no such run",
    "dies": "its process ended (exit code 3)",
    "is no class of JEDI's": "",
}
ROUNDS, ROUND_S = 40, 5.0


class Machine:
    """Agents that live on, as processes do."""

    def __init__(self, world: World) -> None:
        self.world = world
        kinds: list[type[Any]] = [TaskRefiner, ContentsFeeder, JobGenerator, Mover, PostProcessor]
        self.agents: list[Agent[Any, Any]] = [kind(world) for kind in kinds]

    def run_until(self, true: Callable[[], bool]) -> None:
        """Rounds of a cycle of each agent; pilots succeed with all jobs."""
        for _ in range(ROUNDS):
            make_due(self.world)
            for agent in self.agents:
                began = time.monotonic()
                agent.run_once()
                assert time.monotonic() - began < ROUND_S
            for task in (self.ours, self.theirs):
                waiting = jobs(self.world, task, "activated")
                take(self.world, waiting)
                end(self.world, waiting)
            if true():
                return
        raise AssertionError([row_of(self.world, one) for one in (self.ours, self.theirs)])

    def submit(self) -> None:
        add_inputs(self.world, 2)
        given: dict[str, Any] = {"nFilesPerJob": 1, "site": "SITE_A"}
        [self.theirs] = put(self.world, document(**given), label="managed")
        [self.ours] = put(self.world, document(**given, output="a:other"))


@pytest.fixture
def machine(world: World) -> Iterator[Machine]:
    made = Machine(world)
    yield made
    for agent in made.agents:
        agent.close()


@pytest.mark.parametrize("act", ["hangs", "spins", "is imported"])
@pytest.mark.parametrize("room", KINDS)
def test_a_plugin_that_hangs_holds_its_own_task(
    machine: Machine, tmp_path: Path, room: str, act: str
) -> None:
    """The healthy task is done while the plug-in hangs, in one of its methods or while it is
    imported. At its limit the other task waits, with the plug-in and the knob in its reason."""
    source = source_of(room, ACTS.get(act, "pass"))
    if act == "is imported":
        source = "import time\ntime.sleep(3600)\n" + source
    with installed(tmp_path, room, source):
        set_limit(machine.world, 3600.0)
        machine.submit()
        machine.run_until(lambda: status(machine.world, machine.ours) == "done")
        assert row_of(machine.world, machine.theirs).lockedby is not None
        set_limit(machine.world, 0.5)
        machine.run_until(
            lambda: row_of(machine.world, machine.theirs).reason_code == "plugin_timeout"
        )
        said = row_of(machine.world, machine.theirs).errordialog
        assert f"jedi.{room} (strange_plugins:Bad, of strange 1) fails: it did not answer" in said
        assert "within 0.5 s (knob agent.plugin_s)" in said
        assert row_of(machine.world, machine.theirs).worker_deaths == 0


@pytest.mark.parametrize("act", SAID)
@pytest.mark.parametrize("room", KINDS)
def test_a_plugin_that_raises_or_dies_holds_its_own_task(
    machine: Machine, tmp_path: Path, room: str, act: str
) -> None:
    with installed(tmp_path, room, source_of(room, ACTS[act])):
        machine.submit()
        machine.run_until(lambda: status(machine.world, machine.ours) == "done")
        found = row_of(machine.world, machine.theirs)
        assert found.reason_code == "plugin_failed"
        assert f"jedi.{room} (strange_plugins:Bad, of strange 1) fails: {SAID[act]}" in (
            found.errordialog
        )


class CutOnce(TaskRefiner):
    """A refiner that loses its session with its first write."""

    cut = True

    def apply(self, tx: Connection, results: Sequence[Any]) -> None:
        super().apply(tx, results)
        if self.cut:
            self.cut = False
            pid = tx.scalar(text("SELECT pg_backend_pid()"))
            with self.world.engine.begin() as other:
                other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})


def test_late_answers_whose_write_was_lost_are_given_back(world: World, tmp_path: Path) -> None:
    """Two answers come late, and the session ends with the write of the first one: the next cycle
    has both tasks, though their leases would last for two minutes."""
    go = tmp_path / "go"
    wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    source = source_of("refiner", f"{wait}\n        return super().refine(*some, **more)")
    with installed(tmp_path, "refiner", source):
        put(world, document(), label="managed")
        put(world, document(output="a:other"), label="managed")
        agent = CutOnce(world)
        assert agent.run_once() == 2
        go.touch()
        for slow in agent._apart._behind:
            assert select.select([slow.descriptor], [], [], 10.0)[0]
        with pytest.raises(DBAPIError):
            agent.run_once()
        assert agent.run_once() == 2
        agent.close()
    with world.engine.begin() as tx:
        found = tx.execute(text("SELECT status, lockedby, worker_deaths FROM jedi_tasks")).all()
    assert found == [("defined", None, 0)] * 2


def test_one_that_is_killed_takes_its_children_along(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    def hang(_: int) -> None:
        child = subprocess.Popen(["sleep", "3600"])
        pids.write_text(f"{os.getpid()} {child.pid}")
        time.sleep(3600)

    apart = Apart(hang)
    assert list(apart.done([1])) == []
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    [(_, answer)] = apart.late(0.0)
    assert answer.code == "plugin_timeout"
    numbers = [int(pid) for pid in pids.read_text().split()]
    wait_for(lambda: not any(map(started, numbers)))  # a killed one may run for a moment


def test_one_that_leads_no_group_yet_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "become_leader", lambda: time.sleep(3600))
    apart = Apart[int](abs)
    assert list(apart.done([1])) == []
    [pid] = [one._pid for one in apart._behind]
    apart.close()
    assert started(pid) is None


def test_a_choice_of_a_nucleus_that_hangs_holds_its_own_task(world: World, tmp_path: Path) -> None:
    """Another task gets its nucleus in the same cycle. At its limit the first one waits, with the
    plug-in in its reason."""
    source = (
        "import time\nfrom jedi.brokerage.generic import GenericBroker\n"
        "class Bad(GenericBroker):\n    @property\n    def nucleus(self): time.sleep(3600)\n"
    )
    catalogue(world, in_=2)
    theirs, ours = ready(world, document(), document(output="a:other"), label="managed")
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_tasks SET prodsourcelabel = 'test' WHERE jeditaskid = :t"),
            {"t": ours},
        )
    agent = TaskBroker(world)
    with installed(tmp_path, "broker", source):
        assert agent.run_once() == 2
        assert status(world, ours) == "ready"
        assert row_of(world, theirs).lockedby is not None
        set_limit(world, 0.1)
        agent.run_once()
        make_due(world)
        agent.run_once()
        agent.close()
    found = row_of(world, theirs)
    assert (found.status, found.reason_code) == ("assigning", "plugin_timeout")
    assert "jedi.broker (strange_plugins:Bad, of strange 1) fails" in found.errordialog


def test_no_transaction_waits_for_a_broker(world: World, tmp_path: Path) -> None:
    """The dog of jumbo jobs chooses sites in a transaction: for a task whose broker hangs it takes
    the generic one."""
    task = jumbo_jobs_task(world, "online", files=2)
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_tasks SET prodsourcelabel = 'managed' WHERE jeditaskid = :t"),
            {"t": task},
        )
    with installed(tmp_path, "broker", "import time\ntime.sleep(3600)"):
        assert run_dog(world, "jumbo_jobs") == {"added": 1}
