"""Strategies that define the size of a job: the plug-in of the room (entry point `jedi.generator`).

A strategy gives every file its weights and every site its caps; the splitter does the rest.
Source: docs/reference/splitting.md#limits-of-a-job; docs/reference/estimates.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jedi.brokerage.requirements import atom
from jedi.core.errors import JediError
from jedi.core.knobs import Knobs
from jedi.jobgenerator.naming import middle_name
from jedi.jobgenerator.whole_ids import are_whole, beside, largest, units
from jedi.model.arrays import Ints
from jedi.model.datasets.chunk import Chunk, Secondary
from jedi.model.jobs.demand import GB, MB, Demand, InputSize
from jedi.model.sites.snapshot import Snapshot
from jedi.model.splitting.split_rules import ONE_ID, SplitRules
from jedi.splitter.cap_cutter import Caps, Weights


class FileStrategy:
    """Whole files or ranges of their events. A fixed number of files or events per job silences
    the limits on size and time: so many are then the unit that cannot be split."""

    def atom(self, rules: SplitRules, demand: Demand, chunks: Sequence[Chunk]) -> InputSize:
        """The largest of the smallest possible jobs."""
        several = atom(chunks, rules.files_per_job or 1, rules.events_per_job)
        if not are_whole(rules):
            return several
        ones = [largest(self.weights(demand, chunk), chunk) for chunk in chunks]
        if rules.group_boundary_id not in ONE_ID:
            ones.append(several)
        return InputSize(max(one.bytes for one in ones), max(one.events for one in ones))

    def breaks(self, rules: SplitRules, chunk: Chunk) -> Ints:
        """The master files that begin a job, whatever the one before has room for."""
        positions = [chunk.master.breaks]
        if rules.respect_lb:
            positions.append(_changes(chunk.master.lumi_blocks))
        if rules.group_boundary_id in ONE_ID:
            positions.append(_changes(chunk.master.boundaries))
        if rules.add_nth_field_to_lfn and rules.use_file_as_source_lfn:
            fields = [middle_name(lfn, rules.add_nth_field_to_lfn) for lfn in chunk.master.lfns]
            positions.append(_changes(np.array(fields, object)))
        return np.unique(np.concatenate(positions))

    def units(self, rules: SplitRules, chunk: Chunk) -> Ints | None:
        """The master files that begin an indivisible unit; None: each does."""
        return units(chunk.master) if are_whole(rules) else None

    def weights(self, demand: Demand, chunk: Chunk) -> Weights:
        """Return the weights of each master file: files of both kinds, disk space, events."""
        master = chunk.master
        events = master.counted_events.astype(float)
        ones = np.ones(len(master))
        files, sizes = ones, np.where(master.sizes > 0, master.sizes, MB)
        for one in chunk.secondaries:
            if one.undivided:
                more_files, more_bytes = beside(one, master)
                files, sizes = files + more_files, sizes + more_bytes
            elif not one.fixed:
                files = files + one.usual(ones, events)
                sizes = sizes + _sizes_beside(one, events)
        outputs = demand.output_bytes(InputSize(sizes, events))
        room = sizes + outputs
        return {
            "masters": ones,
            "files": files,
            "bytes": room,
            "disk": room,
            "read": sizes,
            "input": sizes,
            "events": events,
            "output": outputs * ones,
        }

    def caps(
        self,
        rules: SplitRules,
        demand: Demand,
        chunk: Chunk,
        sites: Snapshot,
        site: int,
        knobs: Knobs,
    ) -> Caps:
        """The limits of a job at one of the sites. JediError: no job can keep them."""
        hard = knobs.jobgen.hard_max_files_per_job - sum(c.fixed for c in chunk.secondaries)
        if hard < 1:
            raise JediError(
                "The files that every job is to get are more than a job may have "
                f"({knobs.jobgen.hard_max_files_per_job}, knob jobgen.hard_max_files_per_job).",
                code="too_many_files_per_job",
            )
        if rules.files_per_job:
            return {"masters": rules.files_per_job, "files": hard}
        if rules.events_per_job:
            return {"events": rules.events_per_job, "files": hard}
        cores = demand.cores_at(sites.cores)[site]
        scratch_mb = sites.max_wdir_mb[site] * cores / sites.cores[site] - demand.work_mb
        fixed = sum(one.fixed * one.usual_size for one in chunk.secondaries)
        seconds = min(demand.max_walltime_s or np.inf, sites.max_time_s[site])
        return {
            "masters": rules.max_files_per_job or knobs.jobgen.max_files_per_job,
            "files": hard,
            **_size_caps(rules.n_gb_per_job, demand, fixed, knobs),
            "disk": scratch_mb * MB - fixed,
            "read": demand.bytes_within(seconds, cores),
            "events": demand.events_within(seconds, cores, sites.core_power[site]),
            "output": GB
            * min(rules.output_gb_per_job or np.inf, knobs.jobgen.max_output_gb or np.inf),
        }


def _size_caps(n_gb: float | None, demand: Demand, fixed: float, knobs: Knobs) -> dict[str, float]:
    """The limits on input with output, and on input alone, that add up to a job's size.

    Source: JEDI document, "nGBPerJob": input + max(output, 2.5 GB) + work directory <
    nGBPerJob; the larger of two is below a limit if both are. Preset current allows the least
    output (1500 MB) and the work directory on top of it: docs/reference/splitting.md#ngbperjob.
    """
    if n_gb is None:
        return {"bytes": knobs.jobgen.max_gb_per_job * GB - fixed}
    least, work = knobs.jobgen.ng_output_gb * GB, demand.work_mb * MB
    room = n_gb * GB + least - fixed
    if knobs.jobgen.ng_covers_all:
        room = n_gb * GB - work - fixed - 1  # a byte less: it is to be below
    return {"bytes": room, "input": room - least}


def _changes(column: NDArray[Any]) -> Ints:
    """Return a mask of the positions where the value differs from the previous one."""
    return np.flatnonzero(column[1:] != column[:-1]) + 1


def _sizes_beside(one: Secondary, events: NDArray[np.float64]) -> Any:
    """Bytes of the secondary files at the side of each master file; where the ratio is not whole,
    of the closest ones; the average, where events decide."""
    n = len(events)
    if not len(one.files):
        return np.zeros(n)
    if one.event_ratio is not None:
        return one.usual(np.ones(n), events) * one.usual_size
    sums = np.concatenate([[0.0], np.cumsum(one.files.sizes, dtype=float)])
    rounds, rest = np.divmod(one.n_files_for(np.arange(n + 1)), len(one.files))
    return np.diff(rounds * sums[-1] + sums[rest])
