"""The expected duration of a job lies between the site's limits. Source: brokerage.md §5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jedi.brokerage.filters import Filter
from jedi.brokerage.need import Need
from jedi.spec.snapshot import Numbers, Snapshot


def _walltime_s(sites: Snapshot, need: Need, _knobs: Mapping[str, Any]) -> Numbers | float:
    cores = need.demand.cores_at(sites.cores)
    walltime_s = need.demand.walltime_s(need.atom, cores, sites.core_power)
    return 0.0 if walltime_s is None else walltime_s


LITTLE_TIME = Filter(
    code="little_time",
    observed=lambda sites, _need, _knobs: sites.max_time_s,
    keep=np.greater_equal,
    limit=_walltime_s,
    say="slots of {observed:.0f} s, the jobs need {limit:.0f} s",
)
MUCH_TIME = Filter(
    code="much_time",
    observed=lambda sites, _need, _knobs: sites.min_time_s,
    keep=np.less_equal,
    limit=_walltime_s,
    say="kept for jobs above {observed:.0f} s, these need {limit:.0f} s",
)
