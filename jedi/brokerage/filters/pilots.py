"""Pilots must be there to take the jobs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jedi.brokerage import load
from jedi.brokerage.filters import Filter
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools
from jedi.model.sites.snapshot import Snapshot

PILOTS = Filter(
    code="no_pilots",
    observed=lambda sites, _need, _knobs: sites.pilot_age_s,
    keep=np.less_equal,
    limit=lambda _sites, _need, knobs: knobs.broker.pilot_fresh_s,
    say="the last pilot was seen {observed:.0f} s ago, {limit:.0f} s may pass",
    unknown="no pilot was ever seen",
    remedy="Check the source of its pilots: the site's submitter, its factory, its batch system.",
    unit="s",
    lasting=False,
)


def _not_expected(sites: Snapshot, need: Requirements, knobs: Knobs) -> Bools:
    """Sites that start pilots when they are asked for, which standby ones do, and sites that
    declare slots for the share."""
    asked = (sites.no_pilots_needed > 0) | sites.where("status", "standby")
    if knobs.broker.declared_slots:
        asked |= np.isfinite(load.declared(sites, need))
    return np.asarray(asked)


PILOTS_EXPECTED = replace(
    PILOTS,
    observed=lambda sites, need, knobs: np.where(
        _not_expected(sites, need, knobs), 0.0, sites.pilot_age_s
    ),
    when=lambda need, _knobs: not need.sites and "test" not in need.request.label,
)
"""Sites that start pilots when they are asked for have none before."""
