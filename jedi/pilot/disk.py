"""The disk that payloads share with each other, and often with the database: a part stays free.

When less than the floor is free, the payload that has written most ends, and only that one. Each
payload monitor publishes the bytes that its payload has written, and reads those of others.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from .base import PayloadFailure

DISK_FULL = "disk_full"
SMALL_PART = 0.1
"""A payload that has written less than this part of the floor never ends for it: others filled the
disk."""
FRESH_S = 10.0
"""Time after the end of an attempt while its published use of the disk still counts: its files are
being removed."""
_MIB = 1 << 20


def to_blame(written_mb: float, others_mb: Iterable[float], floor_mb: float) -> bool:
    """True if the pilot ends this payload when less than the floor is free."""
    return written_mb > SMALL_PART * floor_mb and written_mb >= max(others_mb, default=0.0)


class SharedDisk:
    """The file system of a work directory, as one attempt in it sees it.

    `limits` names the floor: min_free_mb, or min_free_percent of the disk if that is less.
    `start_mb` is the size of the directories before the payload starts: its inputs.
    """

    def __init__(self, attempt: Path, limits: Mapping[str, int], start_mb: float) -> None:
        self._attempt, self._start_mb = attempt, start_mb
        disk = os.statvfs(attempt)
        percent = limits.get("min_free_percent", 100)
        whole_mb = disk.f_blocks * disk.f_frsize / _MIB
        self._floor_mb = min(limits.get("min_free_mb", 0), percent / 100 * whole_mb)
        self._published = attempt / "written"
        self._published.touch(0o600)

    def judge(self, size_mb: float, pids: Iterable[int]) -> PayloadFailure | None:
        """Publish the bytes that the payload has written; why it has to end, if it has to."""
        free_mb = self._free_mb()
        low = free_mb < self._floor_mb
        written_mb = size_mb - self._start_mb + (unlinked_mb(pids) if low else 0.0)
        self._publish(max(0.0, written_mb))
        if not low or not to_blame(written_mb, self._others_mb(), self._floor_mb):
            return None
        sentence = (
            f"The payload wrote {written_mb:.0f} MB, most of all payloads there, and left only "
            f"{free_mb:.0f} MB of the disk of its work directory free. Pilots keep "
            f"{self._floor_mb:.0f} MB of it free."
        )
        return PayloadFailure(DISK_FULL, sentence)

    def _free_mb(self) -> float:
        disk = os.statvfs(self._attempt)
        return disk.f_bavail * disk.f_frsize / _MIB

    def _publish(self, written_mb: float) -> None:
        """In kB, as the length of a file without content: a full disk has room for that. A tree too
        deep to be measured counts as infinite."""
        with contextlib.suppress(OSError):
            os.truncate(self._published, int(min(written_mb * 1024, 1 << 40)))
            os.utime(self._published)

    def _others_mb(self) -> list[float]:
        sizes, oldest = [], time.time() - FRESH_S
        for path in self._attempt.parent.glob(f"*/{self._published.name}"):
            with contextlib.suppress(OSError):
                info = path.stat()
                if path != self._published and info.st_mtime >= oldest:
                    sizes.append(info.st_size / 1024)
        return sizes


def unlinked_mb(pids: Iterable[int]) -> float:
    """Disk use of files that processes hold open after their removal: no directory shows them."""
    sizes: dict[tuple[int, int], int] = {}
    for pid in pids:
        with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    info = entry.stat()
                    if info.st_nlink == 0:
                        sizes[info.st_dev, info.st_ino] = info.st_blocks * 512
    return sum(sizes.values()) / _MIB
