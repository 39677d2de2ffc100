"""Tasks as submission leaves them, whatever is in their documents."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import text

from jedi.agent.base import World
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskbuffer.tasks.new_tasks import NewTask

INPUT = {"type": "template", "param_type": "input", "value": "cat ${IN/S}", "dataset": "demo:in"}
OUTPUT = {"type": "template", "param_type": "output", "value": "> o.${SN/P}", "dataset": "a:out"}


def good(output: str = "a:out", **keys: Any) -> dict[str, Any]:
    """A document that reads demo:in and writes `output`."""
    return {"taskName": "t", "jobParameters": [INPUT, {**OUTPUT, "dataset": output}], **keys}


def put(world: World, *documents: dict[str, Any], label: str = "user") -> list[int]:
    """Registered tasks with these documents."""
    with world.engine.begin() as tx:
        ids = [
            new_tasks.insert_task(
                tx,
                NewTask(
                    user_name="anna",
                    vo="local",
                    label=label,
                    task_name="t",
                    task_type="anal",
                    processing_type="generic",
                    priority=1000,
                    working_group=None,
                    country_group=None,
                    req_id=None,
                    params=document,
                    source_text=json.dumps(document),
                    source_format="json",
                    sandbox_sha256=None,
                    idempotency_key=None,
                ),
            )
            for document in documents
        ]
    return [task_id for task_id in ids if task_id is not None]


def row_of(world: World, task_id: int) -> Any:
    """The task's row of jedi_tasks."""
    with world.engine.begin() as tx:
        query = text("SELECT * FROM jedi_tasks WHERE jeditaskid = :t")
        return tx.execute(query, {"t": task_id}).one()
