"""The directory of a storage where pilots of PanDA read inputs and leave outputs.

They find a file at SCOPE/aa/bb/LFN, aa and bb from md5("SCOPE:LFN"), with each dot of the scope a
new directory. JEDI gives each attempt a scope of its own, so that no attempt meets the files of
another one: <root>/.panda/<pandaid>-<lock_seq>/{in,out}/aa/bb/LFN. Inputs there are links. JEDI
makes all directories, and takes files out of them alone.
"""

from __future__ import annotations

import errno
import os
import stat
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import md5
from pathlib import Path

from jedi.core import names
from jedi.core.errors import NotFound, Refused

_BLOCK = 1 << 20
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class ExchangedFile:
    """A file that a pilot left: size in bytes, adler32 in 8 hex digits."""

    lfn: str
    size: int
    adler32: str


@dataclass(frozen=True, slots=True)
class AttemptExchange:
    """The part of an exchange directory that one attempt of a job has."""

    root: Path
    panda_id: int
    lock_seq: int

    @property
    def name(self) -> str:
        """The attempt's directory below the root."""
        return f"{self.panda_id:d}-{self.lock_seq:d}"

    @property
    def scope_in(self) -> str:
        """The scope under which the pilot looks for inputs."""
        return f"{self.name}.in"

    @property
    def scope_out(self) -> str:
        """The scope under which the pilot stores outputs."""
        return f"{self.name}.out"

    def output_path(self, lfn: str) -> Path:
        """The place where the pilot stores an output."""
        return self.root.joinpath(*_parts(self.scope_out, lfn))

    def prepare(self, inputs: Mapping[str, str], outputs: Sequence[str]) -> None:
        """Make links to the inputs (paths by LFN) and the directories of the outputs, as open as
        the exchange directory is: who owns a storage lets pilots of other accounts write by its
        mode. May be repeated."""
        _make(self.root.parent, self.root, stat.S_IMODE(self.root.parent.stat().st_mode))
        mode = stat.S_IMODE(self.root.stat().st_mode)
        for lfn, path in inputs.items():
            place = self.root.joinpath(*_parts(self.scope_in, lfn))
            _make(self.root, place.parent, mode)
            with suppress(FileExistsError):
                place.symlink_to(path)
        for lfn in outputs:
            _make(self.root, self.output_path(lfn).parent, mode)

    def collect(self, lfn: str, target: Path) -> ExchangedFile | None:
        """Move an output into the directory `target`, unless it is there already. None: it is in
        neither. Refused: it is not a regular file, or a link led out of the attempt's directory."""
        place = target / names.lfn(lfn)
        with suppress(FileNotFoundError), self._directory(_parts(self.scope_out, lfn)[:-1]) as here:
            with _opened(lfn, _FILE, here) as reading:
                if not stat.S_ISREG(os.fstat(reading).st_mode):
                    raise _no_file(lfn)
                os.fsync(reading)
            os.rename(lfn, place, src_dir_fd=here)
        try:
            with _opened(str(place), _FILE, None) as reading:
                return ExchangedFile(lfn, *_measured(reading))
        except FileNotFoundError:
            return None

    @contextmanager
    def _directory(self, parts: Sequence[str]) -> Iterator[int]:
        """The open directory of these parts below the root: no link is followed."""
        here = os.open(self.root, _DIRECTORY)
        try:
            for part in parts:
                try:
                    below = os.open(part, _DIRECTORY, dir_fd=here)
                except OSError as error:
                    if error.errno in (errno.ELOOP, errno.ENOTDIR):
                        raise _no_file(part) from error
                    raise
                os.close(here)
                here = below
            yield here
        finally:
            os.close(here)


def make_staging(target: Path) -> None:
    """Make the staging directory of an attempt, as open as its storage is."""
    storage = target.parent.parent
    _make(storage, target, stat.S_IMODE(storage.stat().st_mode))


def attempts(root: Path) -> Iterator[tuple[int, int]]:
    """The attempts (panda_id, lock_seq) that have a directory in an exchange directory."""
    with suppress(FileNotFoundError, NotADirectoryError):
        for name in os.listdir(root):  # noqa: PTH208 - names alone
            first, _, second = name.partition("-")
            if first.isdecimal() and second.isdecimal():
                yield int(first), int(second)


def _parts(scope: str, lfn: str) -> list[str]:
    found = md5(f"{scope}:{names.lfn(lfn)}".encode(), usedforsecurity=False).hexdigest()
    return [*scope.split("."), found[:2], found[2:4], lfn]


def _make(root: Path, directory: Path, mode: int) -> None:
    if directory == root or directory.is_dir():
        return
    _make(root, directory.parent, mode)
    with suppress(FileExistsError):
        directory.mkdir()
        directory.chmod(mode)


@contextmanager
def _opened(name: str, flags: int, directory: int | None) -> Iterator[int]:
    try:
        found = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise _no_file(name) from error
        raise
    try:
        yield found
    finally:
        os.close(found)


def _measured(reading: int) -> tuple[int, str]:
    size, value = 0, 1
    while block := os.read(reading, _BLOCK):
        value = zlib.adler32(block, value)
        size += len(block)
    return size, f"{value:08x}"


def _no_file(name: str) -> Refused:
    return Refused(f"{name} is not a regular file of its job.", code="output_not_file", lfn=name)


def missing_output(lfn: str, place: Path) -> NotFound:
    """The error of an output that is not where its pilot should have stored it."""
    return NotFound(f"Output {lfn} is not at {place}.", code="staged_missing", lfn=lfn)
