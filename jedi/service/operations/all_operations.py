"""All operations, in the order of their paths."""

from __future__ import annotations

from jedi.core.extensions import extensions
from jedi.service.brokerage import decision_reports, refusals, replay, system_state
from jedi.service.operations import (
    datasets,
    files,
    herds,
    jobs,
    submission,
    task_reports,
    tasks,
    units,
)
from jedi.service.operations.table import TABLE, Operation
from jedi.service.queues import held, matching, order, work_queues
from jedi.service.queues import past as queues_past
from jedi.service.registries import folders, leases, reading, records, submissions
from jedi.service.sites import changes, listing, loads, pilot_tokens
from jedi.service.system import audit, check, dogs, figures, knobs, retry_rules, status
from jedi.service.users import me, notices, roles, sessions, tokens

__all__ = ["MODULES", "OPERATIONS", "TABLE"]
MODULES = (
    decision_reports,
    refusals,
    replay,
    system_state,
    held,
    matching,
    order,
    queues_past,
    work_queues,
    folders,
    leases,
    reading,
    records,
    submissions,
    changes,
    listing,
    loads,
    pilot_tokens,
    audit,
    check,
    dogs,
    figures,
    knobs,
    retry_rules,
    status,
    me,
    notices,
    roles,
    sessions,
    tokens,
    tasks,
    task_reports,
    submission,
    units,
    files,
    herds,
    jobs,
    datasets,
)
extensions("jedi.operations")  # their modules fill the table, as ours do
OPERATIONS: tuple[Operation, ...] = tuple(
    sorted(TABLE.values(), key=lambda one: (one.path.count("{"), one.path, one.method))
)
"""Fixed paths come before those with a name in braces, which would match them as well."""
