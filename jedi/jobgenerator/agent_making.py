"""The part of the door that makes jobs: reads files, takes ids, registers datasets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.brokerage.brokers import broker_of
from jedi.jobgenerator.build import cut_builds, roomier, still_there, to_build, with_libraries
from jedi.jobgenerator.generate import Material, ids_needed, make_jobs
from jedi.jobgenerator.locating import Locate, where_of
from jedi.jobgenerator.outcome import (
    GenerationOutcome,
    Made,
    without_software,
)
from jedi.jobgenerator.output_datasets import ANY_SITE, output_endpoints, with_datasets
from jedi.jobgenerator.plan import Cut
from jedi.jobgenerator.propose import Proposal
from jedi.model.datasets.chunk import Chunk, Files
from jedi.model.jobs.generation import HerdUnit, NewJobs, OutputDataset, TaskOrder
from jedi.model.sites.decision import Decision
from jedi.model.sites.snapshot import Snapshot
from jedi.splitter.plan import own_options
from jedi.taskbuffer.events import job_sets, kept_ranges
from jedi.taskbuffer.inputs import instances
from jedi.taskbuffer.jobs import builds, generation, one_job, orders, ready_files
from jedi.taskbuffer.jobs.orders import Claimed
from jedi.taskbuffer.tasks import herds


class JobMaking:
    """Reads the files of tasks and makes jobs of them, without a lock on rows."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name

    def read(self, task: TaskOrder, n_files: int) -> list[Chunk]:
        """Ready files; more than a job may have, so that there is one at least."""
        hard_max = self.world.knobs.jobgen.hard_max_files_per_job
        with self.world.engine.begin() as tx:
            order = ready_files.reading_order(task.rules)
            read = partial(ready_files.read_ready, tx, order=order)
            fairly = broker_of(task.vo, task.label, self.world.knobs).by_dataset
            return ready_files.chunks(
                read, task, max(n_files, hard_max + 1), hard_max, fairly=fairly
            )

    def make(
        self, task: TaskOrder, sites: Snapshot, cuts: Sequence[Cut], locate: Locate
    ) -> NewJobs:
        """The jobs of a plan; their output datasets exist afterwards."""
        n_jobs = sum(map(len, cuts))
        before = np.unique(np.concatenate([cut.chunk.master.previous for cut in cuts]))
        with self.world.engine.begin() as tx:
            seeds = Files.join([])
            if task.seeds:
                seed_id = task.seeds.dataset_id
                seeds = ready_files.read_ready(tx, {seed_id: n_jobs})[seed_id]
            earlier = orders.earlier_jobs(tx, before.tolist())
            if task.containers:
                used = [sites.sites[i] for i in np.unique(np.concatenate([c.sites for c in cuts]))]
                places = used if task.rules.instantiate_tmpl_site else [ANY_SITE]
                task = with_datasets(task, used, instances.at_sites(tx, task, places, self.name))
            herd = _herd(tx, task, cuts)
            wanted, n_files = ids_needed(task, n_jobs, seeds)
            reserved = sum(one.is_new for one in herd)
            ids, file_ids, last_unit = orders.take_ids(
                tx, task.jedi_task_id, wanted - reserved, n_files
            )
            if herd:
                fresh = iter(ids)
                ids = [one.origin if one.is_new else next(fresh) for one in herd]
        jobs = make_jobs(
            Material(
                task=task,
                sites=sites,
                cuts=cuts,
                where=[where_of(task, cut, locate) for cut in cuts],
                seeds=seeds,
                earlier=earlier,
                last_unit=last_unit,
                ids=ids,
                file_ids=file_ids,
                memory_factor=self.world.knobs.broker.memory_factor,
                herd=herd,
            )
        )
        self._register(output_endpoints(jobs))
        return jobs

    def write(self, tx: Connection, new: Sequence[tuple[TaskOrder, NewJobs]]) -> None:
        """Write new jobs with their files and parameters, on hold where their owners say so."""
        with_sets = [(order, jobs.of_sets) for order, jobs in new if jobs.sets]
        kept = kept_ranges.keeping(new)
        kept_ranges.lock_predecessors(tx, kept)
        generation.write_jobs(tx, new, self.name)
        job_sets.write_sets(tx, with_sets, self.name)
        kept_ranges.discard_rest(tx, kept)
        ordinary = {
            order.jedi_task_id: [
                job
                for job, kind in zip(jobs.panda_ids, kinds, strict=True)
                if kind in ("normal", "scout")
            ]
            for order, jobs in new
            for kinds in [jobs.kinds or [order.columns["kind"]] * len(jobs)]
        }
        one_job.hold_new_jobs(tx, ordinary, self.name)

    def _register(self, outputs: Mapping[OutputDataset, Sequence[str]]) -> None:
        """Data management knows output datasets before the jobs that fill them are there; it opens
        the ones that a retry fills again."""
        ddm = self.world.ddm
        for dataset, endpoints in outputs.items():
            for endpoint in endpoints:
                ddm.create(dataset.name, endpoint)
            if dataset.container and dataset.status != "running":
                ddm.create(dataset.container, endpoints[0], container=True)
                ddm.add_members(dataset.container, [dataset.name])

    def with_builds(
        self, claimed: Claimed, found: Proposal, decided: Sequence[Decision], locate: Locate
    ) -> GenerationOutcome:
        """Jobs where their software is, and builds where it is not."""
        knobs, task, sites = self.world.knobs, found.task, found.sites
        with self.world.engine.begin() as tx:
            known = builds.of_task(tx, claimed, knobs.build.kept_s)
        known = roomier(still_there(known, locate), knobs)
        cuts, lacking = with_libraries(found.cuts, known, sites)
        ordered = None
        if wanted := to_build(known, lacking):
            with self.world.engine.begin() as tx:
                files = builds.request(tx, known.order, list(wanted), knobs.build.max_attempt)
            build = cut_builds(files, list(wanted.values()))
            ordered = known.order, self.make(known.order, sites, [build], locate)
        if cuts or ordered:
            task = replace(task, inputs=(*task.inputs, known.order.inputs[1]))
            jobs = self.make(task, sites, cuts, locate) if cuts else None
            return Made(task, jobs, decided, ordered)
        return without_software(task, known, lacking, knobs, decided)


def _herd(tx: Connection, task: TaskOrder, cuts: Sequence[Cut]) -> list[HerdUnit]:
    """The unit of each job of a herd, with all its options; none for other tasks."""
    if not task.units:
        return []
    numbers = np.concatenate([cut.chunk.master.boundaries[cut.starts] for cut in cuts]).tolist()
    (manifest,) = herds.MANIFESTS.rows(tx, ids=[task.jedi_task_id])
    units = herds.units(tx, task.jedi_task_id, numbers)
    return [
        replace(
            one,
            options={
                **manifest.values,
                **one.options,
                **own_options(one.unit_nr, task.units, one.origin, manifest.origin),
            },
        )
        for one in (units[number] for number in numbers)
    ]
