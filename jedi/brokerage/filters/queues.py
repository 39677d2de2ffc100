"""Sites that have enough to do, or too much to send.
Source: docs/reference/brokerage.md#waiting-jobs; docs/reference/brokerage.md#transferring."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jedi.brokerage import load
from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.filters.input import missing_files
from jedi.brokerage.filters.locality import in_nucleus
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.sites.snapshot import Snapshot


def _transferring(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    spared = in_nucleus(sites, need) & bool(knobs.broker.transferring_spares_nucleus)
    return np.where(spared, 0.0, load.transferring(sites))


def _transferring_limit(sites: Snapshot, _need: Requirements, knobs: Knobs) -> Numbers:
    ratio = knobs.broker.transferring_ratio
    return np.asarray(np.maximum(sites.transferring_limit, ratio * load.all_running(sites)))


MUCH_TRANSFERRING = Filter(
    code="much_transferring",
    observed=_transferring,
    keep=np.less_equal,
    limit=_transferring_limit,
    say="{observed:.0f} jobs are sending their outputs, the limit is {limit:.0f}",
    remedy="Wait for the transfers, or raise transferringlimit of the site.",
    unit="jobs",
    lasting=False,
)


def _within_pledge(sites: Snapshot, _need: Requirements, _knobs: Knobs) -> Bools:
    free = load.cores_in_use(sites) <= np.where(
        sites.pledged_cores > 0, sites.pledged_cores, np.inf
    )
    return np.asarray((sites.pledged_cores >= 0) & free)


OVER_PLEDGE = wanted(
    "over_pledge",
    _within_pledge,
    "work is short, and the site has used up its pledge",
    "Nothing is wrong: it passes when there is more work (core.work_shortage).",
    lasting=False,
    when=lambda need, knobs: knobs.core.work_shortage > 0 and len(need.sites) != 1,
)


def _type(need: Requirements, knobs: Knobs) -> str | None:
    return need.request.resource_type if knobs.broker.cap_by_type else None


def _queued(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """Activated and starting jobs; where inputs have to be moved a preset of today counts jobs that
    wait for inputs, too, and none at unified sites, which are capped by resource type."""
    if not knobs.broker.cap_by_type:
        return load.activated(sites, need) + load.starting(sites, need)
    return np.where(sites.unified > 0, 0.0, _to_start(sites, need))


def _to_start(sites: Snapshot, need: Requirements) -> Numbers:
    queued = load.activated(sites, need) + load.starting(sites, need)
    return queued + np.where(missing_files(sites, need) > 0, load.assigned(sites, need), 0.0)


def waiting_at(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """Jobs that a new one has to wait for: activated, starting, and waiting for inputs where its
    own have to be moved; at unified sites, if types count apart, all of its type."""
    queued = _to_start(sites, need)
    if not knobs.broker.cap_by_type:
        return queued
    return np.where(sites.unified > 0, _waiting(sites, need, knobs), queued)


def _waiting(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    return _all_waiting(sites, need, _type(need, knobs))


def _all_waiting(sites: Snapshot, need: Requirements, kind: str | None) -> Numbers:
    counts = (load.defined, load.activated, load.assigned, load.starting)
    return np.asarray(np.sum([one(sites, need, kind) for one in counts], axis=0))


def _cap(running: Numbers, knobs: Knobs) -> Numbers:
    return np.asarray(np.maximum(knobs.broker.cap_jobs, knobs.broker.cap_ratio * running))


def _waiting_cap(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    running = load.running(sites, need, knobs, _type(need, knobs))
    if knobs.broker.cap_by_type:
        running = np.maximum(running, load.running(sites, need, knobs))
    return _cap(running, knobs)


def _capped(need: Requirements, knobs: Knobs) -> bool:
    return not (knobs.broker.cap_spares_express and need.express(knobs))


_REMEDY = "Wait until more jobs run; the limit grows with the running jobs."
QUEUE_CAP = Filter(
    code="queue_cap",
    observed=_queued,
    keep=np.less_equal,
    limit=lambda sites, need, knobs: _cap(load.running(sites, need, knobs), knobs),
    say="{observed:.0f} jobs wait for a slot, the limit is {limit:.0f}",
    remedy=_REMEDY,
    unit="jobs",
    lasting=False,
    when=_capped,
)
WAITING_CAP = Filter(
    code="waiting_cap",
    observed=_waiting,
    keep=np.less_equal,
    limit=_waiting_cap,
    say="{observed:.0f} jobs wait or are being prepared, the limit is {limit:.0f}",
    remedy=_REMEDY,
    unit="jobs",
    lasting=False,
    when=_capped,
)


def _overload(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """The number of queued jobs with an average wait, and a margin."""
    waiting, at_work = load.activated(sites, need), load.running(sites, need, knobs)
    ratio = waiting.sum() / max(at_work.sum(), 1.0) * knobs.analysis.overload_offset
    return np.asarray(np.maximum(knobs.analysis.overload_jobs, ratio * at_work))


def _analysis_cap(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    running = load.running(sites, need, knobs, need.request.resource_type)
    return np.asarray(np.maximum(knobs.analysis.cap_jobs, knobs.broker.cap_ratio * running))


ANALYSIS_CAP = replace(
    WAITING_CAP,
    observed=lambda sites, need, _knobs: _all_waiting(sites, need, need.request.resource_type),
    limit=_analysis_cap,
    when=lambda _need, knobs: knobs.analysis.avoid_troubled > 0,
)


OVERLOADED = Filter(
    code="overloaded",
    observed=lambda sites, need, _knobs: load.activated(sites, need),
    keep=np.less_equal,
    limit=_overload,
    say="{observed:.0f} jobs wait for a slot, {limit:.0f} would be usual",
    remedy="Wait until more of them run, or choose another site.",
    unit="jobs",
    lasting=False,
    when=lambda need, knobs: knobs.analysis.avoid_troubled > 0 and not need.request.merging,
)
