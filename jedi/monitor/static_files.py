"""Files that pages need beside themselves: styles, scripts, vendored libraries. Their addresses
hold a hash of the content, so that browsers keep them for ever."""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import PurePosixPath

from jedi.core.errors import NotFound

_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_ROOT = resources.files("jedi.monitor") / "static"


@dataclass(frozen=True)
class StaticFile:
    """A file: its content, plain and packed, and its type."""

    content: bytes
    packed: bytes
    media_type: str
    version: str


@cache
def all_files() -> dict[str, StaticFile]:
    """All files by their names below static/."""
    return {name: _read(name) for name in _names()}


def _names() -> list[str]:
    own = [one.name for one in _ROOT.iterdir() if one.is_file()]
    vendored = [f"vendor/{one.name}" for one in (_ROOT / "vendor").iterdir()]
    return [one for one in (*own, *vendored) if PurePosixPath(one).suffix in _TYPES]


def _read(name: str) -> StaticFile:
    content = (_ROOT / name).read_bytes()
    return StaticFile(
        content,
        gzip.compress(content, 9, mtime=0),
        _TYPES[PurePosixPath(name).suffix],
        hashlib.sha256(content).hexdigest()[:12],
    )


def address(name: str) -> str:
    """The address of a file, with the hash of its content."""
    return f"/static/{all_files()[name].version}/{name}"


def find(name: str) -> StaticFile:
    """A file by its name. NotFound."""
    if name not in all_files():
        raise NotFound(f"There is no file {name[:80]}.", name=name[:80])
    return all_files()[name]
