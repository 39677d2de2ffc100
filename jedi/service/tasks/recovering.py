"""Recovery of lost outputs: finds them and the tasks that make them again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.errors import BadInput, NotFound, Problem, Refused
from jedi.core.suggest import suggest
from jedi.ddm.interface import DDM, FileInfo
from jedi.ddm.storage import valid_dataset
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.owners import Asked, must_own
from jedi.service.operations.table import OWNER, Call, operation
from jedi.service.tasks.commanding import command
from jedi.taskbuffer.inputs import recovery
from jedi.taskbuffer.inputs.recovery import MadeOutput

Listings = dict[str, Mapping[str, FileInfo]]
"""Contents of datasets in data management, by LFN."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A task that makes lost files (LFNs by dataset) again, the id of its command, and the attempt
    that begins by it."""

    jedi_task_id: int
    files: dict[str, list[str]]
    command_id: int
    attempt_nr: int | None


@dataclass(frozen=True, slots=True)
class RefusedRecovery:
    """A named task that is not recovered, with the code and the sentence of the error."""

    jedi_task_id: int
    error: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """The tasks that make lost files again; makers of inputs come before their readers. `gone`:
    lost inputs (dataset, LFN) that no task can make again; `refused`: named tasks that are unknown
    or belong to others."""

    tasks: list[Recovery]
    gone: list[tuple[str, str]]
    refused: list[RefusedRecovery]


@operation("task.recover", "POST", "/v1/tasks/recover", OWNER, dry_run=True, heavy=True)
def recover(
    call: Call,
    jedi_task_ids: list[TaskId] | None = None,
    dataset: str | None = None,
    files: list[str] | None = None,
    sole: bool = False,
    comment: str | None = None,
) -> Recovered:
    """Make lost outputs of tasks, or of a dataset, again, and their inputs if these are lost.

    NotFound: no such task, or no task made the dataset; BadInput: neither tasks nor a dataset, or
    no such files; Refused: nothing is lost, or a task's status forbids recovery, which stops all,
    since they need each other's files. Of several tasks,
    those that are unknown or forbidden stop no other.
    """
    tx = call.tx
    ids = jedi_task_ids or []
    refused = [RefusedRecovery(i, one.code, one.sentence) for i, one in call.refused.items()]
    call.name_objects(*(("dataset", [dataset]) if dataset else ("task", [*ids, *call.refused])))
    if not (ids or dataset or refused):
        remedy = "Name tasks, or a dataset"
        raise BadInput([Problem("jedi_task_ids", ids, "nothing is named", remedy)])
    if not (ids or dataset):
        return Recovered([], [], refused)
    dataset = dataset and valid_dataset(dataset)
    if dataset and not recovery.MADE.rows(tx, ids=(), names=[dataset]):
        raise NotFound(f"No task has written files of {dataset}.", dataset=dataset)
    made = recovery.MADE.rows(tx, ids=ids, names=[dataset] if dataset else [])
    listings: Listings = {}
    lost = _named(made, files) if files else _lost(call.ddm, made, listings)
    if not lost:
        raise Refused(
            f"Nothing is lost: data management has all {len(made)} outputs.", code="nothing_lost"
        )
    chain, gone = _climb(tx, call.ddm, lost, listings)
    must_own(Asked(tx, call.who, "recover it"), [task for task, _ in chain])
    more = {"sole": True} if sole else {}
    found = []
    for task, named in chain:
        noted = command(tx, call.who, task, "recover", {"files": named, **more}, comment)
        found.append(Recovery(task, named, noted.command_id, noted.attempt_nr))
    return Recovered(found, gone, refused)


def _named(made: Sequence[MadeOutput], files: Sequence[str]) -> list[MadeOutput]:
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


def _lost(ddm: DDM, made: Sequence[MadeOutput], listings: Listings) -> list[MadeOutput]:
    """Return the files that are missing or changed since their job wrote them."""
    _look(ddm, {row.dataset_name for row in made}, listings)
    return [row for row in made if not _is(row, listings[row.dataset_name].get(row.lfn))]


def _is(made: MadeOutput, found: FileInfo | None) -> bool:
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
    tx: Connection, ddm: DDM, lost: Sequence[MadeOutput], listings: Listings
) -> tuple[list[tuple[int, dict[str, list[str]]]], list[tuple[str, str]]]:
    """Return the tasks that make the lost files again, with the makers of their lost inputs before
    them; and the files that no task can make again."""
    wanted: dict[int, dict[str, list[str]]] = {}
    gone: list[tuple[str, str]] = []
    seen: set[tuple[str, str]] = set()
    while lost:
        for task in dict.fromkeys(row.jedi_task_id for row in lost):
            wanted[task] = wanted.pop(task, defaultdict(list))  # the last ones come first
        for row in lost:
            wanted[row.jedi_task_id][row.dataset_name].append(row.lfn)
        inputs = {
            (r.dataset_name, r.lfn) for r in recovery.read(tx, {r.out_panda_id for r in lost})
        }
        _look(ddm, {name for name, _ in inputs}, listings)
        absent = {(name, lfn) for name, lfn in inputs - seen if lfn not in listings[name]}
        seen |= absent
        makers = (
            recovery.MADE.rows(tx, ids=(), names={name for name, _ in absent}) if absent else []
        )
        lost = [row for row in makers if (row.dataset_name, row.lfn) in absent]
        gone += sorted(absent - {(row.dataset_name, row.lfn) for row in lost})
    return list(reversed(wanted.items())), gone
