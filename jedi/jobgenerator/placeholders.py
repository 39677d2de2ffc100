"""Job sets that wait for a site: their places and needs when sites take some.

Source: docs/reference/event-service.md#placeholders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby

import numpy as np

from jedi.brokerage.choice import SiteChoice
from jedi.core.knobs import Knobs
from jedi.eventservice.job_sets import sites_of_set
from jedi.jobgenerator.generate import resources
from jedi.jobgenerator.inputs import readings
from jedi.jobgenerator.plan import Cut
from jedi.model.datasets.chunk import Chunk
from jedi.model.jobs.generation import TaskOrder
from jedi.model.sites.snapshot import Snapshot


def cut_sets(chunk: Chunk, jobset_ids: Sequence[int], choice: SiteChoice, knobs: Knobs) -> Cut:
    """As many job sets as sites take now, by lottery like new jobs; `jobset_ids`: that of each
    file, in order."""
    sizes = [len([*files]) for _, files in groupby(jobset_ids)]
    stops = np.cumsum(sizes, dtype=np.int64)
    lottery, sites = choice.lottery(), list[int]()
    while len(sites) < len(stops) and not lottery.over:
        drawn = lottery.draw()
        batch = min(knobs.jobgen.batch_jobs, len(stops) - len(sites))
        lottery.got(drawn, batch)
        sites += [choice.candidates[drawn]] * batch
    n = len(sites)
    starts = (stops - np.array(sizes, np.int64))[:n]
    return Cut(chunk, starts, stops[:n], np.array(sites, np.int64), ())


def places_of(task: TaskOrder, cut: Cut, choice: SiteChoice) -> list[str]:
    """The sites of the job sets of a cut, best first, as JSON."""
    names = choice.sites.sites
    return [
        json.dumps(
            [names[i] for i in sites_of_set(task.rules, choice.sites, choice.candidates, at)]
        )
        for at in cut.sites.tolist()
    ]


def needs_of(task: TaskOrder, cut: Cut, sites: Snapshot, knobs: Knobs) -> Mapping[str, list[int]]:
    """The cores, memory and time of each job set of a cut at its site."""
    reads, _ = readings([cut], [{}], sites)
    return resources(task.demand, [cut], reads, sites, knobs.broker.memory_factor)
