"""Resubmission: a submission with the name and output dataset of the user's own ended task
continues that task with its unused and failed files.

Source: JEDI document, "Task retry and resubmission" and "Broken tasks";
docs/reference/retries-and-timeouts.md#resubmission.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from jedi_client.sandbox import Sandbox
from sqlalchemy import Connection

from jedi.core.errors import Problem
from jedi.service.commands import command
from jedi.spec.tasks.incremental import CHANGEABLE, INPUTS, same_but_inputs
from jedi.spec.tasks.params import TaskParams
from jedi.spec.tasks.text import examine
from jedi.taskbuffer.tasks import family, new_tasks
from jedi.taskcommando.commands import ANEW, COMMANDS

_ABOUT_SUBMISSION = (
    *("useNewCode", "allowTaskDuplication", "uniqueTaskName", "userName"),
    *("sandbox", "lostFiles", "lostFilesDataset", "recoverInto"),
)
"""Keys about the submission itself, not about the task."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """A resubmitted task, and its changes."""

    jedi_task_id: int
    status: str
    attempt_nr: int
    arguments: dict[str, Any] = field(default_factory=dict)


def find(tx: Connection, owner: str, params: TaskParams, makers: Collection[int]) -> Earlier | None:
    """Return the task that these parameters resubmit; `makers` are those of the output datasets."""
    if params.allow_task_duplication or params.lost_files or not makers:
        return None
    row = family.newest(tx, owner, params.task_name)
    if row is None or row.jedi_task_id not in makers:
        return None
    ended = row.status == "broken" or row.status in COMMANDS["incexec"].allowed
    return Earlier(*row) if ended else None


def examine_again(
    tx: Connection,
    earlier: Earlier,
    params: TaskParams,
    sandbox: Sandbox | None,
    may_change: Collection[str],
) -> tuple[Earlier, list[Problem]]:
    """Return the changes of a resubmitted task, and problems for keys that must not change."""
    task = earlier.jedi_task_id
    if earlier.status == "broken":
        rule = f"belongs to task {task}, which is broken"
        return earlier, [Problem("taskName", params.task_name, rule, ANEW.rstrip("."))]
    stored, _ = examine(new_tasks.params_of(tx, [task])[task])
    old, new = stored.dump() if stored else {}, params.dump()
    keys = [key for key in {**old, **new} if key not in _ABOUT_SUBMISSION]
    changes = {key: new.get(key) for key in keys if old.get(key) != new.get(key)}
    problems = list(_fixed(task, old, changes, may_change))
    arguments: dict[str, Any] = {"parameters": changes}
    if sandbox and sandbox.sha256 != new_tasks.sandbox_of(tx, task):
        arguments |= {"sandbox": sandbox.sha256}
        changes["sandbox"] = params.sandbox
        if not params.use_new_code:
            rule = f"the files differ from those of task {task}"
            remedy = "Set useNewCode: true to replace them"
            problems.append(Problem("sandbox", params.sandbox, rule, remedy))
    return replace(earlier, arguments=arguments), problems


def _fixed(
    task: int, old: Mapping[str, Any], changes: Mapping[str, Any], may_change: Collection[str]
) -> Iterator[Problem]:
    for key, value in changes.items():
        if key == INPUTS and same_but_inputs(old[key], value):
            continue
        if key not in may_change or key not in CHANGEABLE:
            for path, had, stands in _differences(key, old.get(key), value, key):
                rule = f"differs from task {task}, and can't change at resubmission"
                has = "Leave it out" if had is None else "Change it back"
                if had is not None and len(shown := _shown(had)) < 80:
                    has = f"Task {task} has {shown}"
                remedy = f"{has}; for a new task choose other output datasets"
                yield Problem(path, stands, rule, remedy)


def _differences(key: str, old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield the paths where two values of a key differ, down to the keys of items, with both
    values. The datasets of inputs may differ."""
    if isinstance(old, list) and isinstance(new, list) and key == INPUTS:
        for i, (was, now) in enumerate(zip_longest(old, new)):
            yield from _differences("", was, now, f"{path}[{i}]")
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        is_input = old.get("param_type") == new.get("param_type") == "input"
        for name in dict.fromkeys([*old, *new]):
            if not (is_input and name == "dataset"):
                yield from _differences("", old.get(name), new.get(name), f"{path}.{name}")
    elif old != new:
        yield path, old, new


def _shown(value: Any) -> str:
    """Return a value as people write it."""
    return f"`{value}`" if isinstance(value, str) else json.dumps(value, default=str)


def apart(unlike: Iterable[Problem], problems: Collection[Problem]) -> list[Problem]:
    """Return keys that must not change, without invalid items."""
    wrong = {one.path.partition(".")[0] for one in problems}
    return [one for one in unlike if one.path.partition(".")[0] not in wrong]


def resubmit(tx: Connection, who: str, earlier: Earlier) -> int:
    """Command the task to continue; return the number of the command."""
    return command(tx, who, earlier.jedi_task_id, "incexec", earlier.arguments, "Submitted again.")
