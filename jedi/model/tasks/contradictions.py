"""Contradictions in a task whose pieces are well formed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from jedi.core.errors import Problem
from jedi.core.suggest import suggest
from jedi.model.datasets import physical
from jedi.model.datasets.dataset import Attributes
from jedi.model.splitting.split_rules import WHOLE_IDS
from jedi.model.tasks import unsupported
from jedi.model.tasks.event_contradictions import event_contradictions
from jedi.model.tasks.herd_contradictions import herd_contradictions
from jedi.model.tasks.merge_contradictions import merge_contradictions
from jedi.model.tasks.params import (
    ATTRIBUTE_KEYS,
    InputItem,
    JobSpec,
    NumberItem,
    OutputItem,
    ParameterItem,
    TaskParams,
)
from jedi.model.tasks.placeholders import (
    IN_FILE_NAMES,
    LIBRARY,
    SEQUENCE,
    STREAM_FORMS,
    SYSTEM,
    UNIT,
    Form,
    Placeholder,
    is_option,
    placeholders,
    split_output,
    stream_of,
    unfilled,
)

NOT_YET, UNFILLED = "not supported yet", "nothing fills it"
_MASTER = "the first input is the master, and only the other inputs follow it"


def streams(params: TaskParams) -> list[str]:
    """Return the placeholders that pfnList and each input item feed, in order."""
    first = [physical.STREAM] if params.pfn_list else []
    items = enumerate(params.items(InputItem), len(first))
    return [*first, *(stream_of(item.value, position) for position, item in items)]


def contradictions(params: TaskParams) -> Iterator[Problem]:
    """Yield problems of keys that exclude each other."""
    if params.no_input:
        yield from _no_input_rules(params)
    if params.pfn_list:
        yield from _pfn_rules(params, params.pfn_list)
    yield from herd_contradictions(params)
    if params.no_wait_parent and params.parent_task_name is None:
        remedy = "Name it with parentTaskName, or leave it out"
        yield Problem("noWaitParent", True, "the task has no parent", remedy)
    if params.skip_files_used_by and any(i.split.index_consistent for i in params.items(InputItem)):
        rule = "indexConsistent counts the positions of all files, and also of skipped ones"
        yield Problem("skipFilesUsedBy", params.skip_files_used_by, rule, "Use exclude instead")
    yield from _recovery_rules(params)
    if params.period is not None:
        yield from _period_rules(params)
    yield from _job_rules("preproSpec", params.prepro_spec, ())
    yield from _job_rules("buildSpec", params.build_spec, ("IN", "OUT", "SURL"))
    if params.build_spec and "${OUT}" not in params.build_spec.job_parameters:
        rule, remedy = "the build job needs the name of its output", "Use ${OUT}"
        yield Problem("buildSpec.jobParameters", params.build_spec.job_parameters, rule, remedy)
    if params.use_build and not params.build_spec:
        yield Problem("useBuild", True, "the task has no buildSpec", "Give one, or leave it out")
    if params.parent_task_name == params.task_name:
        rule, remedy = "a task can't be its own parent", "Name another task"
        yield Problem("parentTaskName", params.parent_task_name, rule, remedy)
    most, files_per_job = params.n_max_files_per_job, params.n_files_per_job
    if most is not None and files_per_job is not None and most < files_per_job:
        rule = f"is less than nFilesPerJob ({files_per_job})"
        yield Problem("nMaxFilesPerJob", most, rule, "Raise it, or remove one of the two")
    if params.respect_lb and params.group_boundary_id in WHOLE_IDS:
        rule = "files of one boundary id may have several lumi blocks, and groupBoundaryID "
        rule += f"{params.group_boundary_id} does not divide an id"
        yield Problem("respectLB", True, rule, "Leave it out, or use groupBoundaryID 1 or 2")
    fields = params.add_nth_field_to_lfn and params.use_file_as_source_lfn
    if fields and params.group_boundary_id in WHOLE_IDS:
        rule = "files of one boundary id may differ in these fields, and groupBoundaryID "
        rule += f"{params.group_boundary_id} divides no id"
        remedy = "Leave useFileAsSourceLFN out, or use groupBoundaryID 1 or 2"
        yield Problem("addNthFieldToLFN", params.add_nth_field_to_lfn, rule, remedy)
    attempts, failures = params.max_attempt, params.max_failure
    if attempts is not None and failures is not None and failures > attempts:
        rule = f"is more than maxAttempt ({attempts})"
        yield Problem("maxFailure", failures, rule, "Raise maxAttempt or leave maxFailure out")


def _cuts_files(params: TaskParams) -> bool:
    """Return True if jobs may process parts of files."""
    return bool(params.n_events_per_job or params.tgt_num_events_per_job)


def _recovery_rules(params: TaskParams) -> Iterator[Problem]:
    if not params.lost_files:
        for key, value in (
            ("lostFilesDataset", params.lost_files_dataset),
            ("recoverInto", params.recover_into),
        ):
            if value is not None:
                yield Problem(
                    key, value, "the task has no lostFiles", "Name the lost files with lostFiles"
                )
        return
    if params.lost_files_dataset is None:
        rule = "the dataset of the lost files is unknown"
        yield Problem("lostFiles", params.lost_files, rule, "Give lostFilesDataset")
    if _cuts_files(params) or params.no_input or params.pfn_list:
        rule = "another task can only make outputs again if its jobs read whole files"
        yield Problem("lostFiles", params.lost_files, rule, "Use: jedi-task recover")


def _job_rules(key: str, spec: JobSpec | None, known: Collection[str]) -> Iterator[Problem]:
    if spec is None:
        return
    if not (spec.trans_path or spec.job_parameters.strip()):
        yield Problem(key, "", "it has no command", "Give transPath or jobParameters")
    yield from unfilled(f"{key}.transPath", spec.trans_path, known)
    for placeholder in placeholders(spec.job_parameters):
        if placeholder.name not in known or placeholder.form:
            path, rule = f"{key}.jobParameters", "this job has no value for the placeholder"
            filled = ", ".join(["$JEDITASKID", "$PANDAID", *(f"${{{name}}}" for name in known)])
            yield Problem(path, placeholder.text, rule, f"Use one of {filled}")


def _period_rules(params: TaskParams) -> Iterator[Problem]:
    for key, size in (
        ("nEventsPerJob", params.n_events_per_job),
        ("tgtNumEventsPerJob", params.tgt_num_events_per_job),
        ("nGBPerJob", params.n_gb_per_job),
        ("groupBoundaryID", params.group_boundary_id),
    ):
        if size is not None:
            rule = "a period has the files of one job, so their number must be fixed"
            yield Problem(key, size, rule, "Use nFilesPerJob")


def _no_input_rules(params: TaskParams) -> Iterator[Problem]:
    if params.workflow_holdup:
        rule = "a task without input does not wait for input"
        yield Problem("workflowHoldup", True, rule, "Leave it out, or pause the task")
    total, each = params.n_events, params.n_events_per_job
    if (total is None) != (each is None):
        given, other = ("nEvents", "nEventsPerJob")[:: 1 if each is None else -1]
        remedy = f"Give {other}, too, or set the number of jobs with nFiles (times nFilesPerJob)"
        rule = f"a task without input needs {other}, too, to count events"
        yield Problem(given, total or each, rule, remedy)
    for key, value in (("nFiles", params.n_files), ("nFilesPerJob", params.n_files_per_job)):
        if each is not None and value is not None:
            rule = "nEvents and nEventsPerJob already set the number of jobs"
            yield Problem(key, value, rule, f"Remove {key}, or remove nEvents and nEventsPerJob")
    for key, size in (
        ("nGBPerJob", params.n_gb_per_job),
        ("nEventsPerInputFile", params.n_events_per_input_file),
        ("tgtNumEventsPerJob", params.tgt_num_events_per_job),
    ):
        if size is not None:
            rule = "a task without input has no files"
            yield Problem(key, size, rule, "Use nFiles and nFilesPerJob, or nEventsPerJob")


def _pfn_rules(params: TaskParams, texts: Sequence[str]) -> Iterator[Problem]:
    files = physical.files(texts)
    for path, times in Counter(file.path for file in files).items():
        if times > 1:
            yield Problem("pfnList", path, "the list has this file twice", "Name it once")
    if params.no_input:
        remedy = "Leave one of them out"
        yield Problem("noInput", True, "the task has input from pfnList", remedy)
    if params.skip_files_used_by:
        rule = "JEDI can't compare files without a dataset with those of other tasks"
        remedy = "Remove the used files from pfnList instead"
        yield Problem("skipFilesUsedBy", params.skip_files_used_by, rule, remedy)
    for key, size in (
        ("nGBPerJob", params.n_gb_per_job),
        ("tgtMaxOutputForNG", params.tgt_max_output_for_ng),
    ):
        if size is not None:
            rule = "the sizes of the files in pfnList are unknown"
            yield Problem(key, size, rule, "Use nFilesPerJob")
    uncounted = [file.path for file in files if file.nevents is None]
    counted = params.n_events or _cuts_files(params)
    if counted and uncounted and params.n_events_per_input_file is None:
        rule = "the task counts events, but the number of events of this file is unknown"
        remedy = f"Write {uncounted[0]}^500 if it has 500 events, or give nEventsPerInputFile"
        yield Problem("pfnList", uncounted[0], rule, remedy)


def item_contradictions(params: TaskParams) -> Iterator[Problem]:
    """Yield problems of items that exclude each other or lack a source."""
    yield from _input_rules(params)
    yield from _output_rules(params)
    yield from merge_contradictions(params)
    yield from event_contradictions(params)
    yield from _number_rules(params)
    yield from _placeholder_rules(params)
    shown = [item for item in params.job_parameters if item.value.strip() and not item.hidden]
    if not params.trans_path and not shown:
        remedy = "Give transPath, or an item with a value"
        yield Problem("jobParameters", [], "the task has no command", remedy)


def _at(params: TaskParams, item: ParameterItem, key: str) -> str:
    position = next(i for i, other in enumerate(params.job_parameters) if other is item)
    return f"jobParameters[{position}].{key}"


def _input_rules(params: TaskParams) -> Iterator[Problem]:
    inputs = params.items(InputItem)
    if params.no_input and inputs:
        yield Problem("noInput", True, "the task has an input item, too", "Leave one of them out")
    if not (params.no_input or inputs or params.pfn_list):
        remedy = "Add an item with param_type: input, or pfnList, or noInput: true"
        yield Problem("jobParameters", [], "the task has no input", remedy)
    fed: dict[str, list[str]] = {physical.STREAM: []} if params.pfn_list else {}
    for item, stream in zip(inputs, streams(params)[len(fed) :], strict=True):
        yield from _attribute_rules(params, item, is_master=not fed)
        for other in (s for s, names in fed.items() if s != stream and {*names} & {*item.datasets}):
            path, rule = _at(params, item, "dataset"), f"feeds ${{{other}}} already"
            yield Problem(path, item.dataset, rule, "Use one placeholder for it")
        if fed.setdefault(stream, item.datasets) != item.datasets:
            path, rule = _at(params, item, "value"), f"another item feeds ${{{stream}}} already"
            yield Problem(path, item.value, rule, "Use another placeholder, such as ${IN2}")


def _attribute_rules(params: TaskParams, item: InputItem, *, is_master: bool) -> Iterator[Problem]:
    """Yield problems of the attributes that split an item's datasets."""
    written, nothing = Attributes.parse(item.attributes), Attributes()
    for key, name in ATTRIBUTE_KEYS.items():
        value = getattr(item, key)
        path = _at(params, item, InputItem.model_fields[key].alias or key)
        if value is not None and getattr(written, name) != getattr(nothing, name):
            yield Problem(path, value, "the item's attributes set it, too", "Give it once")
        if value and is_master and replace(nothing, **{name: value}).follows:
            yield Problem(path, value, _MASTER, "Set it for the other inputs")
    path = _at(params, item, "attributes")
    if is_master and written.follows:
        yield Problem(path, item.attributes, _MASTER, "Set it for the other inputs")
    amounts = [word.partition("=")[0] for word in item.split.follows]
    amounts = [word for word in amounts if word in ("ratio", "er", "np", "nosplit")]
    if len(amounts) > 1 and not is_master:
        rule = f"{' and '.join(amounts)} each set the number of files of a job"
        yield Problem(path, item.attributes, rule, "Give one of them")
    if item.files and (item.include or item.exclude):
        rule = "the item already names its files"
        path = _at(params, item, "include" if item.include else "exclude")
        yield Problem(path, item.include or item.exclude, rule, "Leave it out")
    for n, file in enumerate(item.files):
        dataset = file.rpartition("/")[0]
        if dataset and dataset not in item.datasets:
            rule = f"the item does not read dataset {dataset}"
            yield Problem(_at(params, item, f"files[{n}]"), file, rule, "Name it in dataset, too")


def _output_rules(params: TaskParams) -> Iterator[Problem]:
    read = {name for item in params.items(InputItem) for name in item.datasets}
    outputs = [(_at(params, item, ""), item) for item in params.items(OutputItem)]
    written = [(path, item.dataset, item.value) for path, item in outputs]
    if params.log is not None:
        written.append(("log.", params.log.dataset, params.log.value))
    yield from _container_rules(params)
    names: set[str] = set()
    for path, dataset, value in written:
        if dataset in read:
            rule = "is an input of the same task"
            yield Problem(f"{path}dataset", dataset, rule, "Choose another name")
        name = split_output(value)[1]
        if name in names:
            rule = f"another output has the file name {name}, too"
            yield Problem(f"{path}value", value, rule, "Choose another file name")
        names.add(name)
    sources: set[str] = set()
    for path, item in outputs:
        if item.source_name and item.source_name in sources:
            rule = "another output uses this file, too"
            yield Problem(f"{path}sourceName", item.source_name, rule, "Choose another file")
        sources.add(item.source_name or "")


def _container_rules(params: TaskParams) -> Iterator[Problem]:
    outputs = [(_at(params, item, ""), item) for item in params.items(OutputItem)]
    places = [(path, item.dataset, item.container) for path, item in outputs]
    if params.log is not None:
        places.append(("log.", params.log.dataset, params.log.container))
    first = {dataset: container for _, dataset, container in reversed(places)}
    for begin, dataset, container in places:
        path = f"{begin}container"
        if container != first[dataset]:
            rule = "another item of the same dataset has a different container"
            yield Problem(path, container, rule, "Give all items of the dataset the same container")
        if container is None:
            continue
        if params.instantiate_tmpl or params.instantiate_tmpl_site:
            rule = f"{dataset} is a container itself (instantiateTmpl, instantiateTmplSite)"
            yield Problem(path, container, rule, "Leave it out, or set instantiateTmplSite: false")
        if container in first:
            rule, remedy = "is a dataset of the same task", "Choose another name"
            yield Problem(path, container, rule, remedy)


def _number_rules(params: TaskParams) -> Iterator[Problem]:
    seeds = [item for item in params.items(NumberItem) if "${RNDMSEED}" in item.value]
    for item in params.items(NumberItem):
        if not any(word in item.value for word in ("${RNDMSEED}", SEQUENCE)):
            remedy = f"Put ${{RNDMSEED}} or {SEQUENCE} into the value, or use type: constant"
            yield Problem(
                _at(params, item, "value"), item.value, "has no placeholder for a number", remedy
            )
        if item in seeds and item.offset != seeds[0].offset:
            rule = "the task has one sequence of seeds, with one offset"
            yield Problem(_at(params, item, "offset"), item.offset, rule, "Use the same offset")


def _placeholder_rules(params: TaskParams) -> Iterator[Problem]:
    known = SYSTEM | dict.fromkeys(streams(params), STREAM_FORMS)
    known |= {f"OUTPUT{i}": ("",) for i, _ in enumerate(params.items(OutputItem))}
    known |= {LIBRARY: ("",)} if params.build_spec else {}
    known |= {UNIT: ("",)} if params.splitter else {}
    yield from unfilled("transPath", params.trans_path, known)
    for item in params.job_parameters:
        for placeholder in placeholders(item.value):
            if problem := _placeholder_problem(placeholder, known):
                yield Problem(_at(params, item, "value"), placeholder.text, *problem)
            for rule, remedy in _unfed(params, placeholder):
                yield Problem(_at(params, item, "value"), placeholder.text, rule, remedy)
    templates = [(_at(params, item, "value"), item.value) for item in params.items(OutputItem)]
    if params.log is not None:
        templates.append(("log.value", params.log.value))
    for path, value in templates:
        for placeholder in placeholders(split_output(value)[1]):
            if placeholder.name == UNIT and params.splitter and is_option(placeholder.form):
                continue
            if placeholder.name not in IN_FILE_NAMES or (placeholder.form, placeholder.name) == (
                "M",
                "SN",
            ):
                remedy = "Use ${SN}, ${MIDDLENAME} and, for the task's number, $JEDITASKID"
                yield Problem(path, placeholder.text, "is not allowed in a file name", remedy)


def _unfed(params: TaskParams, found: Placeholder) -> Iterator[tuple[str, str]]:
    """Yield problems of placeholders that JEDI can fill only with another parameter."""
    if found.name == "MIDDLENAME" and not params.add_nth_field_to_lfn:
        yield "addNthFieldToLFN is missing", "Give the fields, such as addNthFieldToLFN: [2]"
    if found.name == "SURL" and not params.source_url:
        yield "the task has no source URL", "Give sourceURL"


def _placeholder_problem(
    found: Placeholder, known: dict[str, tuple[str, ...]]
) -> tuple[str, str] | None:
    """Return rule and remedy if JEDI can't fill the placeholder."""
    if found.name == UNIT in known:
        rule = f"needs the name of an option, such as ${{{UNIT}/SplitID}}"
        return None if is_option(found.form) else (rule, "Name one after the slash")
    if found.name in known:
        try:
            if Form.parse(found.form).kind in known[found.name]:
                return None
        except ValueError as error:
            return str(error), "Correct the form after the slash"
        forms = ", ".join(f"${{{found.name}{'/' + f if f else ''}}}" for f in known[found.name])
        return "has no such form", f"Use one of {forms}"
    if re.sub(r"\d+$", "", found.name.partition(":")[0]) in unsupported.PLACEHOLDERS:
        return NOT_YET, "Leave it out"
    otherwise = f"Write ${found.name} if it is a variable of the shell"
    return UNFILLED, suggest(found.name, known, otherwise)
