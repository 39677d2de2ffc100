"""From a choice to what is kept of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from jedi.brokerage.generic import Choice
from jedi.brokerage.need import Need
from jedi.brokerage.verdict import Verdict
from jedi.spec.decision import Decision, Refusal
from jedi.spec.snapshot import Snapshot

COMPONENTS = ("broker.", "taskbroker.", "jobgen.batch_jobs")
"""Where the knobs that decide begin."""


def lottery_seed(jedi_task_id: int, lock_seq: int) -> int:
    """Another seed for every claim of every task, the same when it is replayed."""
    return (jedi_task_id * 1_000_003 + lock_seq) % 2**63


def record(
    jedi_task_id: int,
    broker: str,
    world: Snapshot,
    need: Need,
    knobs: Mapping[str, Any],
    choice: Choice,
) -> Decision:
    """The decision that a choice was."""
    return Decision(
        jeditaskid=jedi_task_id,
        broker=broker,
        snapshot_hash=world.hash,
        seed=choice.seed,
        knobs={name: value for name, value in knobs.items() if name.startswith(COMPONENTS)},
        need=asdict(need),
        chosen=[choice.sites.sites[i] for i in choice.candidates],
        weights=choice.weights,
        refusals=[
            _refusal(choice.verdict, site)
            for site, passed in enumerate(choice.verdict.passed.tolist())
            if not passed
        ],
    )


def _refusal(verdict: Verdict, site: int) -> Refusal:
    reasons = verdict.reasons(site)
    return Refusal(
        site=verdict.sites[site],
        codes=[verdict.filters[i].code for i in reasons],
        observed=[_finite(verdict.observed[i, site]) for i in reasons],
        limits=[_finite(verdict.limits[i, site]) for i in reasons],
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
