"""Data management on directories: ROOT/<scope>/<name>/<lfn>, one root an endpoint.

A dataset exists where its directory exists. Endpoints are asked in the order given: the first
that holds a file says what the file is, and a copy of another size is no replica of it. Hidden
files and subdirectories are no files of a dataset. Nothing outside the roots is ever touched.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path

from jedi.core.errors import JediError, NotFound, Refused
from jedi.ddm import sidecar
from jedi.ddm.content import adler32, copy_verified, count_events, sweep
from jedi.ddm.interface import (
    DatasetInfo,
    FileInfo,
    Replica,
    Space,
    State,
    TransferResult,
    flatten,
)
from jedi.ddm.storage import Held, Storage, valid_dataset, valid_lfn

_GUIDS = uuid.UUID("6f0d6b0e-6b57-5a39-9a0c-0c8e1d2f7a41")  # namespace of GUIDs made from names
_MEMO_BATCH = 1000  # measured files noted at once: what a crash may cost
_SMALL = 1 << 20  # bytes; 8 threads read 100,000 tiny files 10 times slower than one alone


class FileSystemDDM:
    """The `DDM` interface over mounted directories, one root for each endpoint.

    `event_count_command` is run with a file's path appended and prints its number of events.
    """

    def __init__(
        self,
        roots: Mapping[str, Path],
        event_count_command: str | None = None,
        *,
        hook_timeout_s: float = 60.0,
        threads: int = 8,
    ) -> None:
        self._storages = {e: Storage(e, Path(os.path.realpath(root))) for e, root in roots.items()}
        self._threads = threads
        self._count_events: Callable[[Path], int] | None = None
        if event_count_command:
            argv = shlex.split(event_count_command)
            self._count_events = partial(count_events, argv, timeout_s=hook_timeout_s)

    # What there is

    def dataset(self, name: str) -> DatasetInfo:
        words = [sidecar.words(home) for _, home in self._homes(name)]
        if not words:
            raise NotFound(
                f"Dataset {name} exists at none of the endpoints {', '.join(self._storages)}.",
                code="dataset_missing",
                dataset=name,
            )
        members = [word.members for word in words if word.members is not None]
        return DatasetInfo(
            name=valid_dataset(name),
            state="open" if any(word.state == "open" for word in words) else "closed",
            members=tuple(dict.fromkeys(member for some in members for member in some)),
            is_container=bool(members),
        )

    def constituents(self, name: str) -> list[str]:
        return flatten(name, self.dataset)

    def list_files(self, name: str) -> list[FileInfo]:
        files = [file for plain in self.constituents(name) for file in self._files(plain)]
        return sorted(files, key=lambda file: file.lfn)

    def replicas(self, name: str) -> list[Replica]:
        sizes: dict[str, list[int]] = {}
        for plain in self.constituents(name):
            for storage, _, held in self._holdings(plain):
                sizes.setdefault(storage.endpoint, []).extend(f.st_size for f in held.values())
        return [Replica(endpoint, len(some), sum(some)) for endpoint, some in sizes.items()]

    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        homes = self._homes(self._plain(name).name)
        located: dict[str, list[str]] = {}
        for wanted in map(valid_lfn, lfns):
            found = [(storage.endpoint, storage.stat(home / wanted)) for storage, home in homes]
            sizes = [(endpoint, file.st_size) for endpoint, file in found if file]
            located[wanted] = [endpoint for endpoint, size in sizes if size == sizes[0][1]]
        return located

    def path(self, endpoint: str, name: str, lfn: str) -> Path:
        storage = self._storage(endpoint)
        return storage.inside(storage.home(name) / valid_lfn(lfn))

    def space(self, endpoint: str) -> Space:
        root = self._storage(endpoint).root
        root.mkdir(parents=True, exist_ok=True)
        usage = shutil.disk_usage(root)
        return Space(free_gb=usage.free / 2**30, total_gb=usage.total / 2**30)

    # What JEDI makes and removes

    def create(
        self, name: str, endpoint: str, state: State = "open", container: bool = False
    ) -> None:
        home = self._storage(endpoint).home(name)
        homes = self._homes(name)
        if any(any(other.iterdir()) for _, other in homes):
            info = self.dataset(name)
            ours = any(sidecar.is_ours(other) for _, other in homes)
            if info.is_container != container or not (ours or info.state == state):
                raise Refused(
                    f"{info} exists already{'' if ours else ' and JEDI did not make it'}. "
                    "Choose another name.",
                    code="dataset_exists",
                    dataset=name,
                )
            if not ours:
                return
        home.mkdir(parents=True, exist_ok=True)
        sidecar.say(home, state, () if container else None)
        self._insist(name, state)

    def add_members(self, container: str, names: Sequence[str]) -> None:
        info = self.dataset(container)
        ours = [home for _, home in self._homes(container) if sidecar.is_ours(home)]
        if not (info.is_container and ours):
            raise Refused(
                f"{info} takes no members: JEDI adds them to the containers it made.",
                code="not_our_container",
                dataset=container,
            )
        new = tuple(map(valid_dataset, names))
        grown = replace(info, members=info.members + new)
        flatten(info.name, lambda name: grown if name == info.name else self.dataset(name))
        sidecar.say(ours[0], info.state, new)

    def close(self, name: str) -> None:
        for _, home in self._homes(name):
            if sidecar.is_ours(home):
                sidecar.say(home, "closed")
        self._insist(name, "closed")

    def remove_files(self, name: str, lfns: Iterable[str]) -> None:
        homes = self._homes(self._plain(name).name)
        for unwanted in map(valid_lfn, lfns):
            for _, home in homes:
                (home / unwanted).unlink(missing_ok=True)

    def delete(self, name: str) -> None:
        for _, home in self._homes(name):
            shutil.rmtree(home)

    # What pilots made

    def staging_dir(self, endpoint: str, pandaid: int, lock_seq: int) -> Path:
        return self._storage(endpoint).staging / f"{pandaid:d}.{lock_seq:d}"

    def staged(self, endpoint: str) -> list[tuple[int, int]]:
        places = self._storage(endpoint).staging.glob("*.*")
        found = (re.fullmatch(r"(\d+)\.(\d+)", place.name) for place in places)
        return [(int(match[1]), int(match[2])) for match in found if match]

    def drop_staging(self, endpoint: str, pandaid: int, lock_seq: int) -> None:
        with suppress(FileNotFoundError):
            shutil.rmtree(self.staging_dir(endpoint, pandaid, lock_seq))

    def publish(self, endpoint: str, files: Sequence[tuple[Path, str, FileInfo]]) -> None:
        storage, look_up = self._storage(endpoint), cache(self._plain)
        found = [_found(storage, look_up(name), file, staged) for staged, name, file in files]
        published: dict[Path, list[tuple[FileInfo, int]]] = {}
        for (_, name, file), (lying, mtime_ns) in zip(files, found, strict=True):
            home = storage.home(name)
            home.mkdir(parents=True, exist_ok=True)
            lying.rename(home / file.lfn)  # onto itself where it is published already
            named = replace(file, guid=file.guid or _guid(name, file.lfn))
            published.setdefault(home, []).append((named, mtime_ns))
        for home, arrived in published.items():
            sidecar.note(home, arrived)

    # What must move

    def transfer(
        self, files: Sequence[tuple[str, str]], source: str, target: str, activity: str
    ) -> list[TransferResult]:
        wanted: dict[str, dict[str, None]] = {}
        for name, file in files:
            wanted.setdefault(name, {})[valid_lfn(file)] = None
        sweep(self._storage(target).staging)
        ends = {
            name: self._sent(name, list(lfns), self._storage(source), self._storage(target))
            for name, lfns in wanted.items()
        }
        return [_result(name, file, ends[name][file]) for name, file in files]

    def _sent(
        self, name: str, lfns: Sequence[str], source: Storage, target: Storage
    ) -> dict[str, FileInfo | Exception]:
        """Each file as it now lies at the target, or what prevented it."""
        origin, home = source.home(name), target.home(name)
        found = {file: source.stat(origin / file) for file in lfns}
        known = self._known(name, origin, {file: held for file, held in found.items() if held})

        def send(file: str) -> FileInfo | Exception:
            try:
                if file not in known:
                    raise NotFound(f"{source.endpoint} has no {file}.", code="source_missing")
                return _copied(known[file], origin, home, target)
            except (JediError, OSError) as error:
                return error

        with ThreadPoolExecutor(self._threads) as pool:
            ends = dict(zip(lfns, pool.map(send, lfns), strict=True))
        arrived = [file for file in ends.values() if isinstance(file, FileInfo)]
        sidecar.note(home, [(f, (home / f.lfn).stat().st_mtime_ns) for f in arrived])
        return ends

    # What lies in the directories

    def _storage(self, endpoint: str) -> Storage:
        if endpoint not in self._storages:
            raise NotFound(
                f"There is no endpoint {endpoint}; known are {', '.join(self._storages)}.",
                code="endpoint_missing",
                endpoint=endpoint,
            )
        return self._storages[endpoint]

    def _homes(self, name: str) -> list[tuple[Storage, Path]]:
        """The endpoints where the dataset exists, with its directory there."""
        homes = [(storage, storage.home(name)) for storage in self._storages.values()]
        return [(storage, home) for storage, home in homes if home.is_dir()]

    def _plain(self, name: str) -> DatasetInfo:
        info = self.dataset(name)
        if info.is_container:
            raise Refused(
                f"{info} holds datasets, not files; ask for its constituents.",
                code="is_container",
                dataset=name,
            )
        return info

    def _insist(self, name: str, state: State) -> None:
        info = self.dataset(name)
        if info.state != state:
            raise Refused(
                f"{info} is declared so in a .dataset.yaml, which JEDI does not change. "
                f"Write `state: {state}` there.",
                code="declared_otherwise",
                dataset=name,
            )

    def _holdings(self, name: str) -> list[tuple[Storage, Path, Held]]:
        """What each endpoint holds of a plain dataset, copies of another size left out."""
        sizes: dict[str, int] = {}
        holdings = []
        for storage, home in self._homes(name):
            held = storage.scan(home)
            for file, found in list(held.items()):
                if sizes.setdefault(file, found.st_size) != found.st_size:
                    del held[file]
            holdings.append((storage, home, held))
        return holdings

    def _files(self, name: str) -> list[FileInfo]:
        files: dict[str, FileInfo] = {}
        for _, home, held in self._holdings(name):
            fresh = {file: found for file, found in held.items() if file not in files}
            known = self._known(name, home, fresh)
            files |= known | self._measured(home, known, fresh)
        return list(files.values())

    def _known(self, name: str, home: Path, held: Held) -> dict[str, FileInfo]:
        """Files of one directory as people describe them at any endpoint, else as noted there."""
        if not held:
            return {}
        noted = sidecar.notes(home, held)
        bare = {
            lfn: FileInfo(lfn, found.st_size, guid=_guid(name, lfn))
            for lfn, found in held.items()
            if lfn not in noted
        }
        known = noted | bare
        for _, other in reversed(self._homes(name)):  # so that the first endpoint has its way
            for lfn, said in sidecar.declaration(other).files.items():
                if lfn in known:
                    known[lfn] = replace(known[lfn], **said.model_dump(exclude_none=True))
        return known

    def _measured(
        self, home: Path, known: Mapping[str, FileInfo], held: Held
    ) -> dict[str, FileInfo]:
        """The files of which something was not known yet, now found out and noted."""
        count = self._count_events

        def measure(file: FileInfo) -> FileInfo:
            path = home / file.lfn
            nevents = count(path) if count and file.nevents is None else file.nevents
            return replace(file, adler32=file.adler32 or adler32(path), nevents=nevents)

        unknown = [f for f in known.values() if f.adler32 is None or (count and f.nevents is None)]
        slow = [file for file in unknown if count or file.size >= _SMALL]
        quick = [file for file in unknown if not (count or file.size >= _SMALL)]
        measured: dict[str, FileInfo] = {}
        with ThreadPoolExecutor(self._threads) as pool:
            results = chain(map(measure, quick), pool.map(measure, slow))
            while batch := list(islice(results, _MEMO_BATCH)):
                measured |= {file.lfn: file for file in batch}
                with suppress(OSError):  # a note only saves time: the directory may be read-only
                    sidecar.note(home, [(file, held[file.lfn].st_mtime_ns) for file in batch])
        return measured


def _guid(dataset: str, lfn: str) -> str:
    return str(uuid.uuid5(_GUIDS, f"{valid_dataset(dataset)}/{lfn}"))


def _found(
    storage: Storage, dataset: DatasetInfo, file: FileInfo, staged: Path
) -> tuple[Path, int]:
    """Where a file to publish lies now, staged or published already, and its mtime in ns."""
    target = storage.inside(storage.home(dataset.name) / valid_lfn(file.lfn))
    if there := storage.stat(target):
        if there.st_size == file.size and adler32(target) == file.adler32:
            return target, there.st_mtime_ns
        raise _other_content(target)
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
    return staged, found.st_mtime_ns


def _copied(file: FileInfo, origin: Path, home: Path, target: Storage) -> FileInfo:
    """The file with its verified adler32, once it lies at the target."""
    source, copy = origin / file.lfn, home / file.lfn
    if there := target.stat(copy):
        expected = file.adler32 or adler32(source)
        if there.st_size != file.size or adler32(copy) != expected:
            raise _other_content(copy)
        return replace(file, adler32=expected)
    target.staging.mkdir(parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    return replace(file, adler32=copy_verified(source, copy, target.staging, file.adler32))


def _other_content(path: Path) -> Refused:
    return Refused(
        f"{path} exists with other content. Remove it, or choose another file name.",
        code="target_differs",
        path=str(path),
    )


def _result(dataset: str, lfn: str, end: FileInfo | Exception) -> TransferResult:
    match end:
        case FileInfo():
            return TransferResult(dataset, lfn, "done")
        case JediError():
            return TransferResult(dataset, lfn, end.code, end.sentence)
        case _:
            return TransferResult(dataset, lfn, "io_error", str(end))
