"""Datasets as people handle them: make and close them, show contents."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.contentsfeeder.left_out import shown
from jedi.core import names
from jedi.core.errors import BadInput, Forbidden, NoSpace, Problem, Refused
from jedi.ddm.interface import DDM, DatasetInfo, FileInfo, OpenOrClosed, Replica
from jedi.ddm.storage import valid_dataset
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


def find_datasets(
    ddm: DDM, pattern: str, after: str = "", limit: int | None = None
) -> list[NamedDataset]:
    """Return datasets and containers by name, the first ones after a name; `*` stands for
    anything."""
    found = sorted(one for one in ddm.find(pattern) if one[0] > after)
    return [NamedDataset(name, state) for name, state in found[:limit]]


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


def summary(ddm: DDM, name: str) -> StoredDataset:
    """Return a dataset or container. NotFound."""
    found = show_dataset(ddm, name)
    info, files = found.info, {file.lfn for file in found.files}  # at one endpoint or another
    odd = {shown(entry): code for entry, code in ddm.left_out(name).items() if entry not in files}
    return StoredDataset(
        info.name, info.state, info.is_container, [*info.members], found.files, found.replicas, odd
    )


def put_dataset(
    tx: Connection, ddm: DDM, who: str, name: str, endpoint: str | None, state: OpenOrClosed
) -> NamedDataset:
    """Create an empty dataset, or open or close one. Forbidden: `who` does not own it."""
    must_own(tx, who, name)
    place = endpoint or _only_endpoint(tx)
    with storage_of(place):
        made = create_dataset(tx, ddm, name, place, is_open=state == "open")
    return NamedDataset(made.name, made.state)


def close_own(tx: Connection, ddm: DDM, who: str, name: str) -> NamedDataset:
    """Close a dataset. Forbidden as above."""
    must_own(tx, who, name)
    closed = close_dataset(tx, ddm, name)
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


def must_own(tx: Connection, who: str, name: str) -> str:
    """The canonical name of a dataset that `who` may change. Operators change all. Users change
    those that their tasks make; of those that no task makes, those of their scope. Forbidden."""
    dataset = valid_dataset(name)
    makers = datasets.makers(tx, dataset)
    if who in makers or users.role(tx, who) == "operator":
        return dataset
    if makers:
        raise Forbidden(
            f"{dataset} is made by a task of {makers[0]}: only its owner and operators may change "
            "it.",
            dataset=dataset,
            owner=makers[0],
        )
    scope, title = names.dataset(dataset)
    try:
        own = names.user_scope(who)
    except ValueError as error:
        raise Forbidden(
            f"{who!a} has no scope, since user.NAME is none for this name ({error}): only "
            f"operators may change {dataset}. Ask one.",
            dataset=dataset,
            scope=scope,
        ) from None
    if scope != own:
        raise Forbidden(
            f"{dataset} has the scope {scope}: {who} may change datasets of the scope {own}, and "
            f"operators all. Name it {own}:{title}, or ask an operator.",
            dataset=dataset,
            scope=scope,
            own_scope=own,
        )
    return dataset


def _only_endpoint(tx: Connection) -> str:
    endpoints = list(dict(sites.ROOTS.rows(tx)))
    if len(endpoints) != 1:
        known = ", ".join(endpoints) or "no endpoint exists: import a site file first"
        remedy = f"Name one of the endpoints ({known})"
        raise BadInput([Problem("endpoint", None, "the command needs an endpoint", remedy)])
    return endpoints[0]
