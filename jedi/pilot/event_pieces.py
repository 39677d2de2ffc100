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

from .base import STALE, PayloadFailure
from .procs import PayloadAccount
from .stage import BAD_INPUT, Check, component
from .wire import ServiceRefusal, ServiceUnreachable, Wire

DIRECTORY, LIST = "pieces", "jedi_pieces.txt"
_CHUNK = 1 << 20
_ID = re.compile(r"\d+-\d+-(\d+)-(\d+)-\d+")
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def place_of(range_id: str) -> tuple[int, int]:
    """The order of a range: its input file and its first event. ValueError for another id."""
    if not (match := _ID.fullmatch(range_id)):
        raise ValueError(f"{range_id!r} is not the id of a range")
    return int(match[1]), int(match[2])


Piece = dict[str, Any]
"""A zip file {lfn, path, fsize, adler32}, and `members`, the ids of some of its ranges."""


def pages(wire: Wire, key: dict[str, int]) -> Iterator[list[Piece]]:
    """The pieces of a merge job, as many at a time as the service gives, in the order of events."""
    ask: dict[str, Any] = {"panda_id": key["pandaid"], "lock_seq": key["lock_seq"]}
    while True:
        try:
            answer = wire.insist("event_pieces", ask)
        except (ServiceUnreachable, ServiceRefusal) as error:
            raise PayloadFailure("pilot_error", f"No pieces: {error}.") from error
        if answer["status"] != "ok":
            raise PayloadFailure(STALE, "The service has given this job to another.")
        yield answer["pieces"]
        if answer["next"] is None:
            return
        ask["after"] = answer["next"]


def stage_pieces(
    pages: Iterable[Sequence[Piece]], run: Path, user: PayloadAccount | None, check: Check
) -> int:
    """Lay down the members of pieces, page by page in the order of events; bytes of the zips, each
    page's counted. All zips are checked, so that the failure names every missing or damaged one;
    nothing else of a zip is laid down."""
    _make(run / DIRECTORY)
    total, last = 0, (0, (0, 0))
    wrong: dict[str, PayloadFailure] = {}
    with (run / LIST).open("x") as paths:
        for pieces in pages:
            found: dict[int, list[str]] = {}
            numbers, last = _numbered(pieces, *last)
            for piece in pieces:
                check()
                try:
                    total += _stage_one(piece, numbers, run, user, check, found)
                except PayloadFailure as failure:
                    if failure.code not in BAD_INPUT:
                        raise
                    wrong[piece["lfn"]] = failure
            paths.writelines(f"{path}\n" for number in sorted(found) for path in found[number])
    if wrong:
        bad = {lfn: BAD_INPUT[failure.code] for lfn, failure in wrong.items()}
        code = min((failure.code for failure in wrong.values()), key=list(BAD_INPUT).index)
        raise PayloadFailure(code, " ".join(one.sentence for one in wrong.values()), bad)
    (run / LIST).chmod(0o644)
    return total


def _numbered(
    pieces: Sequence[Piece], last: int, after: tuple[int, int]
) -> tuple[dict[str, int], tuple[int, tuple[int, int]]]:
    """The numbers of the ranges of a page, after the last number and place of the page before."""
    order = sorted((one for piece in pieces for one in piece["members"]), key=place_of)
    places = [after, *map(place_of, order)]
    if places != sorted(set(places)):
        raise PayloadFailure("pilot_error", "The service named a range of events twice.")
    numbers = {range_id: number for number, range_id in enumerate(order, last + 1)}
    return numbers, (last + len(order), places[-1])


def _stage_one(
    piece: Piece,
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
        sentence = f"Piece {lfn} is not at {piece['path']}."
        raise PayloadFailure("stagein_missing", sentence) from None
    except (zipfile.BadZipFile, zlib.error, EOFError, LookupError, RuntimeError) as error:
        sentence = f"Piece {lfn} is damaged: {error}."
        raise PayloadFailure("stagein_checksum", sentence) from error
    except (OSError, ValueError) as error:
        sentence = f"Piece {lfn} could not be copied: {error}."
        raise PayloadFailure("stagein_failed", sentence) from error
    return size


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    with os.fdopen(os.open(path, _READ), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(f"{path} is not a regular file")
        yield file


def _verify(piece: Piece, file: IO[bytes], check: Check) -> int:
    size, adler = 0, 1
    while chunk := file.read(_CHUNK):
        check()
        size += len(chunk)
        adler = zlib.adler32(chunk, adler)
    if piece.get("fsize") not in (None, size):
        sentence = f"Piece {piece['lfn']} has {size} bytes, its pilot reported {piece['fsize']}."
        raise PayloadFailure("stagein_size", sentence)
    if piece.get("adler32") not in (None, f"{adler:08x}"):
        sentence = (
            f"Piece {piece['lfn']} is damaged: its adler32 is {adler:08x}, its pilot reported "
            f"{piece['adler32']}."
        )
        raise PayloadFailure("stagein_checksum", sentence)
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
