"""Plug-ins that choose the nucleus of a task, and the simplest of them: the active one with the
most space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from jedi.brokerage.choice import SiteChoice, nothing
from jedi.brokerage.filters import Filter, wanted
from jedi.brokerage.filters.disk import ENDPOINT
from jedi.brokerage.lottery import candidates
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import judge
from jedi.core.knobs import Knobs
from jedi.model.sites.snapshot import Snapshot

Choose = Callable[[Snapshot, Requirements, Knobs, int], SiteChoice]


@dataclass(frozen=True, slots=True)
class NucleusBroker:
    """`wants_data`: where the input lies is looked up before, and the work that is left; `why`: the
    cause of the choice in a few words; a task that found none is tried again after the time of
    `retry_knob`, or of `soon_knob` where what is in the way may pass by itself."""

    choose: Choose
    wants_data: bool
    why: str
    retry_knob: str
    soon_knob: str


ACTIVE = wanted(
    "nucleus_inactive",
    lambda sites, _need, _knobs: sites.where("state", "ACTIVE"),
    "the nucleus is not ACTIVE",
    "Set its state to ACTIVE.",
    lasting=False,
)
SPACE = Filter(
    code="little_space",
    observed=lambda sites, _need, _knobs: sites.usable_gb,
    keep=np.greater_equal,
    limit=lambda _sites, _need, knobs: knobs.taskbroker.min_free_gb,
    say="{observed:.0f} GB usable, {limit:.0f} GB must be",
    remedy="Make room at its endpoint, or lower taskbroker.min_free_gb.",
    unit="GB",
    lasting=False,
)
FILTERS = (ACTIVE, ENDPOINT, SPACE)


def nuclei(snapshot: Snapshot, need: Requirements) -> Snapshot:
    """The site that the submitter named, or any nucleus."""
    if need.sites:
        return snapshot.only(need.sites)
    names = zip(snapshot.sites, snapshot.role, strict=True)
    return snapshot.only([site for site, role in names if role == "nucleus"])


def most_space(snapshot: Snapshot, need: Requirements, knobs: Knobs, seed: int) -> SiteChoice:
    """At most one candidate: no lottery here."""
    sites = nuclei(snapshot, need)
    verdict = judge(FILTERS, sites, need, knobs)
    worth = sites.usable_gb
    found = candidates(sites.sites, verdict.passed, worth, (), 1)
    return SiteChoice.of(verdict, found, sites, {"space": worth}, worth, nothing(sites), seed)


MOST_SPACE = NucleusBroker(
    most_space,
    wants_data=False,
    why="has the most free space",
    retry_knob="jobgen.retry_s",
    soon_knob="jobgen.retry_s",
)
