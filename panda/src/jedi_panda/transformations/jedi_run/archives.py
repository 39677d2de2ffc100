"""Archives: fetched from the job's directory or the server's cache, unpacked member by member."""

import gzip
import os
import shutil
import stat
import tarfile
import time
import urllib.error
import urllib.request
import zlib
from pathlib import Path
from typing import IO, List, Optional, Set, Union

from .base import BAD_ARCHIVE, MAX_BYTES, MAX_FILES, NO_ARCHIVE, Failure, native, say

PAUSES_S = (0, 2, 10, 30)
"""Waits before each try to fetch an archive."""

CHUNK = 1 << 18
LONGEST_READ = 4 << 20
"""A header that claims to be longer would fill the memory."""


def unpack_archive(name: str, source: str, only_here: bool, job: Path, target: Path) -> None:
    """Unpack an archive of the job's directory, or else of `source`, into a new directory."""
    here = job / name
    fetched = None if here.exists() else job / (name + ".part")
    if fetched:
        if only_here or not source:
            rule = "it must lie in the job's directory; stage it in, or give --sourceURL"
            raise Failure(NO_ARCHIVE, f"-a, -l {name!a}: {rule}.")
        fetch(f"{source}/cache/{name}", fetched)
    try:
        _Unpacking(name, target).run(fetched or here)
    finally:
        if fetched:
            fetched.unlink()


def fetch(url: str, target: Path) -> None:
    """Get a file over HTTP. Retries unless the server says that it does not have it."""
    error: Optional[Exception] = None
    for pause in PAUSES_S:
        time.sleep(pause)
        try:
            with urllib.request.urlopen(url, timeout=60) as answer, target.open("wb") as file:
                _copy_answer(answer, file)
            return
        except Failure:
            raise
        except (OSError, ValueError, EOFError) as failed:
            error = failed
            say(f"{url} can't be fetched: {failed}")
            if getattr(failed, "code", 500) < 500:
                break
    remedy = "submit the task again, if the server has deleted the file"
    raise Failure(NO_ARCHIVE, f"{url} can't be fetched: {error}; {remedy}.")


def _copy_answer(answer: IO[bytes], file: IO[bytes]) -> None:
    expected = answer.headers.get("Content-Length")  # type: ignore[attr-defined]
    length = 0
    while True:
        chunk = answer.read(CHUNK)
        length += len(chunk)
        file.write(chunk)
        if length > MAX_BYTES:
            raise Failure(BAD_ARCHIVE, f"The archive has more than {MAX_BYTES} bytes.")
        if not chunk:
            break
    if expected is not None and int(expected) != length:
        raise EOFError(f"{length} of {expected} bytes came")


class _Guarded:
    """Reads what tarfile asks for, but no header that would fill the memory."""

    def __init__(self, stream: Union[gzip.GzipFile, IO[bytes]]) -> None:
        self._stream = stream
        self.seek = stream.seek
        self.tell = stream.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= LONGEST_READ:
            raise ValueError(f"a header has {size} bytes")
        return self._stream.read(size)


class _Unpacking:
    """One archive on its way into a directory; `bytes` and `files` so far."""

    def __init__(self, name: str, target: Path) -> None:
        self._name = name
        target.mkdir(parents=True)
        self._root = Path(os.path.realpath(str(target)))
        self._safe: Set[Path] = {self._root}
        self._links: List[Path] = []
        self._bytes = 0
        self._files = 0

    def run(self, archive: Path) -> None:
        try:
            with archive.open("rb") as raw:
                packed = raw.read(2) == b"\x1f\x8b"
                raw.seek(0)
                stream = gzip.GzipFile(fileobj=raw) if packed else raw
                self._unpack(_Guarded(stream))
        except OSError as error:
            if error.errno is not None:
                raise
            self._damaged(error)
        except (
            tarfile.TarError,
            zlib.error,
            EOFError,
            ValueError,
            RecursionError,
            OverflowError,
        ) as error:
            self._damaged(error)

    def _damaged(self, error: Exception) -> None:
        remedy = "submit the task again"
        sentence = f"Archive {self._name!a} can't be unpacked: {error}; {remedy}."
        raise Failure(BAD_ARCHIVE, sentence) from error

    def refuse(self, member: str, rule: str) -> None:
        """End the job: `member` of the archive breaks `rule`, which names the remedy."""
        sentence = f"Archive {self._name!a}, member {member[:200]!a}: {rule}."
        raise Failure(BAD_ARCHIVE, sentence)

    def _unpack(self, stream: _Guarded) -> None:
        with tarfile.open(fileobj=stream, mode="r:") as tar:  # type: ignore[call-overload]
            while True:
                member = tar.next()
                if member is None:
                    break
                self._count(member)
                self._place(tar, member)
                tar.members = []  # else tarfile keeps them all
            self._check_end(stream, tar.offset)
        for link in filter(
            Path.is_symlink, self._links
        ):  # a later link may lead an earlier one out
            self._check_link(link, str(link.relative_to(self._root)))

    def _count(self, member: tarfile.TarInfo) -> None:
        self._files += 1
        self._bytes += max(member.size, 0)
        if self._files > MAX_FILES:
            self.refuse(member.name, f"more than {MAX_FILES} files; send fewer")
        if self._bytes > MAX_BYTES:
            self.refuse(member.name, f"more than {MAX_BYTES} bytes in all; send less")

    def _check_end(self, stream: _Guarded, offset: int) -> None:
        """Nothing but zeros may follow: tarfile takes a damaged header for the end."""
        stream.seek(offset)
        length = 0
        while True:
            rest = stream.read(CHUNK)
            length += len(rest)
            if rest.strip(b"\0"):
                raise ValueError(f"a header at byte {offset} is damaged")
            if not rest:
                return
            if length > MAX_BYTES:
                self.refuse("", f"it ends with more than {MAX_BYTES} zeros")

    def _place(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name, member.linkname = native(member.name), native(member.linkname)
        if name.startswith("/") or ".." in name.split("/"):
            self.refuse(name, "its name leads out of the archive; rename it")
        path = self._root / name
        if member.isdir():
            self._make_directory(path, name)
            return
        if path != self._root:
            self._make_directory(path.parent, name)
        if path.is_dir() and not path.is_symlink():
            self.refuse(name, "a directory has this name; rename one of them")
        if os.path.lexists(str(path)):
            path.unlink()
        if member.isreg() and not member.issparse():
            self._write(tar, member, path)
        elif member.issym():
            path.symlink_to(member.linkname)
            self._check_link(path, name)
            self._links.append(path)
        elif member.islnk():
            self._hard_link(member, path)
        else:
            self.refuse(name, "neither a file, a directory nor a link; leave it out")

    def _make_directory(self, path: Path, member: str) -> None:
        if path in self._safe:
            return
        self._make_directory(path.parent, member)
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            self.refuse(member, "it lies behind a link or a file; rename it")
        if not path.exists():
            path.mkdir()
        self._safe.add(path)

    def _write(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        content = tar.extractfile(member)
        assert content is not None  # it is a regular file
        with path.open("xb") as file:
            shutil.copyfileobj(content, file, CHUNK)
            if file.tell() != member.size:
                raise EOFError(f"member {member.name!a} is cut off")
        path.chmod(0o644 | (member.mode & 0o111))
        seconds = min(max(member.mtime, 0), time.time())  # make compares times
        os.utime(str(path), (seconds, seconds))

    def _check_link(self, path: Path, name: str) -> None:
        if not _within(Path(os.path.realpath(str(path))), self._root):
            self.refuse(name, "a link out of the archive; send the file that it means")
        if os.readlink(str(path)).startswith("/"):
            self.refuse(name, "an absolute link; make it relative")

    def _hard_link(self, member: tarfile.TarInfo, path: Path) -> None:
        other = self._root / member.linkname
        leaves = member.linkname.startswith("/") or ".." in member.linkname.split("/")
        if leaves or other.parent not in self._safe or not _is_plain_file(other):
            self.refuse(member.name, "a link to no file before it in the archive; send the file")
        os.link(str(other), str(path))


def _is_plain_file(path: Path) -> bool:
    return os.path.lexists(str(path)) and stat.S_ISREG(path.lstat().st_mode)


def _within(path: Path, root: Path) -> bool:
    return path == root or root in path.parents


def pack_directory(root: Path, target: Path) -> None:
    """Make a .tar.gz of a directory. Links that leave it become the files that they mean."""
    real = Path(os.path.realpath(str(root)))
    with tarfile.open(str(target), "w:gz") as tar:
        for place, directories, files in os.walk(str(real)):
            for name in sorted(directories + files):
                path = Path(place) / name
                _add(tar, path, real)
            directories.sort()


def _add(tar: tarfile.TarFile, path: Path, root: Path) -> None:
    name = str(path.relative_to(root))
    if path.is_symlink():
        meant = Path(os.path.realpath(str(path)))
        link = tar.gettarinfo(str(path), name)
        if _within(meant, root):
            link.linkname = os.path.relpath(str(meant), str(path.parent))
            tar.addfile(link)
            return
        if not meant.is_file():
            say(f"{name} is left out: it is a link out of the directory, to no file")
            return
        path = meant
    elif not (path.is_dir() or path.is_file()):
        say(f"{name} is left out: it is neither a file nor a directory")
        return
    if path.is_dir():
        tar.add(str(path), name, recursive=False)
        return
    entry = tar.gettarinfo(str(path), name)
    entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
    with path.open("rb") as file:
        tar.addfile(entry, file)
