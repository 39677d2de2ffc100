"""The way of the outputs from a site to the nucleus. Source: docs/reference/brokerage.md#links."""

from __future__ import annotations

from typing import Any

import numpy as np

from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.filters.locality import in_nucleus
from jedi.brokerage.network import closeness, link_weight, queued
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.arrays import Bools, Numbers
from jedi.model.sites.snapshot import Snapshot


def _has_nucleus(need: Requirements, _knobs: Knobs) -> bool:
    return bool(need.request.nucleus)


def _at_nucleus(column: str, otherwise: float, sites: Snapshot, need: Requirements) -> float:
    """A figure of the nucleus itself; links of one that is not in the snapshot are not judged."""
    at = sites.position(need.request.nucleus)
    return otherwise if at is None else float(getattr(sites, column)[at])


def _elsewhere(sites: Snapshot, need: Requirements, figure: Any, at_home: float) -> Numbers:
    return np.where(in_nucleus(sites, need), at_home, figure)


def _open(sites: Snapshot, need: Requirements, _knobs: Knobs) -> Bools:
    return in_nucleus(sites, need) | (_at_nucleus("takes_wan", 1.0, sites, need) > 0)


LINK_OFF = wanted(
    "link_off",
    _open,
    "the nucleus' endpoint takes no files from other sites",
    "Set write_wan of the nucleus' endpoint ON, or reassign the task.",
    lasting=False,
    when=_has_nucleus,
)
LINK_CLOSED = wanted(
    "link_closed",
    lambda sites, need, _knobs: _elsewhere(sites, need, closeness(sites, need), 0.0) >= 0,
    "the link to the nucleus is closed (closeness -1)",
    "Correct closeness in the network matrix, or reassign the task.",
    when=_has_nucleus,
)
LINK_BUSY = Filter(
    code="link_busy",
    observed=lambda sites, need, knobs: _elsewhere(
        sites, need, queued(sites, need, need.express(knobs)), 0.0
    ),
    keep=np.less_equal,
    limit=lambda _sites, _need, knobs: float(knobs.broker.link_cap),
    say="{observed:.0f} files wait on the link to the nucleus, the limit is {limit:.0f}",
    remedy="Wait for the transfers, or raise broker.link_cap.",
    unit="files",
    lasting=False,
    when=_has_nucleus,
)
NUCLEUS_BUSY = Filter(
    code="nucleus_busy",
    observed=lambda sites, need, _knobs: _elsewhere(
        sites, need, _at_nucleus("queued_in", 0.0, sites, need), 0.0
    ),
    keep=np.less,
    limit=lambda _sites, _need, knobs: float(knobs.broker.nucleus_cap),
    say="{observed:.0f} files are on their way to the nucleus, fewer than {limit:.0f} may be",
    remedy="Wait for the transfers, or raise broker.nucleus_cap.",
    unit="files",
    lasting=False,
    when=lambda need, knobs: _has_nucleus(need, knobs) and knobs.broker.nucleus_cap > 0,
)
SLOW_LINK = Filter(
    code="slow_link",
    observed=link_weight,
    keep=np.greater_equal,
    limit=lambda _sites, _need, knobs: (
        knobs.network.express_threshold * knobs.network.express_multiplier
    ),
    say="network weight {observed:.2f}, urgent jobs need {limit:.2f}",
    remedy="Lower the priority, or change network.express_threshold.",
    lasting=False,
    when=lambda need, knobs: (
        bool(need.request.nucleus) and knobs.network.active > 0 and need.express(knobs)
    ),
)
