"""Submission of tasks that PanDA's clients describe."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from jedi_client.sandbox import Sandbox, of_contents, verify
from sqlalchemy import Connection

from jedi.core.errors import BadInput, Problem
from jedi.core.knobs import Knobs
from jedi.ddm.interface import DDM
from jedi.service.submission import collection
from jedi.service.submission.examined import Document
from jedi.service.submission.sandbox import Uploaded
from jedi.service.submission.storing import Submitted
from jedi.service.tasks import commanding, task_details
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskbuffer.users import cache_files
from jedi_panda import transformations
from jedi_panda.model.task_parameters import Translation, translate


def submit(
    tx: Connection,
    ddm: DDM,
    knobs: Knobs,
    who: str,
    task_parameters: Mapping[str, Any],
    parent_id: int | None,
    *,
    validate: bool = False,
) -> Submitted:
    """Store the task that a client of PanDA's describes, as a child of `parent_id`. BadInput lists
    all mistakes; NotFound: no such parent."""
    task = translate(task_parameters, knobs.prun.vo)
    document, problems = dict(task.document), list(task.problems)
    if parent_id is not None:
        document["parentTaskName"] = task_details.get(tx, parent_id).task_name
    files, unusable = _sandbox(tx, knobs, who, task)
    problems += unusable
    text = json.dumps(document)
    try:
        [done] = collection.submit_all(
            tx, ddm, who, [Document(text, "json", files)], validate=validate or bool(problems)
        )
    except BadInput as error:
        problems += error.problems
    if problems:
        raise BadInput(problems)
    return done


def raise_attempts(tx: Connection, knobs: Knobs, who: str, jedi_task_id: int, increase: int) -> int:
    """Continue a task whose files may have so many more attempts; the number of the command."""
    given = (
        dict(new_tasks.PARAMS_OF.rows(tx, ids=[jedi_task_id]))
        .get(jedi_task_id, {})
        .get("maxAttempt")
    )
    most = (given or int(knobs.attempts.max_attempt)) + increase
    changed = {"parameters": {"maxAttempt": most}}
    return commanding.command(tx, who, jedi_task_id, "incexec", changed).command_id


def _sandbox(
    tx: Connection, knobs: Knobs, who: str, task: Translation
) -> tuple[Uploaded, list[Problem]]:
    """The runner and the upload that it unpacks; problems if that can't be used."""
    if "sandbox" not in task.document:
        return Uploaded(None), []
    most = int(knobs.sandbox.max_mb)
    files = [("jedi-run", transformations.script(), True)]
    problems: list[Problem] = []
    if task.archive is not None:
        found = cache_files.GET.row(tx, name=task.archive)
        if found is None or found.user_name != who:
            rule, remedy = "is no upload of yours", "Upload it first, or submit it again with prun"
            problems = [Problem("archiveName", task.archive, rule, remedy)]
        else:
            problems = _unusable(task.archive, found.data, most)
            files.append((task.archive, found.data, False))
    sandbox = of_contents(files, most) if not problems else Sandbox("0" * 64, b"")
    return Uploaded(sandbox), problems


def _unusable(name: str, data: bytes, max_mb: int) -> list[Problem]:
    """The mistakes of an archive, under its name."""
    try:
        verify(data, hashlib.sha256(data).hexdigest(), max_mb)
    except BadInput as error:
        return [replace(one, path=name) for one in error.problems]
    return []
