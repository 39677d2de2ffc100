"""Login at an identity provider: OpenID Connect's code flow with PKCE, state and nonce.

The browser keeps the secrets of a flow in a cookie, so that any service of the system may finish
it (OpenID Connect Core 1.0, 3.1; RFC 7636; RFC 9207).
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import urlencode

import httpx2
from anyio import fail_after, to_thread
from starlette.requests import Request

from jedi.api.issuer import FETCH_S, Issuer, read_document
from jedi.core import clock
from jedi.core.errors import Forbidden, Unreachable
from jedi.core.knobs.service import OidcKnobs
from jedi.monitor.sessions import is_same, origin_of, safe_target
from jedi.service.users import oidc

CALLBACK = "/login/callback"
FLOW_S = 600
"""Seconds that a person has to log in."""


@dataclass(frozen=True, slots=True)
class LoginFlow:
    """A login on its way: its secrets, and the page to go on with."""

    state: str
    nonce: str
    verifier: str
    target: str

    def written(self) -> str:
        """The text of a cookie."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode().rstrip("=")


def read_flow(written: str) -> LoginFlow | None:
    """The flow of a cookie; None: there is none."""
    try:
        found = json.loads(base64.urlsafe_b64decode(written + "=" * (-len(written) % 4)))
        return LoginFlow(**{name: str(one) for name, one in found.items()})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


class CodeFlow:
    """The way to the provider and back."""

    def __init__(self, knobs: Callable[[], OidcKnobs], log: Any) -> None:
        self._knobs = knobs
        self._log = log
        self._issuer = Issuer("", log)

    async def is_on(self) -> bool:
        """True if people can log in so."""
        return oidc.login_facts(await to_thread.run_sync(self._knobs)).issuer is not None

    async def begin(self, request: Request, target: str) -> tuple[str, LoginFlow]:
        """The provider's page for a new login, and the flow to keep. Forbidden; Unreachable."""
        knobs, issuer = await self._now()
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        flow = LoginFlow(state, nonce, verifier, safe_target(target))
        digest = hashlib.sha256(flow.verifier.encode()).digest()
        asked = {
            "response_type": "code",
            "client_id": knobs.client_id,
            "scope": _scopes(knobs),
            "redirect_uri": origin_of(request) + CALLBACK,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge_method": "S256",
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            **_resource(knobs),
        }
        place = await issuer.endpoint("authorization_endpoint")
        return f"{place}{'&' if '?' in place else '?'}{urlencode(asked)}", flow

    async def finish(self, request: Request, flow: LoginFlow | None) -> str:
        """The access token of the person who comes back from the provider. Forbidden;
        Unreachable."""
        given = request.query_params
        if flow is None or not is_same(flow.state, given.get("state", "")):
            raise Forbidden("This login was not begun here, or too long ago.", code="bad_state")
        if given.get("error"):
            raise Forbidden(
                f"The identity provider refuses: {given['error'][:100]}.", code="access_denied"
            )
        knobs, issuer = await self._now()
        if given.get("iss", knobs.issuer) != knobs.issuer:
            raise Forbidden("Another identity provider answers.", code="bad_state")
        asked = {
            "grant_type": "authorization_code",
            "code": given.get("code", ""),
            "client_id": knobs.client_id,
            "code_verifier": flow.verifier,
            "redirect_uri": origin_of(request) + CALLBACK,
            **_resource(knobs),
        }
        found = await _post(await issuer.endpoint("token_endpoint"), asked)
        identity = await self._claims(issuer, found.get("id_token"), knobs.client_id)
        if not is_same(flow.nonce, str(identity.get("nonce", ""))):
            raise Forbidden("The provider's answer is to another login.", code="bad_state")
        token = str(found.get("access_token", ""))
        person = await self._claims(issuer, token, knobs.audience)
        if person["sub"] != identity["sub"]:
            raise Forbidden("The provider's tokens are of two people.", code="bad_token")
        return token

    async def _now(self) -> tuple[OidcKnobs, Issuer]:
        knobs = await to_thread.run_sync(self._knobs)
        if oidc.login_facts(knobs).issuer is None:
            raise Forbidden("The service has no identity provider.", code="no_provider")
        if self._issuer.url != knobs.issuer:
            self._issuer = Issuer(knobs.issuer, self._log)
        return knobs, self._issuer

    @staticmethod
    async def _claims(issuer: Issuer, token: object, audience: str) -> dict[str, Any]:
        written = token if isinstance(token, str) else ""
        key = await issuer.key(oidc.header_of(written))
        now_s = int(clock.now().timestamp())
        return oidc.claims_of(written, key, issuer.url, audience, now_s)


def _scopes(knobs: OidcKnobs) -> str:
    """The scopes of a login that needs no renewal."""
    words = [one for one in knobs.scopes.split() if one not in ("openid", "offline_access")]
    return " ".join(["openid", *words])


def _resource(knobs: OidcKnobs) -> dict[str, str]:
    """RFC 8707: an audience that is a URI."""
    return {"resource": knobs.audience} if "://" in knobs.audience else {}


async def _post(place: str, asked: dict[str, str]) -> dict[str, Any]:
    try:
        with fail_after(FETCH_S):
            async with (
                httpx2.AsyncClient(timeout=FETCH_S) as client,
                client.stream("POST", place, data=asked) as answer,
            ):
                found = await read_document(answer, place)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, RecursionError, TimeoutError) as error:
        raise Unreachable("The identity provider does not answer. Try again.") from error
    if answer.is_error or "access_token" not in found:
        said = str(found.get("error", answer.status_code))[:100]
        raise Forbidden(f"The identity provider refuses: {said}.", code="access_denied")
    return found
