"""Submitting a task: it is stored whole, or everything that is wrong with it is told."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from jedi.core.errors import BadInput, NotFound, Problem
from jedi.core.knobs import Knobs
from jedi.core.suggest import suggest
from jedi.ddm.interface import DDM
from jedi.service.sandbox import Sandbox, bundle
from jedi.spec import later
from jedi.spec.placeholders import TASK_ID
from jedi.spec.splitrule import render_split_rule
from jedi.spec.taskparams import InputItem, OutputItem, TaskParams
from jedi.spec.tasktext import examine, parse_text
from jedi.taskbuffer import datasets, family, knobs, queues, sites, tasks_new, users
from jedi.taskbuffer.tasks_new import NewTask
from jedi.taskrefiner.refine import Refiner

DEFAULT_PRIORITY = 1000
USER_PRIORITIES = (900, 1100)

_DatasetItem = TypeVar("_DatasetItem", InputItem, OutputItem)


@dataclass(frozen=True, slots=True)
class Checked:
    """A task that can be stored; `warnings` are what to tell people all the same."""

    params: TaskParams
    warnings: tuple[str, ...]
    owner: str
    task_type: str
    priority: int
    sandbox: Sandbox | None
    parent_id: int | None


@dataclass(frozen=True, slots=True)
class Submitted:
    """A stored task; `created` False: the user's key was known, this is its task."""

    jedi_task_id: int
    status: str
    created: bool
    warnings: tuple[str, ...] = ()


def submit(
    tx: Connection,
    ddm: DDM,
    who: str,
    text: str,
    format: str,
    base_dir: Path,
    key: str | None = None,
) -> Submitted:
    """Store the task in a text (yaml or json); local files in it are relative to `base_dir`.

    BadInput tells everything that is wrong, and nothing is stored. A `key` makes repeating safe:
    the same user's second submission under it finds the first one's task.
    """
    if key is not None:
        params, _ = examine(parse_text(text, format))
        if params and (known := _known(tx, params.user_name or who, key)):
            return known
    task = check(tx, ddm, who, text, format, base_dir)
    params, sandbox = task.params, task.sandbox
    if sandbox:
        tasks_new.put_sandbox(tx, sandbox.sha256, sandbox.data)
    task_id = tasks_new.insert_task(
        tx,
        NewTask(
            user_name=task.owner,
            vo=params.vo,
            label=params.prod_source_label,
            task_name=params.task_name,
            task_type=task.task_type,
            processing_type=params.processing_type,
            priority=task.priority,
            working_group=params.working_group,
            country_group=params.country_group,
            req_id=params.req_id,
            params=params.dump(),
            source_text=text,
            source_format=format,
            sandbox_sha256=sandbox.sha256 if sandbox else None,
            idempotency_key=key,
            parent_id=task.parent_id,
        ),
    )
    if task_id is not None:
        return Submitted(task_id, "registered", True, task.warnings)
    raced = _known(tx, task.owner, key or "")
    assert raced is not None  # it was committed while this one waited for it
    return raced


def _known(tx: Connection, owner: str, key: str) -> Submitted | None:
    row = tasks_new.by_key(tx, owner, key)
    return Submitted(row.jeditaskid, row.status, False) if row else None


def check(tx: Connection, ddm: DDM, who: str, text: str, format: str, base_dir: Path) -> Checked:
    """The task in a text; BadInput with everything that is wrong, also outside the text.

    Datasets are looked up and the sandbox (relative to `base_dir`) is packed.
    """
    params, problems = examine(parse_text(text, format))
    if params is None:
        raise BadInput(problems)
    settings = knobs.load(tx)
    problems += _person(params, who, users.role(tx, who))
    problems += _queue(tx, params, params.user_name or who)
    problems += _places(tx, params)
    problems += _limits(params, settings)
    problems += _inputs(tx, ddm, params)
    problems += _outputs(tx, ddm, params)
    parent_id, no_parent = _parent(tx, params, params.user_name or who)
    problems += no_parent
    sandbox, bad_files = bundle(params.sandbox, base_dir, int(settings["sandbox.max_mb"]))
    problems += bad_files
    if problems:
        raise BadInput(problems)
    return Checked(
        params=params,
        warnings=tuple(later.kept(params.dump())),
        owner=params.user_name or who,
        task_type=params.task_type or "anal",
        priority=DEFAULT_PRIORITY if params.task_priority is None else params.task_priority,
        sandbox=sandbox,
        parent_id=parent_id,
    )


def recheck(tx: Connection, who: str, params: TaskParams, keys: Collection[str]) -> list[Problem]:
    """What is wrong outside the text with these keys of a task whose parameters change."""
    found = [
        *_person(params, who, users.role(tx, who)),
        *_places(tx, params),
        *_limits(params, knobs.load(tx)),
    ]
    return [problem for problem in found if problem.path in keys]


def _person(params: TaskParams, who: str, role: str) -> Iterator[Problem]:
    """What ordinary users may not say. Source: engine.md §2.1, §2.2."""
    if role in ("production", "operator"):
        return
    if params.user_name not in (None, who):
        rule = "only production users and operators submit for others"
        yield Problem("userName", params.user_name, rule, f"Leave it out: you are {who}")
    if params.task_type not in (None, "anal"):
        rule = "only production users and operators submit production tasks"
        yield Problem("taskType", params.task_type, rule, "Leave it out")
    least, most = USER_PRIORITIES
    if params.task_priority is not None and not least <= params.task_priority <= most:
        rule = f"a user's tasks have priorities from {least} to {most}"
        remedy = f"Leave it out for {DEFAULT_PRIORITY}"
        yield Problem("taskPriority", params.task_priority, rule, remedy)


def _queue(tx: Connection, params: TaskParams, owner: str) -> Iterator[Problem]:
    """A work queue takes the task, as far as can be told before it is refined."""
    (found,) = queues.match(tx, [_row(params, owner)])
    if found.queue is not None:
        return
    path, label = "prodSourceLabel", params.prod_source_label
    if found.asked:
        rule = f"no active work queue takes the task ({', '.join(found.asked)})"
        yield Problem(path, label, rule, "Compare it with the output of: jedi queue list")
        return
    labels = {q.queue_type for q in queues.matchable(tx) if q.vo == params.vo}
    known = ", ".join(sorted(labels)) or "none"
    rule = f"no active work queue of vo {params.vo} serves it"
    yield Problem(path, label, rule, suggest(label, labels, f"Labels of this vo: {known}"))


def _row(params: TaskParams, owner: str) -> dict[str, Any]:
    """The columns of jedi_tasks that follow from the parameters alone, under their SQL names."""
    said = {
        "vo": params.vo,
        "prodsourcelabel": params.prod_source_label,
        "username": owner,
        "workinggroup": params.working_group,
        "countrygroup": params.country_group,
        "taskname": params.task_name,
        "tasktype": params.task_type or "anal",
        "processingtype": params.processing_type,
        "taskpriority": params.task_priority or DEFAULT_PRIORITY,
        "currentpriority": params.task_priority or DEFAULT_PRIORITY,
        "splitrule": render_split_rule(Refiner().rules(params)),
    }
    return {**tasks_new.told_columns(params), **said}


def _places(tx: Connection, params: TaskParams) -> Iterator[Problem]:
    wanted = {"site": params.site, "nucleus": params.nucleus, "cloud": params.cloud}
    if not any(wanted.values()):
        return
    rows = sites.all_sites(tx)
    names = {row.site for row in rows}
    known = {"site": names, "nucleus": names, "cloud": {row.cloud for row in rows}}
    for key, name in wanted.items():
        if name is not None and name not in known[key]:
            remedy = suggest(name, known[key], "Look at the output of: jedi site list")
            yield Problem(key, name, f"no such {key}", remedy)


def _parent(tx: Connection, params: TaskParams, owner: str) -> tuple[int | None, list[Problem]]:
    """The id of the task that is named as the parent, the last of that name."""
    name = params.parent_task_name
    if name is None:
        return None, []
    row = family.newest(tx, owner, name)
    if row is None:
        rule, remedy = f"{owner} has no task of this name", "Submit the parent first"
    elif row.status in family.RUINED:
        rule = f"task {row.jeditaskid}, the last one of this name, is {row.status}"
        remedy = "Retry it, or submit it again, before its children"
    else:
        return int(row.jeditaskid), []
    return None, [Problem("parentTaskName", name, rule, remedy)]


def _limits(params: TaskParams, settings: Knobs) -> Iterator[Problem]:
    most = int(settings["jobgen.hard_max_files_per_job"])
    if params.n_files_per_job is not None and params.n_files_per_job > most:
        rule = f"no job gets more than {most} files (knob jobgen.hard_max_files_per_job)"
        yield Problem("nFilesPerJob", params.n_files_per_job, rule, "Lower it")


def _inputs(tx: Connection, ddm: DDM, params: TaskParams) -> Iterator[Problem]:
    """Inputs exist, or another task makes them."""
    paths = _paths(params, InputItem)
    unknown = {name: path for path, item in paths for name in item.datasets if not _is(ddm, name)}
    made = {row.datasetname for row in datasets.producers(tx, unknown)}
    for name, path in unknown.items():
        if name not in made:
            rule = "neither data management nor another task knows this dataset"
            yield Problem(path, name, rule, "Correct the name, or add the dataset first")


def _outputs(tx: Connection, ddm: DDM, params: TaskParams) -> Iterator[Problem]:
    """Outputs belong to this task alone (seed: each task has a unique output dataset)."""
    wanted = {item.dataset: path for path, item in _paths(params, OutputItem)}
    if params.log is not None:
        wanted.setdefault(params.log.dataset, "log.dataset")
    fixed = [name for name in wanted if TASK_ID not in name]
    datasets.reserve_outputs(tx, fixed)
    owners = {row.datasetname: row.jeditaskid for row in datasets.producers(tx, fixed)}
    for name in fixed:
        remedy = f"Choose another name, or one with {TASK_ID} in it, such as {name}.{TASK_ID}"
        if name in owners:
            yield Problem(wanted[name], name, f"is the output of task {owners[name]}", remedy)
        elif _is(ddm, name):
            yield Problem(wanted[name], name, "exists in data management", remedy)


def _paths(params: TaskParams, kind: type[_DatasetItem]) -> list[tuple[str, _DatasetItem]]:
    return [
        (f"jobParameters[{i}].dataset", item)
        for i, item in enumerate(params.job_parameters)
        if isinstance(item, kind)
    ]


def _is(ddm: DDM, name: str) -> bool:
    try:
        ddm.dataset(name)
    except NotFound:
        return False
    return True
