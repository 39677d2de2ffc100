"""The shape of a task's jobs, by cores and memory per core.
Source: docs/reference/estimates.md#resource-types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

UNDEFINED = "Undefined"
ANY_CORES = 8  # a task that runs on any number of cores counts as one of these
MARGIN = 0.9  # keeps borderline jobs out of high-memory shapes


@dataclass(frozen=True, slots=True)
class ResourceType:
    """A row of jedi_resource_types; None: unbounded. Memory per core in MB: more than the least, at
    most the most."""

    name: str
    min_core: int | None
    max_core: int | None
    min_ram_per_core: int | None
    max_ram_per_core: int | None


def resource_type(
    types: Sequence[ResourceType],
    core_count: int,
    ram_count: int | None,
    ram_unit: str,
    base_ram_count: int | None,
) -> str:
    """The first shape that fits; memory in MB, by core where the unit says so."""
    cores = core_count or ANY_CORES
    ram, base = ram_count or 0, base_ram_count or 0
    total = ram * cores + base if ram_unit.startswith("MBPerCore") else ram + base
    per_core = MARGIN * total / cores
    for shape in types:
        if (
            (shape.min_core is None or cores >= shape.min_core)
            and (shape.max_core is None or cores <= shape.max_core)
            and (shape.min_ram_per_core is None or per_core > shape.min_ram_per_core)
            and (shape.max_ram_per_core is None or per_core <= shape.max_ram_per_core)
        ):
            return shape.name
    return UNDEFINED
