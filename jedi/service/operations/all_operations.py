"""All operations, in the order of their paths."""

from __future__ import annotations

from jedi.core.extensions import extensions
from jedi.service.brokerage import decision_reports, refusals, replay, system_state
from jedi.service.datasets import adding, dataset_details
from jedi.service.events import task_events
from jedi.service.files import contents
from jedi.service.herds import herd_report
from jedi.service.jobs import job_details, job_verbs, results
from jedi.service.operations.table import TABLE, Operation
from jedi.service.queues import held, matching, order, work_queues
from jedi.service.queues import past as queues_past
from jedi.service.registries import folders, leases, reading, records, submissions
from jedi.service.sites import changes, listing, loads, pilot_tokens
from jedi.service.submission import submission_requests
from jedi.service.system import audit, check, dogs, figures, knobs, retry_rules, status
from jedi.service.tasks import (
    cleaning,
    priority_change,
    recovering,
    task_details,
    task_past,
    task_reports,
    task_verbs,
    waiting,
    watching,
    why,
)
from jedi.service.units import unit_details, unit_resplits, unit_submission, unit_verbs
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
    cleaning,
    priority_change,
    recovering,
    task_details,
    task_past,
    task_reports,
    task_verbs,
    waiting,
    watching,
    why,
    unit_details,
    unit_resplits,
    unit_submission,
    unit_verbs,
    job_details,
    job_verbs,
    results,
    adding,
    contents,
    dataset_details,
    herd_report,
    task_events,
    submission_requests,
)
extensions("jedi.operations")  # their modules fill the table, as ours do
OPERATIONS: tuple[Operation, ...] = tuple(
    sorted(TABLE.values(), key=lambda one: (one.path.count("{"), one.path, one.method))
)
"""Fixed paths come before those with a name in braces, which would match them as well."""
