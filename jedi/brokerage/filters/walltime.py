"""The expected duration of a job lies between the site's limits.
Source: docs/reference/estimates.md#walltime."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot


def _walltime_s(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Numbers | float:
    cores = need.demand.cores_at(sites.cores)
    walltime_s = need.demand.walltime_s(need.atom, cores, sites.core_power)
    return 0.0 if walltime_s is None else walltime_s


LITTLE_TIME = Filter(
    code="little_time",
    observed=lambda sites, _need, _knobs: sites.max_time_s,
    keep=np.greater_equal,
    limit=_walltime_s,
    say="slots of {observed:.0f} s, the jobs need {limit:.0f} s",
    remedy="Let the task make smaller jobs, or correct cpuTime or maxtime of the site.",
    unit="s",
)
MUCH_TIME = Filter(
    code="much_time",
    observed=lambda sites, _need, _knobs: sites.min_time_s,
    keep=np.less_equal,
    limit=_walltime_s,
    say="kept for jobs above {observed:.0f} s, these need {limit:.0f} s",
    unknown="kept for jobs above {observed:.0f} s, the duration of these is unknown",
    remedy="Let the task make larger jobs, or set its cpuTime if it is unset.",
    unit="s",
)


def _slot_h(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Numbers:
    """Return the capacity of a slot, as hours on cores of 10 HS06."""
    budget = need.demand.budget(sites.max_time_s, 1.0, sites.core_power)
    return np.asarray(budget / (_REFERENCE * _HOUR_S))


_REFERENCE, _HOUR_S = 10.0, 3600.0
SHORT_SLOTS = Filter(
    code="short_slots",
    observed=_slot_h,
    keep=np.greater_equal,
    limit=lambda _sites, _need, knobs: knobs.broker.unknown_time_h,
    say="slots of {observed:.0f} h at 10 HS06; jobs of unknown duration get {limit:.0f} h at least",
    remedy="Set cpuTime of the task, or lower broker.unknown_time_h.",
    unit="h",
    when=lambda need, knobs: (
        knobs.broker.unknown_time_h > 0
        and (not need.demand.timed or need.request.scout or need.request.merging)
    ),
)
