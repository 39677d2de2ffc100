"""The broker of analysis jobs: they go to their data, which move only where that fails.
Source: JEDI document, "Input data transfer"; docs/reference/brokerage.md#analysis."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from jedi.brokerage import load, weights
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.filters import Filter
from jedi.brokerage.filters.cores import ABOVE_MAX_CORES, FEW_CORES, MANY_CORES
from jedi.brokerage.filters.disk import DIRECT_INPUT, ENDPOINT, STORAGE, WORK_SPACE
from jedi.brokerage.filters.eligibility import (
    EXCLUDED,
    HOSPITAL,
    NOT_FOR_ANALYSIS,
    NOT_INCLUDED,
    OTHER_CLOUD,
    PROCESSING,
)
from jedi.brokerage.filters.input import DISK_IO, IO_INTENSITY, LOCAL_ONLY, NO_DATA, data_sites
from jedi.brokerage.filters.memory import LITTLE_MEMORY, MUCH_MEMORY
from jedi.brokerage.filters.merging import MERGES
from jedi.brokerage.filters.pilots import PILOTS_EXPECTED
from jedi.brokerage.filters.policy import ZERO_SHARE
from jedi.brokerage.filters.queues import ANALYSIS_CAP, OVERLOADED
from jedi.brokerage.filters.recent_failures import CLOSED, FAILURES
from jedi.brokerage.filters.software import GPU_ONLY, NO_GPU, PLATFORM, RELEASE
from jedi.brokerage.filters.status import STANDBY, STATUS
from jedi.brokerage.filters.storage_status import STORAGE_STATUS
from jedi.brokerage.filters.task_sites import MANY_SITES
from jedi.brokerage.filters.walltime import LITTLE_TIME, MUCH_TIME, SHORT_SLOTS
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.lottery import candidates
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import FilterResults, judge
from jedi.core.knobs import Knobs
from jedi.model.sites.snapshot import Snapshot


class AnalysisBroker(GenericBroker):
    """All criteria for all sites, dataset by dataset: jobs of a container go where each of its
    datasets lies (JEDI document, "Workflow for analysis"). Where no site that has the data passes,
    the data may move: if jobs of the task were closed at all of them lately, or always, as a knob
    says."""

    name: ClassVar[str] = "analysis"
    filters: ClassVar[tuple[Filter, ...]] = (
        NO_DATA,
        NOT_FOR_ANALYSIS,
        *STATUS,
        STANDBY,
        ZERO_SHARE,
        PROCESSING,
        DISK_IO,
        IO_INTENSITY,
        FEW_CORES,
        MANY_CORES,
        ABOVE_MAX_CORES,
        NO_GPU,
        GPU_ONLY,
        CLOSED,
        RELEASE,
        PLATFORM,
        LITTLE_MEMORY,
        MUCH_MEMORY,
        DIRECT_INPUT,
        WORK_SPACE,
        ENDPOINT,
        STORAGE,
        *STORAGE_STATUS,
        LITTLE_TIME,
        MUCH_TIME,
        SHORT_SLOTS,
        PILOTS_EXPECTED,
        OTHER_CLOUD,
        NOT_INCLUDED,
        EXCLUDED,
        HOSPITAL,
        LOCAL_ONLY,
        ANALYSIS_CAP,
        OVERLOADED,
        FAILURES,
        MANY_SITES,
        *MERGES,
    )
    wants_data: ClassVar[bool] = True
    wants_past: ClassVar[bool] = True
    by_dataset: ClassVar[bool] = True

    def choose(
        self,
        snapshot: Snapshot,
        need: Requirements,
        knobs: Knobs,
        used: Collection[str],
        seed: int,
    ) -> SiteChoice:
        """The sites for a task: first where it has jobs, then where it had some, then by weight.
        The limit on sites holds for the task: sites with its jobs count, for whichever dataset."""
        sites = snapshot.only(need.sites) if need.sites else snapshot
        verdict = judge(self.filters, sites, need, knobs)
        passed = verdict.passed
        moving = not passed.any() and _may_move(sites, need, knobs, verdict)
        if moving:
            passed = verdict.passed_but((NO_DATA,))
        factors = weights.analysis(sites, need, knobs, moving)
        worth = weights.product(factors)
        taken = need.past.live if MANY_SITES.when(need, knobs) else ()
        most = knobs.analysis.max_sites
        ranked = candidates(sites.sites, passed, worth, used, most, taken)
        queued = load.activated(sites, need) + load.starting(sites, need)
        return SiteChoice.of(verdict, ranked, sites, factors, worth, queued, seed)


def _may_move(sites: Snapshot, need: Requirements, knobs: Knobs, verdict: FilterResults) -> bool:
    """Some site can send the data, and no site that holds them gave a slot lately."""
    if not need.data.wan_source:
        return False
    there = data_sites(sites, need)
    if knobs.analysis.transfer_input == "always" or not there.any():
        return True
    return not verdict.kept_by(CLOSED)[there].any()
