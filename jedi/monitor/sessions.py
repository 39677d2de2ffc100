"""Sessions of browsers: a cookie holds the token that other callers send as a header.

A cookie travels with requests that another site's page makes. Hence each change carries a sign that
only our own pages know, and comes from our own origin.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from jedi.api.connections import UNIX
from jedi.api.operations import OperationDoor
from jedi.core.errors import Forbidden
from jedi.service.operations.table import KnownCaller

COOKIE = "jedi_session"
"""Beginning of the cookie's name; its port follows, since browsers send a host's cookies to all its
ports, and a machine may have several services."""

FLOW_COOKIE = "jedi_login"
_AUTHORIZATION = "authorization"
_TARGET = re.compile(r"/(?![/\\])[^\\\x00-\x20]*")
"""A path of this host; browsers read // and \\ as the beginning of another one, and skip control
characters."""


class LoginNeeded(Exception):
    """The browser has no session, or one that is not valid any more."""


@dataclass(frozen=True, slots=True)
class Visitor:
    """A caller in front of a page. `sign`: the sign of changes that pages of his session make;
    empty: no cookie vouches for him."""

    caller: KnownCaller
    sign: str


async def visitor_of(request: Request, door: OperationDoor) -> Visitor:
    """The visitor behind a request: by its header, by the cookie, or by the peer's account.
    LoginNeeded; TooManyCalls."""
    token = token_of(request)
    if _AUTHORIZATION in request.headers or not token:
        if _AUTHORIZATION not in request.headers and not _is_local(request):
            raise LoginNeeded
        return Visitor(await door.let_in(request), "")
    bearer = (_AUTHORIZATION.encode(), f"Bearer {token}".encode("latin-1", "replace"))
    scope = {**request.scope, "headers": [*request.scope["headers"], bearer]}
    try:
        return Visitor(await door.let_in(Request(scope, request.receive)), sign_of(token))
    except Forbidden as error:
        raise LoginNeeded from error


def cookie_name(request: Request, beginning: str = COOKIE) -> str:
    """The name of a cookie for the host and port of a request."""
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"{beginning}_{port}" if port.isascii() and port.isdecimal() else beginning


def token_of(request: Request) -> str:
    """The token of a browser's session; empty: it has none."""
    return request.cookies.get(cookie_name(request), "")


def origin_of(request: Request) -> str:
    """The origin of the pages, as the browser sees it."""
    scheme = "https" if _is_secure(request) else "http"
    return f"{scheme}://{request.headers.get('host', '')}"


def _is_secure(request: Request) -> bool:
    """True if TLS protects the way from the browser, as far as to a proxy."""
    return "https" in (request.url.scheme, request.headers.get("x-forwarded-proto"))


def _is_local(request: Request) -> bool:
    return request.client is not None and request.client.host == UNIX


def sign_of(token: str) -> str:
    """The sign of changes from pages of the session with this token."""
    return hmac.new(token.encode(), b"jedi change", hashlib.sha256).hexdigest()[:32]


def is_same(known: str, given: str) -> bool:
    """True if a stranger's text, of any characters, is the known one. The time that it takes gives
    nothing away."""
    return hmac.compare_digest(*(one.encode("utf-8", "surrogatepass") for one in (known, given)))


def must_be_ours(request: Request, visitor: Visitor, sign: str) -> None:
    """Forbidden: a page of another site may have made this change."""
    if not visitor.sign:
        return
    if not is_same_origin(request) or not is_same(visitor.sign, sign):
        raise Forbidden(
            "This form is not of your present session. Read the page again, and repeat the change.",
            code="foreign_form",
        )


def is_same_origin(request: Request) -> bool:
    """True if a page of this service made the request, as far as the browser says."""
    origin = request.headers.get("origin")
    return origin is None or origin.partition("://")[2] == request.headers.get("host")


def begin(
    response: Response, request: Request, token: str, seconds: float, name: str = COOKIE
) -> None:
    """Make a browser keep a session. Scripts can't read it; TLS alone carries it where there is
    TLS."""
    response.set_cookie(
        cookie_name(request, name),
        token,
        int(seconds),
        path="/",
        httponly=True,
        samesite="lax",
        secure=_is_secure(request),
    )


def end(response: Response, request: Request, name: str = COOKIE) -> None:
    """Make a browser forget its session."""
    response.delete_cookie(
        cookie_name(request, name),
        path="/",
        httponly=True,
        samesite="lax",
        secure=_is_secure(request),
    )


def safe_target(given: str | None) -> str:
    """The page to go on with: one of ours, or the first."""
    return given if given and _TARGET.fullmatch(given) else "/"
