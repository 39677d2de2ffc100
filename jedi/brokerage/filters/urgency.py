"""Urgent jobs and scouts go where they start soon: large sites, pledged ones, active ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.filters.nearness import at_home, t1s
from jedi.brokerage.need import Need
from jedi.spec.snapshot import Numbers, Snapshot


def urgent(need: Need, knobs: Mapping[str, Any], knob: str) -> bool:
    """Scouts, and jobs whose priority reaches a knob (0: none are)."""
    least = knobs[knob]
    return bool(least) and (need.request.scout or need.request.priority >= least)


def _idle_s(sites: Snapshot, need: Need, knobs: Mapping[str, Any]) -> Numbers:
    """Since a job last started; where nothing waits that tells nothing, if the knob says so."""
    if not knobs["broker.idle_only_with_queue"]:
        return sites.start_age_s
    waiting = sites.jobs.total(None, None, frozenset({"activated", "starting"}))
    return np.where(waiting > 0, sites.start_age_s, 0.0)


def _wants_active(need: Need, knobs: Mapping[str, Any]) -> bool:
    asked = need.request
    merging = asked.merging or asked.merges
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
    limit=lambda _sites, _need, knobs: knobs["broker.active_s"],
    say="no job started in the last {limit:.0f} s",
    remedy="Look why nothing starts at the site; it passes by itself when a job does.",
    unit="s",
    lasting=False,
    when=_wants_active,
)
OUTSIDE_NUCLEUS = wanted(
    "outside_nucleus",
    lambda sites, need, _knobs: at_home(sites, need),
    "with t1Weight -1 all jobs go to the nucleus",
    "Raise t1Weight of the task.",
    when=lambda need, _knobs: need.request.t1_weight < 0 and not need.request.merging,
)
