"""A real payload that runs out of memory is tried with more, and the task learns from it."""

from __future__ import annotations

import pytest
from scenarios.real_system import System
from support.calls import call

from jedi.service.tasks import task_details

pytestmark = pytest.mark.long

GREEDY = "python3 -c 'b = bytearray(300 << 20)' && cat"


def test_a_greedy_payload_gets_more(system: System) -> None:
    lines = system.texts("user:greedy", 2, "DISK_A")
    task = system.copying("user:greedy", GREEDY, nFilesPerJob=2, ramCount=200)
    assert system.settle(task) == ["done"]
    assert system.lines(task) == lines
    with system.engine.begin() as tx:
        first, second = task_details.jobs(tx, task)
        assert [
            job.panda_id for job in task_details.descendants(call(tx), task, first.panda_id)
        ] == [second.panda_id]
    assert (first.error_code, first.memory_mb, second.memory_mb) == ("memory_limit", 200, 1000)
    assert first.retry_effects == ["increase_memory: asks for 1000 MB, had 200"]
    assert (second.predecessors, second.relation) == ([first.panda_id], "retry")
    system.call("retry-rule", "test", "--task", str(task))
    system.check()
