"""Outputs come through the service into a directory: resumed where they broke off, verified."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from jedi_client.cli.common import console
from jedi_client.errors import Refused, Unreachable
from jedi_client.transport import PIECE, Response

if TYPE_CHECKING:
    from jedi_client.models import FileSummary
    from jedi_client.operations import Client

TRIES = 5
OK, BEYOND_THE_END = 200, 416


@dataclass(frozen=True, slots=True)
class OutputCopy:
    """An output: its content at the service, and its place here."""

    file: FileSummary
    content: str
    target: Path


def plan_copies(files: Sequence[FileSummary], owner: str, directory: Path) -> list[OutputCopy]:
    """The places of outputs of `owner` (tasks/17/files, jobs/18/outputs) in a directory. Names that
    several datasets hold go below directories named after their datasets."""
    uses = Counter(file.lfn for file in files)
    return [
        OutputCopy(
            file,
            f"/v1/{owner}/{file.file_id}/content",
            directory
            / (file.lfn if uses[file.lfn] == 1 else Path(file.dataset.partition(":")[2], file.lfn)),
        )
        for file in files
    ]


def fetch(jedi: Client, copies: Sequence[OutputCopy]) -> int:
    """Fetch all, with a bar on stderr where that is a terminal; the number of new ones."""
    from rich.progress import Progress

    screen = console(stderr=True)
    with Progress(console=screen, disable=not screen.is_terminal, transient=True) as progress:
        return sum(_fetch(jedi, one) for one in progress.track(copies, description="fetching"))


def _fetch(jedi: Client, copy: OutputCopy) -> bool:
    """Fetch an output, its adler32 verified; False: it was here already. Refused: another file is
    here, or the output is not as its job made it."""
    target = copy.target
    if target.exists():
        if target.is_file() and _adler32(target) == copy.file.adler32:
            return False
        raise Refused(
            f"{target} exists and is another file. Name a directory of its own.",
            code="target_exists",
            path=str(target),
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.part")
        _pull(jedi, copy, part)
        if copy.file.adler32 and (found := _adler32(part)) != copy.file.adler32:
            part.unlink()
            raise Refused(
                f"{copy.file.lfn} has adler32 {found}, not {copy.file.adler32}: it was damaged. "
                f"Make it again: jedi-task recover --dataset {copy.file.dataset}.",
                code="checksum_differs",
                lfn=copy.file.lfn,
            )
        part.replace(target)
    except OSError as error:
        raise Refused(f"{target} can't be written: {error}.", code="copy_failed") from error
    return True


def _pull(jedi: Client, copy: OutputCopy, part: Path) -> None:
    """Append to `part` until the service has sent all of it."""
    for left in reversed(range(TRIES)):
        start = part.stat().st_size if part.exists() else 0
        try:
            with _content(jedi, copy, start) as response, part.open("ab") as file:
                if response.status == OK:
                    file.truncate(0)
                if _write(response, file):
                    return
        except Unreachable as error:
            if error.facts.get("status") == BEYOND_THE_END:
                if start == copy.file.size:
                    return
                part.unlink()
            elif not left:
                raise
    raise Unreachable(f"{copy.file.lfn} broke off {TRIES} times. Try again.", code="cut_off")


def _write(response: HTTPResponse, file: BinaryIO) -> bool:
    """Write a response into a file; False: it broke off."""
    announced, came = int(response.headers.get("Content-Length") or 0), 0
    try:
        while piece := response.read(PIECE):
            came += file.write(piece)
    except (HTTPException, OSError):
        return False
    return came == announced


def _content(jedi: Client, copy: OutputCopy, start: int) -> Response:
    headers = {"Range": f"bytes={start}-"} if start else {}
    return jedi.stream(copy.content, {}, headers)


def _adler32(path: Path) -> str:
    """The file's adler32, 8 hex digits."""
    value = 1
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            value = zlib.adler32(piece, value)
    return f"{value:08x}"
