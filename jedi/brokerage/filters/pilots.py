"""Somebody must be there to take the jobs."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter

PILOTS = Filter(
    code="no_pilots",
    observed=lambda sites, _need, _knobs: sites.pilot_age_s,
    keep=np.less_equal,
    limit=lambda _sites, _need, knobs: knobs["broker.pilot_fresh_s"],
    say="no pilot was seen for {limit:.0f} s",
    lasting=False,
)
