"""Herds: tasks with a splitter, submitted, split, and their jobs."""

# Raw: the PandaIDs of the RFC's example.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sqlalchemy import text

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.service.submission.examined import Document, examined
from jedi.service.submission.storing import submit
from jedi.splitter.agent import Splitter
from jedi.taskrefiner.agent import TaskRefiner
from support.generating import generate, rows
from support.task_rows import row_of

VALUES = {
    "Executable": "/bin/echo",
    "JobName": "parametric_${SplitSourceJob}:${SplitID}",
    "Arguments": "$Parameter",
    "StdOutput": "StdOut_$SplitID",
    "StdError": "StdErr_$SplitID",
    "OutputSandbox": ["StdOut_$SplitID", "StdErr_$SplitID"],
}
RFC = {
    "name": "Parametric",
    "options": {"Parameters": 10, "ParameterStep": 1, "ParameterFactor": "1.3"},
    "values": VALUES,
}
"""The example of RFC #15, "Manifest changes"."""
ECHO = {"type": "constant", "value": "${UNIT/Executable} ${UNIT/Arguments}"}


def herd(splitter: dict[str, Any] = RFC, *items: dict[str, Any], **keys: Any) -> dict[str, Any]:
    """A task with a splitter, without input unless an item has some."""
    alone = {} if any(i.get("param_type") == "input" for i in items) else {"noInput": True}
    return {
        "taskName": "h",
        "jobParameters": [*(items or [ECHO])],
        "splitter": splitter,
        **alone,
        **keys,
    }


def submitted(world: World, document: dict[str, Any]) -> int:
    """Submit a task; its id."""
    with world.engine.begin() as tx:
        found = submit(
            tx, world.ddm, examined(Document(json.dumps(document), "json", Path()), "anna")
        )
    return found.jedi_task_id


def refined(world: World, document: dict[str, Any]) -> int:
    """A submitted task that is defined, and not split yet."""
    task = submitted(world, document)
    assert TaskRefiner(world).run_once() == 1
    assert row_of(world, task).status == "defined", row_of(world, task).errordialog
    return task


def split_all(world: World) -> None:
    """Split until no herd is left, in the hands of plug-ins neither."""
    agent = Splitter(world)
    assert agent.run_once()
    while agent.run_once():
        pass


def split(world: World, document: dict[str, Any]) -> int:
    """A herd that has its units, and whose rows are ready for jobs."""
    task = refined(world, document)
    if rows(world, "SELECT FROM jedi_herds WHERE jeditaskid = :t AND after = 'contents'", t=task):
        assert ContentsFeeder(world).run_once() == 1
    split_all(world)
    assert ContentsFeeder(world).run_once() == 1, row_of(world, task).errordialog
    return task


def with_jobs(world: World, document: dict[str, Any]) -> int:
    """A herd whose jobs are made."""
    task = split(world, document)
    assert generate(world) == 1
    return task


def next_panda_id(world: World, panda_id: int) -> None:
    """Let this be the next PandaID. Raw: the example has ids of its own."""
    with world.engine.begin() as tx:
        tx.execute(text("SELECT setval('jedi_panda_id_seq', :n, false)"), {"n": panda_id})


def members(world: World, task: int) -> list[Any]:
    """The members of a herd, in the order of their numbers."""
    return rows(
        world, "SELECT * FROM jedi_herd_members WHERE jeditaskid = :t ORDER BY unit_nr", t=task
    )


def jobs(world: World, task: int) -> list[Any]:
    """The jobs of a task, with their commands."""
    query = """
        SELECT j.*, j.pandaid AS panda_id, p.jobparameters
        FROM jedi_jobs j JOIN jedi_job_params p USING (pandaid)
        WHERE j.jeditaskid = :t ORDER BY j.pandaid
    """
    return rows(world, query, t=task)
