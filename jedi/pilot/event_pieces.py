"""Inputs of a job that merges ranges of events: members of zips, laid down in order.

The payload finds the directory `pieces`, with a directory for each range, and `jedi_pieces.txt`
with the path of each output, a line each. Both are ordered by input file and first event.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .base import PayloadFailure
from .procs import PayloadAccount
from .stage import BAD_INPUT, Check, component

DIRECTORY, LIST = "pieces", "jedi_pieces.txt"
_CHUNK = 1 << 20
_ID = re.compile(r"\d+-\d+-(\d+)-(\d+)-\d+")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def place_of(range_id: str) -> tuple[int, int]:
    """The order of a range: its input file and its first event. ValueError for another id."""
    if not (match := _ID.fullmatch(range_id)):
        raise ValueError(f"{range_id!r} is not the id of a range")
    return int(match[1]), int(match[2])


def stage_pieces(
    pieces: Sequence[dict[str, Any]], run: Path, user: PayloadAccount | None, check: Check
) -> int:
    """Lay down the `members`, ids of ranges, of zips {lfn, path, fsize, adler32, members}; bytes of
    the zips. All zips are checked, so that the failure names every missing or damaged one; nothing
    else of a zip is laid down."""
    order = sorted((one for piece in pieces for one in piece["members"]), key=place_of)
    numbers = {range_id: number for number, range_id in enumerate(order, 1)}
    if len(numbers) < len(order):
        raise PayloadFailure("pilot_error", "The service named a range of events twice.")
    _make(run / DIRECTORY)
    found: dict[int, list[str]] = {}
    total, wrong = 0, []
    for piece in pieces:
        check()
        try:
            total += _stage_one(piece, numbers, run, user, check, found)
        except PayloadFailure as failure:
            if failure.code not in BAD_INPUT:
                raise
            wrong.append((piece["lfn"], failure))
    if wrong:
        bad = {lfn: BAD_INPUT[failure.code] for lfn, failure in wrong}
        code = min((failure.code for _, failure in wrong), key=list(BAD_INPUT).index)
        raise PayloadFailure(code, " ".join(failure.sentence for _, failure in wrong), bad)
    paths = [path for number in sorted(found) for path in found[number]]
    (run / LIST).write_text("".join(f"{path}\n" for path in paths))
    (run / LIST).chmod(0o644)
    return total


def _stage_one(
    piece: dict[str, Any],
    numbers: dict[str, int],
    run: Path,
    user: PayloadAccount | None,
    check: Check,
    found: dict[int, list[str]],
) -> int:
    lfn = piece["lfn"]
    try:
        with _opened(piece["path"]) as file:
            size = _verify(piece, file, check)
            with zipfile.ZipFile(file) as archive:
                for number, path in _extract(archive, piece["members"], numbers, run, user, check):
                    found.setdefault(number, []).append(path)
    except FileNotFoundError:
        said = f"Piece {lfn} is not at {piece['path']}."
        raise PayloadFailure("stagein_missing", said) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, RuntimeError) as error:
        said = f"Piece {lfn} is damaged: {error}."
        raise PayloadFailure("stagein_checksum", said) from error
    except (OSError, ValueError) as error:
        said = f"Piece {lfn} could not be copied: {error}."
        raise PayloadFailure("stagein_failed", said) from error
    return size


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    with os.fdopen(os.open(path, _READ), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        yield file


def _verify(piece: dict[str, Any], file: IO[bytes], check: Check) -> int:
    size, adler = 0, 1
    while chunk := file.read(_CHUNK):
        check()
        size += len(chunk)
        adler = zlib.adler32(chunk, adler)
    if piece.get("fsize") not in (None, size):
        said = f"Piece {piece['lfn']} has {size} bytes, its pilot reported {piece['fsize']}."
        raise PayloadFailure("stagein_size", said)
    if piece.get("adler32") not in (None, f"{adler:08x}"):
        said = f"Piece {piece['lfn']} is damaged: its adler32 is {adler:08x}, its pilot reported " \
               f"{piece['adler32']}."  # fmt: skip
        raise PayloadFailure("stagein_checksum", said)
    return size


def _extract(
    archive: zipfile.ZipFile,
    members: Iterable[str],
    numbers: dict[str, int],
    run: Path,
    user: PayloadAccount | None,
    check: Check,
) -> Iterator[tuple[int, str]]:
    """Lay down the outputs of ranges; their numbers and paths. KeyError: the zip lacks a range."""
    inside: dict[str, list[str]] = {}
    for entry in archive.infolist():
        if entry.compress_type != zipfile.ZIP_STORED:  # it could be of any size
            raise zipfile.BadZipFile(f"{entry.filename} is compressed")
        range_id, _, name = entry.filename.partition("/")
        inside.setdefault(range_id, []).extend([name] if name else [])
    for range_id in members:
        if range_id not in inside:
            raise KeyError(f"it lacks range {range_id}")
        directory = f"{DIRECTORY}/{numbers[range_id]:08}"
        _make(run / directory)
        for name in inside[range_id]:
            target = run / directory / component(name)
            _copy(archive, f"{range_id}/{name}", target, user, check)
            yield numbers[range_id], f"{directory}/{name}"


def _copy(
    archive: zipfile.ZipFile, entry: str, target: Path, user: PayloadAccount | None, check: Check
) -> None:
    with archive.open(entry) as reading, target.open("xb") as writing:
        os.fchmod(writing.fileno(), 0o444)
        if user:
            os.fchown(writing.fileno(), user.uid, user.gid)
        while chunk := reading.read(_CHUNK):
            check()
            writing.write(chunk)


def _make(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o755)
