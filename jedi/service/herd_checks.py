"""Herds at submission: the splitter's own checks, and the record that makes a task a herd.

Source: docs/reference/herds.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import Connection

from jedi.core.errors import Problem
from jedi.core.suggest import suggest
from jedi.spec.tasks.params import InputItem, SplitterSpec, TaskParams
from jedi.splitter import strategies
from jedi.splitter.plug_in import SplitterFailed
from jedi.taskbuffer.tasks import herds


def splitter_problems(params: TaskParams) -> Iterator[Problem]:
    """Yield mistakes of the splitter: its name, its options, and its input."""
    spec = params.splitter
    if spec is None:
        return
    known = strategies.names()
    if spec.name not in known:
        remedy = suggest(spec.name, known, f"There are {', '.join(known)}")
        yield Problem("splitter.name", spec.name, "no such splitter", remedy)
        return
    found = strategies.describe(spec.name)
    try:
        problems = [*found.check({**spec.values, **spec.options})]
        after = found.after
    except SplitterFailed as error:
        remedy = "Ask the operator to correct the plug-in, or name another splitter"
        yield Problem("splitter.name", spec.name, error.sentence.rstrip("."), remedy)
        return
    for one in problems:
        yield replace(one, path=f"splitter.options.{one.path}")
    if after == "contents" and not params.items(InputItem):
        rule = "it divides input files, and the task has no input"
        yield Problem("splitter.name", spec.name, rule, "Add an item with param_type: input")
    if after == "refine" and not params.no_input:
        rule = "it divides no input, and the task has some"
        yield Problem("splitter.name", spec.name, rule, "Give noInput: true")


def begin_herd(tx: Connection, jedi_task_id: int, spec: SplitterSpec, *, trial: bool) -> None:
    """Make a new task a herd; one that is only tried out uses no PandaID up."""
    after = strategies.describe(spec.name).after
    herds.begin(tx, jedi_task_id, spec.name, after, jedi_task_id if trial else None)
