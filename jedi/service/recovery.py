"""Outputs that are lost: which they are, and what has to be made again to have them back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from jedi.core.errors import BadInput, NotFound, Problem, Refused
from jedi.core.suggest import suggest
from jedi.ddm.interface import DDM, FileInfo
from jedi.service import tasks
from jedi.service.commands import command
from jedi.taskbuffer.inputs import recovery

Listings = dict[str, Mapping[str, FileInfo]]
"""What data management says of datasets, by LFN."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A task that makes lost files (LFNs by dataset) again, and the command that says so."""

    jedi_task_id: int
    files: dict[str, list[str]]
    command_id: int


@dataclass(frozen=True, slots=True)
class Recovered:
    """What is done about lost files: makers of inputs come before those who read them. `gone`:
    inputs (dataset, LFN) that are lost as well, and which no task can make again."""

    tasks: list[Recovery]
    gone: list[tuple[str, str]]


def recover(
    tx: Connection,
    ddm: DDM,
    who: str,
    jedi_task_ids: Sequence[int] = (),
    dataset: str | None = None,
    files: Sequence[str] = (),
    *,
    sole: bool = False,
    comment: str | None = None,
) -> Recovered:
    """Let tasks, or whoever made a dataset, make again what is lost of their outputs: what they
    made and data management does not have, or has otherwise; or the `files` that are named. If
    their inputs are lost, too, the tasks that made those make them first.

    NotFound: no such task, or nobody made the dataset; BadInput: no such files; Refused: nothing is
    lost, or a task is not in a status to be recovered; Forbidden: somebody else's.
    """
    for task_id in jedi_task_ids:
        tasks.get(tx, task_id)
    made = recovery.made(tx, jedi_task_ids, [dataset] if dataset else [])
    if dataset and not made:
        raise NotFound(f"No task has made files of {dataset}.", dataset=dataset)
    listings: Listings = {}
    lost = _named(made, files) if files else _lost(ddm, made, listings)
    if not lost:
        raise Refused(f"Nothing is lost: all {len(made)} outputs are there.", code="nothing_lost")
    chain, gone = _climb(tx, ddm, lost, listings)
    more = {"sole": True} if sole else {}
    found = [
        Recovery(task, named, command(tx, who, task, "recover", {"files": named, **more}, comment))
        for task, named in chain
    ]
    return Recovered(found, gone)


def _named(made: Sequence[Row[Any]], files: Sequence[str]) -> list[Row[Any]]:
    known = {row.lfn for row in made}
    problems = [
        Problem("files", lfn, "no such output", suggest(lfn, known, "Look at jedi-task files"))
        for lfn in files
        if lfn not in known
    ]
    if problems:
        raise BadInput(problems)
    wanted = set(files)
    return [row for row in made if row.lfn in wanted]


def _lost(ddm: DDM, made: Sequence[Row[Any]], listings: Listings) -> list[Row[Any]]:
    """The files that are not there as they were made."""
    _look(ddm, {row.datasetname for row in made}, listings)
    return [row for row in made if not _is(row, listings[row.datasetname].get(row.lfn))]


def _is(made: Row[Any], found: FileInfo | None) -> bool:
    if found is None or made.fsize not in (None, found.size):
        return False
    return None in (made.checksum, found.adler32) or made.checksum == found.adler32


def _look(ddm: DDM, names: Iterable[str], listings: Listings) -> None:
    for name in names:
        if name not in listings:
            try:
                listings[name] = {file.lfn: file for file in ddm.list_files(name)}
            except NotFound:
                listings[name] = {}


def _climb(
    tx: Connection, ddm: DDM, lost: Sequence[Row[Any]], listings: Listings
) -> tuple[list[tuple[int, dict[str, list[str]]]], list[tuple[str, str]]]:
    """From lost files to the tasks that make them and, where inputs of these are lost, too, on to
    their makers, who come first. And what nobody can make again."""
    wanted: dict[int, dict[str, list[str]]] = {}
    gone: list[tuple[str, str]] = []
    seen: set[tuple[str, str]] = set()
    while lost:
        for task in dict.fromkeys(row.jeditaskid for row in lost):
            wanted[task] = wanted.pop(task, defaultdict(list))  # the last ones come first
        for row in lost:
            wanted[row.jeditaskid][row.datasetname].append(row.lfn)
        inputs = {(r.datasetname, r.lfn) for r in recovery.read(tx, {r.outpandaid for r in lost})}
        _look(ddm, {name for name, _ in inputs}, listings)
        absent = {(name, lfn) for name, lfn in inputs - seen if lfn not in listings[name]}
        seen |= absent
        makers = recovery.made(tx, names={name for name, _ in absent}) if absent else []
        lost = [row for row in makers if (row.datasetname, row.lfn) in absent]
        gone += sorted(absent - {(row.datasetname, row.lfn) for row in lost})
    return list(reversed(wanted.items())), gone
