"""Sets of knobs as people give them: a file, or text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jedi.core import strictyaml
from jedi.core.errors import BadInput, Problem
from jedi.simulator.scenario import check_knobs


def read_knobs(path: str, given: str) -> dict[str, Any]:
    """The knobs in a YAML file of `name: value`, or in a text of `name=value,name=value`; BadInput
    holds every mistake, with `path` before it."""
    if not given or "=" in given:
        return read_pairs(path, given.split(",") if given else [])
    if not Path(given).is_file():
        rule = "it is neither a file nor KNOB=VALUE"
        raise BadInput([Problem(path, given, rule, "Name a file, or say what is to be set")])
    written = strictyaml.load(Path(given).read_bytes(), given) or {}
    if not isinstance(written, dict):
        raise BadInput([Problem(given, written, "is a mapping", "Write lines KNOB: VALUE")])
    return _checked(path, written)


def read_pairs(path: str, pairs: Sequence[str]) -> dict[str, Any]:
    """The knobs in texts `name=value`; BadInput holds every mistake, with `path` before it."""
    parts = (pair.partition("=") for pair in pairs)
    return _checked(path, {name.strip(): value.strip() for name, _, value in parts})


def _checked(path: str, written: Mapping[str, Any]) -> dict[str, Any]:
    values, problems = check_knobs(path, written)
    if problems:
        raise BadInput(problems)
    return values
