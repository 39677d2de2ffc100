"""Answers that are files, with the ranges of RFC 9110."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from anyio import to_thread
from starlette.datastructures import MutableHeaders
from starlette.responses import FileResponse
from starlette.types import Receive, Scope, Send

from jedi.api.errors import OutOfRange
from jedi.core.errors import NotFound

_RANGES = re.compile(r"\s*bytes\s*=([\s\d,-]+)", re.IGNORECASE | re.ASCII)
_RANGE = re.compile(r"(\d{1,18})-(\d{0,18})|-(\d{1,18})", re.ASCII)

Range = tuple[int, int]
"""The first and the last byte."""


def ranges_of(header: str, size: int) -> list[Range] | None:
    """The ranges of a header that a file of so many bytes has. None: the header is malformed, has
    another unit, or an end before its beginning; RFC 9110, 14.2, lets servers ignore it."""
    written = _RANGES.fullmatch(header)
    parts = [one.strip() for one in written[1].split(",")] if written else []
    found = [_RANGE.fullmatch(one) for one in parts if one]
    if not found or None in found:
        return None
    satisfiable = []
    for one in filter(None, found):
        first, last, suffix = one.groups()
        if suffix is not None:
            begin, end = max(size - int(suffix), 0), size - 1
        else:
            begin, end = int(first), min(int(last or size), size - 1)
            if last and int(last) < begin:
                return None
        if begin <= end:
            satisfiable.append((begin, end))
    return satisfiable


class RangedFile(FileResponse):
    """The content of a file. A malformed Range is ignored; OutOfRange: the file has none of the
    ranges; NotFound: the file has vanished."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        found = await to_thread.run_sync(_regular, self.path)
        if found is None:
            raise NotFound(
                f"{self.filename} is no longer in storage.", code="file_missing", lfn=self.filename
            )
        scope = {**scope, "headers": [*scope["headers"]]}
        headers = MutableHeaders(scope=scope)
        if (written := headers.get("range")) is not None:
            ranges = ranges_of(written, found.st_size)
            if ranges == [] and "if-range" not in headers:
                raise OutOfRange(
                    f"{self.filename} has {found.st_size} bytes, and none in the range {written}. "
                    "Ask for bytes that it has.",
                    size=found.st_size,
                )
            del headers["range"]
            if ranges:
                headers["range"] = "bytes=" + ",".join(f"{first}-{last}" for first, last in ranges)
        await super().__call__(scope, receive, send)


def _regular(path: str | os.PathLike[str]) -> os.stat_result | None:
    """Return the state of a regular file; a pipe would keep a thread for ever."""
    with suppress(FileNotFoundError, NotADirectoryError):
        found = Path(path).stat()
        return found if stat.S_ISREG(found.st_mode) else None
    return None
