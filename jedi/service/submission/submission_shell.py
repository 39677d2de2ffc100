"""The commands of a task as /bin/sh reads them, before any job runs.

Source: docs/reference/payload-and-processes.md#command.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from functools import lru_cache

from jedi.core.errors import Problem
from jedi.jobgenerator.job_params import Template, list_names
from jedi.model.tasks.params import JobSpec, TaskParams
from jedi.model.tasks.placeholders import STREAM_FORMS, Form, placeholders
from jedi.model.tasks.shell_words import too_long
from jedi.taskrefiner.refine import Refiner

_READ_S = 5.0


def shell_problems(params: TaskParams) -> Iterator[Problem]:
    """Yield the commands that the shell can't read, or that give a program too long an argument."""
    for path, text in _commands(params):
        command = _example(text)
        if (said := _complaint(command)) is not None:
            rule = f"/bin/sh can't read the command: {said}"
            yield Problem(
                path, command[:200], rule, "Quote apostrophes and other signs of the shell"
            )
        elif (long := too_long(command)) is not None:
            yield Problem(path, command[:200], long, "Put the text into a file of the sandbox")


def _commands(params: TaskParams) -> Iterator[tuple[str, str]]:
    """Each command of a task, with its placeholders, and its key."""
    yield "jobParameters", _joined(params.trans_path, Refiner().job_params_template(params))
    specs: dict[str, JobSpec | None] = {
        "mergeSpec": params.merge_spec,
        "buildSpec": params.build_spec,
        "preproSpec": params.prepro_spec,
        "esmergeSpec": params.esmerge_spec,
    }
    for key, spec in specs.items():
        if spec is not None:
            yield key, _joined(spec.trans_path, spec.job_parameters)


def _joined(trans_path: str | None, parameters: str) -> str:
    return f"{trans_path} {parameters}" if trans_path else parameters


def _example(text: str) -> str:
    """A command with values as those of a first job: names of files need no quotes."""

    def value(word: str) -> str:
        for found in placeholders(word):
            with contextlib.suppress(ValueError):
                if found.form and Form.parse(found.form).kind in STREAM_FORMS:
                    return list_names(["1"], found.form)
        return "1"

    return Template(text).render(value, 1)[0]


@lru_cache(maxsize=256)
def _complaint(command: str) -> str | None:
    """The shell's words about a command that it can't read. Programs submit the same one again and
    again."""
    try:
        read = subprocess.run(
            ["/bin/sh", "-n"],
            input=command.encode(),
            capture_output=True,
            timeout=_READ_S,
            env={"LANG": "C.UTF-8"},
            cwd="/",
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = read.stderr.decode(errors="replace").strip().partition("\n")[0]
    return None if read.returncode == 0 else said.rpartition("Syntax error: ")[2]
