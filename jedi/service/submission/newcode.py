"""Check of new code: a retried task needs all local files that its command runs."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from jedi.taskbuffer.jobs import order_files
from jedi.taskbuffer.tasks import new_tasks

_BETWEEN = re.compile(r"[\s'\"`=;|&()<>]+")


def cautions(tx: Connection, task_ids: Sequence[int], sha256: str) -> list[str]:
    """Return a sentence for each of these tasks whose command names local files that the sandbox
    `sha256` lacks."""
    new = _names(tx, sha256)
    found = []
    for task_id, params in sorted(dict(new_tasks.PARAMS_OF.rows(tx, ids=task_ids)).items()):
        command = _command(params)
        old = new_tasks.SANDBOX_OF.row(tx, task=task_id)
        if missing := lacking(command, _names(tx, old) if old else (), new):
            found.append(
                f"Task {task_id} runs {', '.join(missing)}, but the new files are only "
                f"{', '.join(sorted(new))}: its jobs will fail. Give all files of the task "
                "with --new-code, under their names."
            )
    return found


def lacking(command: str, old: Iterable[str], new: Iterable[str]) -> list[str]:
    """Return the local files that a command names and the new sandbox lacks: files of the old
    sandbox, and `./NAME`. Each occurs once, in order."""
    known, there = set(old), set(new)
    words = (word for word in _BETWEEN.split(command) if word)
    named = [w.removeprefix("./") for w in words if w.startswith("./") or w in known]
    return [name for name in dict.fromkeys(named) if name not in there]


def _command(params: dict[str, object]) -> str:
    items = params.get("jobParameters")
    values = (
        [str(item.get("value", "")) for item in items if isinstance(item, dict)]
        if isinstance(items, list)
        else []
    )
    return " ".join([str(params.get("transPath") or ""), *values])


def _names(tx: Connection, sha256: str) -> set[str]:
    """Return the files of a sandbox; none if JEDI has removed it."""
    data = order_files.SANDBOX.row(tx, sha256=sha256)
    if data is None:
        return set()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name.removeprefix("./") for member in archive if member.isfile()}
