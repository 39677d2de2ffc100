"""Contents of files by their sha256: written once, never changed; and names of shared copies.

Source: docs/reference/ganga.md#files.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path, PurePosixPath

from jedi_client.errors import BadInput, NotFound, Problem

PIECE = 2**20
"""Bytes read at a time."""

UNUSED_S = 3600.0
"""Age of a content below which nobody removes it: a submission may be about to name it."""


class Contents:
    """The contents below a folder, and the shared copies among them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def path(self, digest: str) -> Path:
        """The file of a content."""
        return self._root / digest[:2] / digest

    def keep(self, source: Path) -> str:
        """Keep the present content of a file. Return its sha256. OSError."""
        with _new_file(self._root) as (new, target), source.open("rb") as file:
            sha = hashlib.sha256()
            while piece := file.read(PIECE):
                sha.update(piece)
                target.write(piece)
            target.flush()
            return self._take(new, sha.hexdigest())

    def share(self, source: Path, name: str) -> str:
        """The content of the shared copy with this name. Its first use copies the file."""
        try:
            return self.shared(name)
        except NotFound:
            digest = self.keep(source)
        place = self._name(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        with _new_file(self._root) as (new, target):
            target.write(digest.encode())
            target.flush()
            try:
                place.hardlink_to(new)
            except FileExistsError:
                return self.shared(name)
        return digest

    def shared(self, name: str) -> str:
        """The content of a shared copy. NotFound."""
        try:
            return self._name(name).read_text()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise NotFound(
                f"There is no shared copy shared://{name}. Its first use makes it: "
                "File(path, shared=True)."
            ) from None

    def has(self, name: str) -> bool:
        """True if there is a shared copy with this name."""
        return self._name(name).is_file()

    def sweep(self, used: Collection[str]) -> int:
        """Remove the contents that are neither in use nor shared, and old enough. Return their
        number."""
        names = self._root / "shared"
        kept = {*used, *(one.read_text() for one in names.rglob("*") if one.is_file())}
        before = time.time() - UNUSED_S
        unused = [
            one
            for one in self._root.glob("??/*")
            if one.name not in kept and one.stat().st_mtime < before
        ]
        for one in unused:
            one.unlink(missing_ok=True)
        return len(unused)

    def _take(self, new: Path, digest: str) -> str:
        place = self.path(digest)
        place.parent.mkdir(exist_ok=True)
        new.chmod(0o444)
        new.replace(place)
        return digest

    def _name(self, name: str) -> Path:
        path = PurePosixPath(name.strip("/"))
        if not path.parts or ".." in path.parts or "\0" in name:
            rule = "names no shared copy"
            raise BadInput([Problem("shared", name, rule, "Write shared://a/b")])
        return self._root / "shared" / path


@contextmanager
def _new_file(root: Path) -> Iterator[tuple[Path, BufferedWriter]]:
    """A new file, removed again unless it is moved away."""
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = root / f".new-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        with new.open("xb") as file:
            yield new, file
    finally:
        new.unlink(missing_ok=True)
