"""Single-core jobs go to single-core slots, multi-core jobs to the others (0 cores: anywhere,
but where a job is urgent it gets several). Sites that are unified have slots for both."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.sites.snapshot import Snapshot

_REMEDY = "Change coreCount of the task, or corecount of the site."


def _wanted(_sites: Snapshot, need: Requirements, knobs: Knobs) -> float:
    if need.demand.cores > 1:
        return float(need.demand.cores)
    request = need.request
    urgent = request.scout or request.priority >= knobs.broker.any_cores_below
    several = need.demand.cores == 0 and knobs.broker.any_cores_below and urgent
    return 2.0 if several else 0.0


def _several(observed: Numbers, wanted: Numbers) -> Bools:
    """Jobs of several cores, however many, run where slots have several: the limit says how many
    the task wants."""
    return observed >= np.minimum(wanted, 2.0)


FEW_CORES = Filter(
    code="few_cores",
    observed=lambda sites, need, _knobs: need.cores(sites),
    keep=_several,
    limit=_wanted,
    say="slots of {observed:.0f} core, the jobs take {limit:.0f}",
    remedy=_REMEDY,
    unit="cores",
)
MANY_CORES = Filter(
    code="many_cores",
    observed=lambda sites, need, _knobs: need.cores(sites),
    keep=np.less_equal,
    limit=lambda _sites, need, _knobs: 1.0 if need.demand.cores == 1 else np.inf,
    say="slots of {observed:.0f} cores, the jobs take one",
    remedy=_REMEDY,
    unit="cores",
)
ABOVE_MAX_CORES = Filter(
    code="above_max_cores",
    observed=lambda sites, need, _knobs: need.cores(sites),
    keep=np.less_equal,
    limit=lambda _sites, need, _knobs: float(need.request.max_cores or np.inf),
    say="slots of {observed:.0f} cores, the jobs take {limit:.0f} at most",
    remedy="Raise maxCoreCount of the task.",
    unit="cores",
    when=lambda need, _knobs: need.request.max_cores is not None,
)
