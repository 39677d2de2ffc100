"""What /openapi.json says of routes that read their requests themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

_REF = "#/components/schemas/{model}"
_SAID = {
    400: "The request ended early, or is no HTTP",
    401: "No token, or one that is unknown, expired or revoked (no_token, bad_token)",
    403: "The token is not a pilot's, or another site's (not_a_pilot, wrong_site)",
    404: "There is none (sandbox_missing)",
    409: "The present state does not allow it (request_id_taken)",
    413: "The request is longer than its route takes (http_413)",
    422: "The request has mistakes; the first hundred are in facts.problems (bad_input)",
    500: "The service failed; its log says why (internal)",
    503: "Again later: the database does not answer, or too much is in hand (unreachable, busy)",
}
ALWAYS = (500, 503)
KNOWN = (400, 401, 403)
SENT = (413, 422)

_PROBLEM = {"type": "object", "properties": {name: {} for name in ("path", "value", "rule")}}
_ERROR = {
    "type": "object",
    "required": ["code", "sentence", "facts"],
    "properties": {
        "code": {"type": "string", "description": "what can be counted"},
        "sentence": {"type": "string", "description": "what can be read"},
        "facts": {
            "type": "object",
            "properties": {"problems": {"type": "array", "items": _PROBLEM}},
        },
    },
}


def says(*statuses: int, token: bool = True, body: type[BaseModel] | None = None) -> dict[str, Any]:
    """Arguments of a route: the statuses of its errors, whether it wants a token, and its body."""
    content = {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}}
    more: dict[str, Any] = {"security": [{"token": []}]} if token else {}
    if body:
        schema = {"schema": {"$ref": _REF.format(model=body.__name__)}}
        more["requestBody"] = {"required": True, "content": {"application/json": schema}}
    return {
        "response_model": None,
        "openapi_extra": more,
        "responses": {n: {"description": _SAID[n], "content": content} for n in sorted(statuses)},
    }


def describe(app: FastAPI, bodies: Iterable[type[BaseModel]]) -> None:
    """Put what routes refer to into the document."""
    _, models = models_json_schema([(body, "validation") for body in bodies], ref_template=_REF)
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        parts = document.setdefault("components", {})
        parts["schemas"] = {**models["$defs"], "Error": _ERROR}
        for routes in document["paths"].values():
            for route in routes.values():
                route["responses"] = {
                    status: said
                    for status, said in route["responses"].items()
                    if "HTTPValidationError" not in str(said)  # FastAPI's, which nobody gets
                }
        parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        return document

    app.openapi = openapi  # type: ignore[method-assign]
