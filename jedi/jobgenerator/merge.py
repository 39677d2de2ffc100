"""Merge jobs: which pre-merge files of a site go into one of them, and its needs.

Source: docs/reference/merging.md#size-of-a-merge-job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jedi.core.knobs import Knobs
from jedi.jobgenerator.plan import Cut
from jedi.model.datasets.chunk import Chunk, Secondary
from jedi.model.jobs.demand import GB, MB, Demand
from jedi.model.jobs.generation import TaskOrder
from jedi.model.jobs.merging import GROWTH, LOGS, MergeOrder, Stream
from jedi.model.sites.snapshot import Snapshot
from jedi.splitter.cap_cutter import CapCutter, Caps, walk


@dataclass(frozen=True, eq=False)
class MergeItem:
    """A claimed task with files that are to be merged."""

    found: MergeOrder
    snapshot: Snapshot

    @property
    def jedi_task_id(self) -> int:
        return self.found.order.jedi_task_id

    @property
    def lock_seq(self) -> int:
        return self.found.order.lock_seq

    @property
    def served(self) -> tuple[str, str]:
        """Vo and label, which have a broker."""
        return self.found.order.vo, self.found.order.label

    @property
    def lease(self) -> tuple[int, int]:
        """For tasks.fence."""
        return self.jedi_task_id, self.lock_seq


def with_demand(found: MergeOrder, knobs: Knobs) -> TaskOrder:
    """The order with the needs of a merge job: as much output as input and a bit, the memory that
    the task asks for merges or for all jobs, and no time that is known."""
    demand = found.order.demand.roomier(knobs.broker.spare_work_mb)
    own = found.ram_mb is not None
    merge = replace(
        demand,
        cores=1 if found.cores is None else found.cores,
        ram_mb=max(float(found.ram_mb or 0) if own else demand.ram_mb, knobs.merge.min_ram_mb),
        ram_per_core=demand.ram_per_core and not own,
        base_ram_mb=0.0 if own else demand.base_ram_mb,
        hs06_s_per_event=None,
        s_per_mb=None,
        max_walltime_s=None,
        out_bytes=GROWTH * MB,
        out_per_event=False,
        work_mb=max(demand.work_mb, knobs.merge.min_work_mb),
    )
    return replace(found.order, demand=merge)


def chunk_of(streams: Sequence[Stream]) -> Chunk:
    """The files of one site as a chunk, with its logs as the master."""
    logs, *others = streams
    return Chunk(
        stream=logs.stream,
        master=logs.files,
        secondaries=tuple(Secondary(one.stream, one.files) for one in others),
        more=not logs.complete,
    )


def plan_merges(
    found: MergeOrder,
    demand: Demand,
    sites: Snapshot,
    places: Mapping[str, str],
    knobs: Knobs,
    most: int,
) -> list[Cut]:
    """Up to `most` merge jobs at `places`, by the site where their files lie. Of a job that made
    files all go together. Files that fill no merge job wait for more, unless nobody makes more
    at the site."""
    cuts: list[Cut] = []
    for site, (logs, *others) in found.sites.items():
        if site not in places:
            continue
        at, chunk = sites.sites.index(places[site]), chunk_of([logs, *others])
        caps = {**_caps(found, demand, sites, at, knobs), **_sizes(found, site, knobs)}
        stops = walk(CapCutter(_weights(logs, others)).cuts(caps), 0, most)
        if chunk.more and stops and stops[-1] == len(logs.files):
            stops.pop()
        ends = np.array(stops, np.int64)
        starts = np.concatenate([np.zeros(1, np.int64), ends])[: len(ends)]
        follow = ((starts, ends),) * len(others)
        cuts.append(Cut(chunk, starts, ends, np.full(len(ends), at), follow))
        most -= len(ends)
    return [cut for cut in cuts if len(cut)]


def _weights(logs: Stream, others: Sequence[Stream]) -> dict[str, Any]:
    """Return the weights that the files of one job add to a merge job."""
    ones = np.ones(len(logs.files))
    made = {one.stream: GROWTH * one.files.sizes for one in others}
    inputs = sum((one.files.sizes for one in others), logs.files.sizes)
    return {
        "masters": ones,
        "files": ones * (1 + len(others)),
        "events": logs.files.events,
        "bytes": inputs + sum(made.values()),
        **made,
    }


def _caps(found: MergeOrder, demand: Demand, sites: Snapshot, at: int, knobs: Knobs) -> Caps:
    """The limits of a merge job at a site."""
    rules = found.order.rules
    files = rules.n_files_per_merge_job or rules.n_max_files_per_merge_job
    cores = demand.cores_at(sites.cores)[at]
    scratch_mb = sites.max_wdir_mb[at] * cores / sites.cores[at] - demand.work_mb
    return {
        "masters": files or knobs.merge.max_files,
        "files": knobs.jobgen.hard_max_files_per_job,
        "events": rules.n_events_per_merge_job or np.inf,
        "bytes": scratch_mb * MB,
    }


def _sizes(found: MergeOrder, site: str, knobs: Knobs) -> Caps:
    """The largest merged files."""
    size = (found.order.rules.n_gb_per_merge_job or knobs.merge.max_gb) * GB
    return {one.stream: size for one in found.streams if one.site == site if one.type != LOGS}
