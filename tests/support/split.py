"""Builders that several tests share with tests of split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.jobgenerator.plan import Cut, plan
from jedi.jobgenerator.strategies import FileStrategy
from jedi.model.datasets.chunk import Chunk, Files, Secondary
from jedi.model.jobs.demand import Demand
from jedi.model.sites.snapshot import Snapshot
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.tasks.rows import ClaimedTask


def demand(max_walltime_h: float | None = None, **columns: Any) -> Demand:
    """Of a task that says only this."""
    task = ClaimedTask(**{**dict.fromkeys(ClaimedTask._fields), **columns})
    return Demand.of(task, max_walltime_h)


def files(
    n: int,
    sizes: Sequence[int] = (),
    events: Sequence[int] = (),
    previous: Sequence[int] = (),
    boundaries: Sequence[int] = (),
    lumi_blocks: Sequence[int] = (),
) -> Files:
    """n files f0, f1, …"""
    numbers = np.arange(n, dtype=np.int64)
    nothing = np.zeros(n, np.int64)
    return Files(
        file_ids=numbers + 1,
        dataset_ids=nothing + 7,
        lfns=[f"f{i}" for i in range(n)],
        sizes=np.array(sizes, np.int64) if len(sizes) else nothing,
        events=np.array(events, np.int64) if len(events) else nothing,
        start_events=nothing,
        events_left=nothing,
        first_events=nothing,
        attempts=nothing,
        previous=np.array(previous, np.int64) if len(previous) else nothing,
        boundaries=np.array(boundaries, np.int64) if len(boundaries) else nothing,
        lumi_blocks=np.array(lumi_blocks, np.int64) if len(lumi_blocks) else nothing,
        ram_counts=nothing,
    )


def chunk(master: Files, *secondaries: Secondary, more: bool = False) -> Chunk:
    return Chunk("IN", master, secondaries, more)


def sites(*names: str, **columns: Sequence[Any]) -> Snapshot:
    """Online single-core sites with storage and pilots and no jobs, limits given apart."""
    n = len(names)
    plain: dict[str, list[Any]] = {
        "sites": list(names),
        "status": ["online"] * n,
        "role": ["nucleus"] * n,
        "state": ["ACTIVE"] * n,
        "endpoint": [f"{s}_DISK" for s in names],
        "endpoints": [[f"{s}_DISK"] for s in names],
        "cores": [1] * n,
        "core_power": [10] * n,
        "max_time_s": [None] * n,
        "min_time_s": [0] * n,
        "max_rss_mb": [None] * n,
        "min_rss_mb": [0] * n,
        "max_wdir_mb": [None] * n,
        "usable_gb": [1000] * n,
        "pilot_age_s": [0] * n,
        "running": [0] * n,
        "activated": [0] * n,
        "defined": [0] * n,
    }
    return Snapshot.of({**plain, **{k: list(v) for k, v in columns.items()}}, {})


def choice(world: Snapshot, need: Requirements, seed: int = 1, **knobs: Any) -> SiteChoice:
    return GenericBroker().choose(world, need, Knobs(knobs), (), seed)


def cut(
    chunks: Sequence[Chunk],
    rules: SplitRules,
    asked: Demand | None = None,
    world: Snapshot | None = None,
    most: int = 10**9,
    **knobs: Any,
) -> list[Cut]:
    """Plan jobs as the generator does."""
    asked = asked or demand()
    strategy = FileStrategy()
    need = Requirements(asked, strategy.atom(rules, asked, chunks))
    found = choice(world or sites("S"), need, **knobs)
    return plan(chunks, found, strategy, rules, asked, Knobs(knobs), most)[0]


def spans(cuts: Sequence[Cut]) -> list[tuple[int, int]]:
    return [span for c in cuts for span in zip(c.starts.tolist(), c.stops.tolist(), strict=True)]


columns = st.integers(1, 3).flatmap(
    lambda k: st.lists(st.tuples(*[st.integers(0, 50)] * k), min_size=1, max_size=60).flatmap(
        lambda rows: st.tuples(st.just(rows), st.tuples(*[st.integers(0, 100)] * k))
    )
)


def follow(cuts: Sequence[Cut], number: int = 0) -> list[tuple[int, int]]:
    return [
        span
        for c in cuts
        for span in zip(c.follow[number][0].tolist(), c.follow[number][1].tolist(), strict=True)
    ]
