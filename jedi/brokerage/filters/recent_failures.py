"""Recent results of the same task's jobs at a site. Source:
docs/reference/brokerage.md#analysis."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jedi.brokerage.filters import Filter, not_asked
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot


def _count(sites: Snapshot, figures: Mapping[str, int]) -> Numbers:
    return sites.given({site: float(n) for site, n in figures.items()})


def _bad_limit(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    good = 2.0 * _count(sites, need.past.finished)
    return np.maximum(float(knobs.analysis.bad_jobs), good)


CLOSED = Filter(
    code="closed_jobs",
    observed=lambda sites, need, _knobs: _count(sites, need.past.closed),
    keep=np.less,
    limit=lambda _sites, _need, _knobs: 1.0,
    say="{observed:.0f} jobs of the task got no slot there lately",
    remedy="Wait (knob analysis.past_s), or replicate the input elsewhere.",
    unit="jobs",
    lasting=False,
    when=lambda need, knobs: not_asked(need, knobs) and not need.request.merging,
)
FAILURES = Filter(
    code="bad_jobs",
    observed=lambda sites, need, _knobs: (
        _count(sites, need.past.failed) + _count(sites, need.past.closed)
    ),
    keep=np.less_equal,
    limit=_bad_limit,
    say="{observed:.0f} jobs of the task failed or were closed there lately, limit {limit:.0f}",
    remedy="Check their errors (`jedi-task jobs ID --failed`), or exclude the site.",
    unit="jobs",
    lasting=False,
    when=lambda need, knobs: not_asked(need, knobs) and knobs.analysis.avoid_troubled > 0,
)
