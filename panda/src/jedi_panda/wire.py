"""The seam: the service calls `add` (entry point `jedi.wires`)."""

from __future__ import annotations

from jedi.api.wires import Service
from jedi_panda.api.client_routes import add_client_routes
from jedi_panda.api.pilot_routes import add_pilot_routes


def add(service: Service) -> None:
    """Add the routes of PanDA's pilots, then those of its clients, whose cache has all other
    names."""
    add_pilot_routes(
        service.app, service.world, service.pilots, service.fresh, service.ddm, service.groups
    )
    add_client_routes(service.app, service.operations, service.provider)
