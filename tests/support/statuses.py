"""Statuses of rows, as tests compare them."""

from __future__ import annotations

from typing import Any, Literal, overload

from sqlalchemy import text

from support.transaction import Place, transaction

Kind = Literal["tasks", "datasets", "files", "jobs"]
TABLES: dict[Kind, tuple[str, str]] = {
    "tasks": ("jedi_tasks", "jeditaskid"),
    "datasets": ("jedi_datasets", "datasetid"),
    "files": ("jedi_dataset_contents", "fileid"),
    "jobs": ("jedi_jobs", "pandaid"),
}


@overload
def statuses(
    place: Place,
    task: int | None = None,
    of: Kind = "jobs",
    *,
    by: None = None,
    **where: object,
) -> list[str]: ...


@overload
def statuses(
    place: Place,
    task: int | None = None,
    of: Kind = "jobs",
    *,
    by: str,
    **where: object,
) -> dict[Any, str]: ...


def statuses(
    place: Place,
    task: int | None = None,
    of: Kind = "jobs",
    *,
    by: str | None = None,
    **where: object,
) -> list[str] | dict[Any, str]:
    """The statuses of all jobs (or tasks, datasets, files), or of one task's; `where` gives columns
    and their values. A list in the order of their ids; with `by`, a dict from this column."""
    table, number = TABLES[of]
    values = where if task is None else {"jeditaskid": task, **where}
    conditions = [f"{column} IS NOT DISTINCT FROM :{column}" for column in values]
    query = text(
        f"SELECT {by or number} AS key, status FROM {table} "
        f"WHERE {' AND '.join(conditions) or 'true'} ORDER BY {number}"
    )
    with transaction(place) as tx:
        found = tx.execute(query, values).all()
    return {row.key: row.status for row in found} if by else [row.status for row in found]


def input_statuses(place: Place, task: int) -> dict[str, str]:
    """The statuses of a task's input files that jobs may get, by name."""
    return statuses(place, task, "files", by="lfn", type="input", reason=None)
