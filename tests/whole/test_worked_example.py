"""The worked example of docs/write-a-test.md."""

from __future__ import annotations

from support.commanding import ask, cycle, running, sound, work_off
from support.statuses import input_statuses, statuses

from jedi.agent.base import World


def test_a_paused_task_holds_its_jobs_back(world: World) -> None:
    """`pause` keeps queued jobs from pilots; after `resume` the task ends well."""
    task = running(world, files=2)
    assert statuses(world, task) == ["activated", "activated"]
    ask(world, task, "pause")
    cycle(world)
    assert statuses(world, task, "tasks") == ["paused"]
    assert statuses(world, task) == ["throttled", "throttled"]
    ask(world, task, "resume")
    assert work_off(world, task) == "done"
    assert input_statuses(world, task) == {"in000000": "finished", "in000001": "finished"}
    sound(world)
