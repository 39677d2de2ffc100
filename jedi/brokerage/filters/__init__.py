"""A criterion of a broker, as data: what is observed at each site, how it compares, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jedi.brokerage.need import Need
from jedi.spec.snapshot import Bools, Numbers, Snapshot

Column = Callable[[Snapshot, Need, Mapping[str, Any]], Numbers | float]
Compare = Callable[[Numbers, Numbers], Bools]


@dataclass(frozen=True, slots=True)
class Filter:
    """Sites pass where `keep(observed, limit)`. `say` tells why a site does not, with {observed}
    and {limit}; a lasting reason needs a person to change something, others pass with time."""

    code: str
    observed: Column
    keep: Compare
    limit: Column
    say: str
    lasting: bool = True
