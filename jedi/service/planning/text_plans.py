"""Plans from the text of a task, for the database's world, a snapshot, or alternatives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import Connection

from jedi.brokerage.whatif import SiteDifference, alternative, differences
from jedi.core.errors import BadInput, JediError, NotFound, Problem
from jedi.core.knobs import Knobs
from jedi.ddm.interface import DDM
from jedi.model.scheduling.priority import task_priority
from jedi.model.tasks.params import TaskParams
from jedi.model.tasks.text import examine
from jedi.service import manifests, submission
from jedi.service.brokerage.system_state import KnownQueue, SystemState, from_database
from jedi.service.planning.planned_task import QueueFinder, find_queue
from jedi.service.planning.task_plan import TaskPlan, make
from jedi.service.sandbox import LocalFiles
from jedi.service.submission_warnings import cautions
from jedi.service.unprocessed import Continued
from jedi.taskbuffer.inputs import contents
from jedi.taskbuffer.scheduling import queues


@dataclass(frozen=True, slots=True)
class PlanWithAlternative:
    """The plan of a task; `then`: its plan under the assumptions, if there are any, with the
    differences at sites."""

    plan: TaskPlan
    then: TaskPlan | None = None
    differences: tuple[SiteDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """Assumptions: `knob=value` and `NAME.attribute=value`."""

    knobs: Sequence[str] = ()
    sites: Sequence[str] = ()

    def of(self, known: SystemState) -> SystemState:
        """Return a world's state under these assumptions; BadInput lists mistakes in them."""
        sites, knobs = alternative(known.sites, self.sites, known.knobs, self.knobs)
        return replace(known, knobs=Knobs(knobs), sites=sites)


def plan_now(
    tx: Connection,
    ddm: DDM,
    who: str,
    text: str,
    format: str,
    files: LocalFiles,
    seed: int,
    other: Alternative,
) -> PlanWithAlternative:
    """Plan a task as if submitted now; BadInput as `submission.submit`. A resubmitted task plans
    its remaining files. The function writes nothing: the transaction may be read-only."""
    task = submission.check(tx, ddm, who, text, format, files)
    known = from_database(tx, ddm, seed)
    queue_of, again = partial(_matched, tx), None
    if task.earlier:
        earlier = task.earlier.jedi_task_id
        again = Continued(earlier, contents.processed(tx, earlier))
    found = _foresee(known, task.params, task.owner, task.priority, queue_of, other, again)
    return replace(found, plan=replace(found.plan, warnings=task.warnings))


def plan_by_snapshot(
    known: SystemState, who: str, text: str, format: str, seed: int | None, other: Alternative
) -> PlanWithAlternative:
    """Plan a task by a snapshot. Its owner has no special permissions. Checks that
    need a database are left out."""
    params, problems = examine(manifests.read(text, format, who).document)
    if params is None or problems:
        raise BadInput(problems)
    if seed is not None:
        known = replace(known, seed=seed)
    kind = params.task_type or "anal"
    priority = task_priority(params.task_priority, kind, "", params.working_group)
    queue_of = partial(find_queue, known)
    try:
        found = _foresee(known, params, params.user_name or who, priority, queue_of, other)
    except JediError as error:
        if error.code != "input_unknown":
            raise
        remedy = "Export the snapshot with this dataset: jedi snapshot export --dataset NAME."
        raise NotFound(f"{error.sentence} {remedy}", code=error.code) from error
    warnings = cautions(known.data, params)
    return replace(found, plan=replace(found.plan, warnings=warnings))


def _foresee(
    known: SystemState,
    params: TaskParams,
    owner: str,
    priority: int,
    queue_of: QueueFinder,
    other: Alternative,
    again: Continued | None = None,
) -> PlanWithAlternative:
    plan, choices = make(known, params, owner, priority, queue_of, again)
    if not (other.knobs or other.sites):
        return PlanWithAlternative(plan)
    then, others = make(other.of(known), params, owner, priority, queue_of, again)
    pairs = zip(choices, others, strict=False)
    changes = dict.fromkeys(one for was, now in pairs for one in differences(was, now))
    return PlanWithAlternative(plan, then, tuple(changes))


def _matched(
    tx: Connection, columns: Mapping[str, Any], name: str | None
) -> tuple[KnownQueue, str | None]:
    """Return the work queue that takes a task."""
    (found,) = queues.match(tx, [columns], [name])
    queue = found.queue
    if queue is None:
        rule = "no active work queue takes the task"
        raise BadInput(
            [Problem("workQueueName", name, rule, "Look at the output of: jedi queue list")]
        )
    home = KnownQueue(queue.queue_id, queue.queue_name, queue.vo, queue.queue_type)
    return home, found.processing_type
