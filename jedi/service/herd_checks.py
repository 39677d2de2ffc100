"""Herds at submission: the splitter's own checks, and the record that makes a task a herd.

Source: docs/reference/herds.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import Connection

from jedi.core.errors import Problem
from jedi.core.suggest import suggest
from jedi.spec.splitting.units import Manifest
from jedi.spec.tasks.params import InputItem, SplitterSpec, TaskParams
from jedi.spec.tasks.placeholders import UNIT, is_option, placeholders
from jedi.splitter import strategies
from jedi.splitter.explicit import EXPLICIT
from jedi.splitter.plug_in import SplitterFailed
from jedi.taskbuffer.tasks import herds


def strategy_problems(name: str, manifest: Manifest, path: str) -> Iterator[Problem]:
    """Yield mistakes of a splitter's name, which stands at `path`, or of its options."""
    known = strategies.names()
    if name not in known:
        remedy = suggest(name, known, f"There are {', '.join(known)}")
        yield Problem(path, name, "no such splitter", remedy)
        return
    try:
        yield from strategies.describe(name).check(manifest)
    except SplitterFailed as error:
        remedy = "Ask the operator to correct the plug-in, or name another splitter"
        yield Problem(path, name, error.sentence.rstrip("."), remedy)


def splitter_problems(params: TaskParams, *, explicit: bool = False) -> Iterator[Problem]:
    """Yield mistakes of the splitter: its name, its options, and its input. `explicit`: the units
    come with the submission."""
    spec, path, sound = params.splitter, "splitter.name", True
    if explicit != (spec is not None and spec.name == EXPLICIT):
        rule = "its units come with the submission, as operation unit.submit takes them"
        remedy = "Name another splitter" if spec else "Add a splitter"
        yield Problem(path, spec and spec.name, rule, remedy)
        return
    if spec is None:
        return
    for one in strategy_problems(spec.name, {**spec.values, **spec.options}, path):
        sound = sound and one.path != path
        yield one if one.path == path else replace(one, path=f"splitter.options.{one.path}")
    if not sound or explicit:
        return
    yield from _absent_options(params, spec)
    after = strategies.describe(spec.name).after
    if after == "contents" and not params.items(InputItem):
        rule = "it divides input files, and the task has no input"
        yield Problem(path, spec.name, rule, "Add an item with param_type: input")
    if after == "refine" and not params.no_input:
        rule = "it divides no input, and the task has some"
        yield Problem(path, spec.name, rule, "Give noInput: true")


def _absent_options(params: TaskParams, spec: SplitterSpec) -> Iterator[Problem]:
    """Yield placeholders of options that no unit of the herd has."""
    known = strategies.unit_options(spec.name, {**spec.values, **spec.options}, spec.values)
    if known is None:
        return
    items = enumerate(params.job_parameters)
    texts = [(f"jobParameters[{i}].value", item.value) for i, item in items]
    texts += [("log.value", params.log.value)] if params.log else []
    for path, text in texts:
        for found in placeholders(text):
            if found.name == UNIT and is_option(found.form) and found.form not in known:
                remedy = suggest(found.form, known, f"Units have {', '.join(known)}")
                yield Problem(path, found.text, "no unit of the herd has this option", remedy)


def begin_herd(tx: Connection, jedi_task_id: int, params: TaskParams, *, trial: bool) -> None:
    """Make a new task with a splitter a herd; one that is only tried out uses no PandaID up."""
    spec = params.splitter
    if spec is None:
        return
    after = strategies.describe(spec.name).after
    if spec.name == EXPLICIT and params.items(InputItem):
        after = "contents"
    herds.begin(tx, jedi_task_id, spec.name, after, jedi_task_id if trial else None)
