"""Sets of knobs as people give them: a file, or text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jedi.core.errors import BadInput, Problem
from jedi.simulator.scenario import check_knobs
from jedi.spec.listfile import read_yaml


def read_knobs(path: str, given: str) -> dict[str, Any]:
    """The knobs in a YAML file of `name: value`, or in a text of `name=value,name=value`; BadInput
    holds every mistake, with `path` before it."""
    if given and "=" not in given:
        if not Path(given).is_file():
            rule = "it is neither a file nor KNOB=VALUE"
            raise BadInput([Problem(path, given, rule, "Name a file, or say what is to be set")])
        written = read_yaml(Path(given).read_text(), given) or {}
        if not isinstance(written, dict):
            raise BadInput([Problem(given, written, "is a mapping", "Write lines KNOB: VALUE")])
    else:
        pairs = (pair.partition("=") for pair in given.split(",") if pair)
        written = {name.strip(): value.strip() for name, _, value in pairs}
    values, problems = check_knobs(path, written)
    if problems:
        raise BadInput(problems)
    return values
