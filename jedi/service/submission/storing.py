"""Submission of a task: JEDI stores it whole, or reports all mistakes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jedi_client.sandbox import Sandbox
from sqlalchemy import Connection

from jedi.core.errors import Problem, Refused
from jedi.core.suggest import suggest
from jedi.ddm.interface import DDM, exists
from jedi.model.scheduling.priority import task_priority
from jedi.model.splitting.split_rules import render_split_rule
from jedi.model.tasks.params import InputItem, OutputItem, TaskParams
from jedi.model.tasks.placeholders import TASK_ID
from jedi.model.tasks.preprocessing import is_reported
from jedi.service.herds.herd_checks import begin_herd, splitter_problems
from jedi.service.submission import resubmission
from jedi.service.submission.examined import Document, Examined, examined
from jedi.service.submission.resubmission import Earlier
from jedi.service.submission.sandbox import Uploaded, packed
from jedi.service.submission.submission_checks import (
    limits,
    paths,
    person,
    uncounted_events,
    unknown_places,
)
from jedi.service.submission.submission_shell import shell_problems
from jedi.service.submission.submission_warnings import cautions
from jedi.taskbuffer.inputs import datasets, recovery
from jedi.taskbuffer.reports import herds
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.scheduling.queues import WorkQueue
from jedi.taskbuffer.tasks import family, new_tasks, submission_keys, submitting
from jedi.taskbuffer.tasks.new_tasks import NewTask
from jedi.taskbuffer.tasks.submission_keys import KeyedTask
from jedi.taskrefiner.refine import Refiner


@dataclass(frozen=True, slots=True)
class Checked:
    """A valid task; `warnings` are for people to read. `earlier`: the task that goes on instead."""

    params: TaskParams
    warnings: tuple[str, ...]
    owner: str
    task_type: str
    priority: int
    sandbox: Sandbox | None
    parent_id: int | None
    earlier: Earlier | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A stored task; `created` False: it was there. Then the user's key was known, or `again`: it
    goes on with what is unused or failed. `attempt_nr`: the attempt that began by it, `status`: the
    status in which that one is."""

    jedi_task_id: int
    status: str
    created: bool
    warnings: tuple[str, ...] = ()
    again: bool = False
    attempt_nr: int = 1
    name: str = ""
    """The place in a collection; empty if the task was submitted alone."""


def submit(
    tx: Connection,
    ddm: DDM,
    given: Examined,
    key: str | None = None,
    task_id: int | None = None,
) -> Submitted:
    """Store a task.

    BadInput lists all mistakes, and nothing is stored. A `key` makes repeating safe: the same
    user's second submission under it finds the first one's task, and that of another task is
    Refused. A task that has ended, submitted
    again, goes on. A new one gets the next id, unless it is tried out under another.
    """
    if key is not None and given.params and (known := take_key(tx, given.owner, key)):
        _same_task(tx, given, key, known)
        return Submitted(
            known.jedi_task_id or 0,
            known.status or "removed",
            False,
            again=known.attempt_nr > 1,
            attempt_nr=known.attempt_nr,
        )
    task = check(tx, ddm, given)
    if sandbox := task.sandbox:
        new_tasks.PUT_SANDBOX.run(tx, sha256=sandbox.sha256, data=sandbox.data)
    if earlier := task.earlier:
        resubmission.resubmit(tx, given.who, earlier)
        done = Submitted(
            earlier.jedi_task_id,
            "toincexec",
            False,
            task.warnings,
            again=True,
            attempt_nr=earlier.attempt_nr + 1,
        )
    else:
        new_id = _insert(tx, task, given.document, key, task_id)
        begin_herd(tx, new_id, task.params, trial=task_id is not None)
        done = Submitted(new_id, "registered", True, task.warnings)
    if key is not None:
        submission_keys.KEEP.run(
            tx, user=task.owner, key=key, task=done.jedi_task_id, attempt=done.attempt_nr
        )
    return done


def _insert(
    tx: Connection, task: Checked, document: Document, key: str | None, task_id: int | None
) -> int:
    """Store a new task; its id."""
    params, sandbox = task.params, task.sandbox
    return new_tasks.insert_task(
        tx,
        NewTask(
            user_name=task.owner,
            vo=params.vo,
            label=params.prod_source_label,
            task_name=params.task_name,
            task_type=task.task_type,
            processing_type=params.processing_type,
            priority=task.priority,
            current_priority=params.current_priority,
            working_group=params.working_group,
            country_group=params.country_group,
            req_id=params.req_id,
            params=params.dump(),
            source_text=document.text,
            source_format=document.format,
            sandbox_sha256=sandbox.sha256 if sandbox else None,
            idempotency_key=key,
            parent_id=task.parent_id,
            task_id=task_id,
        ),
    )


def take_key(tx: Connection, owner: str, key: str) -> KeyedTask | None:
    """Take a key before all checks, which would refuse a second submission for the outputs of the
    first: None; else the task that has it. Refused: the key was settled before."""
    known = submission_keys.take(tx, owner, key)
    if known and known.jedi_task_id is None:
        raise Refused(
            "Somebody asked for this key before it arrived, and was answered that no task has it: "
            "submit under another key.",
            code="key_settled",
        )
    return known


def _same_task(tx: Connection, given: Examined, key: str, known: KeyedTask) -> None:
    """Refused: a key belongs to a task with other parameters than these. Only the text of a task's
    first attempt is kept."""
    if known.attempt_nr > 1 or known.jedi_task_id is None:
        return
    if (kept := herds.SUBMITTED_TEXT.row(tx, task=known.jedi_task_id)) is None:
        return
    first = examined(Document(kept.text, kept.format, Uploaded(None)), given.who).params
    if first is not None and first != given.params:
        raise Refused(
            f"The key {key} belongs to task {known.jedi_task_id} ({first.task_name}), which has "
            "other parameters: submit this task under another key.",
            code="key_reused",
            jedi_task_id=known.jedi_task_id,
        )


def check(tx: Connection, ddm: DDM, given: Examined) -> Checked:
    """The task of a document; BadInput with everything that is wrong, also outside the document.

    Datasets are looked up and the sandbox is packed.
    """
    params, owner, document = given.sound(), given.owner, given.document
    problems = [*given.problems]
    facts = submitting.facts(tx, given.who, owner)
    settings = facts.knobs
    problems += person(params, given.who, facts.role)
    task_type = params.task_type or "anal"
    priority = task_priority(params.task_priority, task_type, facts.gridpref, params.working_group)
    known = queues.matchable(facts.queues)
    if not queues.takes_any(known, params.vo, params.prod_source_label, params.work_queue_name):
        problems += _queue(tx, params, row_of(params, owner, priority), known)
    problems += unknown_places(tx, params)
    problems += limits(params, settings)
    problems += shell_problems(params)
    problems += splitter_problems(params, explicit=document.explicit, has_input=given.has_input)
    problems += _inputs(tx, ddm, params)
    problems += uncounted_events(ddm, params, settings)
    makers = _makers(tx, params)
    earlier = resubmission.find(tx, owner, params, makers.values())
    problems += _lost(tx, ddm, params)
    problems += (
        resubmission.refusals(earlier, params) if earlier else _outputs(tx, ddm, params, makers)
    )
    parent_id, no_parent = _parent(tx, params, owner)
    problems += no_parent
    sandbox, bad_files = packed(document.files, params.sandbox, int(settings.sandbox.max_mb))
    problems += bad_files
    if problems:
        raise given.refusal(problems)
    if earlier is not None:
        may_change = settings.resubmission.may_change.split()
        earlier, params = resubmission.continued(tx, earlier, params, sandbox, may_change)
    return Checked(
        params=params,
        warnings=(*given.warnings, *cautions(ddm, params), *(earlier.kept if earlier else ())),
        owner=owner,
        task_type=task_type,
        priority=priority,
        sandbox=sandbox,
        parent_id=parent_id,
        earlier=earlier,
    )


def _queue(
    tx: Connection, params: TaskParams, row: Mapping[str, Any], known: Sequence[WorkQueue]
) -> Iterator[Problem]:
    """A work queue takes the task, as far as the task before refining shows."""
    name = params.work_queue_name
    (found,) = queues.match(tx, [row], [name], known)
    if found.queue is not None:
        return
    if name:
        rule = f"no active work queue of vo {params.vo} has this name"
        others = ", ".join(found.asked) or "none"
        remedy = suggest(name, found.asked, f"Leave it out, or choose among: {others}")
        yield Problem("workQueueName", name, rule, remedy)
        return
    path, label = "prodSourceLabel", params.prod_source_label
    if found.asked:
        rule = f"no active work queue takes the task ({', '.join(found.asked)})"
        yield Problem(path, label, rule, "Compare it with the output of: jedi queue list")
        return
    labels = {q.queue_type for q in known if q.vo == params.vo}
    if not labels:
        vos = sorted({q.vo for q in known if q.vo})
        remedy = suggest(params.vo, vos, f"There are {', '.join(vos) or 'none'}")
        yield Problem("vo", params.vo, "no active work queue serves this vo", remedy)
        return
    others = ", ".join(sorted(labels))
    rule = f"no active work queue of vo {params.vo} serves it"
    yield Problem(path, label, rule, suggest(label, labels, f"Labels of this vo: {others}"))


def row_of(params: TaskParams, owner: str, priority: int) -> dict[str, Any]:
    """The columns of jedi_tasks that follow from the parameters alone, under their SQL names."""
    own = {
        "vo": params.vo,
        "prodsourcelabel": params.prod_source_label,
        "username": owner,
        "workinggroup": params.working_group,
        "countrygroup": params.country_group,
        "taskname": params.task_name,
        "tasktype": params.task_type or "anal",
        "processingtype": params.processing_type,
        "taskpriority": priority,
        "currentpriority": priority,
        "splitrule": render_split_rule(Refiner().rules(params)),
    }
    return {**new_tasks.given_columns(params), **own}


def _parent(tx: Connection, params: TaskParams, owner: str) -> tuple[int | None, list[Problem]]:
    """The id of the task that is named as the parent, the last of that name."""
    name = params.parent_task_name
    if name in (None, params.task_name):  # nobody is his own parent, as the rules say
        return None, []
    row = family.NEWEST.row(tx, user=owner, name=name)
    if row is None:
        rule, remedy = f"{owner} has no task of this name", "Submit the parent first"
    elif row.status in family.RUINED:
        rule = f"task {row.jedi_task_id}, the last one of this name, is {row.status}"
        remedy = "Retry it, or submit it again, before its children"
    else:
        return int(row.jedi_task_id), []
    return None, [Problem("parentTaskName", name, rule, remedy)]


def _inputs(tx: Connection, ddm: DDM, params: TaskParams) -> Iterator[Problem]:
    """Inputs exist, or another task makes them."""
    named = paths(params, InputItem)
    wanted = [(name, path) for path, item in named for name in item.datasets]
    unknown = {name: path for name, path in wanted if not exists(ddm, name)}
    made = {row.dataset_name for row in datasets.producers(tx, unknown)}
    for name, path in unknown.items():
        if name not in made and not is_reported(name):
            rule = "neither data management nor another task knows this dataset"
            yield Problem(path, name, rule, "Correct the name, or add the dataset first")


def _wanted(params: TaskParams) -> dict[str, str]:
    """The output datasets with fixed names, and where each is named."""
    wanted = {item.dataset: path for path, item in paths(params, OutputItem)}
    if params.log is not None:
        wanted.setdefault(params.log.dataset, "log.dataset")
    return {name: path for name, path in wanted.items() if TASK_ID not in name}


def _makers(tx: Connection, params: TaskParams) -> dict[str, int]:
    """The task that makes each of the output datasets; of several the one that is at work."""
    names = _wanted(params)
    datasets.reserve_outputs(tx, names)
    rows = sorted(datasets.producers(tx, names), key=lambda row: row.live)
    return {row.dataset_name: row.jedi_task_id for row in rows}


def _outputs(
    tx: Connection, ddm: DDM, params: TaskParams, makers: Mapping[str, int]
) -> Iterator[Problem]:
    """Outputs belong to this task alone (JEDI document, "Broken tasks"), unless it
    says that it shares those of a task that has ended."""
    wanted = _wanted(params)
    live = {row.jedi_task_id for row in datasets.producers(tx, wanted) if row.live}
    shares = params.allow_task_duplication or (params.lost_files and params.recover_into != "new")
    for name, path in wanted.items():
        remedy = f"Choose another name, or one with {TASK_ID} in it, such as {name}.{TASK_ID}"
        if name not in makers:
            if exists(ddm, name):
                yield Problem(path, name, "exists in data management", remedy)
        elif not shares:
            yield Problem(path, name, f"is the output of task {makers[name]}", remedy)
        elif makers[name] in live:
            rule = f"task {makers[name]}, which has not ended, makes it"
            yield Problem(path, name, rule, f"Wait for its end. {remedy}")


def _lost(tx: Connection, ddm: DDM, params: TaskParams) -> Iterator[Problem]:
    """Files that are to be made again were made before; those that are to go where they were are
    there no more, in whatever name: nobody shall read the same twice."""
    name = params.lost_files_dataset
    if not (name and params.lost_files):
        return
    known = set(recovery.EVER_MADE.rows(tx, name=name))
    same = params.recover_into != "new"
    again = dict(recovery.MADE_AGAIN.rows(tx, name=name)) if same else {}
    there = {file.lfn for file in ddm.list_files(name)} if same and exists(ddm, name) else ()
    for lfn in params.lost_files:
        remedy = "Leave it out, set recoverInto: new, or use: jedi-task recover"
        if lfn not in known:
            rule = f"no task has written this file of {name}"
            yield Problem("lostFiles", lfn, rule, suggest(lfn, known, "Correct the name"))
        elif lfn in there:
            yield Problem("lostFiles", lfn, f"still exists in {name}", remedy)
        elif lfn in again:
            yield Problem("lostFiles", lfn, f"task {again[lfn]} has made it again", remedy)
