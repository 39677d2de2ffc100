"""Submitting a task: it is stored whole, or everything that is wrong with it is told."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from jedi.core.errors import BadInput, NotFound, Problem
from jedi.core.knobs import Knobs
from jedi.core.suggest import suggest
from jedi.ddm.interface import DDM
from jedi.service import resubmission
from jedi.service.resubmission import Earlier
from jedi.service.sandbox import Sandbox, bundle
from jedi.service.submission_warnings import cautions
from jedi.spec.placeholders import TASK_ID
from jedi.spec.preprocessing import is_told
from jedi.spec.priority import DEFAULT, OF_USERS, task_priority
from jedi.spec.splitrule import render_split_rule
from jedi.spec.taskparams import InputItem, OutputItem, TaskParams
from jedi.spec.tasktext import examine, parse_text
from jedi.taskbuffer.housekeeping import knobs
from jedi.taskbuffer.inputs import datasets, recovery
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.tasks import family, new_tasks
from jedi.taskbuffer.tasks.new_tasks import NewTask
from jedi.taskbuffer.users import users
from jedi.taskrefiner.refine import Refiner

_DatasetItem = TypeVar("_DatasetItem", InputItem, OutputItem)


@dataclass(frozen=True, slots=True)
class Checked:
    """A task that can be stored; `warnings` are what to tell people all the same. `earlier`: the
    task that goes on instead."""

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
    goes on with what is unused or failed."""

    jedi_task_id: int
    status: str
    created: bool
    warnings: tuple[str, ...] = ()
    again: bool = False


def submit(
    tx: Connection,
    ddm: DDM,
    who: str,
    text: str,
    format: str,
    base_dir: Path,
    key: str | None = None,
    task_id: int | None = None,
) -> Submitted:
    """Store the task in a text (yaml or json); local files in it are relative to `base_dir`.

    BadInput tells everything that is wrong, and nothing is stored. A `key` makes repeating safe:
    the same user's second submission under it finds the first one's task. A task that has ended,
    submitted again, goes on. A new one gets the next id, unless it is tried out under another.
    """
    if key is not None:
        params, _ = examine(parse_text(text, format))
        if params and (known := _known(tx, params.user_name or who, key)):
            return known
    task = check(tx, ddm, who, text, format, base_dir)
    params, sandbox = task.params, task.sandbox
    if sandbox:
        new_tasks.put_sandbox(tx, sandbox.sha256, sandbox.data)
    if earlier := task.earlier:
        resubmission.resubmit(tx, who, earlier)
        return Submitted(earlier.jedi_task_id, earlier.status, False, task.warnings, again=True)
    new_id = new_tasks.insert_task(
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
            source_text=text,
            source_format=format,
            sandbox_sha256=sandbox.sha256 if sandbox else None,
            idempotency_key=key,
            parent_id=task.parent_id,
            task_id=task_id,
        ),
    )
    if new_id is not None:
        return Submitted(new_id, "registered", True, task.warnings)
    raced = _known(tx, task.owner, key or "")
    assert raced is not None  # it was committed while this one waited for it
    return raced


def _known(tx: Connection, owner: str, key: str) -> Submitted | None:
    row = new_tasks.by_key(tx, owner, key)
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
    makers = _makers(tx, params)
    earlier = resubmission.find(tx, params.user_name or who, params, makers.values())
    problems += _lost(tx, ddm, params)
    if earlier is None:
        problems += _outputs(tx, ddm, params, makers)
    parent_id, no_parent = _parent(tx, params, params.user_name or who)
    problems += no_parent
    sandbox, bad_files = bundle(params.sandbox, base_dir, int(settings.sandbox.max_mb))
    problems += bad_files
    if earlier is not None:
        may_change = settings.resubmission.may_change.split()
        earlier, unlike = resubmission.examine_again(tx, earlier, params, sandbox, may_change)
        problems += unlike
    if problems:
        raise BadInput(problems)
    return Checked(
        params=params,
        warnings=cautions(ddm, params),
        owner=params.user_name or who,
        task_type=params.task_type or "anal",
        priority=_priority(tx, params, params.user_name or who),
        sandbox=sandbox,
        parent_id=parent_id,
        earlier=earlier,
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
    """Keys that ordinary users may not set.
    Source: docs/reference/task-parameters.md#keys-of-ordinary-users."""
    if role in ("production", "operator"):
        return
    if params.user_name not in (None, who):
        rule = "only production users and operators submit for others"
        yield Problem("userName", params.user_name, rule, f"Leave it out: you are {who}")
    if params.gshare is not None:
        rule = "only production users and operators choose a share"
        yield Problem("gshare", params.gshare, rule, "Leave it out: it is your work queue's")
    if params.work_queue_name is not None:
        rule = "only production users and operators choose a work queue"
        remedy = "Leave it out: its criteria choose it"
        yield Problem("workQueueName", params.work_queue_name, rule, remedy)
    if params.task_type not in (None, "anal"):
        rule = "only production users and operators submit production tasks"
        yield Problem("taskType", params.task_type, rule, "Leave it out")
    least, most = OF_USERS
    for key, value in (
        ("taskPriority", params.task_priority),
        ("currentPriority", params.current_priority),
    ):
        if value is not None and not least <= value <= most:
            rule = f"a user's tasks have priorities from {least} to {most}"
            yield Problem(key, value, rule, f"Leave it out for {DEFAULT}")


def _queue(tx: Connection, params: TaskParams, owner: str) -> Iterator[Problem]:
    """A work queue takes the task, as far as can be told before it is refined."""
    row, name = row_of(params, owner, _priority(tx, params, owner)), params.work_queue_name
    (found,) = queues.match(tx, [row], [name])
    if found.queue is not None:
        return
    if name:
        rule = f"no active work queue of vo {params.vo} has this name"
        known = ", ".join(found.asked) or "none"
        remedy = suggest(name, found.asked, f"Leave it out, or choose among: {known}")
        yield Problem("workQueueName", name, rule, remedy)
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


def _priority(tx: Connection, params: TaskParams, owner: str) -> int:
    """What the task begins with."""
    return task_priority(
        params.task_priority,
        params.task_type or "anal",
        users.gridpref(tx, owner),
        params.working_group,
    )


def row_of(params: TaskParams, owner: str, priority: int) -> dict[str, Any]:
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
        "taskpriority": priority,
        "currentpriority": priority,
        "splitrule": render_split_rule(Refiner().rules(params)),
    }
    return {**new_tasks.told_columns(params), **said}


def _places(tx: Connection, params: TaskParams) -> Iterator[Problem]:
    """The sites and endpoints that the task names exist."""
    wanted = [("site", one) for one in (params.site or "").split(",")]
    wanted += [(key, getattr(params, key) or "") for key in ("nucleus", "cloud", "destination")]
    wanted += [(path, item.destination or "")
               for path, item in _paths(params, OutputItem, "destination")]  # fmt: skip
    if not any(name for _, name in wanted):
        return
    rows = sites.all_sites(tx)
    names, endpoints = {row.site for row in rows}, sites.all_endpoints(tx)
    known = {"site": names, "nucleus": names, "cloud": {row.cloud for row in rows},
             "destination": {row.ddm_endpoint for row in endpoints}}  # fmt: skip
    for path, name in wanted:
        kind = path.rpartition(".")[2]
        if name and name not in known[kind]:
            listed = "endpoint" if kind == "destination" else "site"
            remedy = suggest(name, known[kind], f"Look at the output of: jedi {listed} list")
            yield Problem(path, name, f"no such {kind}", remedy)


def _parent(tx: Connection, params: TaskParams, owner: str) -> tuple[int | None, list[Problem]]:
    """The id of the task that is named as the parent, the last of that name."""
    name = params.parent_task_name
    if name in (None, params.task_name):  # nobody is his own parent, as the rules say
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
    most = int(settings.jobgen.hard_max_files_per_job)
    if params.n_files_per_job is not None and params.n_files_per_job > most:
        rule = f"no job gets more than {most} files (knob jobgen.hard_max_files_per_job)"
        yield Problem("nFilesPerJob", params.n_files_per_job, rule, "Lower it")


def _inputs(tx: Connection, ddm: DDM, params: TaskParams) -> Iterator[Problem]:
    """Inputs exist, or another task makes them."""
    paths = _paths(params, InputItem)
    unknown = {name: path for path, item in paths for name in item.datasets if not _is(ddm, name)}
    made = {row.datasetname for row in datasets.producers(tx, unknown)}
    for name, path in unknown.items():
        if name not in made and not is_told(name):
            rule = "neither data management nor another task knows this dataset"
            yield Problem(path, name, rule, "Correct the name, or add the dataset first")


def _wanted(params: TaskParams) -> dict[str, str]:
    """The output datasets with fixed names, and where each is named."""
    wanted = {item.dataset: path for path, item in _paths(params, OutputItem)}
    if params.log is not None:
        wanted.setdefault(params.log.dataset, "log.dataset")
    return {name: path for name, path in wanted.items() if TASK_ID not in name}


def _makers(tx: Connection, params: TaskParams) -> dict[str, int]:
    """The task that makes each of the output datasets; of several the one that is at work."""
    names = _wanted(params)
    datasets.reserve_outputs(tx, names)
    rows = sorted(datasets.producers(tx, names), key=lambda row: row.live)
    return {row.datasetname: row.jeditaskid for row in rows}


def _outputs(
    tx: Connection, ddm: DDM, params: TaskParams, makers: Mapping[str, int]
) -> Iterator[Problem]:
    """Outputs belong to this task alone (JEDI document, "Broken tasks"), unless it
    says that it shares those of a task that has ended."""
    wanted = _wanted(params)
    live = {row.jeditaskid for row in datasets.producers(tx, wanted) if row.live}
    shares = params.allow_task_duplication or (params.lost_files and params.recover_into != "new")
    for name, path in wanted.items():
        remedy = f"Choose another name, or one with {TASK_ID} in it, such as {name}.{TASK_ID}"
        if name not in makers:
            if _is(ddm, name):
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
    known = recovery.ever_made(tx, name)
    same = params.recover_into != "new"
    again = recovery.made_again(tx, name) if same else {}
    there = {file.lfn for file in ddm.list_files(name)} if same and _is(ddm, name) else ()
    for lfn in params.lost_files:
        remedy = "Leave it out, say recoverInto: new, or use: jedi-task recover"
        if lfn not in known:
            rule = f"no task has made this file of {name}"
            yield Problem("lostFiles", lfn, rule, suggest(lfn, known, "Correct the name"))
        elif lfn in there:
            yield Problem("lostFiles", lfn, f"is in {name} still", remedy)
        elif lfn in again:
            yield Problem("lostFiles", lfn, f"task {again[lfn]} has made it again", remedy)


def _paths(
    params: TaskParams, kind: type[_DatasetItem], key: str = "dataset"
) -> list[tuple[str, _DatasetItem]]:
    return [
        (f"jobParameters[{i}].{key}", item)
        for i, item in enumerate(params.job_parameters)
        if isinstance(item, kind)
    ]


def _is(ddm: DDM, name: str) -> bool:
    try:
        ddm.dataset(name)
    except NotFound:
        return False
    return True
