"""Resubmission: a submission with the name and output dataset of the user's own ended task
continues that task with its unused and failed files.

Source: JEDI document, "Task retry and resubmission" and "Broken tasks";
docs/reference/retries-and-timeouts.md#resubmission.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from jedi_client.sandbox import Sandbox
from sqlalchemy import Connection

from jedi.core.errors import Problem
from jedi.model.tasks.incremental import CHANGEABLE, INPUTS, change, with_inputs
from jedi.model.tasks.params import TaskParams
from jedi.model.tasks.text import examine
from jedi.service.operations.owners import Asked, must_own
from jedi.service.tasks.commanding import command
from jedi.taskbuffer.tasks import family, new_tasks
from jedi.taskcommando.commands import ANEW, COMMANDS

_ABOUT_SUBMISSION = (
    *("useNewCode", "allowTaskDuplication", "uniqueTaskName", "userName"),
    *("sandbox", "lostFiles", "lostFilesDataset", "recoverInto"),
)
"""Keys about the submission itself, not about the task."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A resubmitted task, and its changes; `kept`: sentences about parameters that differ and stay
    as they are."""

    jedi_task_id: int
    status: str
    attempt_nr: int
    arguments: dict[str, Any] = field(default_factory=dict)
    kept: tuple[str, ...] = ()


def find(tx: Connection, owner: str, params: TaskParams, makers: Collection[int]) -> Earlier | None:
    """Return the task that these parameters resubmit; `makers` are those of the output datasets."""
    if params.allow_task_duplication or params.lost_files or not makers:
        return None
    row = family.NEWEST.row(tx, user=owner, name=params.task_name)
    if row is None or row.jedi_task_id not in makers:
        return None
    ended = row.status == "broken" or row.status in COMMANDS["incexec"].allowed
    return Earlier(*row) if ended else None


def refusals(earlier: Earlier, params: TaskParams) -> Iterator[Problem]:
    """A broken task can't go on."""
    if earlier.status == "broken":
        rule = f"belongs to task {earlier.jedi_task_id}, which is broken"
        yield Problem("taskName", params.task_name, rule, ANEW.rstrip("."))


def continued(
    tx: Connection,
    earlier: Earlier,
    params: TaskParams,
    sandbox: Sandbox | None,
    may_change: Collection[str],
) -> tuple[Earlier, TaskParams]:
    """Return a resubmitted task with its changes and kept parameters, and its parameters as they
    will be. All but those of `may_change` and the datasets of inputs are kept, even if they differ;
    so are its files without useNewCode."""
    task = earlier.jedi_task_id
    old = dict(new_tasks.PARAMS_OF.rows(tx, ids=[task]))[task]
    stored, _ = examine(old)
    had, new = stored.dump() if stored else {}, params.dump()
    changes = _changes(had, new, may_change)
    kept = [
        f"{path} stays {'unset' if value is None else _shown(value)}: a resubmission of task "
        f"{task} does not change it. For a new task choose other output datasets."
        for key in {**had, **new}
        if key not in _ABOUT_SUBMISSION
        for path, value in _differences(key, {**had, **changes}.get(key), new.get(key))
    ]
    arguments: dict[str, Any] = {"parameters": changes}
    if sandbox and sandbox.sha256 != new_tasks.SANDBOX_OF.row(tx, task=task):
        if params.use_new_code:
            arguments |= {"sandbox": sandbox.sha256}
            changes["sandbox"] = params.sandbox
        else:
            kept.append(
                f"Task {task} keeps its files, which differ from these. "
                "Set useNewCode: true to replace them."
            )
    found, _ = change(old, changes)
    return replace(earlier, arguments=arguments, kept=tuple(kept)), found or params


def _changes(
    had: Mapping[str, Any], new: Mapping[str, Any], may_change: Collection[str]
) -> dict[str, Any]:
    """Return the changes that a resubmission makes; None takes a parameter back."""
    changes = {
        key: new.get(key)
        for key in CHANGEABLE
        if key in may_change and had.get(key) != new.get(key)
    }
    if INPUTS in had and (items := with_inputs(had[INPUTS], new[INPUTS])) != had[INPUTS]:
        changes[INPUTS] = items
    return changes


def _differences(key: str, old: Any, new: Any) -> Iterator[tuple[str, Any]]:
    """Yield the paths where two values of a key differ, down to the keys of items, with the old
    value."""
    if isinstance(old, list) and isinstance(new, list) and key == INPUTS:
        for i, (was, now) in enumerate(zip_longest(old, new)):
            yield from _differences(f"{key}[{i}]", was, now)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys([*old, *new]):
            yield from _differences(f"{key}.{name}", old.get(name), new.get(name))
    elif old != new:
        yield key, old


def _shown(value: Any) -> str:
    """Return a value as people write it."""
    return f"`{value}`" if isinstance(value, str) else json.dumps(value, default=str)


def resubmit(tx: Connection, who: str, earlier: Earlier) -> None:
    """Command the task to continue."""
    must_own(Asked(tx, who, "incexec it"), [earlier.jedi_task_id])
    command(tx, who, earlier.jedi_task_id, "incexec", earlier.arguments, "Submitted again.")
