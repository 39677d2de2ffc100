"""Builders that several tests share with tests of recovery."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jedi.agent.base import World
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks import task_details as tasks_service
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from support.task_rows import INPUT, OUTPUT


def task(world: World, name: str, reads: str = "demo:in", *more: Any, **keys: Any) -> int:
    """A submitted task that writes a:<name>, a job a file."""
    out = {**OUTPUT, "value": f"> {name}.${{SN}}", "dataset": f"a:{name}"}
    document = {
        "taskName": name,
        "site": "SITE_A",
        "nFilesPerJob": 1,
        "jobParameters": [{**INPUT, "dataset": reads}, out, *more],
        **keys,
    }
    document = {key: value for key, value in document.items() if value is not None}
    with world.engine.begin() as tx:
        done = storing.submit(
            tx, world.ddm, examined(Document(json.dumps(document), "json", Path()), "anna")
        )
    return done.jedi_task_id


def there(world: World, name: str) -> list[str]:
    return [file.lfn for file in world.ddm.list_files(name)]


def fail_one(world: World, panda_id: int) -> None:
    with world.engine.begin() as tx:
        for source, now in (("activated", "sent"), ("sent", "holding")):
            move_jobs(tx, [JobMove(panda_id, now, "c", "r")], "test", [source])
        job_ends.end_jobs(tx, [JobEnd(panda_id, "failed", "c", "r")], "test")


def jobs_of(world: World, task_id: int) -> list[int]:
    with world.engine.begin() as tx:
        return [job.panda_id for job in tasks_service.jobs(tx, task_id)]
