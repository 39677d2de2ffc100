"""Wires of other systems: routes that other distributions add to the service.

Such a distribution declares a function `add(service: Service)` as an entry point of `jedi.wires`.
The doors of operations and of pilots hold callers of its routes to the same rules.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jedi.agent.base import World
from jedi.api.application import Application
from jedi.api.authentication import PilotAuthentication
from jedi.api.memory.pilot_groups import PilotGroups
from jedi.api.operations import OperationDoor
from jedi.core.extensions import extensions
from jedi.core.knobs.service import OidcKnobs
from jedi.ddm.interface import DDM


@dataclass(frozen=True, slots=True)
class Service:
    """The parts of the service that a wire needs. `world` has the connections of pilots; `fresh`
    is the same with knobs of now, `ddm` data management as it is now."""

    app: Application
    operations: OperationDoor
    provider: Callable[[], OidcKnobs]
    world: World
    pilots: PilotAuthentication
    groups: PilotGroups
    fresh: Callable[[], World]
    ddm: Callable[[], DDM]


def add_wires(service: Service) -> None:
    """Add the routes of all installed wires; the log names a part that can't be used."""
    for part in (*extensions("jedi.operations"), *extensions("jedi.wires")):
        if part.trouble:
            service.world.log.error("wire unusable", wire=part.name, reason=part.trouble)
    for wire in extensions("jedi.wires"):
        if not wire.trouble:
            wire.part(service)
