"""The load of sites with jobs of a share.
Source: docs/reference/network-and-weights.md#base-weight."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.requirements import Requirements
from jedi.core import states
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.sites.snapshot import Snapshot

_RUNNING = frozenset({"running"})
_STARTING = frozenset({"sent", "starting"})
_DEFINED = frozenset(states.JOB_QUEUED) - {"activated", "assigned"}
_TRANSFERRING = frozenset({"transferring"})


def count(
    sites: Snapshot, need: Requirements, statuses: frozenset[str], resource_type: str | None = None
) -> Numbers:
    """Jobs of the task's share (and of one resource type) in these statuses."""
    types = None if resource_type is None else frozenset({resource_type})
    return sites.jobs.total(frozenset({need.request.gshare}), types, statuses)


def running(
    sites: Snapshot, need: Requirements, knobs: Knobs, resource_type: str | None = None
) -> Numbers:
    """Running jobs. Where they are fewer than pilots, pilots count instead, so that a site gets
    jobs to begin with; slots that a site declares to keep for the share count as running."""
    jobs = count(sites, need, _RUNNING, resource_type)
    if not _begins(need, knobs):
        return jobs
    few = knobs.broker.bootstrap_jobs
    pilots = np.where(_brings_pilots(sites, knobs), np.minimum(sites.workers, few), 0.0)
    jobs = np.where(jobs < few, np.maximum(jobs, pilots), jobs)
    if not knobs.broker.declared_slots:
        return jobs
    slots = declared(sites, need)
    kept = np.floor(np.where(np.isinf(slots), 0.0, slots) / need.cores(sites))
    begun = starting(sites, need, resource_type)
    return np.where(slots == 0, jobs + begun, np.maximum(jobs, kept))


def _begins(need: Requirements, knobs: Knobs) -> bool:
    """True if the jobs may be the first at a site."""
    most = knobs.broker.bootstrap_max_priority
    return not most or need.request.priority <= most


def _brings_pilots(sites: Snapshot, knobs: Knobs) -> Bools:
    """True if pilots of the site count as jobs that it would run. Preset `current` counts only
    pilots that come before there are jobs, and that were seen."""
    if not knobs.broker.bootstrap_streaming:
        return np.ones(len(sites), bool)
    seen = sites.pilot_age_s <= knobs.broker.pilot_fresh_s
    return np.asarray(seen & (sites.streaming > 0))


def declared(sites: Snapshot, need: Requirements) -> Numbers:
    """Slots that sites declare to keep for the task's share and resource type; infinity: none
    declared."""
    slots = sites.slots.row(need.request.gshare, need.request.resource_type)
    return np.full(len(sites), np.inf) if slots is None else slots


def untouched(sites: Snapshot, need: Requirements, knobs: Knobs) -> Bools:
    """Sites that are to get a batch of the task's jobs first, since nothing of the share runs or
    waits there. Source: docs/reference/network-and-weights.md#bootstrap."""
    request = need.request
    wanted = knobs.broker.bootstrap_empty and _begins(need, knobs)
    if not wanted or request.merging or need.express(knobs):
        return np.zeros(len(sites), bool)
    counts = (assigned, activated, starting, defined)
    busy = running(sites, need, knobs) + np.sum([one(sites, need) for one in counts], axis=0)
    return np.asarray(busy == 0)


def activated(sites: Snapshot, need: Requirements, resource_type: str | None = None) -> Numbers:
    """Jobs that wait for a slot."""
    return count(sites, need, frozenset({"activated"}), resource_type)


def assigned(sites: Snapshot, need: Requirements, resource_type: str | None = None) -> Numbers:
    """Jobs that wait for their inputs."""
    return count(sites, need, frozenset({"assigned"}), resource_type)


def starting(sites: Snapshot, need: Requirements, resource_type: str | None = None) -> Numbers:
    """Jobs that a pilot has and that do not run yet."""
    return count(sites, need, _STARTING, resource_type)


def defined(sites: Snapshot, need: Requirements, resource_type: str | None = None) -> Numbers:
    """Return jobs in status defined, with the ones made since the sites were read."""
    made = sites.given({site: float(n) for site, n in need.made.items()})
    return count(sites, need, _DEFINED, resource_type) + made


def transferring(sites: Snapshot) -> Numbers:
    """Jobs of all shares whose outputs are on their way."""
    return sites.jobs.total(None, None, _TRANSFERRING)


def all_running(sites: Snapshot) -> Numbers:
    """Running jobs of all shares."""
    return sites.jobs.total(None, None, _RUNNING)


def cores_in_use(sites: Snapshot) -> Numbers:
    """Cores of jobs that run or start, taking each slot as full."""
    return sites.jobs.total(None, None, _RUNNING | _STARTING) * sites.cores
