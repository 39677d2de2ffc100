"""Single-core jobs go to single-core slots, multi-core jobs to the others (0 cores: anywhere)."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter

FEW_CORES = Filter(
    code="few_cores",
    observed=lambda sites, _need, _knobs: sites.cores,
    keep=np.greater_equal,
    limit=lambda _sites, need, _knobs: 2.0 if need.demand.cores > 1 else 0.0,
    say="slots of {observed:.0f} core, the jobs take several",
)
MANY_CORES = Filter(
    code="many_cores",
    observed=lambda sites, _need, _knobs: sites.cores,
    keep=np.less_equal,
    limit=lambda _sites, need, _knobs: 1.0 if need.demand.cores == 1 else np.inf,
    say="slots of {observed:.0f} cores, the jobs take one",
)
