"""The sites of a task's jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.requirements import Requirements
from jedi.model.arrays import Numbers
from jedi.model.sites.snapshot import Snapshot


class Fastest(GenericBroker):
    """The filters of the generic broker; among the sites that pass, fast cores weigh more."""

    name: ClassVar[str] = "fastest"

    def factors(
        self, sites: Snapshot, need: Requirements, knobs: Mapping[str, Any]
    ) -> dict[str, Numbers]:
        return {**super().factors(sites, need, knobs), "core_power": sites.core_power}
