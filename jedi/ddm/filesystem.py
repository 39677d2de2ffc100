"""Data management on directories: ROOT/<scope>/<name>/<lfn>, one root an endpoint.

A dataset exists where its directory exists. Endpoints are asked in the order given: the first that
holds a file describes the file, and a copy of another size is not its replica. Files of a dataset
are regular files, and links that end at one in the same storage, with names that LFNs may have. All
other entries are left out, each with a reason. Nothing outside the roots is ever touched.
"""

from __future__ import annotations

import fnmatch
import re
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from jedi.core.errors import BadInput, NotFound, Refused
from jedi.ddm import sidecar
from jedi.ddm.directories import Directories, guid, must_be_plain
from jedi.ddm.interface import (
    DatasetInfo,
    FileInfo,
    Growth,
    ListedPart,
    OpenOrClosed,
    Replica,
    TemporaryCopy,
    after_file,
    flatten,
)
from jedi.ddm.storage import FileStats, Storage, valid_dataset, valid_lfn
from jedi.model.datasets.dataset import FileKey


class FileSystemDDM(Directories):
    """The `DDM` interface over mounted directories: files that lie there exist."""

    # What there is

    def dataset(self, name: str) -> DatasetInfo:
        words = [sidecar.dataset_state(home) for _, home in self._homes(name)]
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

    def growth(self, name: str) -> Growth:
        names = dict.fromkeys([valid_dataset(name), *self.constituents(name)])
        homes = [home for one in names for _, home in self._homes(one)]
        version = "".join(f"{sidecar.length(home)} " for home in homes)
        is_open = any(self.dataset(one).state == "open" for one in names)
        return Growth("open" if is_open else "closed", version)

    def find(
        self, pattern: str, after: str = "", limit: int | None = None
    ) -> list[tuple[str, OpenOrClosed | None]]:
        plain = pattern.replace("[", "[[]").replace("?", "[?]")
        fits = re.compile(fnmatch.translate(plain))  # in linear time, however many stars
        there = {name for storage in self._storages.values() for name in storage.datasets()}
        names = sorted(name for name in there if name > after and fits.fullmatch(name))
        return [(name, self._state(name)) for name in names[:limit]]

    def _state(self, name: str) -> OpenOrClosed | None:
        try:
            return self.dataset(name).state
        except (BadInput, Refused, NotFound):
            return None

    def constituents(self, name: str) -> list[str]:
        return flatten(name, self.dataset)

    def list_files(self, name: str) -> list[FileInfo]:
        files = [file for plain in self.constituents(name) for file in self._files(plain)]
        return sorted(files, key=lambda file: file.lfn)

    def left_out(self, name: str) -> dict[str, str]:
        found = {
            entry: code
            for plain in self.constituents(name)
            for storage, home in reversed(self._homes(plain))
            for entry, code in storage.left_out(home).items()
        }
        return {entry: code for entry, code in found.items() if entry not in sidecar.NAMES}

    def list_part(self, name: str, after: str | None, limit: int) -> ListedPart:
        del limit  # a part would cost as much as the whole directory
        return after_file(self.list_files(name), after)

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
            found = [(storage.endpoint, storage.found(home / wanted)) for storage, home in homes]
            sizes = [(endpoint, file.st_size) for endpoint, file in found if file]
            located[wanted] = [endpoint for endpoint, size in sizes if size == sizes[0][1]]
        return located

    def copies(self) -> list[TemporaryCopy]:
        return [
            TemporaryCopy(storage.endpoint, f"{home.parent.name}:{home.name}", lfn, until)
            for storage in self._storages.values()
            for home, found in sidecar.limits(storage.root)
            for lfn, until in found.items()
        ]

    # What JEDI makes and removes

    def may_create(
        self, name: str, endpoint: str, state: OpenOrClosed = "open", container: bool = False
    ) -> bool:
        self._storage(endpoint).home(name)
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
            return ours
        return True

    def create(
        self, name: str, endpoint: str, state: OpenOrClosed = "open", container: bool = False
    ) -> None:
        if not self.may_create(name, endpoint, state, container):
            return
        storage = self._storage(endpoint)
        home = storage.home(name)
        storage.make(home)
        sidecar.declare_state(home, state, () if container else None)
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
        sidecar.declare_state(ours[0], info.state, new)

    def close(self, name: str) -> None:
        for _, home in self._homes(name):
            if sidecar.is_ours(home):
                sidecar.declare_state(home, "closed")
        self._insist(name, "closed")

    def remove_files(self, name: str, lfns: Iterable[str]) -> None:
        homes = self._homes(self._plain(name).name)
        for unwanted in map(valid_lfn, lfns):
            for _, home in homes:
                (home / unwanted).unlink(missing_ok=True)

    def delete(self, name: str) -> None:
        for _, home in self._homes(name):
            shutil.rmtree(home)

    # What lies in the directories

    def _homes(self, name: str) -> list[tuple[Storage, Path]]:
        """The endpoints where the dataset exists, with its directory there."""
        homes = [(storage, storage.home(name)) for storage in self._storages.values()]
        return [(storage, home) for storage, home in homes if home.is_dir()]

    def _plain(self, name: str) -> DatasetInfo:
        return must_be_plain(self.dataset(name))

    def _receivers(self, names: Collection[str]) -> dict[str, DatasetInfo]:
        return {name: self._plain(name) for name in names}

    def _held(
        self, source: Storage, wanted: Mapping[str, Sequence[str]]
    ) -> dict[FileKey, FileInfo]:
        found: dict[FileKey, FileInfo] = {}
        for name, lfns in wanted.items():
            home = source.home(name)
            held = {lfn: stat for lfn in lfns if (stat := source.found(home / lfn))}
            known = self._known(name, home, held)
            found |= {(name, lfn): file for lfn, file in known.items()}
        return found

    def _arrived(
        self,
        storage: Storage,
        files: Mapping[str, Sequence[FileInfo]],
        until: datetime | None = None,
    ) -> None:
        for name, some in files.items():
            home = storage.home(name)
            times = [(home / file.lfn).stat().st_mtime_ns for file in some]
            sidecar.note(home, zip(some, times, strict=True))
            if until:
                sidecar.limit(home, ((f.lfn, t) for f, t in zip(some, times, strict=True)), until)

    def _places(self, name: str) -> Mapping[str, Collection[str]]:
        found: dict[str, list[str]] = {}
        for storage, _, held in self._holdings(self._plain(name).name):
            for lfn in held:
                found.setdefault(lfn, []).append(storage.endpoint)
        return found

    def _forget(self, endpoint: str, name: str, lfns: Collection[str], *, gone: bool) -> None:
        if not gone:  # a file that is gone is no copy by itself
            home = self._storage(endpoint).home(name)
            sidecar.limit(home, ((lfn, (home / lfn).stat().st_mtime_ns) for lfn in lfns), None)

    def _insist(self, name: str, state: OpenOrClosed) -> None:
        info = self.dataset(name)
        if info.state != state:
            raise Refused(
                f"{info} is declared so in a .dataset.yaml, which JEDI does not change. "
                f"Write `state: {state}` there.",
                code="declared_otherwise",
                dataset=name,
            )

    def _holdings(self, name: str) -> list[tuple[Storage, Path, FileStats]]:
        """The files of a plain dataset that each endpoint holds, without copies of another size."""
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
            files |= self._known(name, home, fresh)
            unknown = [files[lfn] for lfn in fresh if self._unmeasured(files[lfn])]
            for batch in self._measured((home / file.lfn, file) for file in unknown):
                files |= {file.lfn: file for _, file in batch}
                with suppress(OSError):  # a note only saves time: the directory may be read-only
                    sidecar.note(home, [(f, held[f.lfn].st_mtime_ns) for _, f in batch])
        return list(files.values())

    def _known(self, name: str, home: Path, held: FileStats) -> dict[str, FileInfo]:
        """Files of one directory as people describe them at any endpoint, else as noted there."""
        if not held:
            return {}
        noted = sidecar.notes(home, held)
        bare = {
            lfn: FileInfo(lfn, found.st_size, guid=guid(name, lfn))
            for lfn, found in held.items()
            if lfn not in noted
        }
        known = noted | bare
        for _, other in reversed(self._homes(name)):  # so that the first endpoint has its way
            for lfn, described in sidecar.declaration(other).files.items():
                if lfn in known:
                    known[lfn] = replace(known[lfn], **described.model_dump(exclude_none=True))
        return known
