"""Operations on datasets: their names, states and records of files. Contents travel otherwise."""

from __future__ import annotations

from typing import Literal

from jedi.service import datasets
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import ANYBODY, OWNER, Call, operation


@operation("dataset.list", "GET", "/v1/datasets", ANYBODY)
def find(call: Call, pattern: NameText = "*") -> list[datasets.NamedDataset]:
    """List the datasets and containers that match a pattern; `*` stands for anything."""
    return datasets.find_datasets(call.ddm, pattern)


@operation("dataset.show", "GET", "/v1/datasets/{name}", ANYBODY)
def show(call: Call, name: NameText) -> datasets.StoredDataset:
    """Show the files of a dataset or container, and the endpoints that hold them."""
    return datasets.summary(call.ddm, name)


@operation("dataset.create", "PUT", "/v1/datasets/{name}", OWNER, scope="submit")
def create(
    call: Call,
    name: NameText,
    state: Literal["open", "closed"] = "closed",
    endpoint: NameText | None = None,
) -> datasets.NamedDataset:
    """Make an empty dataset, or set the state of one. Tasks process the files of an open dataset
    as they arrive."""
    call.subject = f"dataset {name}"
    return datasets.put_dataset(call.tx, call.ddm, call.who, name, endpoint, state)


@operation("dataset.close", "POST", "/v1/datasets/{name}/close", OWNER, scope="submit")
def close(call: Call, name: NameText) -> datasets.NamedDataset:
    """Close a dataset: no more files come, and its tasks can end."""
    call.subject = f"dataset {name}"
    return datasets.close_own(call.tx, call.ddm, call.who, name)
