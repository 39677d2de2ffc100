"""Uploads at an endpoint: hidden directories upload-OWNER-DATASET-BYTES-FILE, in hex digits.

The name holds all that limits need, so that a listing suffices. A note counts the open uploads of
an owner: not every new upload lists them. Uploads that end stay counted until the count reaches a
limit; then they are listed anew.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jedi.core.errors import BadInput, NoSpace, Problem
from jedi.ddm.storage import Storage

_HEX = "[0-9a-f]+"
_UPLOAD = re.compile(f"upload-({_HEX}(?:-{_HEX})*)")
_COUNT = re.compile(rb"(\d+) (\d+)\n")

Admit = Callable[[int, int], None]
"""Gets the files and bytes of all open uploads of an owner, a new one included. NoSpace."""


def key_of(owner: str, dataset: str, size: int, file: str) -> str:
    """The key of an upload of so many bytes; the others in hex digits."""
    return f"{owner}-{dataset}-{size:x}-{file}"


@dataclass(frozen=True, slots=True)
class Uploads:
    """The uploads at the storage of an endpoint."""

    storage: Storage

    def place(self, key: str) -> Path:
        """The directory of an upload, there or not. BadInput."""
        if not _UPLOAD.fullmatch(name := f"upload-{key}"):
            raise BadInput([Problem("key", key, "has hex digits alone", "Correct it")])
        return self.storage.staging / name

    def begin(self, key: str, admit: Admit) -> Path:
        """The directory of an upload, made if `admit` lets it. NoSpace; OSError."""
        place = self.place(key)
        if place.is_dir():
            return place
        owner, size = key.partition("-")[0], _size(key)
        self.storage.make(self.storage.staging)
        with _counted(self.storage.staging / f"uploads-{owner}") as note:
            before = os.pread(note, 100, 0)
            known = _COUNT.fullmatch(before)
            files, total = (int(known[1]), int(known[2])) if known else self._count(owner)
            try:
                admit(files + 1, total + size)
            except NoSpace:
                files, total = self._count(owner)
                admit(files + 1, total + size)
            now = b"%d %d\n" % (files + 1, total + size)
            os.pwrite(note, now, 0)
            if len(now) < len(before):  # else the disk would be waited for, 1 ms
                os.ftruncate(note, len(now))
            self.storage.make(place)
        return place

    def _count(self, owner: str) -> tuple[int, int]:
        sizes = self.open(owner)
        return len(sizes), sum(sizes)

    def open(self, owner: str) -> list[int]:
        """The bytes of each open upload of an owner, as announced."""
        return [_size(key) for key in self._keys() if key.startswith(f"{owner}-")]

    def old(self, before: datetime) -> list[str]:
        """The keys of uploads without change since then. One that travels keeps all that its owner
        uploads to the same dataset."""
        newest: dict[str, float] = {}
        keys = self._keys()
        for key in keys:
            with suppress(FileNotFoundError):  # it is published at this moment
                place = self.place(key)
                times = [one.lstat().st_mtime for one in (place, *place.iterdir())]
                newest[_request(key)] = max(*times, newest.get(_request(key), 0.0))
        return [key for key in keys if newest.get(_request(key), 0.0) < before.timestamp()]

    def drop(self, key: str) -> None:
        """Throw an upload away."""
        with suppress(FileNotFoundError):
            shutil.rmtree(self.place(key))

    def _keys(self) -> list[str]:
        try:
            found = [_UPLOAD.fullmatch(one.name) for one in self.storage.staging.iterdir()]
        except FileNotFoundError:
            return []
        return [match[1] for match in found if match]


@contextmanager
def _counted(note: Path) -> Iterator[int]:
    """The note of an owner's open uploads, locked: a descriptor."""
    handle = os.open(note, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield handle
    finally:
        os.close(handle)


def _size(key: str) -> int:
    parts = key.split("-")
    return int(parts[2], 16) if len(parts) > 2 else 0


def _request(key: str) -> str:
    """Owner and dataset of an upload."""
    return "-".join(key.split("-")[:2])
