"""Bodies of requests: limits and parsing.

A stranger's is thrown away. A pilot's is read after its token is known, up to the bound of its
route, and all that is read and not yet answered together up to ALL_MAX.
"""

from __future__ import annotations

import gc
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from itertools import islice
from math import isfinite
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from jedi.api.errors import Busy, TooLarge
from jedi.core.errors import BadInput, Problem
from jedi.core.nesting import is_deeper
from jedi.model.mistakes import found_by_check, rule_and_remedy

ALL_MAX = 64 * 2**20
"""Maximum bytes of all bodies in memory."""

STRANGER_MAX = 2 * 2**20
"""Bytes that the service discards before a refusal. A sender of more may not get the answer:
closing while data arrive resets the connection."""

KNOWN_MAX = 16 * 2**20
"""The same for a known caller's request that is longer than its route takes."""

SMALL = 8 * 2**10
"""Bytes of a body that takes less time to read than a thread to begin."""

LARGE = 64 * 2**10
"""Bytes of a body that becomes, in Python, as much as 15 times what it was."""

NESTED_MAX = 200_000
"""Lists and objects of a body. An empty one has two bytes there, and 64 in Python; what a thousand
jobs have to say has some ten thousand."""

DEPTH_MAX = 100
"""Lists and objects within each other. Python functions that walk through a value call themselves
for each."""

MISTAKES_MAX = 100
_SHOWN = 200
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

Model = TypeVar("Model", bound=BaseModel)


class Bodies:
    """The bodies of requests that the service holds now. All together have a limit."""

    def __init__(self, most: int = ALL_MAX) -> None:
        self._left = most

    @asynccontextmanager
    async def taken(self, request: Request, most: int) -> AsyncIterator[bytearray]:
        """The body, of at most so many bytes, which count until the end. TooLarge; Busy."""
        if _length(request) > most:
            await _spill(request, KNOWN_MAX)
            raise _too_large(request, most)
        body, counted = bytearray(), 0
        try:
            async with aclosing(request.stream()) as pieces:
                async for piece in pieces:
                    if len(body) + len(piece) > most or len(piece) > self._left:
                        request.state.unread = True
                        raise self._why(request, len(body) + len(piece), most)
                    self._left -= len(piece)
                    counted += len(piece)
                    body += piece
            yield body
        finally:
            self._left += counted

    @staticmethod
    def _why(request: Request, length: int, most: int) -> TooLarge | Busy:
        if length > most:
            return _too_large(request, most)
        return Busy("The service is busy with the maximum number of requests. Try again.")


def _too_large(request: Request, most: int) -> TooLarge:
    return TooLarge(
        f"{request.url.path} takes {most} bytes at most. Send fewer at once.", bytes=most
    )


async def refuse(request: Request, why: Exception) -> NoReturn:
    """Raise after discarding a part of the body, so that the sender gets the refusal."""
    await _spill(request, STRANGER_MAX)
    raise why


async def _spill(request: Request, most: int) -> None:
    request.state.unread = True
    if _length(request) > most:
        return
    seen = 0
    async with aclosing(request.stream()) as pieces:
        async for piece in pieces:
            seen += len(piece)
            if seen > most:
                return
    request.state.unread = False


def _length(request: Request) -> int:
    """As its sender says; 0: he does not. The server reads no more than that."""
    said = request.headers.get("content-length", "")
    return int(said) if said.isdecimal() and len(said) < 20 else 0


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _number(text: str) -> float:
    if isfinite(found := float(text)):
        return found
    raise ValueError(f"{text[:40]} is too large")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(twice, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"{ascii(twice)[:_SHOWN]} occurs twice")
    return found


_JSON = json.JSONDecoder(parse_constant=_no_number, parse_float=_number, object_pairs_hook=_unique)


def read(model: type[Model], body: bytearray) -> Model:
    """Parse a body; BadInput has its first MISTAKES_MAX mistakes."""
    if len(body) > LARGE and body.count(b"[") + body.count(b"{") > NESTED_MAX:
        rule = f"has more than {NESTED_MAX} lists and objects"
        raise BadInput([Problem("body", f"{len(body)} bytes", rule, "Send fewer at once")])
    try:
        found = _large(body) if len(body) > LARGE else _JSON.decode(body.decode())
        if body.count(b"[") + body.count(b"{") > DEPTH_MAX and is_deeper(found, DEPTH_MAX):
            raise ValueError(f"more than {DEPTH_MAX} lists and objects lie within each other")
    except (ValueError, RecursionError) as error:
        said = _shown(bytes(body[:_SHOWN]).decode("utf-8", "replace"))
        raise BadInput([Problem("body", said, f"is no JSON ({error})", _REMEDY)]) from None
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise BadInput(problems_of(error)) from None


def problems_of(error: ValidationError) -> list[Problem]:
    """The first mistakes that a model found."""
    wrong = error.errors(include_url=False)[:MISTAKES_MAX]
    found = [problem for one in wrong for problem in found_by_check(one) or [_problem(one)]]
    return found[:MISTAKES_MAX]


def _large(body: bytearray) -> Any:
    """Without looking for garbage at every 700th list: it made a million of them take ten times as
    long, and blocked all other threads."""
    gc.disable()
    try:
        return _JSON.decode(body.decode())
    finally:
        gc.enable()


_REMEDY = "Correct the request"


def _problem(error: Mapping[str, Any]) -> Problem:
    """Return a problem in ASCII: the input may hold characters that UTF-8 can't."""
    path = ".".join(str(_shown(part)) for part in error["loc"]) or "body"
    rule, remedy = rule_and_remedy(error)
    value = None if error["type"] == "missing" else error.get("input")
    return Problem(path, _shown(value), rule[:_SHOWN], remedy)


def _shown(value: Any) -> str | int | None:
    """Return the beginning of the value; showing all of it would take as long as reading it."""
    match value:
        case None:
            return None
        case int() if abs(value) < 2**63:
            return value
        case dict() | list():
            return f"{len(value)} {'fields' if isinstance(value, dict) else 'values'}"
        case str():
            return value[:_SHOWN].encode("ascii", "backslashreplace").decode()[:_SHOWN]
        case _:
            return ascii(value)[:_SHOWN]


def must_be_storable(value: Any) -> None:
    """BadInput: a text holds NUL or half of a surrogate pair."""
    if problems := [*islice(unstorable(value), MISTAKES_MAX)]:
        raise BadInput(problems)


def unstorable(value: Any, path: str = "") -> Iterator[Problem]:
    """Texts with NUL or half of a surrogate pair, which PostgreSQL takes nowhere."""
    match value:
        case str() if _UNSTORABLE.search(value):
            rule = "holds a character that can't be stored (NUL, or half of a surrogate pair)"
            yield Problem(ascii(path)[1:-1], ascii(value[:80]), rule, "Remove it")
        case dict():
            for key, one in value.items():
                yield from unstorable(key, path)
                yield from unstorable(one, f"{path}.{key}".lstrip("."))
        case list():
            for number, one in enumerate(value):
                yield from unstorable(one, f"{path}.{number}".lstrip("."))
