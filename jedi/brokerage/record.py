"""From a choice to its record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import FilterResults
from jedi.core.knobs import Knobs
from jedi.model.sites.decision import Decision, Refusal
from jedi.model.sites.snapshot import Snapshot

COMPONENTS = (
    "broker.",
    "taskbroker.",
    "analysis.",
    "network.",
    "core.work_shortage",
    "jobgen.batch_",
)
"""Beginnings of the names of knobs that decide."""


def lottery_seed(jedi_task_id: int, lock_seq: int) -> int:
    """Another seed for every claim of every task, the same when it is replayed."""
    return (jedi_task_id * 1_000_003 + lock_seq) % 2**63


def record(
    jedi_task_id: int,
    broker: str,
    snapshot: Snapshot,
    need: Requirements,
    knobs: Knobs,
    choice: SiteChoice,
    used: Sequence[str] = (),
) -> Decision:
    """The decision that a choice was. `used` are the sites that the task had jobs at."""
    return Decision(
        jedi_task_id=jedi_task_id,
        broker=broker,
        snapshot_hash=snapshot.hash,
        seed=choice.seed,
        knobs={name: value for name, value in knobs.items() if name.startswith(COMPONENTS)},
        need=asdict(need),
        chosen=[choice.sites.sites[i] for i in choice.candidates],
        weights=choice.weights,
        refusals=refusals(choice.verdict),
        used=used,
    )


def refusals(verdict: FilterResults) -> list[Refusal]:
    """Every site that is refused, with every reason."""
    sites, filters = np.nonzero(~verdict.kept.T)
    codes = [verdict.filters[i].code for i in filters.tolist()]
    observed, limits = (
        np.where(np.isfinite(figures), figures, np.nan).tolist()
        for figures in (verdict.observed[filters, sites], verdict.limits[filters, sites])
    )
    refused, first = np.unique(sites, return_index=True)
    last = [*first[1:].tolist(), len(sites)]
    return [
        Refusal(verdict.sites[site], codes[a:b], _finite(observed[a:b]), _finite(limits[a:b]))
        for site, a, b in zip(refused.tolist(), first.tolist(), last, strict=False)
    ]


def _finite(figures: list[float]) -> list[float | None]:
    return [None if math.isnan(figure) else figure for figure in figures]
