"""Requirements of a task on a site: the smallest job that must fit, its data and its rights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jedi.core.knobs import Knobs
from jedi.model.arrays import Ints, Numbers
from jedi.model.datasets.chunk import Chunk
from jedi.model.jobs.demand import Demand, InputSize
from jedi.model.sites.decision import Pledge
from jedi.model.sites.request import InputAvailability, RecentJobs, Request, SiteInput
from jedi.model.sites.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class RemainingWork:
    """Work that is left to tasks of nuclei, in core-days at 10 HS06: of all tasks, and of tasks of
    the same work queue with at least this priority. Source:
    docs/reference/nucleus.md#remaining-work."""

    all: Mapping[str, float] = field(default_factory=dict)
    ahead: Mapping[str, float] = field(default_factory=dict)


def ahead(pledges: Sequence[Pledge], work_queue: int, priority: int) -> RemainingWork:
    """Return the remaining work at each nucleus ahead of a task of this queue and priority."""
    of_all: defaultdict[str, float] = defaultdict(float)
    before: defaultdict[str, float] = defaultdict(float)
    for one in pledges:
        of_all[one.nucleus] += one.days
        if one.work_queue == work_queue and one.priority >= priority:
            before[one.nucleus] += one.days
    return RemainingWork(dict(of_all), dict(before))


@dataclass(frozen=True, slots=True)
class Requirements:
    """`atom` is the largest of the smallest possible jobs; `sites` the only ones allowed (empty:
    all); `made` counts jobs of the task's share that the same cycle made, by site;
    `waits_days` is how long the task has waited for a nucleus; `dataset`: the one that the jobs are
    to be made of, where each is brokered by itself. Of merge jobs: `near`: only sites that have
    all files; `left`: sites where no pilot took the last merge job of these files."""

    demand: Demand
    atom: InputSize
    sites: tuple[str, ...] = ()
    request: Request = field(default_factory=Request)
    data: InputAvailability = field(default_factory=InputAvailability)
    past: RecentJobs = field(default_factory=RecentJobs)
    made: Mapping[str, int] = field(default_factory=dict)
    work: RemainingWork = field(default_factory=RemainingWork)
    waits_days: float = 0.0
    dataset: str = ""
    near: bool = False
    left: tuple[str, ...] = ()

    def cores(self, sites: Snapshot) -> Numbers:
        """The cores of slots for the jobs: a unified site gives a part to those of one core.
        Source: docs/reference/estimates.md#resource-types."""
        return np.where(sites.unified > 0, self.demand.cores_at(sites.cores), sites.cores)

    def express(self, knobs: Knobs) -> bool:
        """The jobs' transfers go first."""
        asked = self.request
        return asked.processing_type == "urgent" or asked.priority >= knobs.broker.express_from

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Requirements:
        """From JSON, as a decision keeps it."""
        asked: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value
            for key, value in stored.get("request", {}).items()
        }
        data = stored.get("data", {})
        return cls(
            demand=Demand(**stored["demand"]),
            atom=InputSize(**stored["atom"]),
            sites=tuple(stored.get("sites", ())),
            request=Request(**asked),
            data=InputAvailability(
                **{**data, "at": {site: SiteInput(**h) for site, h in data.get("at", {}).items()}}
            ),
            past=RecentJobs(**stored.get("past", {})),
            made=stored.get("made", {}),
            work=RemainingWork(**stored.get("work", {})),
            waits_days=stored.get("waits_days", 0.0),
            dataset=stored.get("dataset", ""),
            near=stored.get("near", False),
            left=tuple(stored.get("left", ())),
        )


def atom(chunks: Sequence[Chunk], n_files: int, n_events: int | None = None) -> InputSize:
    """The largest job of `n_files` master files, or of so many as `n_events` may lie in: bytes and
    events are each the largest there are.

    Source: docs/reference/estimates.md#atom.
    """
    loads = [_atom(c, n_files, n_events) for c in chunks]
    return InputSize(max(load.bytes for load in loads), max(load.events for load in loads))


def _atom(chunk: Chunk, n_files: int, n_events: int | None) -> InputSize:
    events = chunk.master.counted_events
    if n_events is None:
        most = _most(events, n_files)
    else:
        most = min(float(n_events), float(events.sum()))
        n_files = -(-n_events // int(events.max()))
    return InputSize(_most(chunk.master.sizes, n_files) + _beside(chunk, n_files, most), most)


def _most(values: Ints, n: int) -> float:
    """The largest sum of n values in a row, blocks beginning at the first."""
    return float(np.add.reduceat(values, np.arange(0, len(values), n)).max())


def _beside(chunk: Chunk, n_files: int, n_events: float) -> float:
    """Bytes of what follows so many master files and events: all, or an average part."""
    n_files = min(n_files, len(chunk.master))
    return float(sum(s.usual(n_files, n_events) * s.usual_size for s in chunk.secondaries))
