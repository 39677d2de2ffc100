"""Interface of data management.

A dataset is called `scope:name`; a container is a dataset of datasets. The LFN identifies a file
within its dataset. Endpoints are the storages where replicas lie. Every verb may be repeated: the
second call finds the work done and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol

from jedi.core.errors import JediError, NotFound, Refused

OpenOrClosed = Literal["open", "closed"]


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file of a dataset: size in bytes, adler32 as 8 lower-case hex digits. Files
    that belong together share a boundary; `lumiblock` is that of the file's events."""

    lfn: str
    size: int
    adler32: str | None = None
    guid: str | None = None
    nevents: int | None = None
    boundary: int | None = None
    lumiblock: int | None = None


Staged = tuple[str | Path, str, FileInfo]
"""A staged file, the dataset it goes to, and its pilot's report."""


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A dataset: more files may come while it is open; `members` are a container's datasets."""

    name: str
    state: OpenOrClosed
    members: tuple[str, ...] = ()
    is_container: bool = False

    def __str__(self) -> str:
        return f"{'Container' if self.is_container else 'Dataset'} {self.name} ({self.state})"


@dataclass(frozen=True, slots=True)
class Growth:
    """The state of a dataset while files come: open while it is, or one below a container is;
    `version` is another one after each change of a state."""

    state: OpenOrClosed
    version: str = ""


@dataclass(frozen=True, slots=True)
class ListedPart:
    """Some files of a dataset, in the order of data management. `more`: others may stand behind
    them. `total`: the number of all files, if these are the first or the last of several parts."""

    files: list[FileInfo]
    more: bool = False
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Replica:
    """The replica of a dataset at an endpoint: number of files, bytes, complete or not."""

    endpoint: str
    n_files: int
    size: int


@dataclass(frozen=True, slots=True)
class Space:
    """Room at an endpoint; GB = 2^30 bytes."""

    free_gb: float
    total_gb: float


@dataclass(frozen=True, slots=True)
class TemporaryCopy:
    """A copy that is not to stay longer than until then."""

    endpoint: str
    dataset: str
    lfn: str
    until: datetime


@dataclass(frozen=True, slots=True)
class TransferResult:
    """The end of one file's transfer: code `done`, or why not (a code and its sentence);
    `requested`: it is on its way, ask again."""

    dataset: str
    lfn: str
    code: str
    sentence: str = ""

    @classmethod
    def failed(cls, dataset: str, lfn: str, error: JediError | OSError) -> TransferResult:
        """It came to nothing for this error."""
        if isinstance(error, JediError):
            return cls(dataset, lfn, error.code, error.sentence)
        return cls(dataset, lfn, "io_error", str(error))

    @property
    def done(self) -> bool:
        return self.code == "done"

    @property
    def coming(self) -> bool:
        return self.code == "requested"


class DDM(Protocol):
    """Data management. Malformed names raise BadInput, unknown datasets and endpoints NotFound."""

    def dataset(self, name: str) -> DatasetInfo:
        """The state of a dataset and, for a container, its members as declared."""

    def growth(self, name: str) -> Growth:
        """The state of a dataset, with its members'. If it is closed, and equal before and after
        `list_files`, the list is complete."""

    def find(
        self, pattern: str, after: str = "", limit: int | None = None
    ) -> list[tuple[str, OpenOrClosed | None]]:
        """The first names of datasets and containers that fit, behind `after`, sorted, with their
        states (None: the notes beside the files can't be read); `*` stands for anything."""

    def constituents(self, name: str) -> list[str]:
        """The plain datasets below a container, in order, each once; a plain one is itself."""

    def list_files(self, name: str) -> list[FileInfo]:
        """The files of a dataset (a container: of all its constituents), sorted by LFN."""

    def left_out(self, name: str) -> Mapping[str, str]:
        """The entries of a dataset's directories that are no files of it (of a container: of all
        its constituents), each with a code of `reasons.FILES`."""

    def list_part(self, name: str, after: str | None, limit: int) -> ListedPart:
        """Up to `limit` files of a dataset from the first one on, or that come after the file with
        the LFN `after`. Who reads a dataset whole anyway returns all of them."""

    def replicas(self, name: str) -> list[Replica]:
        """The part of a dataset that each endpoint holds (a container: summed over its
        constituents)."""

    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        """The endpoints that hold each of these files of a plain dataset."""

    def holders(self, wanted: Mapping[str, Collection[str]]) -> dict[tuple[str, str], list[str]]:
        """Like `locate`, for files (LFNs by dataset) of any number of datasets, by dataset and LFN.
        Files without a replica are left out."""

    def where(self, endpoint: str, name: str, lfn: str) -> str:
        """Return the path of a file, existing or not; only for endpoints mounted on this
        machine."""

    def finder(self) -> Callable[[str, str, str], str]:
        """Return `where` for the files of one request: it looks at each dataset's directory
        once."""

    def path(self, endpoint: str, name: str, lfn: str) -> Path:
        """The same, for who opens it."""

    def create(
        self, name: str, endpoint: str, state: OpenOrClosed = "open", container: bool = False
    ) -> None:
        """Make sure of a dataset of JEDI's own at `endpoint`; a closed one of its own reopens."""

    def may_create(
        self, name: str, endpoint: str, state: OpenOrClosed = "open", container: bool = False
    ) -> bool:
        """Raise the error that `create` would raise, and write nothing; False: a dataset of others
        serves as it is."""

    def add_members(self, container: str, names: Sequence[str]) -> None:
        """Attach existing datasets to a container of JEDI's own; a cycle is Refused."""

    def staging_where(self, endpoint: str, panda_id: int, lock_seq: int) -> str:
        """Return the directory where this attempt's pilot stages its outputs (the pilot creates
        it)."""

    def staging_dir(self, endpoint: str, panda_id: int, lock_seq: int) -> Path:
        """The same, for who opens it."""

    def exchange_where(self, endpoint: str) -> str:
        """Return the directory where pilots of PanDA read inputs and leave outputs
        (jedi/ddm/exchange.py)."""

    def pieces_where(self, endpoint: str, jedi_task_id: int, jobset_id: int | None) -> str:
        """Return the directory of zip files with processed events of a job set (None: of several):
        pilots put them there, and pilots of merge jobs read them."""

    def pieces(self, endpoint: str) -> dict[tuple[int, int], list[str]]:
        """The zip files at an endpoint, by job set (jedi_task_id, jobset_id; 0: several)."""

    def drop_pieces(
        self, endpoint: str, jedi_task_id: int, jobset_id: int, lfns: Iterable[str]
    ) -> None:
        """Throw these zip files of a job set away, and its directory if no others are there."""

    def publish(self, endpoint: str, files: Sequence[Staged]) -> None:
        """Move staged files into open datasets.

        All are checked before the first moves. A target that is there with this size and adler32
        is fine, staged file or not; with other content it is Refused. So is a file that comes
        twice in one call. OSError: the storage is not there, or does not answer; try later.
        """

    def staged(self, endpoint: str) -> list[tuple[int, int]]:
        """The attempts (panda_id, lock_seq) of which staged files lie at an endpoint, or exchanged
        ones."""

    def drop_staging(self, endpoint: str, panda_id: int, lock_seq: int) -> None:
        """Throw an attempt's staged and exchanged files away."""

    def upload_dir(self, endpoint: str, key: str) -> Path:
        """Return the directory where people's file lies until it is published; `key` is of
        `jedi.ddm.uploads.key_of`."""

    def begin_upload(self, endpoint: str, key: str, admit: Callable[[int, int], None]) -> Path:
        """The same, made unless it is there: `admit` gets the files and bytes of all open uploads
        of the owner there, this one included, and raises NoSpace if they are too many."""

    def open_uploads(self, endpoint: str, owner: str) -> list[int]:
        """The announced bytes of each open upload of an owner at an endpoint."""

    def drop_upload(self, endpoint: str, key: str) -> None:
        """Throw an uploaded file away."""

    def old_uploads(self, endpoint: str, before: datetime) -> list[str]:
        """The keys of uploads that nobody has written to since then, nor to others of the same
        owner for the same dataset."""

    def transfer(
        self,
        files: Sequence[tuple[str, str]],
        source: str,
        target: str,
        activity: str,
        until: datetime | None = None,
    ) -> list[TransferResult]:
        """Copy files (dataset, lfn) between endpoints, adler32 verified; one result a file. A new
        file is a copy that stays `until` then (None: for good)."""

    def copies(self) -> list[TemporaryCopy]:
        """All copies that are not to stay, at any endpoint."""

    def keep_copies(self, copies: Sequence[TemporaryCopy]) -> int:
        """Let copies stay for good; how many."""

    def drop_copies(self, copies: Sequence[TemporaryCopy]) -> tuple[int, list[JediError | OSError]]:
        """Remove copies; how many, and why others could not be. The last replica of a file stays,
        for good."""

    def on_tape(self, name: str) -> list[str]:
        """The files of a plain dataset that lie on tape and on no disk, sorted."""

    def stage(self, name: str, lfns: Sequence[str], activity: str) -> list[TransferResult]:
        """Ask that files of a plain dataset be copied from tape to the disk beside it; one result a
        file. A repeated call asks once more for the failed ones."""

    def remove_files(self, name: str, lfns: Iterable[str]) -> None:
        """Remove these files of a plain dataset from every endpoint."""

    def close(self, name: str) -> None:
        """Declare that no more files will come."""

    def delete(self, name: str) -> None:
        """Remove a dataset with its files from every endpoint; a container's members stay."""

    def space(self, endpoint: str) -> Space:
        """The free space of an endpoint. OSError: its storage is not there."""


def after_file(files: Sequence[FileInfo], after: str | None) -> ListedPart:
    """The files of a whole dataset, sorted by LFN, that come after one."""
    if after is None:
        return ListedPart([*files])
    return ListedPart([file for file in files if file.lfn > after], total=len(files))


_AT_ONCE = 10_000
"""Files that are in memory at once while the names of a dataset's files are read."""


def names_in_parts(ddm: DDM, name: str) -> Iterator[set[str]]:
    """The LFNs of a dataset, part by part: a million files take 1 GB."""
    after = None
    while True:
        part = ddm.list_part(name, after, _AT_ONCE)
        yield {file.lfn for file in part.files}
        if not part.more:
            return
        after = part.files[-1].lfn


def exists(ddm: DDM, name: str) -> bool:
    """True if data management knows the dataset."""
    try:
        ddm.dataset(name)
    except NotFound:
        return False
    return True


def flatten(name: str, look_up: Callable[[str], DatasetInfo]) -> list[str]:
    """The plain datasets below `name`, depth first, each once; a container in itself is Refused."""
    plain: list[str] = []
    seen: set[str] = set()

    def visit(info: DatasetInfo, trail: tuple[str, ...]) -> None:
        if info.name in trail:
            circle = " > ".join((*trail, info.name))
            raise Refused(
                f"Container {info.name} contains itself: {circle}. Take it out of one of them.",
                code="container_cycle",
                circle=(*trail, info.name),
            )
        if info.name in seen:
            return
        seen.add(info.name)
        if not info.is_container:
            plain.append(info.name)
        for member in info.members:
            visit(look_up(member), (*trail, info.name))

    visit(look_up(name), ())
    return plain
