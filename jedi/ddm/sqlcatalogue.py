"""Data management with its catalogue in PostgreSQL; the bytes lie in the endpoints' directories.

The catalogue alone defines the datasets: another file in a directory belongs to none. After a crash
half-way the catalogue names fewer files than the directories hold, never more. The repeated step
takes files that are already there for done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine

from jedi.core.errors import NotFound, Refused
from jedi.ddm.content import adler32
from jedi.ddm.directories import Directories, must_be_plain, other_content
from jedi.ddm.interface import (
    DatasetInfo,
    FileInfo,
    Growth,
    ListedPart,
    OpenOrClosed,
    Replica,
    Staged,
    TemporaryCopy,
    after_file,
    flatten,
)
from jedi.ddm.storage import Storage, valid_dataset, valid_lfn
from jedi.model.datasets.dataset import FileKey
from jedi.taskbuffer.inputs import catalogue
from jedi.taskbuffer.inputs.catalogue import CatalogueFile

_AT_ONCE = 10_000
"""Files whose rows are in memory at once while they are located: 100,000 rows take 100 MB."""
_COLUMNS = ("lfn", "size", "adler32", "guid", "nevents", "boundary", "lumiblock")


class SqlCatalogueDDM(Directories):
    """The `DDM` interface over a catalogue in the database that `engine` connects to.

    Every verb runs transactions of its own, none of which is open while bytes are moved.
    """

    def __init__(
        self,
        engine: Engine,
        roots: Mapping[str, Path],
        event_count_command: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(roots, event_count_command, **options)
        self._engine = engine

    # What there is

    def dataset(self, name: str) -> DatasetInfo:
        with self._engine.begin() as tx:
            return _one(_tree(tx, [name]), name)

    def growth(self, name: str) -> Growth:
        """Files of a publication come in one statement, so a listing has all of them or none."""
        with self._engine.begin() as tx:
            known = _tree(tx, [name])
        _one(known, name)
        is_open = any(one.state == "open" for one in known.values())
        return Growth("open" if is_open else "closed")

    def find(
        self, pattern: str, after: str = "", limit: int | None = None
    ) -> list[tuple[str, OpenOrClosed | None]]:
        with self._engine.begin() as tx:
            return [(row.name, row.state) for row in catalogue.find(tx, pattern, after, limit)]

    def constituents(self, name: str) -> list[str]:
        with self._engine.begin() as tx:
            return _constituents(tx, name)

    def list_files(self, name: str) -> list[FileInfo]:
        with self._engine.begin() as tx:
            rows = catalogue.LIST.rows(tx, names=_constituents(tx, name))
        return sorted(self._listed(rows), key=lambda file: file.lfn)

    def list_part(self, name: str, after: str | None, limit: int) -> ListedPart:
        with self._engine.begin() as tx:
            plain = _constituents(tx, name)
            if len(plain) == 1:
                rows = catalogue.list_part(tx, plain[0], after, limit)
                first, last = after is None, len(rows) < limit
                # a count reads the whole index: with each part, that grows with the square
                total = catalogue.count_files(tx, plain[0]) if first != last else None
                return ListedPart(self._listed(rows), not last, total)
        return after_file(self.list_files(name), after)

    def _listed(self, rows: Sequence[CatalogueFile]) -> list[FileInfo]:
        """Files in the order of their rows, with events that are not in the catalogue."""
        files = {(row.name, row.lfn): _file(row) for row in rows}
        files |= self._counted(row for row in rows if self._unmeasured(files[row.name, row.lfn]))
        return [*files.values()]

    def replicas(self, name: str) -> list[Replica]:
        with self._engine.begin() as tx:
            rows = catalogue.REPLICAS.rows(tx, names=list(_constituents(tx, name)))
        held = {row.endpoint: Replica(row.endpoint, row.files, row.size) for row in rows}
        return [held[endpoint] for endpoint in self._storages if endpoint in held]

    def locate(self, name: str, lfns: Iterable[str]) -> dict[str, list[str]]:
        wanted = [valid_lfn(lfn) for lfn in lfns]
        with self._engine.begin() as tx:
            info = must_be_plain(_one(_tree(tx, [name]), name))
            located: dict[str, list[str]] = {lfn: [] for lfn in wanted}
            for first in range(0, len(wanted), _AT_ONCE):
                some = wanted[first : first + _AT_ONCE]
                rows = catalogue.FIND.rows(tx, names=[info.name] * len(some), lfns=some)
                located |= {row.lfn: self._known_endpoints(row) for row in rows}
        return located

    def holders(self, wanted: Mapping[str, Collection[str]]) -> dict[FileKey, list[str]]:
        given = {(valid_dataset(n), lfn): (n, lfn) for n, lfns in wanted.items() for lfn in lfns}
        found = {given[row.name, row.lfn]: self._known_endpoints(row) for row in self._find(given)}
        return {named: endpoints for named, endpoints in found.items() if endpoints}

    def copies(self) -> list[TemporaryCopy]:
        with self._engine.begin() as tx:
            rows = catalogue.COPIES.rows(tx)
        return [TemporaryCopy(row.endpoint, row.name, row.lfn, row.expires_at) for row in rows]

    # What JEDI makes and removes

    def may_create(
        self, name: str, endpoint: str, state: OpenOrClosed = "open", container: bool = False
    ) -> bool:
        self._storage(endpoint).home(name)
        with self._engine.begin() as tx:
            found = _tree(tx, [name]).get(valid_dataset(name))
        if found and found.is_container != container:
            raise _taken(found)
        return True

    def create(
        self, name: str, endpoint: str, state: OpenOrClosed = "open", container: bool = False
    ) -> None:
        self._storage(endpoint).home(name)
        with self._engine.begin() as tx:
            if not catalogue.put_dataset(tx, valid_dataset(name), state, container=container):
                raise _taken(_one(_tree(tx, [name]), name))

    def add_members(self, container: str, names: Sequence[str]) -> None:
        new = tuple(map(valid_dataset, names))
        with self._engine.begin() as tx:
            catalogue.LOCK_MEMBERS.run(tx)
            known = _tree(tx, [container, *new])
            info = _one(known, container)
            if not info.is_container:
                raise Refused(
                    f"{info} takes no members: make a container.",
                    code="not_our_container",
                    dataset=container,
                )
            known[info.name] = replace(info, members=info.members + new)
            flatten(info.name, lambda name: _one(known, name))
            catalogue.ADD_MEMBERS.run(tx, container=info.name, names=new)

    def remove_files(self, name: str, lfns: Iterable[str]) -> None:
        unwanted = [valid_lfn(lfn) for lfn in lfns]
        homes = self._homes(name)
        with self._engine.begin() as tx:
            info = must_be_plain(_one(_tree(tx, [name]), name))
            catalogue.remove_files(tx, info.name, unwanted)
        for home in homes:
            for lfn in unwanted:
                (home / lfn).unlink(missing_ok=True)

    def close(self, name: str) -> None:
        with self._engine.begin() as tx:
            if not catalogue.close(tx, valid_dataset(name)):
                raise _missing(name)

    def delete(self, name: str) -> None:
        """The dataset is known, though empty, until its directories are gone: who is interrupted
        can be repeated."""
        homes, name = self._homes(name), valid_dataset(name)
        with self._engine.begin() as tx:
            if name not in _tree(tx, [name]):
                return
            catalogue.remove_files(tx, name, None)
        for home in filter(Path.exists, homes):
            shutil.rmtree(home)
        with self._engine.begin() as tx:
            catalogue.DELETE_DATASET.run(tx, name=name)

    # What comes in

    def publish(self, endpoint: str, files: Sequence[Staged]) -> None:
        names = [valid_dataset(name) for _, name, _ in files]
        with self._engine.begin() as tx:
            rows = catalogue.FIND.rows(
                tx, names=names, lfns=[valid_lfn(file.lfn) for _, _, file in files]
            )
        known = {(row.name, row.lfn): row for row in rows}
        for name, (_, _, file) in zip(names, files, strict=True):
            row = known.get((name, file.lfn))
            if row and (row.size, row.adler32) != (file.size, file.adler32 or row.adler32):
                raise other_content(self.path(endpoint, name, file.lfn))
        super().publish(endpoint, files)

    def _receivers(self, names: Collection[str]) -> dict[str, DatasetInfo]:
        with self._engine.begin() as tx:
            known = _tree(tx, names)
        return {name: must_be_plain(_one(known, name)) for name in names}

    def _held(
        self, source: Storage, wanted: Mapping[str, Sequence[str]]
    ) -> dict[FileKey, FileInfo]:
        given = {(valid_dataset(n), lfn): (n, lfn) for n, lfns in wanted.items() for lfn in lfns}
        return {
            given[row.name, row.lfn]: _file(row)
            for row in self._find(given)
            if source.endpoint in row.endpoints
        }

    def _arrived(
        self,
        storage: Storage,
        files: Mapping[str, Sequence[FileInfo]],
        until: datetime | None = None,
    ) -> None:
        arrived = []
        for name, some in files.items():
            home = storage.home(name)
            arrived += [
                (valid_dataset(name), replace(f, adler32=f.adler32 or adler32(home / f.lfn)))
                for f in some
            ]
            _sync(home)
        self._note(storage.endpoint, arrived, until)

    def _note(
        self, endpoint: str, arrived: Sequence[tuple[str, FileInfo]], until: datetime | None = None
    ) -> None:
        """Enter files of these datasets (canonical names) as lying at an endpoint."""
        names = [name for name, _ in arrived]
        columns = {c: [getattr(file, c) for _, file in arrived] for c in _COLUMNS}
        with self._engine.begin() as tx:
            if catalogue.put_files(tx, endpoint, names, columns, until) != len(arrived):
                raise Refused(
                    f"Files for {', '.join(dict.fromkeys(names))} came to {endpoint} "
                    "while a dataset was deleted or another content was published. Try again.",
                    code="catalogue_changed",
                )

    def _places(self, name: str) -> Mapping[str, Collection[str]]:
        with self._engine.begin() as tx:
            info = must_be_plain(_one(_tree(tx, [name]), name))
            rows = catalogue.LIST.rows(tx, names=[info.name])
        return {row.lfn: self._known_endpoints(row) for row in rows}

    def _forget(self, endpoint: str, name: str, lfns: Collection[str], *, gone: bool) -> None:
        with self._engine.begin() as tx:
            catalogue.forget_copies(tx, endpoint, name, lfns, gone=gone)

    # What is where

    def _counted(self, rows: Iterable[CatalogueFile]) -> dict[FileKey, FileInfo]:
        """The events of these files, counted where a replica lies and noted."""
        places = {
            self.path(endpoint, row.name, row.lfn): row
            for row in rows
            for endpoint in self._known_endpoints(row)[:1]
        }
        counted: dict[FileKey, FileInfo] = {}
        for batch in self._measured((path, _file(row)) for path, row in places.items()):
            named = {(places[path].name, file.lfn): file for path, file in batch}
            names, lfns = zip(*named, strict=True)
            with self._engine.begin() as tx:
                catalogue.NOTE_EVENTS.run(
                    tx, names=names, lfns=lfns, nevents=[file.nevents for file in named.values()]
                )
            counted |= named
        return counted

    def _find(self, files: Collection[FileKey]) -> list[CatalogueFile]:
        """The known ones of these files (datasets by their canonical names)."""
        with self._engine.begin() as tx:
            return catalogue.FIND.rows(
                tx, names=[n for n, _ in files], lfns=[lfn for _, lfn in files]
            )

    def _known_endpoints(self, row: CatalogueFile) -> list[str]:
        """The configured endpoints that hold a file, in their order."""
        return [endpoint for endpoint in self._storages if endpoint in row.endpoints]

    def _homes(self, name: str) -> list[Path]:
        """The directories that a dataset may have."""
        return [storage.home(name) for storage in self._storages.values()]


def _tree(tx: Connection, names: Collection[str]) -> dict[str, DatasetInfo]:
    """By canonical name, these datasets and all below them, as far as they are known."""
    return {
        row.name: DatasetInfo(row.name, row.state, tuple(row.members), row.is_container)
        for row in catalogue.TREE.rows(tx, names=[valid_dataset(name) for name in names])
    }


def _one(known: Mapping[str, DatasetInfo], name: str) -> DatasetInfo:
    try:
        return known[valid_dataset(name)]
    except KeyError:
        raise _missing(name) from None


def _taken(found: DatasetInfo) -> Refused:
    sentence = f"{found} exists already. Choose another name."
    return Refused(sentence, code="dataset_exists", dataset=found.name)


def _missing(name: str) -> NotFound:
    return NotFound(
        f"Dataset {name} is not in the catalogue.", code="dataset_missing", dataset=name
    )


def _constituents(tx: Connection, name: str) -> list[str]:
    known = _tree(tx, [name])
    return flatten(name, lambda name: _one(known, name))


def _file(row: CatalogueFile) -> FileInfo:
    return FileInfo(**{column: getattr(row, column) for column in _COLUMNS})


def _sync(directory: Path) -> None:
    """Make files that were moved into a directory survive a power cut."""
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
