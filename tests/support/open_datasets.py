"""Builders that several tests share with tests of open datasets."""

from __future__ import annotations

from typing import Any

from sqlalchemy import text

from jedi.agent.base import World
from jedi.taskbuffer.inputs.datasets import wake_consumers
from support.helpers import put_file_dataset
from support.working import ENDPOINT


def grow(world: World, *lfns: str, name: str = "demo:in") -> None:
    """Add files to an open dataset, as a person does."""
    put_file_dataset(world, name, {lfn: lfn.encode() for lfn in lfns}, ENDPOINT, closed=False)
    with world.engine.begin() as tx:
        wake_consumers(tx, [name])


def master(world: World) -> Any:
    with world.engine.begin() as tx:
        return tx.execute(
            text("SELECT * FROM jedi_datasets WHERE type = 'input' AND masterid IS NULL")
        ).one()
