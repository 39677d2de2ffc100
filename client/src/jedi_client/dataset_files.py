"""Local files on their way into a dataset: measured here, uploaded in pieces."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jedi_client.errors import BadInput, Problem, Refused

if TYPE_CHECKING:
    from jedi_client.models import Upload
    from jedi_client.operations import Client

PIECE = 4 * 2**20
"""Bytes of a piece; the service takes 8 MiB at most."""

GROUP_FILES, GROUP_BYTES = 500, 2 * 2**20
"""Most files, and bytes, of a request with whole files; a larger file comes in pieces alone."""

BLOCK = 2**20
TRIES = 5
"""Times that a file begins again where the service has it."""

Progressed = Callable[[int, int], None]
"""Gets the bytes that the service has, and all that it shall have."""


class LocalFile(dict[str, Any]):
    """A file as the service is to know it: lfn, size, adler32, sha256; `path`: its place here."""

    def __init__(self, path: Path) -> None:
        adler32, sha256, size = 1, hashlib.sha256(), 0
        with path.open("rb") as file:
            while block := file.read(BLOCK):
                adler32 = zlib.adler32(block, adler32)
                sha256.update(block)
                size += len(block)
        super().__init__(
            lfn=path.name, size=size, adler32=f"{adler32:08x}", sha256=sha256.hexdigest()
        )
        self.path = path


def measure(paths: Sequence[Path]) -> tuple[list[LocalFile], list[Problem]]:
    """The files with their sizes and checksums, without those that can't be read or whose names
    come twice: these are the problems."""
    problems: list[Problem] = []
    files: list[LocalFile] = []
    seen: dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            problems.append(Problem(str(path), path.name, "is not a file", "Name files"))
        elif path.name in seen:
            rule = f"{seen[path.name]} has the same name"
            remedy = "Rename one of them: file names are unique in a dataset"
            problems.append(Problem(str(path), path.name, rule, remedy))
        else:
            try:
                files.append(LocalFile(path))
            except OSError as error:
                rule = f"can't be read: {error.strerror}"
                problems.append(Problem(str(path), path.name, rule, "Give yourself the right"))
        seen[path.name] = path
    return files, problems


def offer(
    jedi: Client, dataset: str, paths: Sequence[Path], endpoint: str | None
) -> tuple[list[LocalFile], list[Upload]]:
    """The files, and the state of each at the service. BadInput: all mistakes, found here or by the
    service."""
    files, problems = measure(paths)
    states: list[Upload] = []
    try:
        if files:
            states = jedi.dataset_offer(dataset, files=[*files], endpoint=endpoint)
    except BadInput as error:
        raise BadInput([*problems, *error.problems]) from None
    if problems:
        raise BadInput(problems)
    return files, states


def send(
    jedi: Client,
    dataset: str,
    files: Sequence[LocalFile],
    states: Sequence[Upload],
    endpoint: str | None,
    progressed: Progressed = lambda _sent, _total: None,
) -> None:
    """Upload the files that the service lacks by their states, each from where it broke off.
    `dataset_add` adds them to the dataset."""
    total = sum(one["size"] for one in files)
    sent = sum(
        one["size"] for one, had in zip(files, states, strict=True) if had.status != "wanted"
    )
    progressed(sent, total)
    wanted = [(one, had) for one, had in zip(files, states, strict=True) if had.status == "wanted"]
    small = [file for file, had in wanted if file["size"] <= GROUP_BYTES and not had.received]
    for group in _groups(small):
        jedi.dataset_put_files(dataset, files=[*map(_whole, group)], endpoint=endpoint)
        sent += sum(one["size"] for one in group)
        progressed(sent, total)
    for file, had in wanted:
        if file["size"] > GROUP_BYTES or had.received:
            for done in _pieces(jedi, dataset, file, endpoint, had.received):
                progressed(sent + done, total)
            sent += file["size"]


def _groups(files: Sequence[LocalFile]) -> Iterator[list[LocalFile]]:
    """Files that travel together."""
    group: list[LocalFile] = []
    size = 0
    for file in files:
        if group and (len(group) == GROUP_FILES or size + file["size"] > GROUP_BYTES):
            yield group
            group, size = [], 0
        group.append(file)
        size += file["size"]
    if group:
        yield group


def _whole(file: LocalFile) -> dict[str, Any]:
    """A file with its content. Refused: it is not as it was measured."""
    content = file.path.read_bytes()
    if len(content) < file["size"]:
        raise _shorter(file)
    return {**file, "content": base64.b64encode(content[: file["size"]]).decode()}


def _shorter(file: LocalFile) -> Refused:
    return Refused(
        f"{file.path} became shorter while it was uploaded: add it anew.", code="upload_changed"
    )


def _pieces(
    jedi: Client, dataset: str, file: LocalFile, endpoint: str | None, received: int
) -> Iterator[int]:
    """Upload a file from byte `received` on, until the service has verified all of it; yield the
    bytes that it has."""
    facts = {key: file[key] for key in ("size", "adler32", "sha256")}
    tries = TRIES
    with file.path.open("rb") as content:
        while True:
            content.seek(received)
            piece = content.read(PIECE)
            if not piece and received < file["size"]:
                raise _shorter(file)
            try:
                had = jedi.dataset_put_piece(
                    dataset,
                    file["lfn"],
                    **facts,
                    offset=received,
                    endpoint=endpoint,
                    data=piece,
                )
            except Refused as error:
                if error.code != "piece_missing" or not tries:
                    raise
                tries -= 1
                received = error.facts["received"]
                continue
            received = had.received
            yield received
            if had.status != "wanted":
                return
