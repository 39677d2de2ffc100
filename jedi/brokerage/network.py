"""The network weight of a site: how well its outputs reach the nucleus.
Source: docs/reference/network-and-weights.md#network-weight.

Half of it measures the files that wait on the link, half its speed; without any figure the
closeness (0 best to 11 worst) stands for the speed.
"""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters.locality import in_nucleus
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot

SAME_SITE = 2.5
UNKNOWN_CLOSENESS, WORST_CLOSENESS = 7.7, 11.0
_MB_S = (1.0, 2.0, 10.0, 20.0, 50.0, 75.0, 100.0, 200.0)


def queued_weight(files: Numbers, full: float) -> Numbers:
    """From 2 where nothing waits down to 1 at `full` files, where it stays."""
    return np.clip(2.0 - files / full, 1.0, 2.0)


def speed_weight(mb_s: Numbers, from_50: float) -> Numbers:
    """A step curve; `from_50` is its value between 50 and 75 MB/s."""
    steps = np.array([1.0, 1.1, 1.2, 1.3, 1.5, from_50, 1.8, 1.9, 2.0])
    return steps[np.searchsorted(_MB_S, mb_s, side="left")]


def closeness_weight(close: Numbers) -> Numbers:
    """Stands for the speed where nothing was measured; infinity: not known either."""
    known = np.where(np.isinf(close), UNKNOWN_CLOSENESS, close)
    return 1.0 + (WORST_CLOSENESS - np.minimum(known, WORST_CLOSENESS)) / WORST_CLOSENESS


def closeness(sites: Snapshot, need: Requirements) -> Numbers:
    """0 best to 11 worst, -1 closed, infinity: not known."""
    return _figure(sites, need, "closeness", np.inf)


def queued(sites: Snapshot, need: Requirements, express: bool) -> Numbers:
    """Return the queued files on the link to the nucleus; 0 without a recent count."""
    found = _figure(sites, need, "express_queued" if express else "production_queued", 0.0)
    return np.where(np.isinf(found), 0.0, found)


def link_weight(sites: Snapshot, need: Requirements, knobs: Knobs) -> Numbers:
    """The weight of every site."""
    speed = _figure(sites, need, "mb_s", np.inf)
    of_speed = np.where(
        np.isinf(speed),
        closeness_weight(closeness(sites, need)),
        speed_weight(speed, knobs.network.weight_from_50),
    )
    of_queue = queued_weight(queued(sites, need, need.express(knobs)), knobs.network.full_queue)
    part = knobs.network.queue_part
    weight = part * of_queue + (1.0 - part) * of_speed
    return np.where(in_nucleus(sites, need), SAME_SITE, weight)


def _figure(sites: Snapshot, need: Requirements, what: str, otherwise: float) -> Numbers:
    found = sites.links.row(need.request.nucleus, what)
    return np.full(len(sites), otherwise) if found is None else found
