"""Ready files of datasets, and the chunks of input that they make for the generator."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from jedi.model.datasets.chunk import Chunk, Files, Secondary
from jedi.model.jobs.generation import Input, TaskOrder
from jedi.model.splitting.split_rules import WHOLE_IDS, SplitRules
from jedi.taskbuffer.db.statement import returns

FEWEST_DATASETS = 10
"""Datasets of a container that one cycle reads at least: some of them may have no site."""

# One row a dataset, its files in arrays: 100,000 rows of their own take three times as long.
_READY = """
SELECT d.id AS dataset_id, r.*
FROM unnest(CAST(:ids AS bigint[]), CAST(:limits AS bigint[])) d(id, n), LATERAL (
  SELECT array_agg(fileid) AS file_ids, array_agg(lfn) AS lfns,
    array_agg(coalesce(fsize, 0)) AS sizes,
    array_agg(coalesce(endevent - startevent + 1, nevents, 0)) AS events,
    array_agg(coalesce(startevent, 0)) AS start_events,
    array_agg(coalesce(nevents - endevent - 1, 0)) AS events_left,
    array_agg(coalesce(firstevent, 0)) AS first_events,
    array_agg(attemptnr) AS attempts, array_agg(coalesce(pandaid, 0)) AS previous,
    array_agg(coalesce(boundaryid, 0)) AS boundaries,
    array_agg(coalesce(lumiblocknr, 0)) AS lumi_blocks,
    array_agg(coalesce(ramcount, 0)) AS ram_counts
  FROM ({rows}) c) r
"""
_ROWS = "SELECT * FROM jedi_dataset_contents c WHERE c.datasetid = d.id AND c.ready"
_ID = "coalesce(c.boundaryid, 0)"
_BY_FILE = f"{_ROWS} ORDER BY c.fileid LIMIT d.n"
_BY_ID = f"{_ROWS} ORDER BY {_ID}, c.fileid LIMIT d.n"
# Reads the last id to its end: its files are ties. Files without an id are none.
_BY_WHOLE_ID = f"""SELECT * FROM (
    {_ROWS} ORDER BY {_ID}, CASE WHEN {_ID} = 0 THEN c.fileid END
    FETCH FIRST (d.n) ROWS WITH TIES
  ) c ORDER BY {_ID}, c.fileid"""


class ReadyFiles(NamedTuple):
    """Ready files of a dataset, column by column; None: there are none."""

    dataset_id: int
    file_ids: list[int] | None
    lfns: list[str] | None
    sizes: list[int] | None
    events: list[int] | None
    start_events: list[int] | None
    events_left: list[int] | None
    first_events: list[int] | None
    attempts: list[int] | None
    previous: list[int] | None
    boundaries: list[int] | None
    lumi_blocks: list[int] | None
    ram_counts: list[int] | None


_IN_ORDER = {
    one: returns(ReadyFiles)(_READY.format(rows=one)) for one in (_BY_FILE, _BY_ID, _BY_WHOLE_ID)
}
_NAMED = returns(ReadyFiles)(
    _READY.format(
        rows="""
  SELECT c.* FROM unnest(CAST(:files AS bigint[])) WITH ORDINALITY f(id, place),
    LATERAL (SELECT * FROM jedi_dataset_contents WHERE fileid = f.id OFFSET 0) c
  WHERE c.datasetid = d.id ORDER BY f.place LIMIT d.n"""
    )
)


Read = Callable[[Mapping[int, int]], Mapping[int, Files]]
"""The first ready files of datasets, up to a limit for each."""


def reading_order(rules: SplitRules) -> str:
    """The order in which files are read: with boundary ids, the files of an id stand together. If
    the task divides no id, the last one is read to its end, beyond the limit."""
    if rules.group_boundary_id in WHOLE_IDS:
        return _BY_WHOLE_ID
    return _BY_ID if rules.group_boundary_id else _BY_FILE


def read_ready(
    tx: Connection, limits: Mapping[int, int], order: str = _BY_FILE
) -> dict[int, Files]:
    """The first ready files of datasets, up to a limit for each."""
    rows = _IN_ORDER[order].rows(tx, ids=list(limits), limits=limits.values())
    return {row.dataset_id: _files(row) for row in rows}


def read_named(tx: Connection, dataset_id: int, file_ids: Sequence[int]) -> Files:
    """These files of a dataset in their order, ready or not."""
    values = {"ids": [dataset_id], "limits": [len(file_ids)], "files": list(file_ids)}
    (row,) = _NAMED.rows(tx, **values)
    return _files(row)


def _files(row: ReadyFiles) -> Files:
    arrays = row._asdict()
    lfns = arrays.pop("lfns") or []
    dataset_id = arrays.pop("dataset_id")
    return Files(
        lfns=lfns,
        dataset_ids=np.full(len(lfns), dataset_id, np.int64),
        **{name: np.array(values or [], np.int64) for name, values in arrays.items()},
    )


def chunks(
    read: Read, order: TaskOrder, n_files: int, hard_max: int, *, fairly: bool = False
) -> list[Chunk]:
    """Up to `n_files` ready files of a task's masters in the order of the datasets, with the
    files that may follow them (of those that go with every job, one more than a job may have).
    `fairly`: some of each dataset, for one that has no site may not keep the others waiting; a
    job's worth of each at least. If the files exceed what a cycle uses, the datasets take turns."""
    ready = [master for master in order.masters if master.ready > 0]
    each = max(hard_max + 1, n_files // max(1, len(ready)))
    if fairly:
        ready = _in_turn(ready, each, n_files, order)
    limits: dict[int, int] = {}
    for master in ready:
        if left := each if fairly else n_files - sum(limits.values()):
            limits[master.dataset_id] = min(master.ready, left)
    masters = read(limits)
    followers = [one for one in order.inputs if one.master_id in masters and one.type == "input"]
    beside = read(
        {
            one.dataset_id: one.n_files
            if order.rules.group_boundary_id
            else _limit(one, len(masters[one.master_id or 0]), hard_max)
            for one in followers
        },
    )
    return [
        Chunk(
            stream=master.stream,
            master=masters[master.dataset_id],
            secondaries=_secondaries(master, followers, beside),
            more=master.ready > max(limits[master.dataset_id], len(masters[master.dataset_id])),
        )
        for master in order.masters
        if len(masters.get(master.dataset_id, ()))
    ]


def _in_turn(ready: list[Input], each: int, n_files: int, order: TaskOrder) -> list[Input]:
    """The datasets of one cycle: all, or a random selection with `n_files` files if up to `each` of
    all are more. Other claims of the task select others."""
    if sum(min(one.ready, each) for one in ready) <= n_files or len(ready) <= FEWEST_DATASETS:
        return ready
    turns_of = random.Random(order.jedi_task_id * 1_000_003 + order.lock_seq)
    shuffled = turns_of.sample(range(len(ready)), len(ready))
    sums = np.cumsum([min(ready[i].ready, each) for i in shuffled])
    chosen = shuffled[: max(FEWEST_DATASETS, int(np.searchsorted(sums, n_files, side="right")))]
    return [ready[i] for i in sorted(chosen)]


def _limit(follower: Input, masters: int, hard_max: int) -> int:
    """The number of files of a dataset that may go with so many master files."""
    wanted = follower.attributes
    if wanted.nosplit:
        return hard_max + 1
    if wanted.event_ratio is not None:
        return follower.n_files
    return (wanted.per_job or int(np.ceil(wanted.ratio))) * masters


def _secondaries(
    master: Input, followers: Sequence[Input], files: Mapping[int, Files]
) -> tuple[Secondary, ...]:
    """The streams of one master; datasets that feed the same stream stand in a row."""
    streams: dict[str, list[Input]] = {}
    for one in followers:
        if one.master_id == master.dataset_id:
            streams.setdefault(one.stream, []).append(one)
    return tuple(
        Secondary(
            stream=stream,
            files=Files.join([files[one.dataset_id] for one in several]),
            ratio=several[0].attributes.ratio,
            whole=several[0].attributes.nosplit,
            repeated=several[0].attributes.repeat,
            event_ratio=several[0].attributes.event_ratio,
            per_job=several[0].attributes.per_job,
            reusable=several[0].attributes.reusable,
        )
        for stream, several in streams.items()
    )
