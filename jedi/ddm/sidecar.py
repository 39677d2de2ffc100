"""Files that describe a dataset, beside its data files.

`.dataset.yaml` is people's: {state, members, files: {lfn: {guid, adler32, nevents, boundary,
lumiblock}}}; JEDI reads it and never writes it. JEDI's own words go to three journals of JSON lines
that only grow: `.dataset.jsonl` (state, members; there where JEDI made the dataset), `.files.jsonl`
(reports and measurements of a file, valid while its size and mtime stay) and `.copies.jsonl` (until
when a copy stays, null: for good; valid while its mtime stays).
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from jedi.core import names, strictyaml
from jedi.core.errors import BadInput, Problem
from jedi.ddm.interface import FileInfo, OpenOrClosed
from jedi.ddm.storage import canonical
from jedi.model.mistakes import rule_and_remedy

_DECLARATION = ".dataset.yaml"
_DATASET_JOURNAL = ".dataset.jsonl"
_FILES_JOURNAL = ".files.jsonl"
_COPIES_JOURNAL = ".copies.jsonl"
NAMES = frozenset({_DECLARATION, _DATASET_JOURNAL, _FILES_JOURNAL, _COPIES_JOURNAL})
"""The entries of a dataset's directory that describe it."""


class _SidecarEntry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Described(_SidecarEntry):
    """A person's description of one file."""

    guid: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    adler32: Annotated[str, Field(pattern="^[0-9a-fA-F]{8}$"), AfterValidator(str.lower)] | None = (
        None
    )
    nevents: Annotated[int, Field(ge=0, strict=True)] | None = None
    boundary: Annotated[int, Field(ge=1, le=2**63 - 1, strict=True)] | None = None
    lumiblock: Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)] | None = None


class Declaration(_SidecarEntry):
    """A person's description of a dataset."""

    state: OpenOrClosed | None = None
    members: tuple[Annotated[str, AfterValidator(canonical)], ...] | None = None
    files: dict[Annotated[str, AfterValidator(names.lfn)], Described] = Field(default_factory=dict)


_REMEDIES = {
    "state": "Write open or closed",
    "members": "Write a list of datasets as scope:name",
    "adler32": "Write the 8 hexadecimal digits in quotes",
    "guid": "Write at most 64 characters, in quotes",
    "nevents": "Write a whole number, 0 or more",
    "boundary": "Write a whole number, 1 or more",
    "lumiblock": "Write a whole number, 1 or more",
    "files": "Write a mapping of file names to {guid, adler32, nevents, boundary, lumiblock}",
}


def declaration(home: Path) -> Declaration:
    """The declaration that people wrote in this directory; BadInput names every mistake."""
    path = home / _DECLARATION
    try:
        found = path.stat()
    except FileNotFoundError:
        return Declaration()
    plain = stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)  # the latter is no file
    if not plain or found.st_size > strictyaml.MAX_BYTES:
        rule = f"it is no file of at most {strictyaml.MAX_BYTES} bytes"
        raise BadInput([Problem(str(path), f"{found.st_size} bytes", rule, "Replace it")])
    return _declaration(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _declaration(path: Path, _size: int, _mtime_ns: int) -> Declaration:
    written = strictyaml.load(path.read_bytes(), str(path))
    try:
        return Declaration.model_validate({} if written is None else written)
    except ValidationError as error:
        raise BadInput([_problem(path, found) for found in error.errors()]) from error


def _problem(path: Path, found: Mapping[str, Any]) -> Problem:
    place = [str(step) for step in found["loc"] if step != "[key]"]
    if found["type"] == "extra_forbidden":
        keys = (Described if len(place) > 1 else Declaration).model_fields
        remedy = f"Remove it; the keys here are {', '.join(keys)}"
    else:
        remedies = [_REMEDIES[step] for step in reversed(place) if step in _REMEDIES]
        remedy = remedies[0] if remedies else f"Write a mapping of {', '.join(_REMEDIES)}"
    return Problem(":".join([str(path), *place]), found["input"], rule_and_remedy(found)[0], remedy)


@dataclass(frozen=True, slots=True)
class DatasetState:
    """The state of a dataset, and the members of a container."""

    state: OpenOrClosed | None = None
    members: tuple[str, ...] | None = None

    def __or__(self, more: DatasetState) -> DatasetState:
        """This state and a later one: the later state counts, members add up."""
        if more.members is None:
            return DatasetState(more.state or self.state, self.members)
        members = dict.fromkeys((*(self.members or ()), *more.members))
        return DatasetState(more.state or self.state, tuple(members))


def dataset_state(home: Path) -> DatasetState:
    """The state of a dataset by its directory; people's declaration comes before JEDI's."""
    people = declaration(home)
    return _own_state(home) | DatasetState(people.state, people.members)


def is_ours(home: Path) -> bool:
    """Return True if JEDI made the dataset here."""
    return (home / _DATASET_JOURNAL).exists()


def length(home: Path) -> int:
    """The bytes of JEDI's own words about a dataset here: more after each change of its state."""
    try:
        return (home / _DATASET_JOURNAL).stat().st_size
    except FileNotFoundError:
        return 0


def declare_state(home: Path, state: OpenOrClosed, members: tuple[str, ...] | None = None) -> None:
    """Set JEDI's own state of a dataset and add members (even none make a container)."""
    more, present = DatasetState(state, members), _own_state(home)
    if present | more != present:
        _append(home / _DATASET_JOURNAL, [asdict(more)])


def _own_state(home: Path) -> DatasetState:
    found = DatasetState()
    for record in _read(home / _DATASET_JOURNAL):
        found |= DatasetState(record["state"], record["members"])
    return found


def note(home: Path, files: Iterable[tuple[FileInfo, int]]) -> None:
    """Keep facts of files, each with its mtime in ns at that time."""
    records = [asdict(file) | {"mtime_ns": mtime_ns} for file, mtime_ns in files]
    if records:
        _append(home / _FILES_JOURNAL, records)


def notes(home: Path, held: Mapping[str, os.stat_result]) -> dict[str, FileInfo]:
    """The last note on each of these files, where the file has not changed since."""
    found = {}
    for record in _read(home / _FILES_JOURNAL):
        mtime_ns = record.pop("mtime_ns")
        file = held.get(record["lfn"])
        if file and (record["size"], mtime_ns) == (file.st_size, file.st_mtime_ns):
            found[record["lfn"]] = FileInfo(**record)
    return found


def limit(home: Path, copies: Iterable[tuple[str, int]], until: datetime | None) -> None:
    """These copies (LFN, mtime in ns) stay until then; None: for good."""
    end = until and until.isoformat()
    records = [{"lfn": lfn, "mtime_ns": mtime_ns, "until": end} for lfn, mtime_ns in copies]
    if records:
        _append(home / _COPIES_JOURNAL, records)


def limits(root: Path) -> Iterator[tuple[Path, dict[str, datetime]]]:
    """The directories below a root with copies that are not to stay, and until when, by LFN."""
    for journal in root.glob(f"*/*/{_COPIES_JOURNAL}"):
        last = {record["lfn"]: record for record in _read(journal)}
        found = {}
        for lfn, record in last.items():
            with suppress(FileNotFoundError):
                if (
                    record["until"]
                    and (journal.parent / lfn).stat().st_mtime_ns == record["mtime_ns"]
                ):
                    found[lfn] = datetime.fromisoformat(record["until"])
        yield journal.parent, found


def _read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a journal, oldest first. A line torn by a crash does not count."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return
    for line in lines:
        with suppress(ValueError):
            yield json.loads(line)


def _append(path: Path, records: Iterable[dict[str, Any]]) -> None:
    """Add records; they and all earlier changes of the directory then survive a power cut.

    One write for all, so that writers do not mix; the line feed in front closes a torn line.
    A disk that is full takes a part of it without a word. OSError, with the path.
    """
    lines = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    data = f"\n{lines}".encode()
    journal = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        if os.write(journal, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(journal)
        os.fsync(directory)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(directory)
        os.close(journal)
