"""Consistency checks: the system's records against each other and against the files in storage."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.errors import NotFound
from jedi.ddm.content import adler32
from jedi.ddm.interface import DDM, exists
from jedi.service.operations.table import OPERATOR, Call, operation
from jedi.taskbuffer.housekeeping import checks
from jedi.taskbuffer.housekeeping.checks import SHOWN, Finding, FinishedOutput


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The invariants of the records; `healthy` if none is violated."""

    healthy: bool
    invariants: list[Finding]


@operation("system.check", "GET", "/v1/check", OPERATOR, heavy=True)
def examine(call: Call, files: bool = False) -> CheckReport:
    """Check the invariants of the records; `files`: also read every finished output in storage."""
    found = check(call.tx, call.ddm if files else None)
    return CheckReport(not any(one.violations for one in found), found)


def check(tx: Connection, ddm: DDM | None = None) -> list[Finding]:
    """Check every invariant of the database. With `ddm`, also check that storage holds every
    finished output with its size and adler32 (this reads all of them), and no unmerged files of
    ended tasks."""
    found = checks.examine(tx)
    return found if ddm is None else [*found, _left(tx, ddm), _files(tx, ddm)]


def _left(tx: Connection, ddm: DDM) -> Finding:
    names = checks.MERGED_DATASETS.rows(tx)
    bad: list[int | str] = [name for name in names if exists(ddm, name)]
    meaning = "storage holds no unmerged files of ended tasks"
    return Finding("merged_left", meaning, "dataset", len(names), len(bad), bad[:SHOWN])


def _files(tx: Connection, ddm: DDM) -> Finding:
    examined = 0
    bad: list[int | str] = []
    for page in checks.made_files(tx):
        examined += len(page)
        datasets: dict[str, list[FinishedOutput]] = defaultdict(list)
        for row in page:
            datasets[row.dataset_name].append(row)
        for name, rows in datasets.items():
            bad += _differing(ddm, name, rows)
    meaning = "storage holds every finished output, unchanged since its job wrote it"
    return Finding("files", meaning, "file", examined, len(bad), bad[:SHOWN])


def _differing(ddm: DDM, name: str, rows: Sequence[FinishedOutput]) -> list[str]:
    """Return the files of a dataset that have no replica or a wrong one."""
    try:
        places = ddm.locate(name, [row.lfn for row in rows])
    except NotFound:
        places = {}
    return [
        f"{name} {row.lfn}"
        for row in rows
        if not places.get(row.lfn)
        or any(not _same(ddm, endpoint, name, row) for endpoint in places[row.lfn])
    ]


def _same(ddm: DDM, endpoint: str, name: str, row: FinishedOutput) -> bool:
    path = ddm.path(endpoint, name, row.lfn)
    try:
        return (path.stat().st_size, adler32(path)) == (row.fsize, row.checksum)
    except FileNotFoundError:  # removed since it was located
        return False
