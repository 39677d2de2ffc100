"""Scratch space for a job, and a storage endpoint with room for outputs."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.sites.snapshot import Snapshot


def _scratch_mb(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Numbers:
    """A job that takes one core of a slot gets its part of the slot's scratch space."""
    return sites.max_wdir_mb * need.demand.cores_at(sites.cores) / sites.cores


def reads_directly(sites: Snapshot, need: Requirements) -> Bools:
    """The sites where jobs read their input over the network instead of copying it.
    Source: docs/reference/estimates.md#disk."""
    if need.request.merging:
        return np.zeros(len(sites), bool)
    always = sites.always_direct > 0
    if need.request.copy_input or not need.request.lan_input:
        return always
    return np.asarray(always | (sites.direct_lan > 0))


def _disk_mb(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    copied = need.demand.disk_mb(need.atom, knobs.broker.min_output_mb)
    direct = need.demand.disk_mb(need.atom, knobs.broker.min_output_mb, copied=False)
    return np.where(reads_directly(sites, need), direct, copied)


_SCRATCH_REMEDY = "Let the task make smaller jobs, or correct workDiskCount or maxwdir of the site."
SCRATCH = Filter(
    code="little_scratch",
    observed=_scratch_mb,
    keep=np.greater_equal,
    limit=lambda _sites, need, _knobs: need.demand.disk_mb(need.atom),
    say="{observed:.0f} MB of scratch space, the jobs need {limit:.0f} MB",
    remedy=_SCRATCH_REMEDY,
    unit="MB",
)
WORK_SPACE = Filter(
    code="little_scratch",
    observed=_scratch_mb,
    keep=np.greater_equal,
    limit=_disk_mb,
    say="{observed:.0f} MB of scratch space, the jobs need {limit:.0f} MB",
    remedy=_SCRATCH_REMEDY,
    unit="MB",
)
DIRECT_INPUT = wanted(
    "no_direct_input",
    lambda sites, need, _knobs: reads_directly(sites, need),
    "jobs cannot read their input over the local network",
    "Drop allowInputLAN=only, or set direct_access_lan of the site.",
    when=lambda need, _knobs: need.request.lan_input == "only" and not need.request.merging,
)
ENDPOINT = wanted(
    "no_endpoint",
    lambda sites, _need, _knobs: ~sites.where("endpoint", ""),
    "no storage endpoint to write to",
    "Give the site a storage endpoint (`jedi site import`).",
)


def space_strict(knobs: Knobs) -> bool:
    """True if free space must exceed its limit.
    Source: docs/reference/brokerage.md#storage."""
    return bool(knobs.broker.space_strict)


STORAGE = Filter(
    code="little_storage",
    observed=lambda sites, _need, _knobs: sites.usable_gb,
    keep=np.greater_equal,
    limit=lambda _sites, _need, knobs: knobs.broker.min_free_gb,
    say="{observed:.1f} GB usable at its endpoint, more than {limit:.0f} GB must be",
    remedy="Make room at the endpoint, or lower broker.min_free_gb.",
    unit="GB",
    lasting=False,
    strict=space_strict,
)
