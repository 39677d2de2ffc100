"""Job sets whose co-jumbo jobs no site could take get real ones when sites can."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.brokerage.record import lottery_seed, record
from jedi.jobgenerator.locating import once
from jedi.jobgenerator.placeholders import cut_sets, needs_of, places_of
from jedi.jobgenerator.propose import propose
from jedi.spec.datasets.chunk import Chunk
from jedi.spec.sites.request import RecentJobs
from jedi.spec.sites.snapshot import Snapshot
from jedi.taskbuffer.events import waiting_sets
from jedi.taskbuffer.events.waiting_sets import PlacedSet, SetFile
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
        ids = waiting_sets.waiting_tasks(tx, MOST)
        if not ids:
            return Counts(placed=0)
        found = orders.read(tx, ids)
        snapshot = snapshots.load(tx, {one.row.nucleus for one in found if one.row.nucleus})
    placed = 0
    for one in found:
        with world.engine.begin() as tx:
            most = int(world.knobs.jobgen.n_files)
            files = waiting_sets.waiting_files(tx, one.row.jedi_task_id, most)
        for dataset in dict.fromkeys(file.dataset_id for file in files):
            of = [file for file in files if file.dataset_id == dataset]
            with later(world, "no site yet", jedi_task_id=one.row.jedi_task_id):
                placed += _place(world, one, of, snapshot)
    return Counts(placed=placed)


def _place(world: World, claimed: Claimed, files: list[SetFile], snapshot: Snapshot) -> int:
    """Give the job sets of files of a dataset their sites, as far as sites take some."""
    knobs, task = world.knobs, claimed.order()
    with world.engine.begin() as tx:
        dataset_id = files[0].dataset_id
        master = ready_files.read_named(tx, dataset_id, [one.file_id for one in files])
    stream = next(one.stream for one in task.inputs if one.dataset_id == dataset_id)
    chunk = Chunk(stream=stream, master=master, secondaries=(), more=False)
    found = propose(
        task, [chunk], snapshot, knobs, once(world.ddm.locate), most=1, used=(), made={},
        seed=lottery_seed(task.jedi_task_id, files[0].jobset_id), past=RecentJobs(),
    )  # fmt: skip
    first = found.proposals[0]
    cut = cut_sets(chunk, [one.jobset_id for one in files], first.choice, knobs)
    if not len(cut):
        return 0
    needs = needs_of(found.task, cut, found.sites, knobs)
    placed = [
        PlacedSet(files[start].jobset_id, sites, *needed)
        for start, sites, *needed in zip(
            cut.starts.tolist(), places_of(found.task, cut, first.choice),
            needs["cores"], needs["memory_mb"], needs["walltime_s"], strict=True,
        )
    ]  # fmt: skip
    with world.engine.begin() as tx:
        if n := waiting_sets.place(tx, placed, "WatchDog"):
            max_mb = knobs.decisions.snapshot_max_mb
            decisions.put_snapshot(tx, snapshot.hash, snapshot.packed, max_mb)
            decisions.record(tx, [record(task.jedi_task_id, found.broker, snapshot, first.need,
                                         knobs, first.choice)])  # fmt: skip
    return n


DOG = Dog("waiting_co_jumbo", "watchdog.jumbo_jobs_period_s", "job sets that wait for a site of "
          "their co-jumbo jobs get one", run)  # fmt: skip
