"""Builders that several tests share with tests of feed."""

# Raw UPDATEs: time passes until the feeder looks again.

from __future__ import annotations

from sqlalchemy import text

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.ddm.interface import FileInfo


def named(n: int, events: int | None = None) -> list[FileInfo]:
    return [FileInfo(f"f{i:05d}", 10, "00000001", None, events) for i in range(n)]


def look_again(world: World, *task_ids: int, name: str = "%") -> None:
    """Let the feeder look at tasks and their inputs (or at those of this name) once more."""
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))  # no edge leads there
        tx.execute(
            text(
                "UPDATE jedi_tasks SET status = 'defined', next_run_at = NULL "
                "WHERE jeditaskid = ANY(:ids)"
            ),
            {"ids": list(task_ids)},
        )
        tx.execute(
            text(
                "UPDATE jedi_datasets SET status = 'toupdate' WHERE status = 'ready' "
                "AND jeditaskid = ANY(:ids) AND datasetname LIKE :name"
            ),
            {"ids": list(task_ids), "name": name},
        )
    assert ContentsFeeder(world).run_once() == len(task_ids)
