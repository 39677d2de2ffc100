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
    """The sandbox of a submission: files of all units, and of single ones."""

    def __init__(self, submission: Submission) -> None:
        self._shared = {one.name: one for one in (*submission.sandbox, *submission.program.files)}
        self._own: dict[str, SandboxFile] = {}
        self._programs = {submission.program.executable}
        self._reads = bool(inputs_of(read_by(submission)))

    def line(self, unit: UnitPlan, inputs: Sequence[str]) -> str:
        """The command of a unit that reads `inputs`; its own files come into the working directory
        first."""
        names, apart = [*self._shared], False
        for one in unit.program.files:
            if self._shared.get(one.name) == one:
                continue
            self._own[f"{_OWN}/{unit.k}/{one.name}"] = one
            names.append(one.name)
            apart = True
        self._programs.add(unit.program.executable)
        line = self._with_paths(command_line(unit.program, names), inputs)
        return f"cp -R {_OWN}/{unit.k}/. . && {line}" if apart else line

    def shared_line(self, program: Program, inputs: Sequence[str]) -> str:
        """The command of the program that all units have, and that reads `inputs`."""
        return self._with_paths(command_line(program, [*self._shared]), inputs)

    def _with_paths(self, line: str, inputs: Sequence[str]) -> str:
        """A command with the paths of its inputs in JEDI_INPUTS, after files of the catalogue."""
        paths = [name for name in inputs if name.startswith("/")]
        if not paths:
            return line
        before = f'"${INPUTS}",' if self._reads else ""
        return f"export {INPUTS}={before}{','.join(map(shlex.quote, paths))} && {line}"

    @property
    def files(self) -> list[tuple[str, Path, bool]]:
        """Names, places, and True for the programs themselves, and for shared copies: these may be
        programs, as on this machine."""
        return [
            (name, Path(one.source), one.name in self._programs or one.digest is not None)
            for name, one in {**self._shared, **self._own}.items()
        ]


def read_by(submission: Submission) -> list[str]:
    """The inputs of all units: a unit's own inputs win over the job's."""
    if submission.rule:
        return [*submission.inputs]
    named = [submission.inputs if one.inputs is None else one.inputs for one in submission.units]
    return [*dict.fromkeys(name for names in named for name in names)]


def inputs_of(names: Sequence[str]) -> dict[str, list[str]]:
    """The datasets of an input, each with its named files; none: all of them. Paths of the node
    are left out. BadInput."""
    found: dict[str, list[str]] = {}
    whole: set[str] = set()
    for name in names:
        kind, _, rest = name.partition(":")
        if kind == "dataset":
            whole.add(rest)
            found[rest] = []
        elif kind == "lfn":
            dataset, lfn = _file(name, rest)
            found.setdefault(dataset, []).append(lfn)
    return {name: [] if name in whole else files for name, files in found.items()}


def _file(name: str, text: str) -> tuple[str, str]:
    """Dataset and file of `/scope/dataset/file` or `scope:dataset/file`."""
    parts = text.strip("/").replace(":", "/", 1).split("/")
    if len(parts) != 3 or not all(parts):
        rule = "names no file of a dataset"
        raise BadInput([Problem("inputdata", name, rule, "Write lfn:/scope/dataset/file")])
    return f"{parts[0]}:{parts[1]}", parts[2]


def file_name(dataset: str, lfn: str) -> str:
    """The name of a file of a dataset as an input."""
    return f"lfn:/{dataset.replace(':', '/', 1)}/{lfn}"


def units_of(submission: Submission, packing: Packing) -> list[dict[str, Any]]:
    """The units of an explicit submission: their commands, and files of their own. BadInput."""
    found: list[dict[str, Any]] = []
    problems: list[Problem] = []
    every = inputs_of(read_by(submission))
    differ = any(one.inputs is not None for one in submission.units)
    for one in submission.units:
        names = submission.inputs if one.inputs is None else one.inputs
        given: dict[str, Any] = {"options": {COMMAND: packing.line(one, names)}}
        files = inputs_of(names) if differ else every
        if rule := _unreadable(files, every) if differ else None:
            problems.append(
                Problem(
                    f"inputdata of subjob {one.k}",
                    ", ".join(names),
                    rule,
                    "Submit it in another job",
                )
            )
        elif differ and all(files.values()) and files:
            given["files"] = [lfn for lfns in files.values() for lfn in lfns]
        found.append(given)
    if problems:
        raise BadInput(problems)
    return found


def _unreadable(files: Mapping[str, Sequence[str]], every: Mapping[str, Any]) -> str | None:
    """The rule against the input of one unit among others: a unit reads all files of the task, or
    its own."""
    if every and not files:
        return f"is not of datasets {', '.join(every)}, which other subjobs read"
    if not all(files.values()) and len(every) > 1:
        return f"has all files of a dataset, and the subjobs read several: {', '.join(every)}"
    return None


def document_of(
    submission: Submission, settings: Mapping[str, Any], scope: str, packing: Packing
) -> dict[str, Any]:
    """The task of a job. `settings`: the backend's, as the job's document has them; `scope`: that
    of the user's datasets."""
    splitter: dict[str, Any] = {"name": "Explicit"}
    if submission.rule:
        line = without_variables(packing.shared_line(submission.program, submission.inputs))
        splitter = {
            "name": submission.rule.strategy,
            "options": dict(submission.rule.options),
            "values": {COMMAND: line},
        }
    datasets = inputs_of(read_by(submission))
    before = f"export {INPUTS}=${{IN/L}}; " if datasets else ""
    document = {
        "taskName": re.sub(r"[^ -~]", "_", submission.name)[:128].strip() or "job",
        "jobParameters": [
            *_input(datasets),
            {"type": "constant", "value": f"{before}${{UNIT/{COMMAND}}}"},
            *_outputs(submission.outputs, scope),
        ],
        "splitter": splitter,
        "noInput": None if datasets else True,
        "sandbox": sorted(name for name, _, _ in packing.files)[:1],  # the upload has them all
        **_needs(settings),
    }
    return {key: value for key, value in document.items() if value not in (None, "", [], 0)}


def _input(datasets: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """The input item. Of a dataset with named files it has these alone."""
    if not datasets:
        return []
    one = len(datasets) == 1
    named = sorted(
        {lfn if one else f"{dataset}/{lfn}" for dataset, lfns in datasets.items() for lfn in lfns}
    )
    return [
        {
            "type": "template",
            "param_type": "input",
            "value": "${IN}",
            "hidden": True,
            "dataset": ",".join(datasets),
            **({"files": named} if named else {}),
        }
    ]


def _outputs(names: Sequence[str], scope: str) -> list[dict[str, Any]]:
    """The outputs: their names in the dataset have the number of the job."""
    found = []
    for number, name in enumerate(names):
        stem, dot, ending = re.sub(r"[^\w.+-]", "_", name).partition(".")
        found.append(
            {
                "type": "template",
                "param_type": "output",
                "hidden": True,
                "value": f"{stem or f'output{number}'}.${{SN}}{dot}{ending}",
                "sourceName": name,
                "dataset": f"{scope}:job.$JEDITASKID",
            }
        )
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
