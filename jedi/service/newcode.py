"""Whether the local files that a task is retried with are those that its command runs."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.tasks import new_tasks

_BETWEEN = re.compile(r"[\s'\"`=;|&()<>]+")


def cautions(tx: Connection, task_ids: Sequence[int], sha256: str) -> list[str]:
    """A sentence for each of these tasks whose command names local files that are not among those
    of the sandbox `sha256`."""
    new = _names(tx, sha256)
    found = []
    for task_id, params in sorted(new_tasks.params_of(tx, task_ids).items()):
        command = _command(params)
        old = new_tasks.sandbox_of(tx, task_id)
        if missing := lacking(command, _names(tx, old) if old else (), new):
            found.append(
                f"Task {task_id} runs {', '.join(missing)}, which is not among the new files "
                f"({', '.join(sorted(new))}): its jobs will not find it. Give all files of the "
                "task with --new-code, under their names."
            )
    return found


def lacking(command: str, old: Iterable[str], new: Iterable[str]) -> list[str]:
    """The local files that a command names, those of the old sandbox and `./NAME`, but for the new
    ones; each once, in order."""
    known, there = set(old), set(new)
    words = (word for word in _BETWEEN.split(command) if word)
    named = [w.removeprefix("./") for w in words if w.startswith("./") or w in known]
    return [name for name in dict.fromkeys(named) if name not in there]


def _command(params: dict[str, object]) -> str:
    items = params.get("jobParameters")
    values = [str(item.get("value", "")) for item in items if isinstance(item, dict)] \
        if isinstance(items, list) else []  # fmt: skip
    return " ".join([str(params.get("transPath") or ""), *values])


def _names(tx: Connection, sha256: str) -> set[str]:
    """The files of a sandbox; none if it is kept no more."""
    data = dispatch.sandbox(tx, sha256)
    if data is None:
        return set()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return {member.name.removeprefix("./") for member in archive if member.isfile()}
