"""Submitting one task, or a collection: all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection

from jedi.core.errors import BadInput, Problem
from jedi.ddm.interface import DDM
from jedi.model.tasks.text import split
from jedi.service.submission.examined import Document, Examined, examined
from jedi.service.submission.storing import Submitted, submit
from jedi.taskbuffer.tasks import new_tasks


def collect(files: Mapping[str, Document]) -> list[Document]:
    """Return the tasks in files, by name. Several files, a list, or several YAML documents in one
    file are a collection."""
    found = []
    for name, file in files.items():
        parts = split(file.text, file.format)
        if parts is None:
            found.append(replace(file, name=name if len(files) > 1 else ""))
        else:
            found += [
                replace(file, text=part, name=f"{name}#{number}")
                for number, part in enumerate(parts, 1)
            ]
    return found


def submit_all(
    tx: Connection,
    ddm: DDM,
    who: str,
    documents: Sequence[Document],
    key: str | None = None,
    *,
    validate: bool = False,
) -> list[Submitted]:
    """Store tasks in their order, so that each may build on those before it; or store none, and
    BadInput lists the mistakes of each. In a collection each task gets its own `key`: KEY/1, KEY/2
    and so on. `validate`: nothing is stored in any case."""
    given = [examined(one, who) for one in documents]
    if validate or len(documents) > 1:
        with tx.begin_nested() as point:  # what is refused uses up no ids
            ids = new_tasks.trial_ids(tx, len(documents))
            tried = _submit(tx, ddm, given, key, ids)
            point.rollback()
        if validate:
            return tried
    return _submit(tx, ddm, given, key, [None] * len(documents))


def _submit(
    tx: Connection,
    ddm: DDM,
    given: Sequence[Examined],
    key: str | None,
    ids: Sequence[int | None],
) -> list[Submitted]:
    """Store tasks in their order; BadInput if one can't be."""
    found: list[Submitted] = []
    problems: list[Problem] = []
    for number, (one, task_id) in enumerate(zip(given, ids, strict=True), 1):
        name = one.document.name
        its_key = f"{key}/{number}" if key and name else key
        try:
            found.append(replace(submit(tx, ddm, one, its_key, task_id), name=name))
        except BadInput as error:
            place = f"{name}: " if name else ""
            problems += [replace(p, path=place + p.path) for p in error.problems]
    if problems:
        raise BadInput(problems)
    return found
