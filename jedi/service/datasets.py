"""Datasets as people handle them: make and close them, show contents."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.errors import BadInput, Forbidden, Problem
from jedi.ddm.interface import DDM, DatasetInfo, FileInfo, OpenOrClosed, Replica
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.users import users


@dataclass(frozen=True, slots=True)
class DatasetDetails:
    """A dataset with its files and their locations."""

    info: DatasetInfo
    files: list[FileInfo]
    replicas: list[Replica]


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


def _only_endpoint(tx: Connection) -> str:
    endpoints = list(sites.roots(tx))
    if len(endpoints) != 1:
        known = ", ".join(endpoints) or "no endpoint exists: import a site file first"
        remedy = f"Name one of the endpoints ({known})"
        raise BadInput([Problem("endpoint", None, "the command needs an endpoint", remedy)])
    return endpoints[0]
