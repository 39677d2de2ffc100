"""Datasets as people handle them: add local files, show contents."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from jedi.core import names
from jedi.core.errors import BadInput, Forbidden, NotFound, Problem
from jedi.ddm.content import copy_verified
from jedi.ddm.interface import DDM, DatasetInfo, FileInfo, OpenOrClosed, Replica
from jedi.ddm.storage import make_below
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.users import users


@dataclass(frozen=True, slots=True)
class DatasetDetails:
    """A dataset with its files and their locations."""

    info: DatasetInfo
    files: list[FileInfo]
    replicas: list[Replica]


def add_files(
    tx: Connection, ddm: DDM, name: str, paths: Sequence[Path], endpoint: str | None = None
) -> list[FileInfo]:
    """Copy local files into a dataset of JEDI's own; create it if it does not exist. An open "
    "dataset stays open, and tasks that read it get the files; any other is closed. Without "
    "`endpoint` the files go to the only one. JEDI skips files that the dataset has with the same "
    "content. BadInput holds every mistake, and then nothing is copied.
    """
    target = endpoint or _only_endpoint(tx)
    _check(paths)
    stays_open = _is_open(ddm, name)
    staging = ddm.staging_dir(target, 0, os.getpid())
    make_below(staging)
    try:
        files = []
        for path in paths:
            staged = staging / path.name
            checksum = copy_verified(path, staged, staging, None)
            files.append((staged, name, FileInfo(path.name, staged.stat().st_size, checksum)))
        ddm.create(name, target)
        ddm.publish(target, files)
        if not stays_open:
            ddm.close(name)
    finally:
        ddm.drop_staging(target, 0, os.getpid())
    datasets.wake_consumers(tx, [name])
    return [info for _, _, info in files]


def create_dataset(
    tx: Connection, ddm: DDM, name: str, endpoint: str | None = None, *, is_open: bool = False
) -> DatasetInfo:
    """Create an empty dataset of JEDI's own, or open or close one. Tasks process files that arrive
    in an open dataset until it is closed."""
    ddm.create(name, endpoint or _only_endpoint(tx), "open" if is_open else "closed")
    return ddm.dataset(name)


def close_dataset(tx: Connection, ddm: DDM, name: str) -> DatasetInfo:
    """Close a dataset: no more files will come, and tasks that read it can end."""
    ddm.close(name)
    datasets.wake_consumers(tx, [name])
    return ddm.dataset(name)


@dataclass(frozen=True, slots=True)
class NamedDataset:
    """A dataset or container by its name; state None: its record is unreadable."""

    name: str
    state: str | None


def find_datasets(ddm: DDM, pattern: str) -> list[NamedDataset]:
    """Return datasets and containers by name; `*` stands for anything."""
    return [NamedDataset(name, state) for name, state in ddm.find(pattern)]


def show_dataset(ddm: DDM, name: str) -> DatasetDetails:
    """Return a dataset or container; NotFound if it does not exist."""
    return DatasetDetails(ddm.dataset(name), ddm.list_files(name), ddm.replicas(name))


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """A dataset with its files and their locations; `members` are a container's datasets."""

    name: str
    state: str
    is_container: bool
    members: list[str]
    files: list[FileInfo]
    replicas: list[Replica]


def summary(ddm: DDM, name: str) -> StoredDataset:
    """Return a dataset or container. NotFound."""
    found = show_dataset(ddm, name)
    info = found.info
    return StoredDataset(info.name, info.state, info.is_container, [*info.members], found.files,
                          found.replicas)  # fmt: skip


def put_dataset(
    tx: Connection, ddm: DDM, who: str, name: str, endpoint: str | None, state: OpenOrClosed
) -> NamedDataset:
    """Create an empty dataset, or open or close one. Forbidden: a task of another user makes it."""
    must_be_free(tx, who, name)
    made = create_dataset(tx, ddm, name, endpoint, is_open=state == "open")
    return NamedDataset(made.name, made.state)


def close_own(tx: Connection, ddm: DDM, who: str, name: str) -> NamedDataset:
    """Close a dataset. Forbidden as above."""
    must_be_free(tx, who, name)
    closed = close_dataset(tx, ddm, name)
    return NamedDataset(closed.name, closed.state)


def must_be_free(tx: Connection, who: str, name: str) -> None:
    """Forbidden: the dataset is made by tasks of others, and `who` is no operator. Every known user
    may handle datasets that no task makes."""
    owners = datasets.makers(tx, name)
    if owners and who not in owners and users.role(tx, who) != "operator":
        raise Forbidden(
            f"{name} is made by a task of {owners[0]}: only its owner and operators may change it.",
            dataset=name,
            owner=owners[0],
        )


def _is_open(ddm: DDM, name: str) -> bool:
    try:
        return ddm.dataset(name).state == "open"
    except NotFound:
        return False


def _only_endpoint(tx: Connection) -> str:
    endpoints = list(sites.roots(tx))
    if len(endpoints) != 1:
        known = ", ".join(endpoints) or "no endpoint exists: import a site file first"
        remedy = f"Name one of the endpoints ({known})"
        raise BadInput([Problem("endpoint", None, "the command needs an endpoint", remedy)])
    return endpoints[0]


def _check(paths: Sequence[Path]) -> None:
    problems = []
    seen: dict[str, Path] = {}
    for path in paths:
        if not path.is_file():
            problems.append(Problem(str(path), path.name, "is not a file", "Name files"))
        try:
            names.lfn(path.name)
        except ValueError as error:
            problems.append(Problem(str(path), path.name, str(error), "Rename the file"))
        if path.name in seen:
            rule = f"{seen[path.name]} has the same name"
            problems.append(
                Problem(
                    str(path),
                    path.name,
                    rule,
                    "Rename one of them: file names are unique in a dataset",
                )
            )
        seen[path.name] = path
    if problems:
        raise BadInput(problems)
