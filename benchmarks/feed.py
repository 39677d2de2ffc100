"""ContentsFeeder with the listing in memory, against plain COPY of the same rows."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from sqlalchemy import Engine, text

from benchmarks.common import Result, make_world, medians, run, seconds
from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.contentsfeeder.feed import FeedTask, InputDataset
from jedi.contentsfeeder.feed import Listing as Listed
from jedi.contentsfeeder.rows import new_rows, render
from jedi.ddm.interface import DatasetInfo, FileInfo, Growth, ListedPart
from jedi.model.splitting.split_rules import SplitRules
from jedi.taskbuffer.inputs import contents
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskbuffer.tasks.new_tasks import NewTask
from jedi.taskrefiner.agent import TaskRefiner

PANDA = 12_400.0  # files/s, PanDA's own code on PostgreSQL 15
REPEATS = 5
_numbers = count()


class Listing:
    """Data management that has one dataset, in memory."""

    def __init__(self, n: int) -> None:
        self.files = [
            FileInfo(
                f"data.{i:08d}.root",
                1_000_000_000 + i,
                f"{i:08x}",
                f"00000000-0000-4000-8000-{i:012x}",
                1000,
            )
            for i in range(n)
        ]

    def dataset(self, name: str) -> DatasetInfo:
        """A closed dataset, whatever its name."""
        return DatasetInfo(name, "closed")

    def constituents(self, name: str) -> list[str]:
        """The dataset itself: it is no container."""
        return [name]

    def locate(self, _name: str, lfns: Sequence[str]) -> dict[str, list[str]]:
        """No file has any of these names."""
        return {lfn: [] for lfn in lfns}

    def growth(self, name: str) -> Growth:
        """The same."""
        return Growth(self.dataset(name).state)

    def list_files(self, _name: str) -> list[FileInfo]:
        """All files."""
        return self.files

    def left_out(self, _name: str) -> dict[str, str]:
        """No entry is left out."""
        return {}

    def list_part(self, _name: str, after: str | None, limit: int) -> ListedPart:
        """Some files."""
        first = 0 if after is None else bisect_right(self.files, after, key=lambda one: one.lfn)
        found = self.files[first : first + limit]
        more = len(found) == limit
        return ListedPart(found, more, len(self.files) if more == (after is None) else None)


def measure(engine: Engine) -> list[Result]:
    """First feeds of 100,000 and of a million files, and the same listing again; then of 10,000
    files in 100,000 ranges of events."""
    run(
        engine,
        "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, status) "
        "VALUES (1, 'user', 'user', 'local', 1, 'active')",
    )
    return [
        *_measure(engine, 100_000, REPEATS),
        *_measure(engine, 1_000_000, 2),
        *_measure(engine, 10_000, REPEATS, 100),
    ]


def _measure(
    engine: Engine, n_files: int, repeats: int, n_events: int | None = None
) -> list[Result]:
    """Files of 1000 events, whole or `n_events` a row."""
    listing = Listing(n_files)
    n = n_files * 1000 // n_events if n_events else n_files
    size = f"{n:,} ranges" if n_events else f"{n:,} files"
    unit = "rows/s" if n_events else "files/s"
    ddm: Any = listing
    world = make_world(engine, ddm)
    dataset = InputDataset(1, "bench:in", "input", True)
    task = FeedTask(1, 1, False, (dataset,), 3, rules=SplitRules(n_events_per_job=n_events))
    (rows,) = new_rows(task, [Listed(dataset, "closed")], [listing.files])
    blocks = list(render(rows))
    again: list[float] = []

    def ours() -> float:
        task_id = _new_task(engine, world, n_events)
        feeder = ContentsFeeder(world)
        found = seconds(lambda: feed_all(feeder))
        before = _rows(engine, n)
        _look_again(engine, task_id)
        again.append(seconds(feeder.run_once))
        assert _rows(engine, n) == before, "feeding again wrote rows"
        return found

    took = medians(
        {
            "floor": lambda: _fresh(engine, lambda: _copy(engine, blocks)),
            "ours": lambda: _fresh(engine, ours, timed=False),
        },
        repeats,
    )
    panda = None if n_events else PANDA
    return [
        Result(f"feed {size}", unit, n / took["ours"], n / took["floor"], 0.7, panda),
        Result(f"feed {size} again", unit, n / sorted(again)[len(again) // 2], note="0 rows"),
    ]


def feed_all(feeder: ContentsFeeder) -> None:
    """Feed all parts of large datasets."""
    while feeder.run_once():
        pass


def _fresh(engine: Engine, work: Callable[[], Any], *, timed: bool = True) -> float:
    """Run on an empty table, after a checkpoint that otherwise might come in between."""
    run(engine, "TRUNCATE jedi_dataset_contents")
    run(engine, "CHECKPOINT")
    return seconds(work) if timed else work()


def _copy(engine: Engine, blocks: Iterable[str]) -> None:
    with engine.begin() as tx:
        contents.feed(tx, blocks)


def _new_task(engine: Engine, world: World, n_events: int | None) -> int:
    number = next(_numbers)
    items = [
        {"type": "template", "param_type": "input", "value": "${IN}", "dataset": "bench:in"},
        {"type": "template", "param_type": "output", "value": "o.${SN}", "dataset": f"a:{number}"},
    ]
    split = {"nEventsPerJob": n_events} if n_events else {}
    task_id = insert(engine, {"taskName": "bench", "jobParameters": items, **split})
    TaskRefiner(world).run_once()
    return task_id


def insert(engine: Engine, document: dict[str, Any]) -> int:
    """Store a task, unchecked, in a transaction of its own."""
    with engine.begin() as tx:
        task_id = new_tasks.insert_task(
            tx,
            NewTask(
                "me",
                "local",
                "user",
                "bench",
                "anal",
                "generic",
                1000,
                None,
                None,
                None,
                document,
                json.dumps(document),
                "json",
                None,
                None,
            ),
        )
    assert task_id is not None
    return task_id


def _rows(engine: Engine, n: int) -> tuple[int, int]:
    """Number of rows and the youngest transaction that wrote one."""
    with engine.begin() as tx:
        query = "SELECT count(*), max(xmin::text::bigint) FROM jedi_dataset_contents"
        rows, youngest = tx.execute(text(query)).one()
    assert rows == n
    return rows, youngest


def _look_again(engine: Engine, task_id: int) -> None:
    run(
        engine,
        "SET LOCAL session_replication_role = replica",  # no edge leads there so directly
        f"UPDATE jedi_tasks SET status = 'defined' WHERE jeditaskid = {task_id}",
        f"UPDATE jedi_datasets SET status = 'toupdate' WHERE jeditaskid = {task_id} "
        "AND type = 'input'",
    )
