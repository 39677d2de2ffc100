"""The routes of the table of operations.

A request passes in this order: identity, body, arguments, policy, operation, audit. All that waits
for the database runs in a thread, in one transaction; the audit's entry commits with the change.
"""

from __future__ import annotations

import hashlib
import json
import re
import types
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, Union, get_args, get_origin
from urllib.parse import unquote_to_bytes

from pydantic import BaseModel, ValidationError
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from starlette.requests import Request
from starlette.responses import Response

from jedi.agent.base import World
from jedi.api.application import Application
from jedi.api.bodies import MISTAKES_MAX, Bodies, problems_of, read, refuse, unstorable
from jedi.api.files import RangedFile
from jedi.api.heavy import HeavyCalls
from jedi.api.identity import CallerAuthentication
from jedi.api.knobs import CurrentKnobs
from jedi.api.openapi import describe_operation
from jedi.api.rates import Rates, TooManyCalls, caller_address
from jedi.api.routing import HttpRoute, RouteFunction
from jedi.api.watching import Watchers
from jedi.api.working import Working
from jedi.core import crash
from jedi.core.errors import BadInput, JediError, Problem
from jedi.core.knobs import Knobs
from jedi.host.home import Home
from jedi.service.operations.all_operations import OPERATIONS, TABLE
from jedi.service.operations.table import Call, FileContent, KnownCaller, Operation
from jedi.service.tasks.watching import EventStream
from jedi.taskbuffer.db.engine import confirmed, name_transaction
from jedi.taskbuffer.schema.release import ReleaseSchema
from jedi.taskbuffer.users import audit

UPLOADS_MAX = 512 * 2**20
"""Bytes of all uploads in hand."""

SANDBOX_ROOM = 11 * 2**20
"""Bytes of an upload beside the contents of its files: headers of tar and gzip."""

TEXT_MAX = 500
"""Characters of a text in the audit."""

_KEY = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a request, for the audit."""

    request_id: str
    address: str | None
    key: str | None


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The system in which operations run."""

    world: World
    home: Home
    release: ReleaseSchema


LetIn = Callable[[Request], Awaitable[KnownCaller]]
"""The caller of a request, who has calls left."""


@dataclass(frozen=True, slots=True)
class OperationDoor:
    """The way from a request to operations: the caller who may pass, the threads that do the work,
    and the system behind."""

    let_in: LetIn
    here: Surroundings
    knobs: CurrentKnobs
    working: Working
    heavy: HeavyCalls

    def place(self, operation: Operation, caller: KnownCaller) -> AbstractContextManager[None]:
        """A place for an operation, if it is heavy. TooManyCalls."""
        return self.heavy.at_once(caller.user_name) if operation.heavy else nullcontext()

    def perform(
        self,
        name: str,
        caller: KnownCaller,
        request: Request,
        given: dict[str, Any],
        key: str | None = None,
    ) -> bytes | FileContent | EventStream:
        """The answer of an operation, in JSON; its transaction is committed. `key`: instead of the
        request's Idempotency-Key. For threads."""
        operation = TABLE[name]
        arguments = checked(operation, given)
        origin = request_origin(request, operation, self.knobs.latest.api.proxies, key)
        with self.place(operation, caller):
            return _perform(operation, self.here, caller, origin, request, arguments)

    @contextmanager
    def call(self, caller: KnownCaller, request_id: str) -> Iterator[Call]:
        """A read-only transaction in which a caller may ask several operations. For threads."""
        with self.here.world.engine.connect() as connection:
            tx = connection.execution_options(postgresql_readonly=True)
            _begin(tx, self.here.release, request_id)
            yield Call(tx, caller, self.here.home)


def add_operations(
    app: Application,
    world: World,
    authentication: CallerAuthentication,
    knobs: CurrentKnobs,
    release: ReleaseSchema,
    must_answer: Callable[[], None],
) -> OperationDoor:
    """Add a route for each operation, which refuses if `must_answer` raises."""
    let_in = _entrance(authentication, Rates(), knobs, must_answer)
    bodies, uploads = Bodies(), Bodies(UPLOADS_MAX)
    here = Surroundings(world, Home(world.settings.home), release)
    door = OperationDoor(let_in, here, knobs, Working(knobs), HeavyCalls(knobs))
    watchers = Watchers(world, authentication, knobs)
    app.streams.append(watchers)
    for one in OPERATIONS:
        endpoint = _endpoint(one, door, uploads if one.raw else bodies, watchers)
        entry = partial(describe_operation, one)
        app.routes.add(HttpRoute(one.name, one.method, one.path, endpoint, entry))
    return door


def _entrance(
    authentication: CallerAuthentication,
    rates: Rates,
    knobs: CurrentKnobs,
    must_answer: Callable[[], None],
) -> LetIn:
    async def let_in(request: Request) -> KnownCaller:
        try:
            must_answer()
        except JediError as error:
            await refuse(request, error)
        caller = await authentication(request)
        request.state.caller = caller.user_name
        try:
            rates.take(caller.user_name, knobs())
        except TooManyCalls as error:
            await refuse(request, error)
        return caller

    return let_in


def _endpoint(
    operation: Operation, door: OperationDoor, bodies: Bodies, watchers: Watchers
) -> RouteFunction:
    async def endpoint(request: Request) -> Response:
        caller = await door.let_in(request)
        knobs = door.knobs()
        place = door.heavy.awaited(request, caller.user_name) if operation.heavy else nullcontext()
        async with bodies.taken(request, _body_max(operation, knobs)) as body, place:
            work = partial(_run, operation, door.here, caller, knobs.api.proxies, request, body)
            answer = await door.working.done(request, work)
        if isinstance(answer, EventStream):
            return watchers.respond(operation, answer, request, caller.user_name)
        return _respond(request, operation, answer)

    return endpoint


def _body_max(operation: Operation, knobs: Knobs) -> int:
    """Bytes of a request; of an upload no more than a sandbox may have."""
    if not operation.raw:
        return operation.body_max
    return min(operation.body_max, knobs.sandbox.max_mb * 2**20 + SANDBOX_ROOM)


def request_origin(
    request: Request, operation: Operation, proxies: str, key: str | None = None
) -> Origin:
    """The origin of a request for an operation. BadInput: its Idempotency-Key."""
    key = key or _key(operation, request)
    if problems := _key_mistakes(key):
        raise BadInput(problems)
    return Origin(request.state.request_id, _address(request, proxies), key)


def _key(operation: Operation, request: Request) -> str | None:
    return request.headers.get("idempotency-key") if operation.changes else None


def _key_mistakes(key: str | None) -> list[Problem]:
    if key is None or _KEY.fullmatch(key):
        return []
    rule = "has 1 to 200 printable characters without blanks"
    return [Problem("Idempotency-Key", key[:80], rule, "Choose another one")]


def _address(request: Request, proxies: str) -> str | None:
    """The address of the caller: as a proxy of ours forwards it, else that of the peer with its
    port, or its uid on the unix socket."""
    client = request.client
    return caller_address(request, proxies) or (f"{client.host}:{client.port}" if client else None)


def _run(
    operation: Operation,
    here: Surroundings,
    caller: KnownCaller,
    proxies: str,
    request: Request,
    body: bytearray,
) -> bytes | FileContent | EventStream:
    arguments = read_arguments(operation, request, body)
    origin = request_origin(request, operation, proxies)
    return _perform(operation, here, caller, origin, request, arguments)


def _perform(
    operation: Operation,
    here: Surroundings,
    caller: KnownCaller,
    origin: Origin,
    request: Request,
    arguments: dict[str, Any],
) -> bytes | FileContent | EventStream:
    """The answer in JSON, a file or a stream; its transaction is committed."""
    if operation.streams_events and (last := request.headers.get("last-event-id")):
        arguments["since"] = last  # a browser repeats the URL of its first request
    if operation.changes:
        return _change(operation, here, caller, origin, arguments)
    with here.world.engine.connect() as connection:
        tx = connection.execution_options(postgresql_readonly=True)
        _begin(tx, here.release, origin.request_id)
        call = Call(tx, caller, here.home)
        if operation.streams or operation.streams_events:
            found: FileContent | EventStream = operation(call, **arguments)
            return found
        return _answer(operation, call, arguments)


def _change(
    operation: Operation,
    here: Surroundings,
    caller: KnownCaller,
    origin: Origin,
    arguments: dict[str, Any],
) -> bytes:
    if arguments.get("dry_run"):
        return _try(operation, here, caller, origin, arguments)
    digest = _digest(operation, arguments)
    who = caller.user_name
    crash.point("api", f"{operation.name}.received")
    with confirmed(here.world.engine) as tx:
        _begin(tx, here.release, origin.request_id)
        if origin.key and (known := audit.begin(tx, who, origin.key, digest)) is not None:
            return known.encode()
        call = Call(tx, caller, here.home)
        answer = _answer(operation, call, arguments)
        _note(tx, operation, call, arguments, origin)
        if origin.key:
            audit.end(tx, who, origin.key, None if operation.secret else answer.decode())
        crash.point("api", f"{operation.name}.before_commit")
    crash.point("api", f"{operation.name}.after_commit")
    for step in call.afterwards:
        _follow_up(operation, here.world, step)
    return answer


def _try(
    operation: Operation,
    here: Surroundings,
    caller: KnownCaller,
    origin: Origin,
    arguments: dict[str, Any],
) -> bytes:
    """The answer that a change would get now. It is made and rolled back: with the same checks, and
    without an entry of the audit. It neither uses its Idempotency-Key nor keeps it."""
    with here.world.engine.connect() as tx:  # which ends in a rollback
        _begin(tx, here.release, origin.request_id)
        return _answer(operation, Call(tx, caller, here.home), arguments)


def _begin(tx: Connection, release: ReleaseSchema, request_id: str) -> None:
    """PostgreSQL's log shows the request's id as the name of its application. Unreachable: another
    release has migrated the database since this service began."""
    release.must_fit(name_transaction(tx, f"jedi api {request_id}"))


def _follow_up(operation: Operation, world: World, step: Callable[[Connection], None]) -> None:
    """Run a step that follows a committed change; if it fails, the change stands all the same."""
    try:
        with world.engine.begin() as tx:
            step(tx)
    except (JediError, OSError, DBAPIError) as error:
        world.log.warning("step after a change failed", operation=operation.name, error=str(error))


def _digest(operation: Operation, arguments: dict[str, Any]) -> str:
    raw = arguments.get("data", b"") if operation.raw else b""
    written = json.dumps(plain(arguments), sort_keys=True, default=str)
    return hashlib.sha256(f"{operation.name} {written} ".encode() + raw).hexdigest()


def _answer(operation: Operation, call: Call, arguments: dict[str, Any]) -> bytes:
    return operation.answer.dump_json(operation(call, **arguments))


def _note(
    tx: Connection, operation: Operation, call: Call, arguments: dict[str, Any], origin: Origin
) -> None:
    shown = json.dumps(_short(plain(arguments)), default=str)
    audit.NOTE.run(
        tx,
        user=call.who,
        way=call.caller.way,
        operation=operation.name,
        subject=call.subject,
        arguments=shown,
        address=origin.address,
        request_id=origin.request_id,
    )


def plain(value: Any) -> Any:
    """A value in JSON's own types."""
    match value:
        case bytes():
            return f"{len(value)} bytes"
        case BaseModel():
            return value.model_dump(mode="json")
        case dict():
            return {key: plain(one) for key, one in value.items()}
        case list() | tuple():
            return [plain(one) for one in value]
        case _:
            return value


def _short(value: Any) -> Any:
    match value:
        case str() if len(value) > TEXT_MAX:
            return f"{value[:TEXT_MAX]}… ({len(value)} characters)"
        case dict():
            return {key: _short(one) for key, one in value.items()}
        case list() if len(value) > 100:
            return [*map(_short, value[:100]), f"… ({len(value)} values)"]
        case list():
            return [_short(one) for one in value]
        case _:
            return value


def read_arguments(operation: Operation, request: Request, body: bytearray) -> dict[str, Any]:
    """The named arguments of a request: from its path, and its query or its body. BadInput names
    the mistakes of all kinds."""
    must_be_utf8(request)
    problems = _key_mistakes(_key(operation, request))
    if operation.by_query:
        found, repeated = _query(operation, request)
        problems += repeated
        if operation.raw:
            found["data"] = bytes(body)
    else:
        found = read(AnyObject, body).model_extra or {} if body else {}
    body.clear()
    in_path = request.path_params
    problems += [
        Problem(name, found[name], "stands in the path already", "Leave it out")
        for name in sorted(found.keys() & in_path.keys())
    ]
    return checked(operation, {**found, **in_path}, problems)


def checked(
    operation: Operation, given: dict[str, Any], known: Sequence[Problem] = ()
) -> dict[str, Any]:
    """The arguments of an operation. BadInput names all mistakes; `known` are the request's own."""
    problems = [*known, *islice(unstorable(given), MISTAKES_MAX)]
    places = {problem.path for problem in problems}
    try:
        model = operation.arguments.model_validate(given)
    except ValidationError as error:
        problems += [one for one in problems_of(error) if one.path not in places]
    if problems:
        raise BadInput(problems[:MISTAKES_MAX])
    return {name: getattr(model, name) for name in operation.parameters}


def must_be_utf8(request: Request) -> None:
    """BadInput: path or query hold bytes that are no UTF-8; Starlette would replace them."""
    for place, raw in (
        ("path", request.scope["raw_path"]),
        ("query", request.scope["query_string"]),
    ):
        try:
            unquote_to_bytes(raw).decode()
        except UnicodeDecodeError:
            shown, remedy = ascii(raw.decode("latin-1")[:80]), "Encode it as UTF-8"
            raise BadInput([Problem(place, shown, "is no UTF-8", remedy)]) from None


class AnyObject(BaseModel, extra="allow"):
    """A JSON object."""


def _query(operation: Operation, request: Request) -> tuple[dict[str, Any], list[Problem]]:
    """The arguments in a query, and those that are repeated."""
    given, found = request.query_params, dict[str, Any]()
    problems = []
    for name in given:
        values = given.getlist(name)
        many = name in operation.parameters and is_list(operation.hints[name])
        found[name] = values if many else values[0]
        if not many and len(values) > 1:
            problems.append(Problem(name, values, "is given several times", "Give it once"))
    return found, problems


def is_list(annotation: Any) -> bool:
    """True if an argument takes a list, or nothing."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType) or hasattr(annotation, "__metadata__"):
        return any(is_list(one) for one in get_args(annotation)[: None if origin else 1])
    return origin is list


def _respond(request: Request, operation: Operation, answer: bytes | FileContent) -> Response:
    headers = {}
    if isinstance(answer, FileContent):
        if answer.adler32:
            headers["X-Adler32"] = answer.adler32
        return RangedFile(answer.path, headers=headers, filename=answer.name)
    if operation.method == "GET":
        headers["ETag"] = f'"{hashlib.sha256(answer).hexdigest()[:32]}"'
        headers["Cache-Control"] = "private, no-cache"
        if headers["ETag"] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
    return Response(answer, media_type="application/json", headers=headers)
