"""All operations, in the order of their paths."""

from __future__ import annotations

from jedi.service.operations import (
    brokerage,
    config,
    datasets,
    figures,
    files,
    herds,
    jobs,
    me,
    panda,
    queues,
    registries,
    rules,
    sites,
    submission,
    system,
    task_reports,
    tasks,
    units,
    users,
)
from jedi.service.operations.table import TABLE, Operation

__all__ = ["MODULES", "OPERATIONS", "TABLE"]
MODULES = (
    tasks,
    task_reports,
    submission,
    units,
    files,
    herds,
    jobs,
    me,
    sites,
    queues,
    config,
    datasets,
    users,
    rules,
    brokerage,
    registries,
    panda,
    system,
    figures,
)
OPERATIONS: tuple[Operation, ...] = tuple(
    sorted(TABLE.values(), key=lambda one: (one.path.count("{"), one.path, one.method))
)
"""Fixed paths come before those with a name in braces, which would match them as well."""
