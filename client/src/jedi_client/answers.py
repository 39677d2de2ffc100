"""The errors that answers of a service, or of a proxy before it, stand for.

See docs/operate.md#a-proxy-without-a-service.
"""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Mapping

from jedi_client.errors import (
    BadInput,
    Forbidden,
    JediError,
    NoSpace,
    NotFound,
    NotReached,
    OutcomeUnknown,
    Problem,
    Refused,
    Unreachable,
    VersionTooOld,
)
from jedi_client.release import __version__

_KINDS: Mapping[int, type[JediError]] = {
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Refused,
    410: VersionTooOld,
    503: Unreachable,
    507: NoSpace,
}
_PROXYS = (502, 503, 504)
NO_ROUTE = ("http_404", "http_405")
"""A service does not have the operation; a thing that it does not have is `not_found`."""

NO_SERVICE = "no_service"
"""A proxy answers that it has lost the service, or has none."""

_PROXY_ERROR = re.compile(r';\s*error="?([a-z_]+)')
_UNSENT = {
    *("dns_timeout", "dns_error", "destination_not_found", "destination_unavailable"),
    *("destination_ip_prohibited", "destination_ip_unroutable"),
    *("connection_refused", "connection_timeout", "connection_limit_reached"),
}
"""Errors of a proxy that has not sent the request on (RFC 9209, section 2.3)."""


def error_of(response: http.client.HTTPResponse, body: bytes, url: str) -> JediError:
    """The error that an answer stands for."""
    status = response.status
    try:
        found = json.loads(body)
        code, sentence, facts = found["code"], found["sentence"], found["facts"]
    except (ValueError, KeyError, TypeError):
        if status in _PROXYS:
            failed = set(_PROXY_ERROR.findall(response.getheader("Proxy-Status", "")))
            unsent = bool(failed) and failed <= _UNSENT
            word = ": the request did not arrive" if unsent else ""
            return (NotReached if unsent else Unreachable)(
                f"The proxy at {url} reaches no service of JEDI (status {status}){word}. Ask its "
                "operators, or try again.",
                code=NO_SERVICE,
                status=status,
            )
        return Unreachable(
            f"{url} answers with status {status} and not as JEDI does: is it the right server?",
            code="not_jedi",
            status=status,
        )
    if problems := facts.get("problems"):
        return BadInput(
            [Problem(p["path"], p["value"], p["rule"], p.get("remedy", "")) for p in problems]
        )
    facts = {key: value for key, value in facts.items() if key not in ("code", "sentence")}
    kind = OutcomeUnknown if code == OutcomeUnknown.code else _KINDS.get(status, JediError)
    return kind(sentence, code=code, **facts)


def of_another_release(url: str, theirs: str, asked: str) -> NotFound:
    """The error for an operation that the service of release `theirs` does not have."""
    older = _parts(theirs) < _parts(__version__)
    which, remedy = ("older", "service") if older else ("newer", "client")
    return NotFound(
        f"JEDI at {url} is {which} ({theirs}) than this client ({__version__}), and has no "
        f"{asked}: upgrade the {remedy}, or take a client of its release.",
        code="other_release",
        service=theirs,
        client=__version__,
    )


def _parts(release: str) -> list[int]:
    """The numbers of a release."""
    return [int(part) for part in re.findall(r"\d+", release)]
