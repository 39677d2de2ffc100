"""Secondary files that several jobs may have.

Expected: "secondary files that may be used again: `ready` after their jobs; the invariant says so"
(docs/reference/task-states.md#invariants-of-files).
"""

from __future__ import annotations

from typing import Any

import pytest
from support.commanding import add_inputs, end, jobs, sound, take, work_off
from support.generating import SECOND, document, generate, ready, rows
from support.helpers import put_file_dataset

from jedi.agent.base import World
from jedi.taskbuffer.inputs import staging


@pytest.mark.parametrize(
    ("item", "task"),
    [
        ({"attributes": "nosplit"}, {}),
        ({"attributes": "repeat"}, {}),
        ({"ratio": 2, "reusable": True}, {}),
        ({"nFilesPerJob": 2, "reusable": True}, {}),
        ({}, {"reuseSecOnDemand": True}),
    ],
)
def test_files_that_several_jobs_have_stay_ready(
    world: World, item: dict[str, Any], task: dict[str, Any]
) -> None:
    """While jobs have them, when one has failed, and when the task is done."""
    add_inputs(world, 4)
    put_file_dataset(world, "demo:second", {f"p{i}": b"p" for i in range(2)}, "SITE_A_DATADISK")
    second = {**SECOND, **item}
    [made] = ready(world, document(second, nFilesPerJob=1, site="SITE_A", **task))
    assert generate(world) == 1
    sound(world)
    with world.engine.begin() as tx:
        assert staging.needed(tx, [("demo:second", "p1")])["demo:second", "p1"]
    one, *_ = jobs(world, made, "activated")
    take(world, [one])
    end(world, [one], "failed")
    sound(world)
    assert work_off(world, made) == "done"
    shared = rows(world, "SELECT DISTINCT status FROM jedi_dataset_contents WHERE lfn LIKE 'p_'")
    assert [row.status for row in shared] == ["ready"]
    sound(world)
