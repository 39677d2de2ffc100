"""What tests of data management do: stage, publish, put, and be refused."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from jedi.core.errors import JediError
from jedi.ddm.interface import DDM, FileInfo

COUNTER = "import sys; print(len(open(sys.argv[1]).read().split()))"
"""A program for `event_count_command`: as many events as words."""


def endpoint_roots(directory: Path) -> dict[str, Path]:
    """The roots of two new endpoints."""
    roots = {"A": directory / "a", "B": directory / "b"}
    for root in roots.values():
        root.mkdir(exist_ok=True)
    return roots


def adler(data: bytes) -> str:
    return f"{zlib.adler32(data):08x}"


def stage(ddm: DDM, endpoint: str, lfn: str, data: bytes, panda_id: int = 1) -> Path:
    """Do what a pilot does with an output."""
    directory = ddm.staging_dir(endpoint, panda_id, 1)
    directory.mkdir(parents=True, exist_ok=True)
    (directory / lfn).write_bytes(data)
    return directory / lfn


def put(ddm: DDM, endpoint: str, name: str, files: dict[str, bytes]) -> None:
    """A closed dataset with these files."""
    ddm.create(name, endpoint)
    reported = {f: FileInfo(f, len(data), adler(data), f"guid-{f}") for f, data in files.items()}
    staged = [(stage(ddm, endpoint, f, data), name, reported[f]) for f, data in files.items()]
    ddm.publish(endpoint, staged)
    ddm.close(name)


def publish(ddm: DDM, endpoint: str, name: str, data: dict[str, bytes], panda_id: int = 1) -> None:
    """Publish what a job has written."""
    staged = [
        (stage(ddm, endpoint, f, text, panda_id), name, FileInfo(f, len(text), adler(text)))
        for f, text in data.items()
    ]
    ddm.publish(endpoint, staged)


def refused(code: str, call: Callable[..., object], *args: object, **kwargs: object) -> JediError:
    with pytest.raises(JediError) as caught:
        call(*args, **kwargs)
    assert caught.value.code == code
    return caught.value


def swap(path: Path, text: str) -> None:
    """Other content of the same size and mtime: who shows the old checksum did not read it."""
    was = path.stat()
    path.write_text(text)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
