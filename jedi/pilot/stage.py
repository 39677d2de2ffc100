"""Files in and out: copied with a checksum, never through a link, durable before they count."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from .base import PayloadFailure
from .procs import PayloadAccount

_CHUNK = 1 << 20
# O_NONBLOCK: opening a FIFO would wait for a writer
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# what a failed stage-in says of the input, the worst first
BAD_INPUT = {"stagein_missing": "missing", "stagein_size": "broken", "stagein_checksum": "broken"}
_READ_ONLY = 0o444  # a payload that writes over an input fails, instead of losing it
_SHALLOW = 8  # levels of directories
_NOT_A_FILE = (errno.ELOOP, errno.ENXIO)  # what open says of a symlink, a socket

Check = Callable[[], None]  # called between chunks; raises to end the copy


def component(name: str) -> str:
    """A file name that stays in its directory; ValueError for a path, '..', an empty name."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise ValueError(f"{name!r} is not a plain file name")
    return name


def must_differ(inputs: Iterable[dict[str, Any]], outputs: Iterable[dict[str, Any]]) -> None:
    """No output has the name of an input: the payload would write it over that."""
    read = {item["lfn"] for item in inputs}
    if both := [item["lfn"] for item in outputs if (item["source_name"] or item["lfn"]) in read]:
        said = f"Outputs have names of inputs: {', '.join(both)}."
        raise PayloadFailure("output_is_input", said)


def stage_in(
    inputs: Iterable[dict[str, Any]], target: Path, user: PayloadAccount | None, check: Check
) -> int:
    """Copy {lfn, path, size|null, adler32|null} into `target` under their LFNs, where they can
    only be read; bytes copied. All
    inputs are looked at, so that the failure names every one that is missing or damaged.

    One without a size was named by who submitted the task, and not by data management: it is read
    with the payload's rights, not ours."""
    total = 0
    wrong: list[tuple[str, PayloadFailure]] = []
    for item in inputs:
        try:
            total += _stage_one(item, target, user, check)
        except PayloadFailure as failure:
            if failure.code not in BAD_INPUT:
                raise
            wrong.append((item["lfn"], failure))
    if wrong:
        bad = {lfn: BAD_INPUT[failure.code] for lfn, failure in wrong}
        said = " ".join(failure.sentence for _, failure in wrong)
        raise PayloadFailure(min((f.code for _, f in wrong), key=list(BAD_INPUT).index), said, bad)
    return total


def _stage_one(
    item: dict[str, Any], target: Path, user: PayloadAccount | None, check: Check
) -> int:
    lfn = item["lfn"]
    copy = _copy_in if item["size"] is not None else _copy_told
    try:
        size, adler = copy(item["path"], target / component(lfn), user, check)
    except FileNotFoundError:
        raise PayloadFailure("stagein_missing", f"Input {lfn} is not at {item['path']}.") from None
    except (OSError, ValueError) as error:
        raise PayloadFailure(
            "stagein_failed", f"Input {lfn} could not be copied: {error}."
        ) from error
    if item["size"] not in (None, size):
        said = f"it has {size} bytes, the catalogue lists {item['size']}"
        raise PayloadFailure("stagein_size", f"Input {lfn} is not the file it should be: {said}.")
    if item.get("adler32") and adler != item["adler32"]:
        said = f"its adler32 is {adler}, the catalogue lists {item['adler32']}"
        raise PayloadFailure("stagein_checksum", f"Input {lfn} is damaged: {said}.")
    return size


def stage_out(
    outputs: list[dict[str, Any]],
    source: Path,
    target: Path,
    user: PayloadAccount | None,
    check: Check,
) -> list[dict[str, Any]]:
    """Copy the declared outputs, {lfn, source_name|null, allow_missing}, from `source` to `target`.

    Gives [{lfn, size, adler32, guid}] of the ones that were there. Each must be a regular file in
    the directory itself and belong to the payload's user: a link is never followed, and a hard link
    to another user's file is not published.
    """
    names = {item["lfn"]: component(item["source_name"] or item["lfn"]) for item in outputs}
    paths = {lfn: source / name for lfn, name in names.items()}
    absent = [lfn for lfn, path in paths.items() if not os.path.lexists(path)]
    wanted = {item["lfn"] for item in outputs if not item["allow_missing"]}
    if missing := [_label(lfn, names[lfn]) for lfn in absent if lfn in wanted]:
        raise PayloadFailure(
            "output_missing", f"Not produced by the payload: {', '.join(missing)}."
        )
    present = (lfn for lfn in paths if lfn not in absent)
    return [stage_file(paths[lfn], lfn, target, user, check) for lfn in present]


def stage_file(
    source: Path, lfn: str, target: Path, user: PayloadAccount | None, check: Check
) -> dict[str, Any]:
    """Copy one file to target/lfn so that it is there whole, on disk, or not at all."""
    part = target / ".part"
    try:
        mode = make_like_parent(target)
        part.unlink(missing_ok=True)
        with own_file(source, user) as reading, _opened(part, _WRITE) as writing:
            os.fchmod(writing, mode)
            size, adler = _copy(reading, writing, check)
            os.fsync(writing)
        part.rename(target / component(lfn))
        with _opened(target, os.O_RDONLY | os.O_DIRECTORY) as directory:
            os.fsync(directory)
    except OSError as error:
        if error.errno in _NOT_A_FILE:
            said = f"Output {_label(lfn, source.name)} is not a regular file of the payload's."
            raise PayloadFailure("output_not_file", said) from error
        raise PayloadFailure(
            "stageout_failed", f"Output {lfn} could not be stored: {error}."
        ) from error
    return {"lfn": lfn, "size": size, "adler32": adler, "guid": str(uuid.uuid4())}


def make_like_parent(directory: Path) -> int:
    """Make a directory that no more accounts may enter than the one above it, and so on; the mode
    of files in it, which are as readable as it is. Who owns the storage says by the mode of its
    directories who reads it."""
    if not directory.is_dir():
        make_like_parent(directory.parent)
        with contextlib.suppress(FileExistsError):
            directory.mkdir()
            mode, above = directory.stat().st_mode, directory.parent.stat().st_mode
            if mode & 0o077 & ~above:
                directory.chmod(stat.S_IMODE(mode) & (above | 0o7700))
    return directory.stat().st_mode & 0o644 | 0o600


def remove_tree(path: Path) -> None:
    """Remove a directory whatever a payload left in it.

    Anything but a shallow tree by `rm`: it neither recurses in Python nor is misled by links or by
    paths longer than a path may be. Directories without permissions are opened up first, where that
    is needed (not root).
    """
    with contextlib.suppress(OSError):
        _remove_shallow(str(path), None, _SHALLOW)
    for command in (["rm", "-rf"], ["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
        if os.path.lexists(path):
            subprocess.run([*command, "--", str(path)], check=False, stderr=subprocess.DEVNULL)


def _remove_shallow(name: str, parent: int | None, levels: int) -> None:
    """Remove a directory in the open directory `parent`; OSError if it has more levels than these,
    or can't be removed."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    with _opened(name, flags, dir_fd=parent) as directory, os.scandir(directory) as entries:
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                os.unlink(entry.name, dir_fd=directory)
            elif levels > 1:
                _remove_shallow(entry.name, directory, levels - 1)
            else:
                raise OSError(errno.ELOOP, "too deep", entry.name)
    os.rmdir(name, dir_fd=parent)


@contextlib.contextmanager
def own_file(path: Path, user: PayloadAccount | None) -> Iterator[int]:
    """Open a regular file of the payload's user for reading; OSError if it is something else."""
    with _opened(path, _READ) as reading:
        info = os.fstat(reading)
        if not stat.S_ISREG(info.st_mode) or (user and info.st_uid != user.uid):
            raise OSError(errno.ELOOP, "not a file of the payload's")
        yield reading


@contextlib.contextmanager
def _opened(
    path: Path | str, flags: int, mode: int = 0o644, dir_fd: int | None = None
) -> Iterator[int]:
    fd = os.open(path, flags, mode, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def _label(lfn: str, name: str) -> str:
    return lfn if lfn == name else f"{lfn} (from {name})"


def _copy_in(
    source: str, target: Path, user: PayloadAccount | None, check: Check
) -> tuple[int, str]:
    with _opened(Path(source), _READ) as reading, _opened(target, _WRITE, _READ_ONLY) as writing:
        if not stat.S_ISREG(os.fstat(reading).st_mode):
            raise ValueError(f"{source} is not a regular file")
        if user:
            os.fchown(writing, user.uid, user.gid)
        return _copy(reading, writing, check)


def _copy_told(
    source: str, target: Path, user: PayloadAccount | None, check: Check
) -> tuple[int, str]:
    if not Path(source).is_file():
        raise FileNotFoundError(source)
    rights: dict[str, Any] = {}
    if user:
        rights = {"user": user.uid, "group": user.gid, "extra_groups": []}
    pipe, environment = subprocess.PIPE, {"PATH": os.environ.get("PATH", os.defpath)}  # no token
    with (
        _opened(target, _WRITE, _READ_ONLY) as writing,
        subprocess.Popen(
            ["cat", "--", source], stdout=pipe, stderr=pipe, env=environment, cwd="/", **rights
        ) as reader,
    ):
        assert reader.stdout and reader.stderr
        if user:
            os.fchown(writing, user.uid, user.gid)
        copied = _copy(reader.stdout.fileno(), writing, check)
        if (said := reader.stderr.read(500)) or reader.wait():  # it may be killed, and say nothing
            why = said.decode(errors="replace").strip()
            raise ValueError(why or f"cat ended with code {reader.returncode}")
    return copied


def _copy(reading: int, writing: int, check: Check) -> tuple[int, str]:
    """Copy between descriptors; (bytes, adler32 as 8 hexadecimal digits)."""
    size, adler = 0, 1
    while chunk := os.read(reading, _CHUNK):
        check()
        adler = zlib.adler32(chunk, adler)
        size += len(chunk)
        rest = memoryview(chunk)
        while rest:
            rest = rest[os.write(writing, rest) :]
    return size, f"{adler:08x}"
