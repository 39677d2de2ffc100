"""The envelope of PanDA's answers: success, message, data. Refusals have status 200, as its clients
take any other for a failure of the network."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from jedi.core.errors import Forbidden, JediError, NotFound, Refused


@dataclass(frozen=True, slots=True)
class PandaReply:
    """An answer before it is written."""

    data: Any = None
    message: str = ""
    success: bool = True

    def response(self, status: int = 200) -> Response:
        """The answer in HTTP."""
        body = {"success": self.success, "message": self.message, "data": self.data}
        text = json.dumps(body, ensure_ascii=False)
        return Response(text, status, media_type="application/json")


_CODES = {NotFound: 2, Forbidden: 3, Refused: 4}
"""PanDA's numbers of refusals; 1 is any other."""

_CODES_BY_NAME = {NotFound.code: 2, Forbidden.code: 3, "wrong_status": 4}


def refusal(error: JediError) -> PandaReply:
    """The answer to an error."""
    number = next((n for kind, n in _CODES.items() if isinstance(error, kind)), 1)
    return PandaReply(number, error.sentence, success=False)


def number_of(code: str | None) -> int:
    """PanDA's number of a refusal by its code."""
    return _CODES_BY_NAME.get(code or "", 4 if code else 1)


def stamp(text: str | None) -> dict[str, str] | None:
    """A time in JSON as PanDA writes it: UTC, marked as a time."""
    if text is None:
        return None
    found = datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None)
    return {"__datetime__": found.isoformat()}
