"""Bodies of the calls of PanDA's pilots: JSON, gzip without a header, or forms; and their answers.

Pilots say little about the form of a body: the newest sends gzip as plain JSON. So the bytes
decide. Values of forms are texts: `pilot_fields` reads both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn
from urllib.parse import parse_qsl, urlencode

from starlette.requests import Request
from starlette.responses import Response

from jedi.api.bodies import SMALL
from jedi.core.errors import BadInput, Problem
from jedi.core.nesting import is_deeper
from jedi_panda.api.gzip_bodies import unpacked

CallFields = dict[str, Any]
"""The fields of a call, or of an answer, by their names on the wire."""

BODY_MAX = 8 * 2**20
"""Maximum bytes of a body, unpacked: the last report of a job with 10,000 outputs has 3 MB."""

_FIELDS_MAX = 1_000
_DEPTH_MAX = 20
_SHOWN = 80
_URLENCODED = "application/x-www-form-urlencoded"
_REMEDY = "Send an object in JSON, or a form"


def read_fields(body: bytes, kind: str) -> CallFields:
    """Return the fields of a body; `kind`: its Content-Type. BadInput says what is wrong."""
    return _fields(unpacked(body, BODY_MAX), kind)


def read_small_fields(body: bytes, kind: str) -> CallFields | None:
    """Return the fields of a body of at most SMALL bytes, unpacked; None: it has more, or is
    damaged."""
    try:
        return _fields(unpacked(body, SMALL), kind) if len(body) <= SMALL else None
    except BadInput:
        return None


def _fields(data: bytes, kind: str) -> CallFields:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        _refuse(data, f"is no UTF-8 ({error.reason} at byte {error.start})")
    if text.lstrip()[:1] in ("{", "["):
        found = _json(text)
    elif kind.partition(";")[0].strip().lower() == "application/json" and text.strip():
        _refuse(data, "is no object in JSON")
    else:
        found = _form(text)
    return {name: _storable(value) for name, value in found.items()}


def json_of(text: str) -> Any:
    """Return a value in JSON. ValueError: it is none, or it nests too deeply."""
    try:
        found = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError(
            f"more than {_DEPTH_MAX} lists and objects lie within each other"
        ) from None
    if is_deeper(found, _DEPTH_MAX):
        raise ValueError(f"more than {_DEPTH_MAX} lists and objects lie within each other")
    return found


def answer(request: Request, fields: Mapping[str, Any], status: int = 200) -> Response:
    """Return an answer: JSON, or url-encoded for callers that accept that and no JSON."""
    accepts = request.headers.get("accept", "").lower()
    if _URLENCODED in accepts and "json" not in accepts:
        plain = {name: _plain(value) for name, value in fields.items()}
        return Response(urlencode(plain), status, media_type=_URLENCODED)
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, dict | list) else value


def _json(text: str) -> CallFields:
    try:
        found = json_of(text)
    except ValueError as error:
        _refuse(text.encode(), f"is no JSON ({error})")
    if not isinstance(found, dict):
        _refuse(text.encode(), "is no object in JSON")
    if len(found) > _FIELDS_MAX:
        _refuse(text.encode(), f"has more than {_FIELDS_MAX} fields")
    return found


def _form(text: str) -> CallFields:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="strict")
    except UnicodeDecodeError:
        _refuse(text.encode(), "is a form with characters that are no UTF-8")
    except ValueError:
        _refuse(text.encode(), f"has more than {_FIELDS_MAX} fields")
    return dict(pairs)


def _storable(value: Any) -> Any:
    """Half a surrogate pair and NUL, which no database takes, become another character."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _refuse(data: bytes, rule: str) -> NoReturn:
    shown = ascii(data[:_SHOWN].decode("utf-8", "replace"))[1:-1]
    raise BadInput([Problem("body", shown, rule, _REMEDY)]) from None
