"""Scratch space for a job, and a storage endpoint with room for what jobs make."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jedi.brokerage.filters import Filter
from jedi.brokerage.need import Need
from jedi.spec.snapshot import Numbers, Snapshot


def _scratch_mb(sites: Snapshot, need: Need, _knobs: Mapping[str, Any]) -> Numbers:
    """A job that takes one core of a slot gets its part of the slot's scratch space."""
    return sites.max_wdir_mb * need.demand.cores_at(sites.cores) / sites.cores


SCRATCH = Filter(
    code="little_scratch",
    observed=_scratch_mb,
    keep=np.greater_equal,
    limit=lambda _sites, need, _knobs: need.demand.disk_mb(need.atom),
    say="{observed:.0f} MB of scratch space, the jobs need {limit:.0f} MB",
)
ENDPOINT = Filter(
    code="no_endpoint",
    observed=lambda sites, _need, _knobs: (~sites.where("endpoint", "")).astype(float),
    keep=np.greater_equal,
    limit=lambda _sites, _need, _knobs: 1.0,
    say="no storage endpoint to write to",
)
STORAGE = Filter(
    code="little_storage",
    observed=lambda sites, _need, _knobs: sites.usable_gb,
    keep=np.greater_equal,
    limit=lambda _sites, _need, knobs: knobs["broker.min_free_gb"],
    say="{observed:.0f} GB usable at its endpoint, {limit:.0f} GB must be",
    lasting=False,
)
