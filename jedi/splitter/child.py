"""The process in which a split strategy of a plug-in works: one question on stdin, one answer on
stdout, both JSON.

Prints of the plug-in go to stderr. Its errors end the process; the last line there names them.
Source: docs/reference/herds.md; RFC #15, "Proposed implementation".
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from itertools import islice
from typing import Any

from jedi.core.errors import BadInput, Problem
from jedi.host import processes
from jedi.model.splitting.units import FileUse, SplitFile, SplitStrategy, Unit


def main() -> None:
    """Answer the question."""
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as answers:
        os.dup2(2, 1)
        question = json.load(sys.stdin)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _confine(question["memory_mb"], question["timeout_s"], question["parent"])
        try:
            found = _answer(question)
        except BadInput as error:
            found = {"refused": _wire_problems(error.problems)}
        json.dump(found, answers)


def _confine(memory_mb: int, timeout_s: float, parent: int) -> None:
    """Bound memory, files and processor time; end with the process that asked."""
    bounds = {
        resource.RLIMIT_DATA: memory_mb * 2**20,
        resource.RLIMIT_CPU: int(timeout_s) + 2,
        resource.RLIMIT_CORE: 0,
    }
    for kind, bound in bounds.items():
        _, hard = resource.getrlimit(kind)
        most = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (most, most))
    processes.end_with(parent)


def _answer(question: dict[str, Any]) -> dict[str, Any]:
    point = EntryPoint(question["name"], question["object"], "jedi.split_strategies")
    strategy: SplitStrategy = point.load()()
    manifest = question["manifest"]
    match question["ask"]:
        case "after":
            return {"after": strategy.after}
        case "consumes":
            return {"consumes": list(strategy.consumes(manifest))}
        case "check":
            return {"check": _wire_problems(strategy.check(manifest))}
        case _:
            files = [
                SplitFile(lfn, size, n_events, boundary, tuple(endpoints))
                for lfn, size, n_events, boundary, endpoints in question["files"]
            ]
            units = islice(strategy.plan(manifest, files), question["max_units"] + 1)
            return {"plan": [[dict(one.options), _wire_uses(one)] for one in units]}


def _wire_uses(unit: Unit) -> list[Any]:
    """A whole file is its position alone: an answer may have millions."""
    return [
        use.position if use == FileUse(use.position) else [use.position, use.start, use.stop]
        for use in unit.files
    ]


def _wire_problems(problems: Iterable[Problem]) -> list[list[Any]]:
    return [[one.path, one.value, one.rule, one.remedy] for one in problems]


if __name__ == "__main__":
    main()
