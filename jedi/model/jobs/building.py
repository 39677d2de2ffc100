"""Builds: which sites have the software of a task, which do not yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jedi.model.datasets.chunk import Files
from jedi.model.jobs.generation import TaskOrder

PRIORITY = 2000
"""The priority of build jobs (docs/reference/inputs.md#builds)."""


@dataclass(frozen=True, eq=False)
class Builds:
    """The builds of a task by endpoint: status of the pseudo file whose job builds there, and the
    last build there. `order` is the input of build jobs."""

    order: TaskOrder
    statuses: Mapping[str, str]
    libraries: Mapping[str, Files]
