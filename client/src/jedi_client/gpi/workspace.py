"""Folders of the client on this machine, and claims on jobs that are being submitted.

Source: docs/reference/ganga.md#where-things-lie.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def home() -> Path:
    """The folder of the client: JEDI_CLIENT_HOME, else `jedi-client` among the user's data."""
    if own := os.environ.get("JEDI_CLIENT_HOME"):
        return Path(own).expanduser().absolute()
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share").absolute() / "jedi-client"


class Workspace:
    """The folders of a registry's jobs: `jobs`, or another place for a registry on a service."""

    def __init__(self, root: Path, place: str = "jobs") -> None:
        self.root, self._place = root, place

    def of(self, job: int) -> Path:
        """The folder of a job."""
        return self.root / self._place / str(job)

    def output(self, job: int, k: int | None = None) -> Path:
        """The folder of the output of a job, or of a subjob."""
        inside = () if k is None else (str(k),)
        return self.of(job).joinpath(*inside, "output")

    def remove(self, job: int) -> None:
        """Remove the folder of a job with all that is in it."""
        shutil.rmtree(self.of(job), ignore_errors=True)

    @contextmanager
    def claim(self, job: int) -> Iterator[bool]:
        """A claim on the submission of a job; False: another living session has it."""
        held = _CLAIMS.take(self.root / "submissions.lock", job)
        try:
            yield held
        finally:
            if held:
                _CLAIMS.release(self.root / "submissions.lock", job)


class _Claims:
    """Locks of bytes of a file, one byte for each job. They end with their process. A process has
    each file open once: closing it anywhere would give up all its locks."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._files: dict[Path, int] = {}
        self._held: set[tuple[Path, int]] = set()
        self._owner = 0

    def take(self, path: Path, byte: int) -> bool:
        with self._lock:
            if self._owner != os.getpid():
                self._files, self._held, self._owner = {}, set(), os.getpid()
            if (path, byte) in self._held:
                return False
            if path not in self._files:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                self._files[path] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.lockf(self._files[path], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
            except BlockingIOError:
                return False
            self._held.add((path, byte))
            return True

    def release(self, path: Path, byte: int) -> None:
        with self._lock:
            self._held.discard((path, byte))
            fcntl.lockf(self._files[path], fcntl.LOCK_UN, 1, byte)


_CLAIMS = _Claims()
