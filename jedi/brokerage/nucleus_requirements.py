"""Input of the choice of a nucleus: the snapshot with measured space, and the needs of the task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from jedi.brokerage.replicas import Replicas, of_replicas
from jedi.brokerage.requirements import Requirements, ahead
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import Demand, InputSize
from jedi.model.sites.decision import Pledge
from jedi.model.sites.request import InputAvailability, Request
from jedi.model.sites.snapshot import Snapshot
from jedi.model.tasks.rows import ClaimedTask


class FreeSpace(Protocol):
    """Free space of an endpoint."""

    @property
    def free_gb(self) -> float: ...


class DatasetCopy(Protocol):
    """The replica of a dataset at an endpoint: files and bytes."""

    @property
    def endpoint(self) -> str: ...
    @property
    def n_files(self) -> int: ...
    @property
    def size(self) -> int: ...


def measured(snapshot: Snapshot, space: Callable[[str], FreeSpace]) -> Snapshot:
    """Return the world with the free space from data management where no one has recorded it."""
    usable, free = snapshot.usable_gb.copy(), snapshot.free_gb.copy()
    for row in np.flatnonzero(np.isinf(usable)):
        if endpoint := snapshot.endpoint[row]:
            usable[row] = free[row] = np.floor(10 * space(endpoint).free_gb) / 10
    return replace(snapshot, usable_gb=usable, free_gb=free)


def data_of(
    snapshot: Snapshot,
    datasets: Sequence[tuple[str, int]],
    replicas: Callable[[str], Sequence[DatasetCopy]],
    knobs: Knobs,
) -> InputAvailability:
    """Return the locations of datasets, each with its number of files."""
    found = []
    for name, n_files in datasets:
        at = {one.endpoint: (one.n_files, float(one.size)) for one in replicas(name)}
        size = max((size for _, size in at.values()), default=0.0)
        found.append(Replicas(n_files, size, at))
    return of_replicas(snapshot, found, knobs.taskbroker.complete_percent)


def need_of(row: ClaimedTask, knobs: Knobs) -> Requirements:
    """Return the needs of a task (a row of jedi_tasks) on a nucleus, independent of its data."""
    return Requirements(
        demand=Demand.of(row, None).roomier(knobs.broker.spare_work_mb),
        atom=InputSize(0.0, 0.0),
        sites=(row.nucleus,) if row.nucleus else (),
        request=Request.of(row),
    )


def with_data(
    need: Requirements, queue: int, data: InputAvailability, pledges: Sequence[Pledge], days: float
) -> Requirements:
    """... and where they do, the work that is left there, and the days it has waited."""
    work = ahead(pledges, queue, need.request.priority)
    return replace(need, data=data, work=work, waits_days=days)
