"""Event service, jumbo jobs, full chains: sites that take them, and sites that take nothing else.
Source: docs/reference/brokerage.md#special-jobs."""

from __future__ import annotations

import numpy as np

from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.filters.locality import in_nucleus
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools
from jedi.model.sites.snapshot import Snapshot


def _several(need: Requirements) -> bool:
    return len(need.sites) != 1


def _takes_events(sites: Snapshot, need: Requirements, knobs: Knobs) -> Bools:
    low = need.request.priority < knobs.broker.es_high_from
    high_only = sites.where("job_seed", "eshigh")
    return np.asarray(~sites.where("job_seed", "std") & ~(high_only & low))


NO_EVENT_SERVICE = wanted(
    "no_event_service",
    _takes_events,
    "the site does not take event-service jobs of this priority",
    "Choose another site, or correct jobseed of the site.",
    when=lambda need, _knobs: need.request.event_service and _several(need),
)
EVENT_SERVICE_ONLY = wanted(
    "event_service_only",
    lambda sites, _need, _knobs: ~sites.where("job_seed", "es"),
    "the site takes only event-service jobs",
    "Choose another site, or correct jobseed of the site.",
    when=lambda need, _knobs: not need.request.event_service and _several(need),
)
JUMBO_ONLY = wanted(
    "jumbo_only",
    lambda sites, _need, _knobs: ~sites.where("jumbo", "only"),
    "the site takes only jumbo jobs",
    "Choose another site, or correct catchall.useJumboJobs of the site.",
    when=lambda need, _knobs: _several(need),
)
FEW_JUMBO_EVENTS = Filter(
    code="few_jumbo_events",
    observed=lambda sites, _need, _knobs: sites.jumbo_events,
    keep=np.less_equal,
    limit=lambda _sites, need, _knobs: float(np.max(need.atom.events)),
    say="jumbo jobs start with {observed:.0f} events, {limit:.0f} are ready",
    remedy="Nothing is wrong: the rest goes to other sites.",
    unit="events",
    when=lambda need, _knobs: need.request.jumbo and _several(need),
)
CHAIN_OUTSIDE = wanted(
    "full_chain_outside",
    lambda sites, need, _knobs: in_nucleus(sites, need),
    "the whole chain runs in the nucleus",
    "Drop fullChain of the task.",
    when=lambda need, _knobs: need.request.full_chain and bool(need.request.nucleus),
)
CHAIN_ONLY = wanted(
    "full_chain_only",
    lambda sites, _need, _knobs: ~sites.where("full_chain", "only"),
    "the site takes only full chains",
    "Choose another site, or correct catchall.bareNucleus of the site.",
    when=lambda need, _knobs: not need.request.full_chain and bool(need.request.nucleus),
)
SPECIAL = (
    NO_EVENT_SERVICE,
    EVENT_SERVICE_ONLY,
    JUMBO_ONLY,
    FEW_JUMBO_EVENTS,
    CHAIN_OUTSIDE,
    CHAIN_ONLY,
)
