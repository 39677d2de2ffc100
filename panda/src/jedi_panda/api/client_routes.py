"""All routes for PanDA's clients."""

from __future__ import annotations

from collections.abc import Callable

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jedi.api.application import Application
from jedi.api.operations import OperationDoor
from jedi.core.knobs.service import OidcKnobs
from jedi.service.users import oidc
from jedi_panda.api import other_calls, task_calls  # noqa: F401 - they fill the list of calls
from jedi_panda.api.calls import CALLS, add_calls
from jedi_panda.api.file_cache import add_file_cache

__all__ = ["CALLS", "add_client_routes"]
NO_WORKFLOWS = "JEDI has no iDDS: submit tasks that name their parents with parentTaskName."
_OLD = (
    "execute_idds_workflow_command",
    "put_workflow_request",
    "relay_idds_command",
    "putEventPickingRequest",
)
"""Calls of older servers that JEDI refuses."""


def add_client_routes(
    app: Application, door: OperationDoor, provider: Callable[[], OidcKnobs]
) -> None:
    """Add the routes for PanDA's clients."""
    add_calls(app, door)
    add_file_cache(app, door)
    for name in _OLD:
        app.route("POST", f"/server/panda/{name}", f"panda {name}")(_no_workflows)

    @app.route("GET", "/auth/{file_name}", "panda login")
    async def login(request: Request) -> Response:
        """The provider as PanDA's clients look for it: VO_auth_config.json."""
        facts = oidc.login_facts(await to_thread.run_sync(provider))
        vo = request.path_params["file_name"].removesuffix("_auth_config.json")
        issuer = (facts.issuer or "").rstrip("/")
        return JSONResponse(
            {
                "oidc_config_url": f"{issuer}/.well-known/openid-configuration",
                "client_id": facts.client_id,
                "client_secret": "",
                "audience": facts.audience,
                "vo": vo,
            }
        )


async def _no_workflows(_request: Request) -> Response:
    """The clients read `[succeeded, ..., sentence]` here, not an envelope."""
    return JSONResponse([False, NO_WORKFLOWS])
