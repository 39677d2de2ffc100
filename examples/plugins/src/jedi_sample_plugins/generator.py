"""From the input of a task to jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jedi.jobgenerator.strategies import Caps, FileStrategy
from jedi.model.datasets.chunk import Chunk
from jedi.model.jobs.demand import Demand
from jedi.model.sites.snapshot import Snapshot
from jedi.model.splitting.split_rules import SplitRules


class Pairs(FileStrategy):
    """A job has two input files at most, even if it has room for more."""

    def caps(
        self,
        rules: SplitRules,
        demand: Demand,
        chunk: Chunk,
        sites: Snapshot,
        site: int,
        knobs: Mapping[str, Any],
    ) -> Caps:
        usual = super().caps(rules, demand, chunk, sites, site, knobs)
        return {**usual, "masters": min(2, usual.get("masters", 2))}
