"""Descriptions for /openapi.json of routes that read their requests themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from jedi.service.operations.all_operations import OPERATIONS
from jedi.service.operations.table import Operation

_REF = "#/components/schemas/{model}"
_SAID = {
    400: "The request ended early, or is no HTTP",
    401: "No token, or one that is unknown, expired or revoked (no_token, bad_token)",
    403: "The caller may not do this (forbidden, not_operator, scope_too_small, not_a_pilot, …)",
    404: "There is none (not_found, sandbox_missing)",
    409: "The present state does not allow it (wrong_status, request_id_taken, key_reused, …)",
    410: "The version is too old: list again (version_too_old)",
    413: "The request is longer than its route takes (http_413)",
    422: "The request has mistakes; the first hundred are in facts.problems (bad_input)",
    429: "The caller asks too often; Retry-After says when to come back (too_many_calls)",
    500: "The service failed; its log says why (internal)",
    503: "Later: the database does not answer, or the service is busy (unreachable, busy)",
}
ALWAYS = (500, 503)
KNOWN = (400, 401, 403)
SENT = (413, 422)
RATED = (429,)

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


_CHANGES = (409,)
_KEY_HEADER = "a repeated request with the same key gets the first one's answer"


def describe_operation(operation: Operation) -> dict[str, Any]:
    """Return the document's entry of an operation, from its row in the table."""
    schema = operation.arguments.model_json_schema(ref_template=_REF)
    required = {*schema.get("required", ())} | {*operation.in_path}
    asked = {name: _inline(one, schema.get("$defs", {})) for name, one in
             schema.get("properties", {}).items()}  # fmt: skip
    reads = operation.method == "GET"
    more: dict[str, Any] = {
        "operationId": operation.name,
        "security": [{"token": []}],
        "x-policy": operation.policy.name,
        "x-scope": operation.scope,
        "parameters": [
            {"name": name, "in": "path" if name in operation.in_path else "query",
             "required": name in required, "schema": one}
            for name, one in asked.items() if reads or name in operation.in_path
        ],
    }  # fmt: skip
    if operation.changes:
        more["parameters"].append(
            {"name": "Idempotency-Key", "in": "header", "required": False,
             "description": _KEY_HEADER,
             "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"}}
        )  # fmt: skip
    in_body = {name: one for name, one in asked.items() if name not in operation.in_path}
    if operation.raw:
        content = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
        more["requestBody"] = {"required": True, "content": content}
    elif not reads and in_body:
        needed = sorted(required & in_body.keys())
        body = {"type": "object", "properties": in_body, "additionalProperties": False,
                **({"required": needed} if needed else {})}  # fmt: skip
        more["requestBody"] = {
            "required": bool(needed), "content": {"application/json": {"schema": body}}
        }  # fmt: skip
    answer = operation.answer.json_schema(mode="serialization", ref_template=_REF)
    answer = _inline(answer, answer.pop("$defs", {}))
    kind = "application/octet-stream" if operation.streams else "application/json"
    answer = {"type": "string", "format": "binary"} if operation.streams else answer
    statuses = (*ALWAYS, *KNOWN, *SENT, *RATED, 404, *(_CHANGES if operation.changes else ()))
    if operation.streams_events:
        kind, answer = "text/event-stream", {"type": "string", "x-data": answer}
        statuses = (*statuses, 410)
        more["parameters"].append(
            {"name": "Last-Event-ID", "in": "header", "required": False,
             "description": "the version to resume from; it comes before `since`",
             "schema": {"type": "string"}}
        )  # fmt: skip
    error = {"application/problem+json": {"schema": {"$ref": _REF.format(model="Error")}}}
    responses: dict[int | str, Any] = {
        200: {"description": "The answer", "content": {kind: {"schema": answer}}},
        **{one: {"description": _SAID[one], "content": error} for one in sorted(statuses)},
    }
    if reads and not operation.streams_events:
        responses[304] = {"description": "Unchanged since the ETag of If-None-Match"}
    return {
        **more,
        "summary": operation.summary,
        "description": f"For {operation.policy.sentence}.",
        "tags": [operation.name.partition(".")[0]],
        "responses": {str(status): said for status, said in responses.items()},
    }


def _inline(schema: Any, models: dict[str, Any]) -> Any:
    """The schema with its models in the place of references to them."""
    match schema:
        case {"$ref": str(ref)}:
            return _inline(models[ref.rpartition("/")[2]], models)
        case dict():
            return {name: _inline(one, models) for name, one in schema.items()}
        case list():
            return [_inline(one, models) for one in schema]
        case _:
            return schema


def describe(app: FastAPI, bodies: Iterable[type[BaseModel]]) -> None:
    """Put what routes refer to into the document."""
    _, models = models_json_schema([(body, "validation") for body in bodies], ref_template=_REF)
    made = app.openapi

    def openapi() -> dict[str, Any]:
        document = made()
        for one in OPERATIONS:  # here, since to describe them all takes a third of a second
            document["paths"].setdefault(one.path, {})[one.method.lower()] = describe_operation(one)
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
