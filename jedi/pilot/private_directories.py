"""Places that all who work on a machine share: a payload gets its own, where the kernel allows it.

`/tmp`, `/var/tmp` and `/dev/shm` of a payload are directories beside its work directory: counted
with it, and gone with it. That takes a mount namespace: root makes one, an ordinary user one within
a user namespace, which not every kernel allows. Else files that a payload of an account of its own
leaves in the shared places are counted, and removed at its end (`SharedDirectories`).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from . import procs
from .stage import remove_tree

PLACES = ("/tmp", "/var/tmp", "/dev/shm")
_CLONE_NEWNS, _CLONE_NEWIPC, _CLONE_NEWUSER = 0x00020000, 0x08000000, 0x10000000
_MS_BIND, _MS_REC, _MS_SLAVE = 0x1000, 0x4000, 0x80000
_SLACK_S = 1.0
"""File systems stamp files by a clock that is a little late."""

_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class PrivateDirectories:
    """The places of one payload. `kept` are paths that it sees as they are, be they below a
    place or not: its work directory above all."""

    own: Path
    kept: tuple[str, ...]
    cwd: str
    _permitted: ClassVar[bool] = False

    def make(self, user: procs.PayloadAccount | None) -> None:
        """Make the directories that are to be seen as the places, and in them the way to the kept
        ones. Nobody else may enter them by their true paths."""
        self.own.mkdir(mode=0o700)
        before = os.umask(0o022)  # the way is everybody's
        try:
            self._prepare(user)
        finally:
            os.umask(before)

    def _prepare(self, user: procs.PayloadAccount | None) -> None:
        for place, source in self._sources():
            source.mkdir()
            source.chmod(0o1777)
            if user:
                os.chown(source, user.uid, user.gid)
            for path in self._kept_below(place):
                goal = source / os.path.relpath(path, place)
                if Path(path).is_dir():
                    goal.mkdir(parents=True, exist_ok=True)
                else:
                    goal.parent.mkdir(parents=True, exist_ok=True)
                    goal.touch()

    def possible(self) -> bool:
        """True if the kernel permits them: a process that ends at once tries, until one could."""
        if PrivateDirectories._permitted:
            return True
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(BaseException):
                self.enter()
                code = 0
            os._exit(code)
        PrivateDirectories._permitted = os.waitpid(pid, 0)[1] == 0
        return PrivateDirectories._permitted

    def enter(self) -> None:
        """Give this process, still with the rights that it began with, and all its children their
        own places and no System V memory of others. OSError if the kernel does not allow it."""
        uid, gid = os.geteuid(), os.getegid()
        _unshare(_CLONE_NEWNS | _CLONE_NEWIPC | (_CLONE_NEWUSER if uid else 0))
        if uid:
            _write("setgroups", "deny")
            _write("uid_map", f"{uid} {uid} 1")
            _write("gid_map", f"{gid} {gid} 1")
        _mount("none", "/", _MS_REC | _MS_SLAVE)  # what the host mounts later is seen
        opened = [
            (place, _open(str(source)), [(path, _open(path)) for path in self._kept_below(place)])
            for place, source in self._sources()
        ]  # by descriptors: one place may cover the way to the next
        for place, source_fd, kept in opened:
            _bind(source_fd, place)
            for path, fd in kept:
                _bind(fd, path)
        os.chdir(self.cwd)  # we stood in what is covered now

    def _sources(self) -> Iterator[tuple[str, Path]]:
        """The places of this machine, by their true paths, and the one that stands for each."""
        seen = dict.fromkeys(os.path.realpath(place) for place in PLACES)
        for place in seen:
            if Path(place).is_dir():
                yield place, self.own / place.strip("/").replace("/", "_")

    def _kept_below(self, place: str) -> list[str]:
        paths = dict.fromkeys(os.path.realpath(path) for path in self.kept)
        below = sorted(path for path in paths if path.startswith(f"{place}/"))
        return [path for path in below if Path(path).exists()]


class SharedDirectories:
    """Leftovers in shared directories of a payload with an account of its own.

    There are none if the payload runs as the pilot: then their files can't be distinguished. Others
    may use an account with a name: of its files only those count that are newer than the payload.
    """

    def __init__(self, user: procs.PayloadAccount | None) -> None:
        self._uid = user.uid if user else None
        named = user is not None and procs.has_name(user.uid)
        self._since = time.time() - _SLACK_S if named else 0.0

    def left(self) -> list[str]:
        """Files and directories directly in the places."""
        leftovers: list[str] = []
        for place in dict.fromkeys(os.path.realpath(place) for place in PLACES):
            with contextlib.suppress(OSError), os.scandir(place) as entries:
                leftovers += (entry.path for entry in entries if self._ours(entry))
        return leftovers

    def sweep(self) -> None:
        """Remove them, unless the account has other processes, which may want them: the last one
        sweeps."""
        if self._uid is not None and not procs.tasks_of(self._uid):
            for path in self.left():
                remove_tree(Path(path))

    def _ours(self, entry: os.DirEntry[str]) -> bool:
        try:
            info = entry.stat(follow_symlinks=False)
        except OSError:
            return False
        return info.st_uid == self._uid and info.st_ctime >= self._since


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _bind(fd: int, target: str) -> None:
    _mount(f"/proc/self/fd/{fd}", target, _MS_BIND | _MS_REC)
    os.close(fd)


def _write(name: str, text: str) -> None:
    Path(f"/proc/self/{name}").write_text(text)


def _unshare(flags: int) -> None:
    _checked(_LIBC.unshare(flags))


def _mount(source: str, target: str, flags: int) -> None:
    _checked(_LIBC.mount(os.fsencode(source), os.fsencode(target), None, flags, None))


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
