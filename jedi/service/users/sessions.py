"""Sessions of browsers, which begin with a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlencode

from pydantic import Field
from sqlalchemy import Connection

from jedi.core.errors import Forbidden, Refused
from jedi.service.operations.table import SCOPES, SELF, Call, KnownCaller, Scope, operation
from jedi.taskbuffer.users import access

LINK_S = 60.0
"""Seconds in which a link begins a session."""


@dataclass(frozen=True, slots=True)
class SessionLink:
    """A link that begins a session of a browser, once."""

    url: str
    seconds: float


@operation("session.link", "POST", "/v1/session-links", SELF, scope="read", secret=True)
def make_link(
    call: Call, target: Annotated[str, Field(max_length=10_000, pattern=r"^/[^\x00]*$")] = "/"
) -> SessionLink:
    """Make a link that logs a browser in as the caller: within 60 s, once. `target`: its page.

    The session has no more rights than its maker has now.
    """
    call.subject = f"user {call.who}"
    address = call.home.page_url
    if address is None:
        raise Refused(
            "The service has no address for browsers: unset the knob api.page, and start it again.",
            code="no_pages",
        )
    code = access.put_link(call.tx, call.who, call.caller.scope, LINK_S)
    return SessionLink(f"{address}/login/link?{urlencode({'code': code, 'next': target})}", LINK_S)


def take_link(tx: Connection, code: str) -> KnownCaller:
    """The user who made a link, which is used up thereby. Forbidden."""
    found = access.take_link(tx, code)
    if found is None:
        raise Forbidden(
            "The link is used, expired or unknown: run `jedi open` again.", code="bad_link"
        )
    scope: Scope = next((one for one in SCOPES if one == found.scope), "read")
    return KnownCaller(found.user_name, "link", scope)
