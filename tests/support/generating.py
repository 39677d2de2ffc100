"""Tasks that are fed and ready for jobs, and a data management that knows where files are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import text

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.ddm.interface import (
    DatasetInfo,
    FileInfo,
    Growth,
    ListedPart,
    OpenOrClosed,
    Space,
    after_file,
)
from jedi.jobgenerator.agent import JobGenerator
from jedi.taskrefiner.agent import TaskRefiner
from support.task_rows import INPUT, OUTPUT, put

SECOND = {**INPUT, "value": "${IN2/S}", "dataset": "demo:second"}


@dataclass
class Catalogue:
    """Data management that lists and locates what it is told to; `made` is what JEDI created."""

    files: Mapping[str, Sequence[FileInfo]]
    endpoints: Sequence[str] = ("SITE_A_DATADISK", "SITE_B_DATADISK")
    nowhere: frozenset[str] = frozenset()
    state: OpenOrClosed = "closed"
    made: set[tuple[str, str]] = field(default_factory=set)

    def dataset(self, name: str) -> DatasetInfo:
        return DatasetInfo(name, self.state)

    def constituents(self, name: str) -> list[str]:
        return [name]

    def growth(self, name: str) -> Growth:
        return Growth(self.dataset(name).state)

    def list_files(self, name: str) -> list[FileInfo]:
        return list(self.files[name])

    def left_out(self, name: str) -> dict[str, str]:
        return {}

    def list_part(self, name: str, after: str | None, limit: int) -> ListedPart:
        del limit
        return after_file(self.list_files(name), after)

    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        known = {file.lfn for file in self.files[name]} - self.nowhere
        here = list(self.endpoints)
        return {lfn: here if lfn in known else [] for lfn in lfns}

    def create(self, name: str, endpoint: str, *, container: bool = False) -> None:
        self.made.add((name, endpoint))

    def may_create(self, name: str, endpoint: str, *, container: bool = False) -> bool:
        return True

    def add_members(self, container: str, names: Sequence[str]) -> None:
        assert names

    def space(self, endpoint: str) -> Space:
        return Space(free_gb=1000.0, total_gb=2000.0)


def use(world: World, ddm: Any) -> Any:
    """Let the world have this data management."""
    world.load_ddm = lambda _tx, _knobs: ddm
    world.refresh()
    return ddm


def catalogue(world: World, **files: int | Sequence[FileInfo]) -> Catalogue:
    """Datasets demo:<keyword> with so many files of 10 bytes, or with these files."""
    named = {
        f"demo:{name.rstrip('_')}": [
            FileInfo(f"{name.rstrip('_')}{i:06d}", 10, "00000001") for i in range(some)
        ]
        if isinstance(some, int)
        else some
        for name, some in files.items()
    }
    found: Catalogue = use(world, Catalogue(named))
    return found


def ready(world: World, *documents: dict[str, Any], label: str = "user") -> list[int]:
    """Tasks with these documents, refined and fed."""
    ids = put(world, *documents, label=label)
    assert TaskRefiner(world).run_once() == len(ids)
    assert ContentsFeeder(world).run_once() == len(ids)
    return ids


def document(*items: dict[str, Any], output: str = "a:out", **keys: Any) -> dict[str, Any]:
    """A task that reads demo:in and `items`, and writes `output`; all jobs are made at once."""
    out = {**OUTPUT, "dataset": output}
    return {"taskName": "t", "skipScout": True, "jobParameters": [INPUT, *items, out], **keys}


def generate(world: World) -> int:
    """One cycle of the JobGenerator; how many tasks it had."""
    return JobGenerator(world).run_once()


def rows(world: World, query: str, **values: Any) -> list[Any]:
    """What a query finds."""
    with world.engine.begin() as tx:
        return list(tx.execute(text(query), values))
