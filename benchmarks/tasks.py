"""Storing tasks one by one and refining them in batches, beside PanDA's own code."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import Engine

from benchmarks.common import Result, make_world, medians, run, seconds
from benchmarks.feed import Listing, insert
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.taskrefiner.agent import TaskRefiner

TASKS = 1000
REPEATS = 3
PANDA_INSERT, PANDA_REFINE = 663.0, 58.0  # tasks/s, medians


def measure(engine: Engine) -> list[Result]:
    """Tasks with one input and one output dataset; each is stored in a transaction of its own."""
    run(
        engine,
        "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, status) "
        "VALUES (1, 'user', 'user', 'local', 1, 'active')",
    )
    world = make_world(engine, Listing(0))  # type: ignore[arg-type]
    items = [
        {"type": "template", "param_type": "input", "value": "${IN}", "dataset": "bench:in"},
        {
            "type": "template",
            "param_type": "output",
            "value": "o.${SN}",
            "dataset": "bench:out.$JEDITASKID",
        },
    ]
    document = {"taskName": "bench", "jobParameters": items}
    text = json.dumps(document)

    refiner = TaskRefiner(world)

    def submit() -> None:
        for _ in range(TASKS):
            with engine.begin() as tx:
                storing.submit(tx, world.ddm, examined(Document(text, "json", Path()), "me"))

    def store() -> None:
        for _ in range(TASKS):
            insert(engine, document)

    def refine() -> None:
        while refiner.run_once():
            pass

    def refine_alone() -> float:
        refine()
        store()
        return seconds(refine)

    took = medians(
        {
            "insert": lambda: seconds(store),
            "submit": lambda: seconds(submit),
            "refine": refine_alone,
        },
        REPEATS,
    )
    rates = {name: TASKS / time for name, time in took.items()}
    return [
        Result("insert tasks, one by one", "tasks/s", rates["insert"], panda=PANDA_INSERT),
        Result("submit tasks: check and insert, one by one", "tasks/s", rates["submit"]),
        Result("refine tasks", "tasks/s", rates["refine"], panda=PANDA_REFINE),
    ]
