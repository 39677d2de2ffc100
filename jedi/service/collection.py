"""Submitting one task, or a collection: all of them or none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection

from jedi.core.errors import BadInput, Problem
from jedi.ddm.interface import DDM
from jedi.service.submission import Submitted, submit
from jedi.spec.tasktext import split


@dataclass(frozen=True, slots=True)
class Document:
    """The text of a task and the directory of its local files; `name`: its place in a collection,
    empty if it is alone."""

    text: str
    format: str
    base_dir: Path
    name: str = ""


def collect(files: Mapping[str, Document]) -> list[Document]:
    """The tasks in files, by name: one, or a collection, which several files are, a list, and
    several documents of YAML in one."""
    found = []
    for name, file in files.items():
        parts = split(file.text, file.format)
        if parts is None:
            found.append(replace(file, name=name if len(files) > 1 else ""))
        else:
            found += [replace(file, text=part, name=f"{name}#{number}")
                      for number, part in enumerate(parts, 1)]  # fmt: skip
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
    """Store tasks in their order, so that one may build on those before it, or none of them:
    BadInput tells what is wrong with each. In a collection each gets a `key` of its own, KEY/1 and
    so on. `validate`: nothing is stored in any case."""
    found: list[Submitted] = []
    problems: list[Problem] = []
    with tx.begin_nested() as point:
        for number, one in enumerate(documents, 1):
            its_key = f"{key}/{number}" if key and one.name else key
            try:
                found.append(submit(tx, ddm, who, one.text, one.format, one.base_dir, its_key))
            except BadInput as error:
                place = f"{one.name}: " if one.name else ""
                problems += [replace(p, path=place + p.path) for p in error.problems]
        if problems:
            raise BadInput(problems)
        if validate:
            point.rollback()
    return found
