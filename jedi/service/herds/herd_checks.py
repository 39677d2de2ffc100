"""Herds at submission: the splitter's own checks, and the record that makes a task a herd.

Source: docs/reference/herds.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlalchemy import Connection

from jedi.core.errors import Problem
from jedi.core.suggest import suggest
from jedi.model.splitting.units import Manifest
from jedi.model.tasks.params import InputItem, TaskParams
from jedi.model.tasks.placeholders import UNIT, is_option, placeholders
from jedi.splitter import strategies
from jedi.splitter.explicit import EXPLICIT
from jedi.splitter.plug_in import SplitterFailed
from jedi.taskbuffer.tasks import herds

NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


def strategy_problems(
    name: str, manifest: Manifest, path: str, options: Manifest = NO_OPTIONS
) -> Iterator[Problem]:
    """Yield mistakes of a splitter's name, which stands at `path`, or of its options; `options`:
    those that a task gives to the splitter alone."""
    known = strategies.names()
    if name not in known:
        remedy = suggest(name, known, f"There are {', '.join(known)}")
        yield Problem(path, name, "no such splitter", remedy)
        return
    try:
        yield from strategies.describe(name).check(manifest)
        if options:
            yield from _foreign_options(name, options)
    except SplitterFailed as error:
        remedy = "Ask the operator to correct the plug-in, or name another splitter"
        yield Problem(path, name, error.sentence.rstrip("."), remedy)


def _foreign_options(name: str, options: Manifest) -> Iterator[Problem]:
    """Yield options that are not those of the splitter. SplitterFailed."""
    foreign, known = strategies.foreign_options(name, options)
    rule = f"splitter {name} has no such option"
    otherwise = f"It has {', '.join(known)}" if known else "Leave it out, or put it into values"
    for one in foreign:
        yield Problem(one, options[one], rule, suggest(one, known, otherwise))


def splitter_problems(params: TaskParams, *, explicit: bool, has_input: bool) -> Iterator[Problem]:
    """Yield mistakes of the splitter: its name, its options, and its input. `explicit`: the units
    come with the submission; `has_input`: the task has an item of input, maybe a faulty one."""
    spec, path, sound = params.splitter, "splitter.name", True
    if explicit != (spec is not None and spec.name == EXPLICIT):
        rule = "its units come with the submission, as operation unit.submit takes them"
        remedy = "Name another splitter" if spec else "Add a splitter"
        yield Problem(path, spec and spec.name, rule, remedy)
        return
    if spec is None:
        return
    manifest = {**spec.values, **spec.options}
    for one in strategy_problems(spec.name, manifest, path, spec.options):
        sound = sound and one.path != path
        yield one if one.path == path else replace(one, path=f"splitter.options.{one.path}")
    if not sound or explicit:
        return
    yield from _absent_options(params, strategies.unit_options(spec.name, manifest, spec.values))
    after = strategies.describe(spec.name).after
    if after == "contents" and not has_input:
        rule = "it divides input files, and the task has no input"
        yield Problem(path, spec.name, rule, "Add an item with param_type: input")
    if after == "refine" and not params.no_input:
        rule = "it divides no input, and the task has some"
        yield Problem(path, spec.name, rule, "Give noInput: true")


def _absent_options(params: TaskParams, known: Sequence[str] | None) -> Iterator[Problem]:
    """Yield placeholders of options that no unit of the herd has. `known`: the units' options."""
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
    herds.BEGIN.run(
        tx,
        task=jedi_task_id,
        splitter=spec.name,
        after=after,
        origin=jedi_task_id if trial else None,
    )
