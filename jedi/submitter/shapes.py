"""The slots that a site gives to pilots: whole ones or, where it is unified over resource types,
parts of them. Source: docs/reference/estimates.md#resource-types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any

from jedi.model.scheduling.resource_types import MARGIN, ResourceType
from jedi.model.sites.site_file import UNIFIED


@dataclass(frozen=True, slots=True)
class Shape:
    """The resources that a pilot offers (0 MB: no limit), and the least that a job must need to get
    it, lest a job of one core keep the others busy. `name` is the resource type; empty: a whole
    slot."""

    name: str
    cores: int
    memory_mb: int
    disk_mb: int
    min_cores: int = 0
    min_memory_mb: int = 0


def shapes(site: Any, types: Iterable[ResourceType], factor: float) -> list[Shape]:
    """The shapes of a site (a row of `pilots.serve`). `factor` is the part of the memory asked
    that jobs insist on (knob broker.memory_factor)."""
    whole = Shape("", max(site.core_count, 1), site.max_rss, site.max_wdir)
    if site.capability != UNIFIED:
        return [whole]
    parts = [_part(whole, one, (factor or 1.0) / MARGIN) for one in types]
    return [part for part in parts if part]


def _part(whole: Shape, kind: ResourceType, scale: float) -> Shape | None:
    """The part of a slot for jobs of a type; None if none can be there. The bounds of types count
    MARGIN of the memory, bounds of jobs another part: `scale` converts between the two."""
    cores = max(min(whole.cores, kind.max_core or whole.cores), kind.min_core or 1)
    memory_mb = whole.memory_mb * cores // whole.cores
    least = _mb(kind.min_ram_per_core, cores * scale)
    most = _mb(kind.max_ram_per_core, cores * scale)
    if cores > whole.cores or 0 < memory_mb <= least:
        return None
    return Shape(
        name=kind.name,
        cores=cores,
        memory_mb=min(filter(None, (memory_mb, most)), default=0),
        disk_mb=whole.disk_mb * cores // whole.cores,
        min_cores=kind.min_core or 0,
        min_memory_mb=least and least + 1,
    )


def _mb(per_core: int | None, scale: float) -> int:
    return ceil((per_core or 0) * scale)
