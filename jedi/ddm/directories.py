"""The bytes of datasets: ROOT/<scope>/<name>/<lfn> in the directories of the endpoints.

All implementations that keep files there share this: staged files are checked and published by
rename, copies are verified, and nothing outside the roots is touched. The catalogue of datasets and
files is the implementation's own.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType

from jedi.core.errors import JediError, NotFound, Refused
from jedi.ddm import exchange
from jedi.ddm.content import adler32, copy_verified, count_events, sweep
from jedi.ddm.interface import DatasetInfo, FileInfo, Space, Staged, TemporaryCopy, TransferResult
from jedi.ddm.storage import Storage, valid_dataset, valid_lfn
from jedi.ddm.uploads import Admit, Uploads
from jedi.model.datasets.dataset import FileKey

_GUIDS = uuid.UUID("6f0d6b0e-6b57-5a39-9a0c-0c8e1d2f7a41")  # namespace of GUIDs made from names
_MEASURED_BATCH = 1000  # measured files noted at once: what a crash may cost
_SMALL = 1 << 20  # bytes; 8 threads read 100,000 tiny files 10 times slower than one alone

NO_TAPES: Mapping[str, str] = MappingProxyType({})


class Directories(ABC):
    """The verbs of `DDM` that are about bytes, over one root directory for each endpoint.

    `event_count_command` is run with a file's path appended and prints its number of events.
    `tapes` are endpoints that are slow to read, each with the disk that takes its staged files;
    they are asked last.
    """

    def __init__(
        self,
        roots: Mapping[str, Path],
        event_count_command: str | None = None,
        *,
        tapes: Mapping[str, str] = NO_TAPES,
        hook_timeout_s: float = 60.0,
        threads: int = 8,
    ) -> None:
        self._tapes = tapes
        self._storages = {
            endpoint: Storage(endpoint, Path(os.path.realpath(roots[endpoint])))
            for endpoint in sorted(roots, key=tapes.__contains__)
        }
        self._threads = threads
        self._count_events: Callable[[Path], int] | None = None
        if event_count_command:
            argv = shlex.split(event_count_command)
            self._count_events = partial(count_events, argv, timeout_s=hook_timeout_s)

    # What an implementation knows

    @abstractmethod
    def _receivers(self, names: Collection[str]) -> dict[str, DatasetInfo]:
        """Plain datasets by the names given; NotFound or Refused if one is not there or plain."""

    @abstractmethod
    def _held(
        self, source: Storage, wanted: Mapping[str, Sequence[str]]
    ) -> dict[FileKey, FileInfo]:
        """The wanted files (LFNs by dataset) that an endpoint has."""

    @abstractmethod
    def _arrived(
        self,
        storage: Storage,
        files: Mapping[str, Sequence[FileInfo]],
        until: datetime | None = None,
    ) -> None:
        """Files of these datasets lie at an endpoint now, whether they did before or not; new ones
        stay until then."""

    @abstractmethod
    def _places(self, name: str) -> Mapping[str, Collection[str]]:
        """The endpoints that hold each file of a plain dataset."""

    @abstractmethod
    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        """As the interface says."""

    @abstractmethod
    def copies(self) -> list[TemporaryCopy]:
        """As the interface says."""

    @abstractmethod
    def _forget(self, endpoint: str, name: str, lfns: Collection[str], *, gone: bool) -> None:
        """Files of a dataset are no copies any more: they are going to be removed, or stay."""

    # The verbs

    def left_out(self, name: str) -> dict[str, str]:
        """A catalogue names files alone."""
        return {}

    def holders(self, wanted: Mapping[str, Collection[str]]) -> dict[FileKey, list[str]]:
        found: dict[FileKey, list[str]] = {}
        for name, lfns in wanted.items():
            with suppress(NotFound, Refused):
                found |= {(name, lfn): at for lfn, at in self.locate(name, lfns).items() if at}
        return found

    def where(self, endpoint: str, name: str, lfn: str) -> str:
        return self._storage(endpoint).where(name, lfn)

    def finder(self) -> Callable[[str, str, str], str]:
        finders: dict[str, Callable[[str, str], str]] = {}

        def where(endpoint: str, name: str, lfn: str) -> str:
            if endpoint not in finders:
                finders[endpoint] = self._storage(endpoint).finder()
            return finders[endpoint](name, lfn)

        return where

    def path(self, endpoint: str, name: str, lfn: str) -> Path:
        return Path(self.where(endpoint, name, lfn))

    def space(self, endpoint: str) -> Space:
        storage = self._storage(endpoint)
        storage.make(storage.root)  # which only fails
        usage = shutil.disk_usage(storage.root)
        return Space(free_gb=usage.free / 2**30, total_gb=usage.total / 2**30)

    def staging_where(self, endpoint: str, panda_id: int, lock_seq: int) -> str:
        return f"{self._storage(endpoint).staging}/{panda_id:d}.{lock_seq:d}"

    def staging_dir(self, endpoint: str, panda_id: int, lock_seq: int) -> Path:
        return Path(self.staging_where(endpoint, panda_id, lock_seq))

    def staged(self, endpoint: str) -> list[tuple[int, int]]:
        places = self._storage(endpoint).staging.glob("*.*")
        found = (re.fullmatch(r"(\d+)\.(\d+)", place.name) for place in places)
        staged = {(int(match[1]), int(match[2])) for match in found if match}
        return sorted(staged.union(exchange.attempts(self._storage(endpoint).exchange)))

    def drop_staging(self, endpoint: str, panda_id: int, lock_seq: int) -> None:
        attempt = exchange.AttemptExchange(self._storage(endpoint).exchange, panda_id, lock_seq)
        for place in (
            self.staging_dir(endpoint, panda_id, lock_seq),
            attempt.root / attempt.name,
        ):
            with suppress(FileNotFoundError):
                shutil.rmtree(place)

    def exchange_where(self, endpoint: str) -> str:
        return str(self._storage(endpoint).exchange)

    def pieces_where(self, endpoint: str, jedi_task_id: int, jobset_id: int | None) -> str:
        return f"{self._storage(endpoint).pieces}/{jedi_task_id:d}/{jobset_id or 0:d}"

    def pieces(self, endpoint: str) -> dict[tuple[int, int], list[str]]:
        found = {}
        for place in self._storage(endpoint).pieces.glob("*/*"):
            task, jobset = place.parent.name, place.name
            if task.isdigit() and jobset.isdigit():
                with suppress(FileNotFoundError):  # somebody else swept it
                    found[int(task), int(jobset)] = [one.name for one in place.iterdir()]
        return found

    def drop_pieces(
        self, endpoint: str, jedi_task_id: int, jobset_id: int, lfns: Iterable[str]
    ) -> None:
        place = Path(self.pieces_where(endpoint, jedi_task_id, jobset_id))
        for lfn in lfns:
            (place / lfn).unlink(missing_ok=True)
        with suppress(OSError):  # others are there
            place.rmdir()
            place.parent.rmdir()

    def upload_dir(self, endpoint: str, key: str) -> Path:
        return self._uploads(endpoint).place(key)

    def begin_upload(self, endpoint: str, key: str, admit: Admit) -> Path:
        return self._uploads(endpoint).begin(key, admit)

    def open_uploads(self, endpoint: str, owner: str) -> list[int]:
        return self._uploads(endpoint).open(owner)

    def drop_upload(self, endpoint: str, key: str) -> None:
        self._uploads(endpoint).drop(key)

    def old_uploads(self, endpoint: str, before: datetime) -> list[str]:
        return self._uploads(endpoint).old(before)

    def _uploads(self, endpoint: str) -> Uploads:
        return Uploads(self._storage(endpoint))

    def publish(self, endpoint: str, files: Sequence[Staged]) -> None:
        storage = self._storage(endpoint)
        if files and not storage.staging.is_dir():  # its datasets seem missing, too
            raise FileNotFoundError(
                f"The storage of {endpoint} is not there: it has no {storage.staging}. Mount it."
            )
        datasets = self._receivers(dict.fromkeys(name for _, name, _ in files))
        lying: dict[Path, Path] = {}
        published: dict[str, dict[str, FileInfo]] = {}
        for staged, name, file in files:
            target = storage.file(name, file.lfn)
            place = _lying(storage, datasets[name], target, file, Path(staged))
            mine = published.setdefault(datasets[name].name, {}).setdefault(file.lfn, file)
            if (mine.size, mine.adler32) != (file.size, file.adler32):
                raise other_content(target)
            lying.setdefault(target, place)
        for target, place in lying.items():
            storage.make(target.parent)
            place.rename(target)  # onto itself where it is published already
        self._arrived(storage, {n: _with_guids(n, some.values()) for n, some in published.items()})

    def transfer(
        self,
        files: Sequence[tuple[str, str]],
        source: str,
        target: str,
        activity: str,
        until: datetime | None = None,
    ) -> list[TransferResult]:
        origin, goal = self._storage(source), self._storage(target)
        wanted: dict[str, dict[str, None]] = {}
        for name, file in files:
            wanted.setdefault(name, {})[valid_lfn(file)] = None
        sweep(goal.staging)
        known = self._held(origin, {name: list(lfns) for name, lfns in wanted.items()})

        def send(named: FileKey) -> FileInfo | JediError | OSError:
            name, lfn = named
            try:
                if named not in known or not origin.stat(origin.home(name) / lfn):
                    raise NotFound(f"{source} has no {lfn}.", code="source_missing")
                return _copied(known[named], origin.home(name), goal.home(name), goal)
            except (JediError, OSError) as error:
                return error

        each = [(name, lfn) for name, lfns in wanted.items() for lfn in lfns]
        there = {(name, lfn) for name, lfn in each if goal.found(goal.home(name) / lfn)}
        with ThreadPoolExecutor(self._threads) as pool:
            ends = dict(zip(each, pool.map(send, each), strict=True))
        arrived: dict[datetime | None, dict[str, list[FileInfo]]] = {}
        for named, end in ends.items():
            if isinstance(end, FileInfo):
                some = arrived.setdefault(None if named in there else until, {})
                some.setdefault(named[0], []).append(end)
        for stays, files_there in arrived.items():
            self._arrived(goal, files_there, stays)
        return [_result(*file, ends[file]) for file in files]

    def keep_copies(self, copies: Sequence[TemporaryCopy]) -> int:
        wanted = self._present(copies)
        for (endpoint, name), lfns in wanted.items():
            self._forget(endpoint, name, lfns, gone=False)
        return sum(map(len, wanted.values()))

    def _present(self, copies: Sequence[TemporaryCopy]) -> dict[tuple[str, str], set[str]]:
        """Copies among these that are there, by endpoint and dataset."""
        found: dict[tuple[str, str], set[str]] = {}
        for copy in set(copies).intersection(self.copies()):
            found.setdefault((copy.endpoint, copy.dataset), set()).add(copy.lfn)
        return found

    def drop_copies(self, copies: Sequence[TemporaryCopy]) -> tuple[int, list[JediError | OSError]]:
        dropped, problems = 0, list[JediError | OSError]()
        for (endpoint, name), lfns in self._present(copies).items():
            try:
                held = self.locate(name, lfns)
            except (JediError, OSError) as error:
                problems.append(error)
                continue
            last = {lfn for lfn in lfns if held[lfn] == [endpoint]}
            self._forget(endpoint, name, last, gone=False)
            gone = set()  # before it is forgotten: who dies in between leaves it to the next
            for lfn in lfns - last:
                try:
                    self.path(endpoint, name, lfn).unlink(missing_ok=True)
                except OSError as error:
                    problems.append(error)
                else:
                    gone.add(lfn)
            self._forget(endpoint, name, gone, gone=True)
            dropped += len(gone)
        return dropped, problems

    def on_tape(self, name: str) -> list[str]:
        if not self._tapes:
            return []
        return sorted(lfn for lfn, at in self._places(name).items() if self._tapes.keys() >= {*at})

    def stage(self, name: str, lfns: Sequence[str], activity: str) -> list[TransferResult]:
        """Stage the files at once, in the process of the caller."""
        ends: dict[str, TransferResult] = {}
        routes: dict[str, list[FileKey]] = {}
        for lfn, at in self.locate(name, lfns).items():
            if not at:
                ends[lfn] = TransferResult(name, lfn, "source_missing", f"No endpoint has {lfn}.")
            elif at[0] in self._tapes:
                routes.setdefault(at[0], []).append((name, lfn))
            else:
                ends[lfn] = TransferResult(name, lfn, "done")
        for tape, files in routes.items():
            ends |= {
                end.lfn: end for end in self.transfer(files, tape, self._tapes[tape], activity)
            }
        return [ends[lfn] for lfn in lfns]

    # For implementations

    def _storage(self, endpoint: str) -> Storage:
        if endpoint not in self._storages:
            raise NotFound(
                f"There is no endpoint {endpoint}; known are {', '.join(self._storages)}.",
                code="endpoint_missing",
                endpoint=endpoint,
            )
        return self._storages[endpoint]

    def _unmeasured(self, file: FileInfo) -> bool:
        return file.adler32 is None or (self._count_events is not None and file.nevents is None)

    def _measured(
        self, files: Iterable[tuple[Path, FileInfo]]
    ) -> Iterator[list[tuple[Path, FileInfo]]]:
        """These files with the facts that could be found out, in batches to be noted at once."""
        count = self._count_events

        def measure(found: tuple[Path, FileInfo]) -> tuple[Path, FileInfo]:
            path, file = found
            nevents = count(path) if count and file.nevents is None else file.nevents
            return path, replace(file, adler32=file.adler32 or adler32(path), nevents=nevents)

        slow: list[tuple[Path, FileInfo]] = []
        quick: list[tuple[Path, FileInfo]] = []
        for found in files:
            (slow if count or found[1].size >= _SMALL else quick).append(found)
        with ThreadPoolExecutor(self._threads) as pool:
            results = chain(map(measure, quick), pool.map(measure, slow))
            while batch := list(islice(results, _MEASURED_BATCH)):
                yield batch


def must_be_plain(info: DatasetInfo) -> DatasetInfo:
    """The same dataset; Refused if it is a container."""
    if info.is_container:
        raise Refused(
            f"{info} holds datasets, not files; ask for its constituents.",
            code="is_container",
            dataset=info.name,
        )
    return info


def guid(dataset: str, lfn: str) -> str:
    """The GUID of a file that came without one: always the same."""
    return str(uuid.uuid5(_GUIDS, f"{valid_dataset(dataset)}/{lfn}"))


def other_content(path: Path) -> Refused:
    """The refusal to replace a file."""
    return Refused(
        f"{path} exists with other content. Remove it, or choose another file name.",
        code="target_differs",
        path=str(path),
    )


def _with_guids(name: str, files: Iterable[FileInfo]) -> list[FileInfo]:
    return [file if file.guid else replace(file, guid=guid(name, file.lfn)) for file in files]


def _lying(
    storage: Storage, dataset: DatasetInfo, target: Path, file: FileInfo, staged: Path
) -> Path:
    """The present place of a file to publish: staged, or published already."""
    if there := storage.stat(target):
        if there.st_size == file.size and adler32(target) == file.adler32:
            return target
        raise other_content(target)
    if staged.parent.parent != storage.staging or os.path.realpath(staged) != str(staged):
        raise Refused(f"{staged} is no staged file of {storage.endpoint}.", code="not_staged")
    found = storage.stat(staged)
    if not found:
        raise NotFound(f"The staged file {staged} does not exist.", code="staged_missing")
    if found.st_size != file.size:
        raise Refused(
            f"The staged file {staged} has {found.st_size} bytes, not {file.size} as reported.",
            code="size_differs",
        )
    if dataset.state != "open":
        raise Refused(
            f"{dataset} takes no files; `create` reopens a dataset that JEDI made.",
            code="dataset_closed",
            dataset=dataset.name,
        )
    return staged


def _copied(file: FileInfo, origin: Path, home: Path, target: Storage) -> FileInfo:
    """The file with its verified adler32, once it lies at the target."""
    source, copy = origin / file.lfn, home / file.lfn
    if there := target.stat(copy):
        expected = file.adler32 or adler32(source)
        if there.st_size != file.size or adler32(copy) != expected:
            raise other_content(copy)
        return replace(file, adler32=expected)
    target.make(target.staging)
    target.make(home)
    return replace(file, adler32=copy_verified(source, copy, target.staging, file.adler32))


def _result(dataset: str, lfn: str, end: FileInfo | JediError | OSError) -> TransferResult:
    if isinstance(end, FileInfo):
        return TransferResult(dataset, lfn, "done")
    return TransferResult.failed(dataset, lfn, end)
