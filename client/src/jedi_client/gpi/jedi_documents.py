"""Task documents of jobs: command, sandbox, input and outputs, as JEDI takes them.

Source: docs/reference/ganga.md#jobs-on-jedi.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jedi_client.errors import BadInput, Problem
from jedi_client.gpi.interfaces import INPUTS, Program, SandboxFile, Submission, UnitPlan

COMMAND = "Command"
"""The option of a unit that is its command line."""
_OWN = ".unit"
"""Directory of sandbox files that one unit alone has."""


def command_line(program: Program, files: Sequence[str]) -> str:
    """The command of a program as a line for the shell: all its words reach it verbatim. `files`:
    names in the working directory."""
    name = program.executable
    words = [f"./{name}" if name in files else name, *program.args]
    if program.environment:
        words = ["env", *(f"{key}={value}" for key, value in program.environment.items()), *words]
    return shlex.join(words)


def without_variables(line: str) -> str:
    """A shell's line as a value in which JEDI replaces variables, and finds none: `$$` gives `$`,
    and an empty text parts `%` from its letter."""
    return re.sub(r"%(?=[snj(])", "%''", line.replace("$", "$$"))


class Packing:
    """The sandbox of a submission: files that all units have, and those of single units."""

    def __init__(self, submission: Submission) -> None:
        self._shared = {
            one.name: one for one in (*submission.sandbox, *submission.program.files)
        }  # fmt: skip
        self._own: dict[str, SandboxFile] = {}
        self._programs = {submission.program.executable}

    def line(self, unit: UnitPlan) -> str:
        """The command of a unit; its own files come into the working directory first."""
        names, apart = [*self._shared], False
        for one in unit.program.files:
            if self._shared.get(one.name) == one:
                continue
            self._own[f"{_OWN}/{unit.k}/{one.name}"] = one
            names.append(one.name)
            apart = True
        self._programs.add(unit.program.executable)
        line = command_line(unit.program, names)
        return f"cp -R {_OWN}/{unit.k}/. . && {line}" if apart else line

    def shared_line(self, program: Program) -> str:
        """The command of the program that all units have."""
        return command_line(program, [*self._shared])

    @property
    def files(self) -> list[tuple[str, Path, bool]]:
        """Names, places, and True for the programs themselves."""
        return [
            (name, Path(one.source), one.name in self._programs)
            for name, one in {**self._shared, **self._own}.items()
        ]


def inputs_of(names: Sequence[str]) -> dict[str, list[str]]:
    """The datasets of an input, each with its named files; none: all of them. Paths of the node
    are left out. BadInput."""
    found: dict[str, list[str]] = {}
    for name in names:
        kind, _, rest = name.partition(":")
        if kind == "dataset":
            found[rest] = []
        elif kind == "lfn":
            dataset, lfn = _file(name, rest)
            found.setdefault(dataset, []).append(lfn)
    return found


def _file(name: str, text: str) -> tuple[str, str]:
    """Dataset and file of `/scope/dataset/file` or `scope:dataset/file`."""
    parts = text.strip("/").replace(":", "/", 1).split("/")
    if len(parts) != 3 or not all(parts):
        rule = "names no file of a dataset"
        raise BadInput([Problem("inputdata", name, rule, "Write lfn:/scope/dataset/file")])
    return f"{parts[0]}:{parts[1]}", parts[2]


def units_of(units: Sequence[UnitPlan], packing: Packing) -> list[dict[str, Any]]:
    """The units of an explicit submission: their commands, and files of their own."""
    found = []
    for one in units:
        given: dict[str, Any] = {"options": {COMMAND: packing.line(one)}}
        if one.inputs is not None and (files := inputs_of(one.inputs)):
            given["files"] = [lfn for lfns in files.values() for lfn in lfns]
        found.append(given)
    return found


def document_of(
    submission: Submission, settings: Mapping[str, Any], scope: str, packing: Packing
) -> dict[str, Any]:
    """The task of a job. `settings`: the backend's, as the job's document has them; `scope`: that
    of the user's datasets."""
    splitter: dict[str, Any] = {"name": "Explicit"}
    if submission.rule:
        line = without_variables(packing.shared_line(submission.program))
        splitter = {"name": submission.rule.strategy, "options": dict(submission.rule.options),
                    "values": {COMMAND: line}}  # fmt: skip
    names = [name for one in submission.units for name in one.inputs or ()]
    datasets = inputs_of([*submission.inputs, *names])
    document = {
        "taskName": re.sub(r"[^ -~]", "_", submission.name)[:128].strip() or "job",
        "jobParameters": [*_input(datasets), _line(submission, datasets),
                          *_outputs(submission.outputs, scope)],
        "splitter": splitter,
        "noInput": None if datasets else True,
        "sandbox": sorted(name for name, _, _ in packing.files)[:1],  # the upload has them all
        **_needs(settings),
    }  # fmt: skip
    return {key: value for key, value in document.items() if value not in (None, "", [], 0)}


def _input(datasets: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """The input item; files are named if each dataset has named ones."""
    if not datasets:
        return []
    named = sorted({lfn for lfns in datasets.values() for lfn in lfns})
    chosen = {"files": named} if all(datasets.values()) else {}
    return [{"type": "template", "param_type": "input", "value": "${IN}", "hidden": True,
             "dataset": ",".join(datasets), **chosen}]  # fmt: skip


def _line(submission: Submission, datasets: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The command of each job."""
    paths = [name for name in submission.inputs if name.startswith("/")]
    given = [*(["${IN/L}"] if datasets else []), *map(shlex.quote, paths)]
    before = f"export {INPUTS}={','.join(given)}; " if given else ""
    return {"type": "constant", "value": f"{before}${{UNIT/{COMMAND}}}"}


def _outputs(names: Sequence[str], scope: str) -> list[dict[str, Any]]:
    """The outputs: their names in the dataset have the number of the job."""
    found = []
    for number, name in enumerate(names):
        stem, dot, ending = re.sub(r"[^\w.+-]", "_", name).partition(".")
        found.append({"type": "template", "param_type": "output", "hidden": True,
                      "value": f"{stem or f'output{number}'}.${{SN}}{dot}{ending}",
                      "sourceName": name, "dataset": f"{scope}:job.$JEDITASKID"})  # fmt: skip
    return found


def _needs(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that follow from the options of the backend."""
    memory = settings.get("memory_mb")
    return {
        "site": settings.get("site"),
        "coreCount": settings.get("cores"),
        "ramCount": memory,
        "ramUnit": "MB" if memory else None,
        "baseWalltime": settings.get("walltime_s"),
        "maxAttempt": settings.get("max_attempts"),
        **settings.get("options", {}),
    }
