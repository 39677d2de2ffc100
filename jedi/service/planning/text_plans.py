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
from jedi.service.brokerage.system_state import KnownQueue, SystemState, from_database
from jedi.service.planning.planned_task import WantedTask, find_queue
from jedi.service.planning.task_plan import TaskPlan, make
from jedi.service.submission import storing
from jedi.service.submission.examined import Examined
from jedi.service.submission.submission_warnings import cautions
from jedi.service.tasks.unprocessed import Continued
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
    tx: Connection, ddm: DDM, given: Examined, seed: int, other: Alternative
) -> PlanWithAlternative:
    """Plan a task as if submitted now; BadInput as `submission.submit`. A resubmitted task plans
    its remaining files. The function writes nothing: the transaction may be read-only."""
    task = storing.check(tx, ddm, given)
    known = from_database(tx, ddm, seed)
    again = None
    if task.earlier:
        earlier = task.earlier.jedi_task_id
        again = Continued(earlier, contents.processed(tx, earlier))
    wanted = WantedTask(task.params, task.owner, task.priority, partial(_matched, tx), again)
    found = _foresee(known, wanted, other)
    return replace(found, plan=replace(found.plan, warnings=task.warnings))


def plan_by_snapshot(
    known: SystemState, given: Examined, seed: int | None, other: Alternative
) -> PlanWithAlternative:
    """Plan a task by a snapshot. Its owner has no special permissions. Checks that
    need a database are left out."""
    params = given.sound()
    if given.problems:
        raise BadInput([*given.problems])
    if seed is not None:
        known = replace(known, seed=seed)
    kind = params.task_type or "anal"
    priority = task_priority(params.task_priority, kind, "", params.working_group)
    wanted = WantedTask(params, given.owner, priority, partial(find_queue, known))
    try:
        found = _foresee(known, wanted, other)
    except JediError as error:
        if error.code != "input_unknown":
            raise
        remedy = "Export the snapshot with this dataset: jedi snapshot export --dataset NAME."
        raise NotFound(f"{error.sentence} {remedy}", code=error.code) from error
    warnings = cautions(known.data, params)
    return replace(found, plan=replace(found.plan, warnings=warnings))


def _foresee(known: SystemState, wanted: WantedTask, other: Alternative) -> PlanWithAlternative:
    plan, choices = make(known, wanted)
    if not (other.knobs or other.sites):
        return PlanWithAlternative(plan)
    then, others = make(other.of(known), wanted)
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
