"""Questions whose answers may run plug-ins of other people. A process of its own answers them: one
that hangs or dies holds no thread of the service, and is ended at the limit of plug-ins.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Sequence
from typing import Any

from jedi.agent import apart, plugins
from jedi.agent.plugins import PluginFailed
from jedi.brokerage.brokers import foreign_broker
from jedi.brokerage.requirements import Requirements
from jedi.core import errors
from jedi.core.errors import BadInput, JediError, Problem
from jedi.core.knobs import Knobs
from jedi.host import processes, questions
from jedi.model.tasks.params import TaskParams
from jedi.service.operations.table import Call
from jedi.taskbuffer.sites import decisions

_Told = tuple[str | None, str, str, Sequence[Problem]]
_here = False
"""This is the process of such a question."""


def answer_here() -> None:
    """Run plug-ins in this process from now on."""
    globals()["_here"] = True


def of_task(call: Call, params: TaskParams | None) -> str:
    """The names of other people's plug-ins that serve a task; empty: there are none, or it is no
    task."""
    if _here or not plugins.any_foreign():
        return ""
    return _serving(params.vo, params.prod_source_label, call.knobs) if params else ""


def of_decision(call: Call, decision_id: int) -> str:
    """The name of other people's broker of a decision; empty: there is none."""
    if _here or not plugins.any_foreign():
        return ""
    row = decisions.GET.row(call.tx, id=decision_id)
    if row is None:
        return ""
    request = Requirements.read(row.need).request
    return foreign_broker(request.vo, request.label, Knobs(row.knobs))


def _serving(vo: str, label: str, knobs: Knobs) -> str:
    found = [plugins.foreign(room, vo, label) for room in ("refiner", "generator")]
    return " or ".join(filter(None, [*found, foreign_broker(vo, label, knobs)]))


def answer(call: Call, theirs: str, operation: str, **given: Any) -> Any:
    """The answer of an operation that runs plug-ins of these names. PluginFailed: they don't answer
    in time (agent.plugin_s), raise, or end their process."""
    most_s = call.knobs.agent.plugin_s
    url = call.tx.engine.url.render_as_string(hide_password=False)
    question = pickle.dumps((url, call.home, call.caller, operation, given))
    reply = questions.ask("jedi.service.foreign.answering", question, most_s, os.environ)
    if reply.late:
        why = f"it did not answer within {most_s:g} s (knob agent.plugin_s)"
        raise PluginFailed(why, code="plugin_timeout").of(theirs)
    if reply.code or not reply.answer:
        raise PluginFailed(f"its process ended ({processes.ended(reply.code)})").of(theirs)
    try:
        good, found = apart.unpacked(reply.answer)
    except Exception as error:  # a plug-in's objects
        raise PluginFailed(f"its answer can't be read: {error}").of(theirs) from error
    if good:
        return found
    raise _raised(found, theirs)


def packed(error: Exception) -> bytes:
    """An error as an answer. The service knows no class of a plug-in."""
    if isinstance(error, JediError):
        problems = error.problems if isinstance(error, BadInput) else ()
        told: _Told = (type(error).__name__, error.sentence, error.code, problems)
    else:
        told = (None, f"{type(error).__name__}: {error}", PluginFailed.code, ())
    return pickle.dumps((False, told))


def _raised(told: _Told, theirs: str) -> JediError:
    name, sentence, code, problems = told
    if name is None:
        return PluginFailed(sentence).of(theirs)
    if problems:
        return BadInput(problems)
    kind: type[JediError] = getattr(errors, name, JediError)
    return kind(sentence, code=code)
