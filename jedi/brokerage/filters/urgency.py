"""Urgent jobs and scouts go where they start soon: large sites, pledged ones, active ones."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.filters.locality import at_home, t1s
from jedi.brokerage.requirements import Requirements
from jedi.core import states
from jedi.core.knobs import Knobs
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot

_TO_START = frozenset(states.JOB_TO_START)


def urgent(need: Requirements, knobs: Knobs, knob: str) -> bool:
    """Scouts, and jobs whose priority reaches a knob (0: none are)."""
    least = knobs[knob]
    return bool(least) and (need.request.scout or need.request.priority >= least)


def _idle_s(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """The time for which no job started though some waited for a slot all the while; with the knob,
    since the last start, though one waits now. Elsewhere 0: where nothing waited nothing could
    start. Source: docs/reference/brokerage.md#inactive-queues."""
    waits = sites.jobs.total(None, None, _TO_START) > 0
    idle = sites.start_age_s
    if not knobs.broker.idle_only_with_queue:
        idle = np.minimum(idle, sites.wait_age_s)
    return np.where(waits, idle, 0.0)


def _wants_active(need: Requirements, knobs: Knobs) -> bool:
    request = need.request
    merging = request.merging or request.merges
    return not need.sites and (merging or urgent(need, knobs, "broker.active_from"))


NOT_T1 = wanted(
    "not_t1",
    lambda sites, need, _knobs: t1s(sites, need),
    "scouts and jobs of such priority go to T1s only",
    "Lower the priority, or change broker.t1_only_from.",
    when=lambda need, knobs: not need.sites and urgent(need, knobs, "broker.t1_only_from"),
)
OPPORTUNISTIC = wanted(
    "opportunistic",
    lambda sites, _need, _knobs: sites.pledged_cores >= 0,
    "scouts and jobs of such priority do not go to opportunistic sites",
    "Lower the priority, or change broker.pledged_from.",
    when=lambda need, knobs: not need.sites and urgent(need, knobs, "broker.pledged_from"),
)
INACTIVE = Filter(
    code="inactive",
    observed=_idle_s,
    keep=np.less_equal,
    limit=lambda _sites, _need, knobs: knobs.broker.active_s,
    say="no job started for {observed:.0f} s, though some waited there",
    unknown="no job ever started, though one waits there",
    remedy="Check why no job starts at the site; the refusal ends when one does.",
    unit="s",
    lasting=False,
    when=_wants_active,
)
OUTSIDE_NUCLEUS = wanted(
    "outside_nucleus",
    lambda sites, need, _knobs: at_home(sites, need),
    "with t1Weight -1 all jobs go to the nucleus",
    "Raise t1Weight of the task.",
    when=lambda need, knobs: (
        need.request.t1_weight < 0 and not (need.request.merging and knobs.broker.t1_spares_merging)
    ),
)
