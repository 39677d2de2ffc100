"""A task as the refiner and the feeder leave it, before its submission: the input of its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jedi.agent import plugins
from jedi.contentsfeeder.feed import Feed, FeedTask, new_files
from jedi.contentsfeeder.judge import judge
from jedi.contentsfeeder.left_out import left_out
from jedi.contentsfeeder.lookup import look_up
from jedi.contentsfeeder.order import feed_task
from jedi.contentsfeeder.rows import as_read, new_rows
from jedi.core import states
from jedi.core.errors import BadInput, JediError, NotFound, Problem
from jedi.core.knobs.knob import numbers
from jedi.model.datasets.chunk import Files
from jedi.model.datasets.dataset import NewDataset
from jedi.model.jobs.scouting import Master, Release, released
from jedi.model.splitting.split_rules import SCOUTING
from jedi.model.tasks.params import TaskParams
from jedi.model.tasks.refined import RefinedTask
from jedi.model.tasks.rows import ClaimedTask, FedDataset
from jedi.service.brokerage.system_state import KnownQueue, PlanCatalogue, SystemState
from jedi.service.planning.planned_herd import count_units, divided
from jedi.service.submission.storing import row_of
from jedi.service.tasks.unprocessed import Continued
from jedi.taskbuffer.jobs.orders import InputRow
from jedi.taskbuffer.schema import tables
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskrefiner.refine import Malformed, Refined, Submission, names_of

QueueFinder = Callable[[Mapping[str, Any], str | None], tuple[KnownQueue, str | None]]
"""Finds the work queue and the processing type for the columns of a task and the queue's name, if
the task gives one."""


@dataclass(frozen=True, eq=False)
class PlannedTask:
    """A task as the feeder leaves it: its work queue, the row of jedi_tasks, those of its input
    datasets, their files by dataset, the files of its scouts, and the reasons for those entries
    of its masters that no job gets. `again`: the task that it
    continues, if it is submitted again."""

    task: RefinedTask
    queue: str
    feed: FeedTask
    row: ClaimedTask
    inputs: Sequence[InputRow]
    files: Mapping[int, Files]
    scouts: Sequence[Release]
    left_out: Sequence[str]
    again: Continued | None = None

    @property
    def has_input(self) -> bool:
        """Return True if a master has files."""
        masters = (one.dataset_id for one in self.inputs if one.master_id is None)
        return any(len(self.files.get(i, ())) for i in masters)


@dataclass(frozen=True, slots=True)
class WantedTask:
    """A task to be planned; `again`: the one that it continues, if it is submitted again."""

    params: TaskParams
    owner: str
    priority: int
    queue_of: QueueFinder
    again: Continued | None = None


def feed(known: SystemState, wanted: WantedTask) -> PlannedTask:
    """Refine a task and look up its input; for a resubmitted task only the unprocessed part."""
    params, again = wanted.params, wanted.again
    task = _refined(known, params, wanted.owner)
    columns = {**row_of(params, wanted.owner, wanted.priority), **new_tasks.columns(0, task)}
    del columns["jeditaskid"]
    queue, processing_type = wanted.queue_of(columns, task.queue_name)
    task = task.queued(queue.queue_id, queue.queue_name, processing_type)
    row = _as_claimed({**columns, **new_tasks.columns(0, task), "processingtype": processing_type})
    named = [(i, one) for i, one in enumerate(task.datasets, 1) if one.provenance is None]
    real = [_fed(i, one) for i, one in named if one.type in states.FED_TYPES]
    max_attempt = int(known.knobs.attempts.max_attempt)
    units = count_units(params.splitter, known.knobs) if params.splitter else None
    asked = replace(feed_task(row, params.dump(), real, (), max_attempt, None), units=units)
    listings = [look_up(known.data, one, None) for one in asked.datasets]
    outcome = judge(asked, listings, int(known.knobs.contentsfeeder.max_records))
    if not isinstance(outcome, Feed):
        raise JediError(outcome.reason, code=outcome.code)
    rows = new_rows(asked, outcome.listings, new_files(asked, outcome.listings, {}))
    files: dict[int, Files] = {}
    first = 1
    for one in rows:
        found = as_read(one, first)
        files[one.dataset.dataset_id] = again.left(one.dataset.name, found) if again else found
        first += len(found)
    if params.splitter and not units:
        masters_of = {i: one.name for i, one in named if one.type == "input" and one.master is None}
        files = divided(params.splitter, masters_of, files, known.data, known.knobs)
    inputs = [_input(i, one, len(files.get(i, ()))) for i, one in named]
    masters = [
        Master(r.dataset.dataset_id, len(r), r.events or 0) for r in rows if r.dataset.is_master
    ]
    first_jobs, more = int(known.knobs.scout.chunks), not outcome.is_complete
    scouts: list[Release] = []
    wants_scouts = asked.may_scout and not (again and again.done)  # else it had its own
    if wants_scouts and (scouts := released(masters, asked.rules, first_jobs, more=more)):
        row = row._replace(rules={**(row.rules or {}), "use_scout": SCOUTING})
    without = [
        left_out(asked, listing, {file.lfn for file in some.files})
        for listing, some in zip(outcome.listings, rows, strict=True)
        if listing.dataset.is_master
    ]
    reasons = [code for some in without for code in some.values()]
    return PlannedTask(task, queue.queue_name, asked, row, inputs, files, scouts, reasons, again)


def _refined(known: SystemState, params: TaskParams, owner: str) -> RefinedTask:
    outcome = plugins.make("refiner", params.vo, params.prod_source_label).refine(
        Submission(
            jedi_task_id=0,
            user_name=owner,
            params=params,
            constituents={name: _below(known.data, name) for name in names_of(params)},
            resource_types=known.resource_types,
            base_ram=numbers(known.knobs.taskrefiner.base_ram),
        )
    )
    match outcome:
        case Refined(task):
            return task
        case Malformed(problems):
            raise BadInput(problems)
    raise JediError(outcome.reason, code=outcome.code)


def _below(data: PlanCatalogue, name: str) -> list[str]:
    try:
        return data.constituents(name) if data.dataset(name).is_container else [name]
    except NotFound:
        return [name]  # the feeder knows what to do about it


def _as_claimed(columns: Mapping[str, Any]) -> ClaimedTask:
    """A task that has no row yet, by the columns that submission and refining know."""
    known: dict[str, Any] = {
        column.key: columns.get(column.name) for column in tables.tasks.columns
    }
    known |= {"req_id": 0, "lock_seq": 0, "status": "ready", "parent_tid": 0}
    return ClaimedTask(**{name: known[name] for name in ClaimedTask._fields})


def _fed(number: int, one: NewDataset) -> FedDataset:
    """Return a dataset as the feeder reads it before there are files."""
    return FedDataset(
        jedi_task_id=0,
        dataset_id=number,
        dataset_name=one.name,
        container_name=one.container,
        type=one.type,
        master_id=_master(one),
        status="ready",
        attributes=one.attributes,
        due=True,
        files=0,
        n_files=0,
        n_files_to_be_used=0,
        n_events=0,
        fed_upto=None,
    )


def _input(number: int, one: NewDataset, n_files: int) -> InputRow:
    """A dataset as the generator reads it, with so many files."""
    return InputRow(
        jedi_task_id=0,
        dataset_id=number,
        dataset_name=one.name,
        type=one.type,
        stream_name=one.stream_name,
        master_id=_master(one),
        attributes=one.attributes,
        n_files=n_files,
        n_files_to_be_used=n_files,
        n_files_used=0,
        n_files_missing=0,
    )


def _master(one: NewDataset) -> int | None:
    return None if one.master is None else one.master + 1


def find_queue(
    known: SystemState, columns: Mapping[str, Any], name: str | None
) -> tuple[KnownQueue, str | None]:
    """Return the work queue of a task without a database to evaluate criteria: the named one, or
    the first of its vo and label without criteria."""
    vo, label = columns["vo"], columns["prodsourcelabel"]
    for queue in known.queues:
        mine = (queue.vo, queue.label) == (vo, label) and not queue.criteria
        if queue.queue_name == name if name else mine:
            return queue, columns["processingtype"]
    if name:
        rule = "the snapshot has no such work queue"
        raise BadInput([Problem("workQueueName", name, rule, "Leave it out")])
    return KnownQueue(0, label, vo, label), columns["processingtype"]
