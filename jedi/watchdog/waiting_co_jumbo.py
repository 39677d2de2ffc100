"""Job sets whose co-jumbo jobs no site could take get real ones when sites can."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, groupby

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.brokerage.record import lottery_seed, record
from jedi.eventservice import set_sites
from jedi.jobgenerator.locating import once
from jedi.jobgenerator.placeholders import cut_sets, needs_of, places_of
from jedi.jobgenerator.propose import JobsSoFar, SeenGrid, propose
from jedi.model.datasets.chunk import Chunk
from jedi.model.sites.snapshot import Snapshot
from jedi.taskbuffer.ends import waiting_sets
from jedi.taskbuffer.ends.waiting_sets import PlacedSet, SetFile
from jedi.taskbuffer.events import set_ends
from jedi.taskbuffer.jobs import orders, ready_files
from jedi.taskbuffer.jobs.orders import Claimed
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites import snapshot as snapshots
from jedi.watchdog.dog import Counts, Dog, later

MOST = 100
"""Tasks that a run looks at."""


def run(world: World) -> Counts:
    """Source: JEDI document, "Jumbo jobs and co-jumbo jobs": placeholders wait "until real co-jumbo
    jobs are generated"; docs/reference/event-service.md#placeholders."""
    with world.engine.begin() as tx:
        ids = waiting_sets.WAITING_TASKS.rows(tx, limit=MOST)
        if not ids:
            return Counts(placed=0)
        found = orders.read(tx, ids)
        snapshot = snapshots.load(tx, {one.row.nucleus for one in found if one.row.nucleus})
    placed = 0
    for one in found:
        with later(world, "no site yet", jedi_task_id=one.row.jedi_task_id):
            for files in _pages(world, one.row.jedi_task_id):
                n = [_place(world, one, of, snapshot) for of in _by_dataset(files)]
                placed += sum(filter(None, n))
                if None in n:
                    break
    return Counts(placed=placed)


def _pages(world: World, task_id: int) -> Iterator[list[SetFile]]:
    """The files of all job sets of a task that wait for a site, some job sets at a time."""
    after, most = 0, int(world.knobs.jobgen.n_files)
    while True:
        with world.engine.begin() as tx:
            files = waiting_sets.WAITING_FILES.rows(tx, task=task_id, after=after, limit=most)
        if not files:
            return
        yield files
        after = max(one.jobset_id for one in files)


def _by_dataset(files: list[SetFile]) -> list[list[SetFile]]:
    return [[*of] for _, of in groupby(files, lambda one: one.dataset_id)]


def _place(world: World, claimed: Claimed, files: list[SetFile], snapshot: Snapshot) -> int | None:
    """Give the job sets of files of a dataset their sites, as far as sites take some that can be
    merged there. Return the number of placeholders that real jobs follow; None: no site takes
    more."""
    knobs, task = world.knobs, claimed.order()
    with world.engine.begin() as tx:
        dataset_id = files[0].dataset_id
        master = ready_files.read_named(tx, dataset_id, [one.file_id for one in files])
    stream = next((one.stream for one in task.inputs if one.dataset_id == dataset_id), None)
    if stream is None:  # the dataset has just ended
        return 0
    chunk = Chunk(stream=stream, master=master, secondaries=(), more=False)
    seed = lottery_seed(task.jedi_task_id, files[0].jobset_id)
    grid = SeenGrid(snapshot, knobs, once(world.ddm.locate), seed)
    found = propose(task, [chunk], grid, JobsSoFar(), most=1)
    first = found.proposals[0]
    cut = cut_sets(chunk, [one.jobset_id for one in files], first.choice, knobs)
    if not len(cut):
        return None
    needs = needs_of(found.task, cut, found.sites, knobs)
    placed = [
        PlacedSet(files[start].jobset_id, sites, *needed)
        for start, sites, *needed in zip(
            cut.starts.tolist(),
            places_of(found.task, cut, first.choice),
            needs["cores"],
            needs["memory_mb"],
            needs["walltime_s"],
            strict=True,
        )
    ]
    with world.engine.begin() as tx:
        placed = _mergeable(tx, placed, found.sites)
        if n := placed and waiting_sets.place(tx, placed, "WatchDog"):
            max_mb = knobs.decisions.snapshot_max_mb
            decisions.put_snapshot(tx, snapshot.hash, snapshot.packed, max_mb)
            decisions.record(
                tx,
                [
                    record(
                        task.jedi_task_id, found.broker, snapshot, first.need, knobs, first.choice
                    )
                ],
            )
    return n or (None if len(cut) < len({one.jobset_id for one in files}) else 0)


def _mergeable(tx: Connection, placed: list[PlacedSet], sites: Snapshot) -> list[PlacedSet]:
    """The job sets whose pieces, left by jumbo jobs, can be merged with pieces of their sites."""
    endpoints = dict(zip(sites.sites, sites.endpoint, strict=True))
    held: dict[int, set[str]] = defaultdict(set)
    for one in set_ends.HELD.rows(tx, ids=[one.jobset_id for one in placed]):
        held[one.jobset_id].add(one.endpoint)
    writes = {
        one.jobset_id: [endpoints[name] for name in json.loads(one.sites)]
        for one in placed
        if held[one.jobset_id]
    }
    readers = set_ends.readers(tx, {*chain(*writes.values(), *held.values())})
    return [
        one
        for one in placed
        if one.jobset_id not in writes
        or set_sites.fits(writes[one.jobset_id], held[one.jobset_id], readers)
    ]


DOG = Dog(
    "waiting_co_jumbo",
    "watchdog.jumbo_jobs_period_s",
    "job sets that wait for a site of their co-jumbo jobs get one",
    run,
)
