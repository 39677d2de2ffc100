"""The input sandbox: files of the submitter's own, checked and packed into one archive.

Listed files lie under their own names in the job's directory; archives among them (recognised by
their suffix) are unpacked here and their members packed. The same files give the same archive, byte
for byte, so JEDI stores it once.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jedi_client.errors import BadInput, Problem

NOT_HERE = "its files are not here"
"""The rule against a task whose sandbox was not uploaded."""
MAX_MEMBERS = 10_000
_FRAMES = 1_024 * MAX_MEMBERS + 10_240
"""Bytes of a tar beside the contents of its members: headers, and blocks filled up."""
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_UNREADABLE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    RuntimeError,
    NotImplementedError,
)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A .tar.gz and its sha256."""

    sha256: str
    data: bytes


@dataclass(frozen=True, slots=True)
class _Member:
    name: str
    data: bytes
    executable: bool


class _UnusableFile(Exception):
    """The reason why a file can't be in a sandbox, and the remedy."""


class _Contents:
    """The contents of the sandbox so far: plain files below the job's directory, each name once."""

    def __init__(self, max_mb: int) -> None:
        self.members: dict[str, _Member] = {}
        self._directories: set[str] = set()
        self._max_mb = max_mb
        self.left = max_mb * 2**20

    def add(self, member: _Member) -> None:
        path = PurePosixPath(member.name)
        if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in member.name:
            raise _UnusableFile(
                f"member {member.name!r} lies outside the job's directory", "Leave it out"
            )
        name, parents = str(path), [str(parent) for parent in path.parents]
        if name in self.members or name in self._directories or self.members.keys() & set(parents):
            raise _UnusableFile(
                f"the sandbox already has a file {name!r}", "Give each file its own name"
            )
        self.left -= len(member.data)
        if self.left < 0 or len(self.members) == MAX_MEMBERS:
            most = f"{self._max_mb} MB (knob sandbox.max_mb) or {MAX_MEMBERS} files"
            raise _UnusableFile(f"the sandbox holds more than {most}", "Put data into a dataset")
        self.members[name] = member
        self._directories.update(parents)


def verify(data: bytes, sha256: str, max_mb: int) -> Sandbox:
    """A sandbox from elsewhere: its checksum is right, and its members are plain files below the
    job's directory. BadInput."""
    if (found := hashlib.sha256(data).hexdigest()) != sha256:
        raise BadInput([Problem("sha256", sha256, f"the body has {found}", "Send it again")])
    contents = _Contents(max_mb)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            plain = stream.read(max_mb * 2**20 + _FRAMES)
            if stream.read(1):
                raise _UnusableFile(f"has more than {max_mb} MB (knob sandbox.max_mb)", "Split it")
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            for member in _plain_members(archive, contents.left):
                contents.add(member)
    except _UnusableFile as error:
        raise BadInput([Problem("sandbox", None, *error.args)]) from error
    except (*_UNREADABLE, OSError, ValueError) as error:
        rule = f"is no .tar.gz that can be read: {error}"
        raise BadInput([Problem("sandbox", None, rule, "Pack it again")]) from error
    return Sandbox(sha256, data)


def bundle(
    paths: Sequence[str], base_dir: Path, max_mb: int
) -> tuple[Sandbox | None, list[Problem]]:
    """Pack files, named relative to `base_dir`; None if there are none or some are bad."""
    contents = _Contents(max_mb)
    problems: list[Problem] = []
    for i, path in enumerate(paths):
        try:
            for member in _members(base_dir / path, contents.left):
                contents.add(member)
        except _UnusableFile as error:
            problems.append(Problem(f"sandbox[{i}]", path, *error.args))
        except (OSError, ValueError) as error:
            rule = f"can't be read: {getattr(error, 'strerror', None) or error}"
            problems.append(Problem(f"sandbox[{i}]", path, rule, "Correct the path"))
        except _UNREADABLE as error:
            rule = f"is not a readable archive: {error}"
            problems.append(Problem(f"sandbox[{i}]", path, rule, "Pack it again"))
    if problems or not contents.members:
        return None, problems
    data = _packed(contents.members)
    return Sandbox(hashlib.sha256(data).hexdigest(), data), []


def pack(files: Sequence[tuple[str, Path, bool]], max_mb: int) -> Sandbox:
    """Pack files as they are, each under a name: (name, path, True to make it executable).
    BadInput names all that can't be packed."""
    contents = _Contents(max_mb)
    problems: list[Problem] = []
    for name, path, executable in files:
        try:
            mode = path.stat().st_mode
            with path.open("rb") as file:
                data = file.read(contents.left + 1)
            contents.add(_Member(name, data, executable or bool(mode & 0o111)))
        except _UnusableFile as error:
            problems.append(Problem(f"inputsandbox.{name}", str(path), *error.args))
        except OSError as error:
            rule = f"can't be read: {error.strerror}"
            problems.append(Problem(f"inputsandbox.{name}", str(path), rule, "Correct the path"))
    if problems:
        raise BadInput(problems)
    data = _packed(contents.members)
    return Sandbox(hashlib.sha256(data).hexdigest(), data)


def of_contents(files: Sequence[tuple[str, bytes, bool]], max_mb: int) -> Sandbox:
    """Pack contents: (name, content, True if it is executable). BadInput."""
    contents = _Contents(max_mb)
    try:
        for name, data, executable in files:
            contents.add(_Member(name, data, executable))
    except _UnusableFile as error:
        raise BadInput([Problem("sandbox", None, *error.args)]) from error
    data = _packed(contents.members)
    return Sandbox(hashlib.sha256(data).hexdigest(), data)


def _members(path: Path, most: int) -> Iterator[_Member]:
    """Yield the members of a listed file; at most `most` + 1 bytes of each are read."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise _UnusableFile("is a directory", "List its files, or a .tar.gz file with them")
    if not stat.S_ISREG(mode):
        raise _UnusableFile("is not a plain file", "List plain files")
    if path.name.endswith(_TARS):
        yield from _tar_members(path, most)
    elif path.name.endswith(".zip"):
        yield from _zip_members(path, most)
    else:
        with path.open("rb") as file:
            yield _Member(path.name, file.read(most + 1), bool(mode & 0o111))


def _tar_members(path: Path, most: int) -> Iterator[_Member]:
    with tarfile.open(path) as archive:
        yield from _plain_members(archive, most)


def _plain_members(archive: tarfile.TarFile, most: int) -> Iterator[_Member]:
    for info in archive:
        if info.isdir():
            continue
        content = archive.extractfile(info) if info.isreg() and not info.issparse() else None
        if content is None:
            raise _not_plain(info.name)
        yield _Member(info.name, content.read(most + 1), bool(info.mode & 0o111))


def _zip_members(path: Path, most: int) -> Iterator[_Member]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16  # 0 where the archive was not made on Unix
            if info.is_dir():
                continue
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
                raise _not_plain(info.filename)
            with archive.open(info) as content:
                yield _Member(info.filename, content.read(most + 1), bool(mode & 0o111))


def _not_plain(name: str) -> _UnusableFile:
    return _UnusableFile(f"member {name!r} is neither a plain file nor a directory", "Leave it out")


def _packed(members: dict[str, _Member]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as archive,
    ):
        for name, member in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size = len(member.data)
            info.mode = 0o755 if member.executable else 0o644
            archive.addfile(info, io.BytesIO(member.data))
    return packed.getvalue()
