"""Weights of sites that passed the filters: the product of named factors.

Source: JEDI document, "Job brokerage explained", "T1 weight";
docs/reference/network-and-weights.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jedi.brokerage import load
from jedi.brokerage.filters.input import missing_bytes, missing_files
from jedi.brokerage.filters.locality import at_home
from jedi.brokerage.network import link_weight
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.core.knobs.knob import numbers
from jedi.model.arrays import Numbers
from jedi.model.jobs.demand import GB
from jedi.model.sites.snapshot import Snapshot

Factors = Mapping[str, Numbers]


def product(factors: Factors) -> Numbers:
    """The weight of each site."""
    return np.asarray(np.prod(list(factors.values()), axis=0))


def production(sites: Snapshot, need: Requirements, knobs: Knobs) -> dict[str, Numbers]:
    """Factors for the speed of a site's queue, its part of the input, its place and the link from
    it to the nucleus; 0 if the site gets a batch of jobs first, whatever its other factors."""
    factors = {
        "queue": queue_factor(sites, need, knobs),
        "data": data_factor(sites, need),
        "t1": t1_factor(sites, need, knobs),
    }
    if need.request.nucleus and knobs.network.active:
        factors["network"] = link_weight(sites, need, knobs)
    if (first := load.untouched(sites, need, knobs)).any():
        factors["first"] = np.where(first, 0.0, 1.0)
    return factors


def queue_factor(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """Running jobs by waiting ones; jobs that wait for inputs count where this task's would have
    to, and weigh down a site where they outnumber the ones that could start."""
    assigned, activated = load.assigned(sites, need), load.activated(sites, need)
    many = np.clip((assigned + 1) / (activated + 1), 1.0, 2.0)
    waiting = activated + load.starting(sites, need) + load.defined(sites, need) + 10
    running = load.running(sites, need, knobs) + 1
    local = missing_files(sites, need) == 0
    return np.where(local, running / waiting, running / (waiting + assigned) / many)


def data_factor(sites: Snapshot, need: Requirements) -> Numbers:
    """1 to 2 with the part of the input that is there, less the more files are missing."""
    if need.data.bytes <= 0:
        return np.ones(len(sites))
    local = need.data.bytes - missing_bytes(sites, need)
    return (need.data.bytes + local) / need.data.bytes / (missing_files(sites, need) / 100 + 1)


def t1_weight(need: Requirements, knobs: Knobs) -> float:
    """Return the T1 weight of a task."""
    asked = need.request
    weight = float(max(asked.t1_weight, 0))
    if asked.t1_weight == 0:
        heavy = (asked.io_kb_s or 0.0) >= knobs.broker.t1_io_from
        weight = _cloud_weight(asked.cloud or "WORLD", knobs) if heavy else 1.0
    urgent = asked.priority >= knobs.broker.t1_priority_from
    urgent |= bool(asked.scout and knobs.broker.t1_scouts)
    spared = knobs.broker.t1_spares and (asked.event_service or need.sites)
    if urgent and not spared:
        weight = max(weight, knobs.broker.t1_priority_weight)
    return max(weight, 1.0)


def _cloud_weight(cloud: str, knobs: Knobs) -> float:
    of_clouds = numbers(knobs.broker.t1_cloud_weights)
    return of_clouds.get(cloud, float(knobs.broker.t1_io_weight))


def t1_factor(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """The T1 weight at home, 1 elsewhere; a negative one has decided before."""
    return np.where(at_home(sites, need), t1_weight(need, knobs), 1.0)


def analysis(sites: Snapshot, need: Requirements, knobs: Knobs, moving: bool) -> dict[str, Numbers]:
    """Running jobs by waiting ones. Where jobs go to data, disk counts a thousand times as much as
    tape; where data go to jobs, files that are there already count."""
    waiting = (
        load.activated(sites, need)
        + load.assigned(sites, need)
        + load.defined(sites, need)
        + load.starting(sites, need)
    )
    queue = (load.running(sites, need, knobs) + 1) / (waiting + 1)
    held = need.data.at.items()
    disk = sites.given({site: some.disk_bytes for site, some in held})
    both = sites.given({site: some.bytes for site, some in held})
    if moving:
        tape = 1 + (both - disk) / GB / 1000
        return {"queue": queue, "data": np.where(disk > 0, 1 + disk / GB / 10, tape)}
    return {"queue": queue, "data": np.where((disk > 0) | (both <= 0), 1.0, 0.001)}
