"""Datasets as people handle them: make and close them, show contents."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection

from jedi.contentsfeeder.left_out import shown
from jedi.core.errors import BadInput, NoSpace, Problem, Refused
from jedi.ddm.interface import DDM, DatasetInfo, FileInfo, Replica
from jedi.service.operations.arguments import PAGE_ROWS, NameText, PageRows
from jedi.service.operations.table import ANYBODY, DATASET_OWNER, Call, operation
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.sites import sites


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


@operation("dataset.list", "GET", "/v1/datasets", ANYBODY)
def find_datasets(
    call: Call, pattern: NameText = "*", after: NameText | None = None, limit: PageRows = PAGE_ROWS
) -> list[NamedDataset]:
    """List the datasets and containers that match a pattern, by name; `*` stands for anything.
    `after`: the last name of the page before."""
    return [NamedDataset(*found) for found in call.ddm.find(pattern, after or "", limit)]


def show_dataset(ddm: DDM, name: str) -> DatasetDetails:
    """Return a dataset or container; NotFound if it does not exist."""
    return DatasetDetails(ddm.dataset(name), ddm.list_files(name), ddm.replicas(name))


@dataclass(frozen=True, slots=True)
class StoredDataset:
    """A dataset with its files and their locations; `members` are a container's datasets;
    `left_out`: other entries of its directories, by their names as rows have them, with the code of
    the reason."""

    name: str
    state: str
    is_container: bool
    members: list[str]
    files: list[FileInfo]
    replicas: list[Replica]
    left_out: dict[str, str]


@operation("dataset.show", "GET", "/v1/datasets/{name}", ANYBODY, heavy=True)
def summary(call: Call, name: NameText) -> StoredDataset:
    """Show the files of a dataset or container, and the endpoints that hold them.

    NotFound.
    """
    found = show_dataset(call.ddm, name)
    info, files = found.info, {file.lfn for file in found.files}  # at one endpoint or another
    odd = {
        shown(entry): code for entry, code in call.ddm.left_out(name).items() if entry not in files
    }
    return StoredDataset(
        info.name, info.state, info.is_container, [*info.members], found.files, found.replicas, odd
    )


@operation(
    "dataset.create", "PUT", "/v1/datasets/{name}", DATASET_OWNER, scope="submit", stores=True
)
def put_dataset(
    call: Call,
    name: NameText,
    state: Literal["open", "closed"] = "closed",
    endpoint: NameText | None = None,
) -> NamedDataset:
    """Make an empty dataset, or set the state of one. Tasks process the files of an open dataset
    as they arrive."""
    place = endpoint or _only_endpoint(call.tx)
    with storage_of(place):
        made = create_dataset(call.tx, call.ddm, name, place, is_open=state == "open")
    return NamedDataset(made.name, made.state)


@operation("dataset.close", "POST", "/v1/datasets/{name}/close", DATASET_OWNER, scope="submit")
def close_own(call: Call, name: NameText) -> NamedDataset:
    """Close a dataset: no more files come, and its tasks can end."""
    closed = close_dataset(call.tx, call.ddm, name)
    return NamedDataset(closed.name, closed.state)


@contextmanager
def storage_of(endpoint: str) -> Iterator[None]:
    """Turn a failure of an endpoint's storage into a refusal that its user understands."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        kind, code = (NoSpace, "no_space") if full else (Refused, "storage_failed")
        raise kind(
            f"{endpoint} {'is full' if full else 'can not be used'} "
            f"({error.strerror or error}). Ask its operators.",
            code=code,
            endpoint=endpoint,
        ) from error


def _only_endpoint(tx: Connection) -> str:
    endpoints = list(dict(sites.ROOTS.rows(tx)))
    if len(endpoints) != 1:
        known = ", ".join(endpoints) or "no endpoint exists: import a site file first"
        remedy = f"Name one of the endpoints ({known})"
        raise BadInput([Problem("endpoint", None, "the command needs an endpoint", remedy)])
    return endpoints[0]
