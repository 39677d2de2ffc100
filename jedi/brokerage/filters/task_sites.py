"""Limit on the number of sites that a task's jobs are at. Source:
docs/reference/brokerage.md#analysis."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter, not_asked
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot


def _used_sites(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Numbers:
    """The number of sites with jobs of the task; 0 at these sites themselves."""
    here = sites.given(dict.fromkeys(need.past.live, 1.0))
    return np.where(here > 0, 0.0, float(len(need.past.live)))


MANY_SITES = Filter(
    code="many_sites",
    observed=_used_sites,
    keep=np.less,
    limit=lambda _sites, _need, knobs: float(knobs.analysis.max_sites),
    say="jobs of the task are at {observed:.0f} other sites, limit {limit:.0f}",
    remedy="Wait until the jobs at one of these sites end, or raise the knob analysis.max_sites.",
    unit="sites",
    lasting=False,
    when=lambda need, knobs: not_asked(need, knobs) and not need.request.merging,
)
