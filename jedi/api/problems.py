"""The one form of errors on the wire: RFC 9457 with our own fields."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from jedi.core.errors import JediError

PROBLEM = "application/problem+json"


def problem(status: int, error: JediError) -> dict[str, Any]:
    """An error as a JSON object."""
    return {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": error.sentence,
        "code": error.code,
        "sentence": error.sentence,
        "facts": error.facts,
    }


NO_HTTP = json.dumps(
    problem(
        400,
        JediError(
            "The request is no HTTP/1.1, or has more than 64 KB before its body. Ask for less at "
            "once.",
            code="no_http",
        ),
    )
).encode()
"""The answer to bytes that are no request."""
