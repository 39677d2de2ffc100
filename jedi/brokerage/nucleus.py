"""The nucleus of a task: the active one with the most free space. The weights of the full task
brokerage (brokerage.md §2) take the place of `free` here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jedi.brokerage.choose import candidates
from jedi.brokerage.filters import Filter
from jedi.brokerage.filters.disk import ENDPOINT
from jedi.brokerage.generic import Choice
from jedi.brokerage.need import Need
from jedi.brokerage.verdict import judge
from jedi.spec.snapshot import Snapshot

ACTIVE = Filter(
    code="nucleus_inactive",
    observed=lambda sites, _need, _knobs: sites.where("state", "ACTIVE").astype(float),
    keep=np.greater_equal,
    limit=lambda _sites, _need, _knobs: 1.0,
    say="the nucleus is not ACTIVE",
    lasting=False,
)
SPACE = Filter(
    code="little_space",
    observed=lambda sites, _need, _knobs: sites.usable_gb,
    keep=np.greater_equal,
    limit=lambda _sites, _need, knobs: knobs["taskbroker.min_free_gb"],
    say="{observed:.0f} GB usable, {limit:.0f} GB must be",
    lasting=False,
)
FILTERS = (ACTIVE, ENDPOINT, SPACE)


def choose(world: Snapshot, need: Need, knobs: Mapping[str, Any], seed: int) -> Choice:
    """At most one candidate: no lottery here. Without an asked site, any nucleus will do."""
    nuclei = tuple(s for s, role in zip(world.sites, world.role, strict=True) if role == "nucleus")
    sites = world.only(need.sites or nuclei)
    verdict = judge(FILTERS, sites, need, knobs)
    found = candidates(sites.sites, verdict.passed, sites.usable_gb, (), 1)
    weights = tuple(float(sites.usable_gb[i]) for i in found)
    return Choice(sites, verdict, tuple(found), weights, seed)
