"""Outputs of ranges of events: collected, zipped, and published at the site's storage.

A zip has a directory for each of its ranges, named by the range's id, with the outputs of that
range. It appears at its place by a rename: there it is whole, or not at all.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from .base import PayloadFailure, crash_point
from .event_lines import LineMistake
from .procs import PayloadAccount
from .stage import component, make_like_parent, own_file

_CHUNK = 1 << 20


@dataclass(frozen=True)
class CollectedRange:
    """A finished range: its outputs lie in `directory`, out of the payload's reach."""

    range_id: str
    n_events: int
    directory: Path


class RangeCollector:
    """Finished ranges that no zip has yet."""

    def __init__(self, directory: Path, most_ranges: int, most_s: float) -> None:
        directory.mkdir(0o700)
        self._directory, self._most_ranges, self._most_s = directory, most_ranges, most_s
        self._found: list[CollectedRange] = []
        self._since = 0.0

    def add(
        self,
        given: dict[str, Any],
        outputs: Sequence[str],
        run: Path,
        user: PayloadAccount | None,
    ) -> None:
        """Take the outputs of a range out of `run`, all or none. Raises LineMistake if one is not
        a regular file of the payload's user."""
        for name in outputs:
            try:
                with own_file(run / name, user):
                    pass
            except OSError as error:
                raise LineMistake(f"Output {name} is not a regular file: {error}.") from error
        target = self._directory / component(given["id"])
        target.mkdir(0o700)
        for name in outputs:
            (run / name).rename(target / name)
        if not self._found:
            self._since = time.monotonic()
        n_events = int(given["end"]) - int(given["start"]) + 1
        self._found.append(CollectedRange(given["id"], n_events, target))

    def due_s(self) -> float | None:
        """Seconds until the next zip is due; None: there is nothing to zip."""
        if not self._found:
            return None
        if len(self._found) >= self._most_ranges:
            return 0.0
        return max(0.0, self._since + self._most_s - time.monotonic())

    def take(self) -> list[CollectedRange]:
        """The ranges of the next zip."""
        ranges = self._found[: self._most_ranges]
        del self._found[: len(ranges)]
        return ranges


def publish(
    found: Sequence[CollectedRange],
    lfn: str,
    staging: Path,
    store: Path,
    user: PayloadAccount | None,
) -> dict[str, Any]:
    """Make the zip of some ranges in `staging` and move it to `store`, of the same file system; its
    description for the service. Raises PayloadFailure."""
    part = staging / component(lfn)
    try:
        make_like_parent(staging)
        mode = make_like_parent(store)
        with part.open("xb") as file:
            os.fchmod(file.fileno(), mode)
            stream = _CheckedStream(file)
            _write_zip(found, stream, user)
            file.flush()
            os.fsync(file.fileno())
        crash_point("event_zip")
        part.rename(store / lfn)
        _sync(store)
    except (OSError, zipfile.BadZipFile) as error:
        raise PayloadFailure(
            "stageout_failed", f"Outputs of events could not be stored as {lfn}: {error}."
        ) from error
    for one in found:
        shutil.rmtree(one.directory, ignore_errors=True)
    return {
        "lfn": lfn,
        "fsize": stream.size,
        "adler32": f"{stream.adler:08x}",
        "n_events": sum(one.n_events for one in found),
        "ranges": [{"id": one.range_id, "status": "finished"} for one in found],
    }


class _CheckedStream:
    """Writes through, with size and checksum. Nothing seeks in it: a zip is written in one go."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size, self.adler = 0, 1

    def write(self, data: bytes) -> int:
        self.size += len(data)
        self.adler = zlib.adler32(data, self.adler)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _write_zip(
    found: Sequence[CollectedRange], stream: _CheckedStream, user: PayloadAccount | None
) -> None:
    with zipfile.ZipFile(stream, "w") as archive:
        for one in found:
            archive.writestr(_entry(f"{one.range_id}/", stat.S_IFDIR | 0o755), b"")
            for name in sorted(os.listdir(one.directory)):  # noqa: PTH208 - plain names
                entry = _entry(f"{one.range_id}/{name}", stat.S_IFREG | 0o644)
                with (
                    own_file(one.directory / name, user) as reading,
                    archive.open(entry, "w", force_zip64=True) as writing,
                ):
                    while chunk := os.read(reading, _CHUNK):
                        writing.write(chunk)


def _entry(name: str, mode: int) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name)
    entry.external_attr = mode << 16
    return entry


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
