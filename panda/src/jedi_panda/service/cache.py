"""The file cache of PanDA's clients: uploads that a task's jobs unpack later.

An upload is opaque until a task names it; then its members are checked. Everybody who knows its
name can read it, as PanDA's payloads do, so the name holds a UUID.
"""

from __future__ import annotations

import re
import struct

from sqlalchemy import Connection

from jedi.core import names
from jedi.core.errors import BadInput, NotFound, Problem
from jedi.core.knobs import Knobs
from jedi.taskbuffer.users import cache_files

OVERWRITE = ".__ow__"
"""The end of a name whose upload replaces an earlier one."""

_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_MB = 2**20


def put(tx: Connection, knobs: Knobs, user_name: str, file_name: str, data: bytes) -> str:
    """Keep an upload; its name. BadInput: a bad or taken name, or too many bytes."""
    name = file_name.removesuffix(OVERWRITE)
    problems = [*_bad_name(name), *_too_large(tx, knobs, user_name, name, len(data))]
    if problems:
        raise BadInput(problems)
    again = file_name != name
    if not cache_files.put(tx, name, user_name, crc32(data), data, overwrite=again):
        rule = "an upload of this name has another content, or is somebody else's"
        remedy = f"Choose another name, or add {OVERWRITE} to replace your own"
        raise BadInput([Problem("file_name", name, rule, remedy)])
    return name


def _bad_name(name: str) -> list[Problem]:
    try:
        names.lfn(name)
    except ValueError as error:
        return [Problem("file_name", name[:300], str(error), "Rename it")]
    if _UUID.search(name):
        return []
    rule = "has no UUID, though everybody who knows the name can read the file"
    return [Problem("file_name", name, rule, "Name it as prun does: jobO.UUID.tar.gz")]


def _too_large(tx: Connection, knobs: Knobs, user_name: str, name: str, size: int) -> list[Problem]:
    most, quota = int(knobs.sandbox.max_mb), int(knobs.prun.cache_mb)
    if size > most * _MB:
        rule = f"is larger than {most} MB (knob sandbox.max_mb)"
        return [Problem("file", f"{size} bytes", rule, "Put data into a dataset")]
    used = cache_files.used_bytes(tx, user_name, name)
    if used + size > quota * _MB:
        rule = f"exceeds {quota} MB of uploads (knob prun.cache_mb); {used} bytes are there"
        return [Problem("file", f"{size} bytes", rule, "Wait until old uploads are removed")]
    return []


def crc32(data: bytes) -> int:
    """The CRC-32 at the end of a gzip file, by which PanDA's clients know their uploads."""
    return int(struct.unpack("<I", data[-8:-4])[0]) if len(data) >= 8 else 0


def find(tx: Connection, user_name: str, size: int, checksum: int) -> str | None:
    """The name of a user's upload of this size and CRC-32; None: there is none."""
    return cache_files.KEEP.row(tx, user=user_name, size=size, crc32=checksum)


def content(tx: Connection, file_name: str) -> bytes:
    """An upload. NotFound."""
    found = cache_files.GET.row(tx, name=file_name)
    if found is None:
        raise NotFound(f"There is no upload {file_name[:300]}.", code="upload_missing")
    return found.data
