"""The policy that an operation declares is enforced by the table, whoever asks for it."""

from __future__ import annotations

import pytest
from support.calls import call
from support.job_rows import make_jobs
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.core.errors import Forbidden, NotFound
from jedi.service.jobs import job_verbs
from jedi.service.operations.all_operations import OPERATIONS
from jedi.service.operations.table import (
    DATASET_OWNER,
    NAMED_USER,
    OWNER,
    OWNER_OR_PRODUCTION,
    TABLE,
    Call,
    Policy,
    operation,
)
from jedi.service.tasks import priority_change, task_verbs
from jedi.taskbuffer.users import users

MISSING = 987_654_321


@pytest.mark.parametrize("policy", [OWNER, OWNER_OR_PRODUCTION, NAMED_USER, DATASET_OWNER])
def test_no_operation_of_owners_is_unchecked(policy: Policy) -> None:
    """Without an argument that names things of owners it does not enter the table."""

    def change(call: Call, other: int) -> None:
        """Change something."""

    with pytest.raises(ValueError, match=r"no argument of task\.change names what"):
        operation("task.change", "POST", "/v1/change", policy)(change)
    assert "task.change" not in TABLE


def test_each_operation_of_owners_has_its_argument() -> None:
    """The first argument of the policy's that it takes names the things."""
    owned = {one.name: one.owned for one in OPERATIONS if one.policy.things}
    assert None not in owned.values()
    assert {name: owned[name] for name in ("task.kill", "task.clean", "job.hold", "unit.kill")} == {
        "task.kill": "jedi_task_ids",
        "task.clean": "jedi_task_id",
        "job.hold": "panda_ids",
        "unit.kill": "jedi_task_id",
    }
    assert (owned["draft.list"], owned["user.notify"], owned["dataset.close"]) == (
        "guid",
        "user",
        "name",
    )


def test_the_function_itself_is_guarded(world: World) -> None:
    """Of several things those of others are refused, each in its place; of one it is an error."""
    [task] = put(world, good())
    with world.engine.begin() as tx:
        [job] = make_jobs(tx, 1).jobs
        with pytest.raises(Forbidden, match=f"Task {task} belongs to anna: only its owner and op"):
            priority_change.change(call(tx, "bea"), task, 5)
        with pytest.raises(NotFound, match=f"There is no task {MISSING}"):
            priority_change.change(call(tx), MISSING, 5)
        asked = call(tx)
        killed = task_verbs.kill(asked, [MISSING, task])
        assert [(one.jedi_task_id, one.error) for one in killed] == [
            (MISSING, "not_found"),
            (task, None),
        ]
        assert asked.subject == f"task {task}; refused: task {MISSING}"
        [held] = job_verbs.hold(call(tx, "bea"), [job])
        assert (held.accepted, held.error) == (False, "forbidden")
        with pytest.raises(Forbidden, match="This token is for `read`"):
            task_verbs.kill(call(tx, scope="read"), [task])


def test_a_question_is_seen_by_the_policy(world: World) -> None:
    """New code would run in the owner's name: also if the function itself is called."""
    [task] = put(world, good())
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user="paul", role="production", gridpref=None, cap=None)
        new_code = task_verbs.RetryOptions(sandbox="0" * 64)
        [answer] = task_verbs.retry(call(tx, "paul"), jedi_task_ids=[task], options=new_code)
    assert answer.error == "forbidden"
