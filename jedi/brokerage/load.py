"""How busy sites are with the jobs of a share. Source: brokerage.md §3.3, 1–5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jedi.brokerage.need import Need
from jedi.core import states
from jedi.spec.snapshot import Numbers, Snapshot

_RUNNING = frozenset({"running", "holding"})
_STARTING = frozenset({"sent", "starting"})
_DEFINED = frozenset(states.JOB_QUEUED) - {"activated", "assigned"}
_TRANSFERRING = frozenset({"transferring"})


def count(
    sites: Snapshot, need: Need, statuses: frozenset[str], resource_type: str | None = None
) -> Numbers:
    """Jobs of the task's share (and of one resource type) in these statuses."""
    types = None if resource_type is None else frozenset({resource_type})
    return sites.jobs.total(frozenset({need.request.gshare}), types, statuses)


def running(
    sites: Snapshot, need: Need, knobs: Mapping[str, Any], resource_type: str | None = None
) -> Numbers:
    """Running jobs. Where fewer run than pilots are there, those few count instead, so that a site
    gets jobs to begin with."""
    found = count(sites, need, _RUNNING, resource_type)
    most = knobs["broker.bootstrap_max_priority"]
    if most and need.request.priority > most:
        return found
    few = knobs["broker.bootstrap_jobs"]
    return np.where(found < few, np.maximum(found, np.minimum(sites.workers, few)), found)


def activated(sites: Snapshot, need: Need, resource_type: str | None = None) -> Numbers:
    """Jobs that wait for a slot."""
    return count(sites, need, frozenset({"activated"}), resource_type)


def assigned(sites: Snapshot, need: Need, resource_type: str | None = None) -> Numbers:
    """Jobs that wait for their inputs."""
    return count(sites, need, frozenset({"assigned"}), resource_type)


def starting(sites: Snapshot, need: Need, resource_type: str | None = None) -> Numbers:
    """Jobs that a pilot has and that do not run yet."""
    return count(sites, need, _STARTING, resource_type)


def defined(sites: Snapshot, need: Need, resource_type: str | None = None) -> Numbers:
    """Jobs that nobody has looked at yet, with those made since the sites were read."""
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
