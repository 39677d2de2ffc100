"""Objects in the audit: `every change is in an audit log: who, …, on what`. A refused object was
not changed, and a change of many is found by each of its objects."""

from __future__ import annotations

import httpx2
from sqlalchemy import text
from support.job_rows import make_jobs
from support.service_process import over, served
from support.task_rows import good, put

from jedi.agent.base import World
from jedi.core.settings import caller
from jedi.host.home import Home
from jedi.taskbuffer.users import access
from jedi.taskbuffer.users.users import PUT_USER


def subjects(door: httpx2.Client, **asked: str) -> list[str]:
    return [one["subject"] for one in door.get("/v1/audit", params=asked).json()]


def test_the_audit_tells_changed_from_refused_objects(world: World) -> None:
    """anna kills two tasks of hers, and one that does not exist; bea tries one of them; an operator
    cancels a job and one that does not exist."""
    first, second = put(world, good(), good())
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user=caller(), role="operator", gridpref=None, cap=None)
        anna, bea = (
            {"Authorization": f"Bearer {access.put_user_token(tx, name, None, 'all', 60.0)}"}
            for name in ("anna", "bea")
        )
        make_jobs(tx, 1)
        job = tx.scalar(text("SELECT pandaid FROM jedi_jobs"))
    with served(world), over(Home(world.settings.home)) as door:
        for ids, who in (([first, second, 99], anna), ([second], bea)):
            door.post("/v1/tasks/kill", json={"jedi_task_ids": ids}, headers=who)
        door.post("/v1/jobs/cancel", json={"panda_ids": [99, job]})
        both = f"task {first}, {second}; refused: task 99"
        assert subjects(door) == [f"job {job}; refused: job 99", f"refused: task {second}", both]
        assert subjects(door, subject=f"task {first}") == [both]
        assert subjects(door, subject=f"task {second}") == [both]
        assert subjects(door, subject="task 99") == subjects(door, subject="task") == []
        assert subjects(door, subject=both) == [both]
