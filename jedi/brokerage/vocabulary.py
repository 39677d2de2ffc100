"""Every criterion that a broker of ours has, by its code."""

from __future__ import annotations

from collections.abc import Mapping

from jedi.brokerage import nucleus, nucleus_filters
from jedi.brokerage.analysis import AnalysisBroker
from jedi.brokerage.filters import Filter
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.production import ProductionBroker

FILTERS: Mapping[str, Filter] = {
    one.code: one
    for one in (
        *nucleus.FILTERS,
        *nucleus_filters.FILTERS,
        *AnalysisBroker.filters,
        *ProductionBroker.filters,
        *GenericBroker.filters,
    )
}
"""The filters by code. If brokers word one differently, the generic broker's words count."""
