"""People's files on their way into a dataset: offered, uploaded in pieces, verified, added.

A file lies in the hidden directory of its endpoint until all are there: an upload that breaks off
goes on where it was, and readers see all files of a request or none. Decision:
docs/decisions/uploads.md.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal

from sqlalchemy import Connection

from jedi.core import names
from jedi.core.errors import BadInput, NoSpace, NotFound, Problem, Refused
from jedi.core.knobs import Knobs
from jedi.ddm.directories import must_be_plain
from jedi.ddm.interface import DDM, FileInfo
from jedi.ddm.storage import valid_dataset
from jedi.ddm.together import together
from jedi.ddm.uploads import Admit, key_of
from jedi.service.datasets.dataset_details import storage_of
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.sites import sites

PIECE_MAX = 8 * 2**20
"""Bytes of a piece: what an upload takes of the service's memory at a time."""

NAME_MAX = 255
"""Characters of a file's name: file systems keep no more."""

FILES_MAX = 50_000
"""Files of a request."""

GROUP_MAX = 1_000
"""Whole files of a request."""

SHOWN = 10
"""Names of files in a sentence."""

_BLOCK = 2**20
_PART, _CLOSES = ".part", ".closes"
"""Names beside an upload, since no file of a dataset begins with a point: of its bytes until it is
whole; and of a note that the dataset is to be closed, for a crash before that."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file as its owner has it: size in bytes, adler32 in 8 and sha256 in 64 hex digits."""

    lfn: str
    size: int
    adler32: str
    sha256: str


UploadStatus = Literal["in_dataset", "uploaded", "wanted"]


@dataclass(frozen=True, slots=True)
class Upload:
    """A new file: `in_dataset` with the same content already, `uploaded` and verified, or `wanted`
    from byte `received` on."""

    lfn: str
    status: UploadStatus
    received: int


@dataclass(frozen=True, slots=True)
class Destination:
    """The dataset and the endpoint to which a user adds files."""

    who: str
    dataset: str
    endpoint: str

    @property
    def owner(self) -> str:
        """The user as uploads name him."""
        return _digest(self.who)[:16]

    def key(self, file: NewFile) -> str:
        """The name of an upload. Other users, names and contents have others."""
        words = (self.who, self.dataset, file.lfn, str(file.size), file.sha256)
        return key_of(self.owner, _digest(self.dataset)[:16], file.size, _digest(*words)[:40])


def _digest(*words: str) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def destination(tx: Connection, ddm: DDM, who: str, name: str, endpoint: str | None) -> Destination:
    """The place to which `who` adds files. Refused: it is a container; BadInput."""
    dataset = valid_dataset(name)
    with suppress(NotFound):  # it will be made
        must_be_plain(ddm.dataset(dataset))
    known = list(dict(sites.ROOTS.rows(tx)))
    if endpoint is None and len(known) == 1:
        [endpoint] = known
    if endpoint not in known:
        listed = ", ".join(known) or "no endpoint exists: import a site file first"
        rule = "there is no such endpoint" if endpoint else "the command needs an endpoint"
        remedy = f"Name one of the endpoints ({listed})"
        raise BadInput([Problem("endpoint", endpoint, rule, remedy)])
    return Destination(who, dataset, endpoint)


def offer(ddm: DDM, knobs: Knobs, to: Destination, files: Sequence[NewFile]) -> list[Upload]:
    """The present state of each file. BadInput: bad names, or files that are too large; Refused:
    the dataset has other content under some names, or the endpoint lacks the space."""
    check(knobs, files)
    with storage_of(to.endpoint):
        return _offer(ddm, knobs, to, files)


def _offer(ddm: DDM, knobs: Knobs, to: Destination, files: Sequence[NewFile]) -> list[Upload]:
    there = _there(ddm, to.dataset)
    if other := [one.lfn for one in files if not _is(one, there.get(one.lfn, one))]:
        raise Refused(
            f"{to.dataset} has other content under {_some(other)}: choose other names.",
            code="target_differs",
            dataset=to.dataset,
            files=other,
        )
    found = [_state(ddm, to, one, one.lfn in there) for one in files]
    wanted = [
        (one, had.received) for one, had in zip(files, found, strict=True) if had.status == "wanted"
    ]
    _must_have_room(ddm, to, "files", sum(one.size - received for one, received in wanted))
    new = [one.size for one, _ in wanted if not ddm.upload_dir(to.endpoint, to.key(one)).exists()]
    lying = ddm.open_uploads(to.endpoint, to.owner)
    _admission(knobs, to, "files")(len(new) + len(lying), sum(new) + sum(lying))
    return found


def _must_have_room(ddm: DDM, to: Destination, field: str, coming: int) -> None:
    """NoSpace: the endpoint has fewer bytes left than are to come."""
    free = int(ddm.space(to.endpoint).free_gb * 2**30)
    if coming > free:
        rule = f"{to.endpoint} has {free} bytes left, and {coming} are to come"
        remedy = "Choose another endpoint, or ask its operators to make room"
        raise _no_space("no_space", Problem(field, coming, rule, remedy), to)


def _admission(knobs: Knobs, to: Destination, field: str) -> Admit:
    """The limits of a user's open uploads at an endpoint. NoSpace."""
    limits = knobs.upload

    def admit(files: int, size: int) -> None:
        for value, unit, most, limit, name in (
            (files, "files", limits.open_files, f"{limits.open_files:g}", "open_files"),
            (size, "bytes", limits.open_gb * 2**30, f"{limits.open_gb:g} GB", "open_gb"),
        ):
            if value > most:
                rule = (
                    f"{to.who} would have open uploads of {value} {unit} at {to.endpoint}, more "
                    f"than {limit} (knob upload.{name})"
                )
                remedy = (
                    "Add uploaded files to their datasets first, in several requests; JEDI removes "
                    f"uploads after {limits.keep_days:g} days (knob upload.keep_days)"
                )
                raise _no_space("too_many_uploads", Problem(field, value, rule, remedy), to)

    return admit


def _no_space(code: str, why: Problem, to: Destination) -> NoSpace:
    return NoSpace(
        str(why),
        code=code,
        endpoint=to.endpoint,
        path=why.path,
        value=why.value,
        rule=why.rule,
        remedy=why.remedy,
    )


def _some(lfns: Sequence[str]) -> str:
    more = f" and {len(lfns) - SHOWN} more" if len(lfns) > SHOWN else ""
    return ", ".join(lfns[:SHOWN]) + more


def check(knobs: Knobs, files: Sequence[NewFile]) -> None:
    """Raise BadInput for bad names and for files that are too large."""
    most, seen = knobs.upload.max_gb * 2**30, set[str]()
    problems = []
    for one in files:
        try:
            names.lfn(one.lfn)
        except ValueError as error:
            problems.append(Problem("files", one.lfn, str(error), "Rename the file"))
        if one.size > most:
            rule = f"has more than {knobs.upload.max_gb:g} GB (knob upload.max_gb)"
            problems.append(Problem("files", one.lfn, rule, "Split it"))
        if one.lfn in seen:
            remedy = "Rename one of them: file names are unique in a dataset"
            problems.append(Problem("files", one.lfn, "occurs twice", remedy))
        seen.add(one.lfn)
    if problems:
        raise BadInput(problems)


def _there(ddm: DDM, dataset: str) -> dict[str, FileInfo]:
    try:
        return {file.lfn: file for file in ddm.list_files(dataset)}
    except NotFound:
        return {}


def _is(file: NewFile, found: FileInfo | NewFile) -> bool:
    return (file.size, file.adler32) == (found.size, found.adler32)


def _state(ddm: DDM, to: Destination, file: NewFile, in_dataset: bool) -> Upload:
    if in_dataset:
        return Upload(file.lfn, "in_dataset", file.size)
    place = ddm.upload_dir(to.endpoint, to.key(file))
    lying = (place / file.lfn, ddm.path(to.endpoint, to.dataset, file.lfn))
    if any(_size(one) == file.size for one in lying):  # publishing compares the adler32
        return Upload(file.lfn, "uploaded", file.size)
    return Upload(file.lfn, "wanted", _size(place / _PART) or 0)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return None


def put_piece(
    ddm: DDM, knobs: Knobs, to: Destination, file: NewFile, offset: int, data: bytes
) -> Upload:
    """Write a piece of a file from byte `offset` on; the last one completes and verifies it. A
    piece may come again. Refused: the bytes before it are missing, or the content is not as
    announced, and then all of it is thrown away. NoSpace: the endpoint lacks the bytes that are
    to come, or a new file is more than a user may upload at a time."""
    check(knobs, [file])
    if offset + len(data) > file.size:
        rule = f"ends beyond the {file.size} bytes of {file.lfn}"
        raise BadInput([Problem("offset", offset, rule, "Send what is left")])
    with storage_of(to.endpoint):
        return _put_piece(ddm, knobs, to, file, offset, data)


def put_files(
    ddm: DDM, knobs: Knobs, to: Destination, files: Sequence[NewFile], contents: Sequence[bytes]
) -> list[Upload]:
    """Write whole files, complete and verify them: `put_piece` of each. Those before one that is
    refused stay uploaded. BadInput and a refusal of contents name all that are wrong."""
    check(knobs, files)
    if wrong := [
        Problem("files", file.lfn, f"has {len(content)} bytes, not {file.size}", "Send all of it")
        for file, content in zip(files, contents, strict=True)
        if len(content) != file.size
    ]:
        raise BadInput(wrong)

    def put(one: tuple[NewFile, bytes]) -> Upload | Refused:
        try:
            return _put_piece(ddm, knobs, to, one[0], 0, one[1])
        except Refused as error:
            if error.code != "checksum_differs":
                raise
            return error

    with storage_of(to.endpoint):
        answers = together(put, zip(files, contents, strict=True))
    damaged = [one for one in answers if isinstance(one, Refused)]
    if len(damaged) > 1:
        lfns = [error.facts["lfn"] for error in damaged]
        raise Refused(
            f"{len(lfns)} of {len(files)} files came with other checksums than announced: "
            f"{_some(lfns)}. Upload them again.",
            code="checksum_differs",
            files=lfns,
        )
    if damaged:
        raise damaged[0]
    return [one for one in answers if isinstance(one, Upload)]


def _put_piece(
    ddm: DDM, knobs: Knobs, to: Destination, file: NewFile, offset: int, data: bytes
) -> Upload:
    place = ddm.upload_dir(to.endpoint, to.key(file))
    if not (place / file.lfn).exists():
        _must_have_room(ddm, to, "size", file.size - (_size(place / _PART) or 0))
    ddm.begin_upload(to.endpoint, to.key(file), _admission(knobs, to, "size"))
    whole, part = place / file.lfn, place / _PART
    with _locked(part) as writer:
        if whole.exists():
            part.unlink(missing_ok=True)
            return Upload(file.lfn, "uploaded", file.size)
        received = _received(writer, part)
        if offset > received:
            raise Refused(
                f"{file.lfn} has {received} bytes so far, and this piece begins at {offset}.",
                code="piece_missing",
                received=received,
            )
        _write(writer, offset, data)
        received = max(received, offset + len(data))
        if received < file.size:
            return Upload(file.lfn, "wanted", received)
        _complete(writer, file, part, whole)
    return Upload(file.lfn, "uploaded", file.size)


@contextmanager
def _locked(part: Path) -> Iterator[BinaryIO]:
    """A part, open for one writer: the same piece may come twice at a time."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
    with os.fdopen(os.open(part, flags, 0o600), "r+b", buffering=0) as writer:
        fcntl.flock(writer, fcntl.LOCK_EX)
        yield writer


def _received(writer: BinaryIO, part: Path) -> int:
    """The bytes of a part; none, if it was thrown away while this writer waited."""
    found = os.fstat(writer.fileno())
    try:
        return found.st_size if os.path.samestat(found, part.lstat()) else 0
    except FileNotFoundError:
        return 0


def _write(writer: BinaryIO, offset: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        written = os.pwrite(writer.fileno(), left, offset)
        offset, left = offset + written, left[written:]


def _complete(writer: BinaryIO, file: NewFile, part: Path, whole: Path) -> None:
    """Give a part its name. Refused: its content is not as announced."""
    os.fsync(writer.fileno())
    adler32, sha256 = 1, hashlib.sha256()
    writer.seek(0)
    while block := writer.read(_BLOCK):
        adler32 = zlib.adler32(block, adler32)
        sha256.update(block)
    found = (f"{adler32:08x}", sha256.hexdigest())
    if found != (file.adler32, file.sha256):
        part.unlink()
        raise Refused(
            f"{file.lfn} came with adler32 {found[0]} and sha256 {found[1]}, not {file.adler32} "
            f"and {file.sha256}: upload it again.",
            code="checksum_differs",
            lfn=file.lfn,
        )
    os.fchmod(writer.fileno(), 0o644 & (part.parent.stat().st_mode | 0o600))
    part.rename(whole)


@dataclass(frozen=True, slots=True)
class AddedFile:
    """A file of a dataset: `added` by this request, or there before."""

    lfn: str
    size: int
    adler32: str
    added: bool


def add(
    tx: Connection,
    ddm: DDM,
    knobs: Knobs,
    to: Destination,
    files: Sequence[NewFile],
    *,
    dry_run: bool = False,
) -> list[AddedFile]:
    """Add uploaded files to a dataset, all or none; make the dataset if there is none. An open one
    stays open, and tasks that read it get the files; any other is closed. Files that it has with
    the same content stay as they are. Refused as `offer`, or if files are not uploaded."""
    datasets.reserve_outputs(tx, [to.dataset])  # requests for one dataset wait for each other
    states = offer(ddm, knobs, to, files)
    if missing := [one.lfn for one in states if one.status == "wanted"]:
        raise Refused(
            f"{len(missing)} of {len(files)} files are not uploaded yet: {_some(missing)}.",
            code="upload_missing",
            files=missing,
        )
    new = [one for one, had in zip(files, states, strict=True) if had.status == "uploaded"]
    added = {one.lfn for one in new}
    if not dry_run:
        with storage_of(to.endpoint):
            _publish(ddm, to, new, [one for one in files if one.lfn not in added])
        datasets.wake_consumers(tx, [to.dataset])
    return [AddedFile(one.lfn, one.size, one.adler32, one.lfn in added) for one in files]


def _publish(ddm: DDM, to: Destination, new: Sequence[NewFile], known: Sequence[NewFile]) -> None:
    """Publish new files. A request that repeats one which broke off closes the dataset for it."""
    places = {one.lfn: ddm.upload_dir(to.endpoint, to.key(one)) for one in (*known, *new)}
    closes = any((place / _CLOSES).exists() for place in places.values())
    if new:
        closes = closes or not _is_open(ddm, to.dataset)
        for one in new:
            ddm.begin_upload(to.endpoint, to.key(one), lambda *_: None)  # it may be published
            if closes:
                (places[one.lfn] / _CLOSES).touch()
        ddm.create(to.dataset, to.endpoint)
        ddm.publish(
            to.endpoint,
            [
                (places[one.lfn] / one.lfn, to.dataset, FileInfo(one.lfn, one.size, one.adler32))
                for one in new
            ],
        )
    if closes:
        ddm.close(to.dataset)
    together(lambda one: ddm.drop_upload(to.endpoint, to.key(one)), (*known, *new))


def _is_open(ddm: DDM, name: str) -> bool:
    try:
        return ddm.dataset(name).state == "open"
    except NotFound:
        return False
