"""Generated text about simulations: the keys of a scenario in docs/simulate.md."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic.fields import FieldInfo

from jedi.model.list_file import Entry
from jedi.simulator.scenario import (
    Outage,
    Scenario,
    ScenarioCommand,
    ScenarioFailure,
    ScenarioSite,
    ScenarioTask,
    Transfers,
)
from tools.dogdocs import TableWriter

_MODELS: dict[str, type[Entry]] = {
    "": Scenario,
    "sites[].": ScenarioSite,
    "sites[].transfers.": Transfers,
    "tasks[].": ScenarioTask,
    "outages[].": Outage,
    "commands[].": ScenarioCommand,
    "failures[].": ScenarioFailure,
}


def keys_table(grid: TableWriter) -> str:
    """Each key of a scenario, what it is where it is left out, and its meaning."""
    return grid(("key", "default", "meaning"), list(_rows()))


def _rows() -> Iterator[tuple[str, str, str]]:
    for path, model in _MODELS.items():
        for name, field in model.model_fields.items():
            yield f"`{path}{name}`", _default(field), field.description or ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "*mandatory*"
    plain = isinstance(field.default, int | float | str) and field.default != ""
    return f"`{json.dumps(field.default)}`" if plain else ""
