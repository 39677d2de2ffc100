"""The user's own files: fetched by their sha256, unpacked with every member checked."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
import zlib
from pathlib import Path, PurePosixPath

from .base import PayloadFailure
from .procs import PayloadAccount
from .stage import Check

MAX_UNPACKED = 4 << 30
MAX_MEMBERS = 100_000
_CHUNK = 1 << 20


class _Bounded:
    """Reads a decompressed stream up to MAX_UNPACKED: a small archive may hold endless zeros."""

    def __init__(self, stream: gzip.GzipFile, check: Check) -> None:
        self._stream = stream
        self._check = check
        self._left = MAX_UNPACKED

    def read(self, size: int) -> bytes:
        self._check()
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"it unpacks to more than {MAX_UNPACKED} bytes")
        return data


def unpack(
    archive: bytes, sha256: str, target: Path, user: PayloadAccount | None, check: Check
) -> None:
    """Unpack a .tar.gz into `target`, an empty directory that only we can enter.

    Only plain files and directories below `target` are made, with modes 0644 or 0755, owned by
    the payload's user. Anything else in the archive fails the job: the service has checked it at
    submission, so it's no user's mistake.
    """
    try:
        if hashlib.sha256(archive).hexdigest() != sha256:
            raise ValueError("its sha256 differs from its name")
        with gzip.open(io.BytesIO(archive)) as plain:
            # only `read` is asked of it
            tar = tarfile.open(fileobj=_Bounded(plain, check), mode="r|")  # type: ignore[call-overload]  # noqa: SIM115
            for count, member in enumerate(tar):
                if count >= MAX_MEMBERS:
                    raise ValueError(f"it has more than {MAX_MEMBERS} members")
                _place(tar, member, target, user)
    except (tarfile.TarError, zlib.error, EOFError, OSError, ValueError) as error:
        sentence = f"Sandbox {sha256[:12]} can't be unpacked: {error}."
        raise PayloadFailure("sandbox_bad", sentence) from error


def _place(
    tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path, user: PayloadAccount | None
) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or "\0" in member.name:
        raise ValueError(f"member {member.name!r} leads out of it")
    if member.isdir():
        _make_directories(target, path, user)
        return
    if not member.isreg() or member.issparse():
        raise ValueError(f"member {member.name!r} is neither a file nor a directory")
    if member.mode & 0o6000:
        raise ValueError(f"member {member.name!r} is set-user-id or set-group-id")
    _make_directories(target, path.parent, user)
    mode = 0o755 if member.mode & 0o111 else 0o644
    fd = os.open(target / path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(fd, "wb") as file:
        content = tar.extractfile(member)
        assert content is not None  # it is a regular file
        while chunk := content.read(_CHUNK):
            file.write(chunk)
        if user:
            os.fchown(fd, user.uid, user.gid)


def _make_directories(target: Path, path: PurePosixPath, user: PayloadAccount | None) -> None:
    for part in (*reversed(path.parents), path):
        directory = target / part
        if part.parts and not directory.is_dir():
            directory.mkdir()
            if user:
                os.chown(directory, user.uid, user.gid)
