"""A task for one command, without a file of parameters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import datetime
from pathlib import PurePath
from typing import Any

from jedi.core import names

_SEVERAL = re.compile(r"[;&|\n]")
"""A line with these is several commands."""
_INPUT = "${IN"


def task_of(
    command: Sequence[str],
    who: str,
    now: datetime,
    dataset: str | None = None,
    per_job: int = 1,
    files: Sequence[str] = (),
    name: str | None = None,
) -> dict[str, Any]:
    """The parameters of a task for a command: one argument is a line for the shell, several are
    the words of one command. The names of outputs are the task's own."""
    line = command[0] if len(command) == 1 else shlex.join(command)
    word = re.sub(r"[^A-Za-z0-9_]+", "_", PurePath((line.split() or ["it"])[0]).name).strip("_")
    name = name or f"exec.{word or 'it'}.{now:%Y%m%dT%H%M%S.%f}"
    if dataset and _INPUT not in line:
        line += " ${IN/S}"
    if _SEVERAL.search(line):
        line = f"({line})"
    source: dict[str, Any] = {"type": "constant", "value": line}
    if dataset:
        source = {"type": "template", "param_type": "input", "value": line, "dataset": dataset}
    printed = {
        "type": "template",
        "param_type": "output",
        "value": "> printed.${SN}.txt",
        "dataset": f"{names.task_scope(who)}:exec.$JEDITASKID",
    }
    many = {"nFilesPerJob": per_job} if dataset else {"noInput": True, "nFiles": 1}
    return {
        "taskName": name,
        **many,
        **({"sandbox": [*files]} if files else {}),
        "jobParameters": [source, printed],
    }
