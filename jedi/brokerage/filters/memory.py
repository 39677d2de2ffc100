"""A slot has the memory that a job asks for, and is not kept for larger ones. Tasks that do not say
how much they need may go anywhere."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot


def _need_mb(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    cores = need.demand.cores_at(sites.cores)
    return need.demand.memory_mb(cores, knobs.broker.memory_factor)


def _part(sites: Snapshot, need: Requirements) -> Numbers:
    return need.cores(sites) / sites.cores


LITTLE_MEMORY = Filter(
    code="little_memory",
    observed=lambda sites, need, _knobs: sites.max_rss_mb * _part(sites, need),
    keep=np.greater_equal,
    limit=_need_mb,
    say="slots of {observed:.0f} MB, the jobs need {limit:.0f} MB",
    remedy="Lower ramCount of the task, or correct maxrss of the site.",
    unit="MB",
)
MUCH_MEMORY = Filter(
    code="much_memory",
    observed=lambda sites, need, _knobs: sites.min_rss_mb * _part(sites, need),
    keep=np.less_equal,
    limit=_need_mb,
    say="kept for jobs above {observed:.0f} MB, these need {limit:.0f} MB",
    remedy="Nothing is wrong: others need that site more. Or correct minrss of the site.",
    unit="MB",
    when=lambda need, _knobs: need.demand.ram_mb > 0,
)
