"""Descriptions for /openapi.json of routes that read their requests themselves."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import jedi
from jedi.api.problems import PROBLEM
from jedi.api.routing import HttpRoute
from jedi.service.operations.table import Operation

_REF = "#/components/schemas/{model}"
_SAID = {
    400: "The request ended early, is no HTTP, or has more than 64 KB before its body (no_http, …)",
    401: "No token, or one that is unknown, expired or revoked (no_token, bad_token)",
    403: "The caller may not do this (forbidden, not_operator, scope_too_small, not_a_pilot, …)",
    404: "There is none (not_found, sandbox_missing)",
    409: "The present state does not allow it (wrong_status, request_id_taken, key_reused, …)",
    410: "The version is too old: list again (version_too_old)",
    413: "The request is longer than its route takes (http_413)",
    422: "The request has mistakes; the first hundred are in facts.problems (bad_input)",
    416: "The file has none of the bytes of the header Range (out_of_range)",
    429: "The caller asks too often or has too many streams, too many heavy calls are at work, or "
    "the address sends too many wrong tokens; Retry-After, if there is one, gives the wait "
    "(too_many_calls, too_many_heavy_calls, …)",
    500: "The service failed; its log has the reason (internal)",
    503: "Later: the database does not answer, or the service is busy (unreachable, busy); a "
    "change may be done (outcome_unknown)",
    504: "The database did not answer within the time of the request; its transaction was undone "
    "(too_slow)",
    507: "The storage has no room, or uploads reach a limit (no_space, too_many_uploads)",
}
ALWAYS = (500, 503)
KNOWN = (400, 401, 403, 429)
SENT = (413, 422)

_PROBLEM = {"type": "object", "properties": {name: {} for name in ("path", "value", "rule")}}
_ERROR = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code", "sentence", "facts"],
    "properties": {
        "type": {"const": "about:blank"},
        "title": {"type": "string", "description": "the name of the status"},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "the sentence again (RFC 9457)"},
        "code": {"type": "string", "description": "for programs, to count"},
        "sentence": {"type": "string", "description": "for people, to read"},
        "facts": {
            "type": "object",
            "properties": {"problems": {"type": "array", "items": _PROBLEM}},
        },
    },
}


def says(
    *statuses: int,
    token: bool | None = True,
    body: type[BaseModel] | None = None,
    answer: str = "application/json",
) -> dict[str, Any]:
    """The document's entry of a route: the statuses of its errors, whether it wants a token (None:
    from some callers), its body, and the type of its answer."""
    content = {PROBLEM: {"schema": {"$ref": _REF.format(model="Error")}}}
    found = {str(n): {"description": _SAID[n], "content": content} for n in sorted(statuses)}
    done = {"description": "The answer", "content": {answer: {"schema": {}}}}
    ways: list[dict[str, Any]] = [{"token": []}] if token else [{}, {"token": []}]
    more: dict[str, Any] = {} if token is False else {"security": ways}
    if body:
        schema = {"schema": {"$ref": _REF.format(model=body.__name__)}}
        more["requestBody"] = {"required": True, "content": {"application/json": schema}}
    return {**more, "responses": {"200": done, **found}}


_KEY = "a repeated request with the same key gets the first answer again"
_RESUME = "the version to resume from; it comes before `since`"
_BINARY = {"type": "string", "format": "binary"}


def describe_operation(operation: Operation) -> dict[str, Any]:
    """Return the document's entry of an operation, from its row in the table."""
    schema = operation.arguments.model_json_schema(ref_template=_REF)
    required = {*schema.get("required", ()), *operation.in_path}
    models = schema.get("$defs", {})
    arguments = {name: _inline(one, models) for name, one in schema.get("properties", {}).items()}
    body = _request_body(operation, arguments, required)
    return {
        "operationId": operation.name,
        "security": [{"token": []}],
        "x-policy": operation.policy.name,
        "x-heavy": operation.heavy,
        "x-scope": operation.scope,
        "parameters": [*_parameters(operation, arguments, required), *_headers(operation)],
        **({"requestBody": body} if body else {}),
        "summary": operation.summary,
        "description": f"For {operation.policy.sentence}.",
        "tags": [operation.name.partition(".")[0]],
        "responses": _responses(operation),
    }


def _parameters(
    operation: Operation, arguments: Mapping[str, Any], required: Collection[str]
) -> Iterator[dict[str, Any]]:
    for name, schema in arguments.items():
        in_query = operation.by_query and not (operation.raw and name == "data")
        if name in operation.in_path or in_query:
            place = "path" if name in operation.in_path else "query"
            yield {"name": name, "in": place, "required": name in required, "schema": schema}


def _headers(operation: Operation) -> Iterator[dict[str, Any]]:
    header = {"in": "header", "required": False}
    if operation.changes:
        schema = {"type": "string", "pattern": "^[!-~]{1,200}$"}
        yield {"name": "Idempotency-Key", **header, "description": _KEY, "schema": schema}
    if operation.streams_events:
        schema = {"type": "string"}
        yield {"name": "Last-Event-ID", **header, "description": _RESUME, "schema": schema}


def _request_body(
    operation: Operation, arguments: Mapping[str, Any], required: Collection[str]
) -> dict[str, Any] | None:
    if operation.raw:
        return {"required": True, "content": {"application/octet-stream": {"schema": _BINARY}}}
    inside = {name: one for name, one in arguments.items() if name not in operation.in_path}
    if operation.method == "GET" or not inside:
        return None
    needed = sorted(inside.keys() & {*required})
    schema = {
        "type": "object",
        "properties": inside,
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
    }
    return {"required": bool(needed), "content": {"application/json": {"schema": schema}}}


def _responses(operation: Operation) -> dict[str, Any]:
    statuses = {*ALWAYS, *KNOWN, *SENT, 404, 504}
    statuses |= {409} if operation.method != "GET" else set()
    statuses |= {507} if operation.stores else set()
    statuses |= {410} if operation.streams_events else set()
    error = {PROBLEM: {"schema": {"$ref": _REF.format(model="Error")}}}
    found: dict[str, Any] = {
        "200": {"description": "The answer", "content": _answer(operation)},
        **{str(one): {"description": _SAID[one], "content": error} for one in sorted(statuses)},
    }
    if operation.streams:
        found["206"] = {
            "description": "The ranges that the header Range names",
            "content": {"*/*": {"schema": _BINARY}},
        }
        found["416"] = {"description": _SAID[416], "content": error}
    elif operation.method == "GET" and not operation.streams_events:
        found["304"] = {"description": "Unchanged since the ETag of If-None-Match"}
    return found


def _answer(operation: Operation) -> dict[str, Any]:
    if operation.streams:
        return {"*/*": {"schema": _BINARY}}
    schema = operation.answer.json_schema(mode="serialization", ref_template=_REF)
    schema = _inline(schema, schema.pop("$defs", {}))
    if operation.streams_events:
        return {"text/event-stream": {"schema": {"type": "string", "x-data": schema}}}
    return {"application/json": {"schema": schema}}


def _inline(schema: Any, models: dict[str, Any]) -> Any:
    """The schema with its models in the place of references to them."""
    match schema:
        case {"$ref": str(ref)}:
            return _inline(models[ref.rpartition("/")[2]], models)
        case {"prefixItems": list(places), **rest}:  # which few tools know
            kinds = [_inline(one, models) for one in places]
            distinct = [one for n, one in enumerate(kinds) if one not in kinds[:n]]
            return {**rest, "items": {"anyOf": distinct}}
        case dict():
            return {name: _inline(one, models) for name, one in schema.items()}
        case list():
            return [_inline(one, models) for one in schema]
        case _:
            return schema


def document(routes: Iterable[HttpRoute], bodies: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """The OpenAPI document of the routes that have an entry, and of the bodies that they name."""
    paths: dict[str, dict[str, Any]] = {}
    for one in routes:
        if one.entry:
            paths.setdefault(one.path, {})[one.method.lower()] = {**_of_route(one), **one.entry()}
    _, models = models_json_schema([(body, "validation") for body in bodies], ref_template=_REF)
    return {
        "openapi": "3.1.0",
        "info": {"title": "JEDI", "version": jedi.__version__},
        "paths": paths,
        "components": {
            "schemas": {**models["$defs"], "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _of_route(route: HttpRoute) -> dict[str, Any]:
    place = {"in": "path", "required": True, "schema": {"type": "string"}}
    named = [{"name": name, **place} for name in re.findall(r"{(\w+)}", route.path)]
    return {
        "operationId": route.name.replace(" ", "."),
        "summary": route.name.replace("_", " ").title(),
        **({"parameters": named} if named else {}),
    }
