"""From task parameters to a task: columns, datasets, output templates, job parameters.

`Refiner` is the plug-in of the room: a use case of its own subclasses it and names the class as
entry point `jedi.refiner` (see agent/plugins.py). Source:
docs/reference/task-parameters.md#items-of-jobparameters.
"""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Literal

from jedi.core import names
from jedi.core.errors import Problem
from jedi.model.datasets import physical
from jedi.model.datasets.dataset import Attributes, DatasetType, NewDataset, OutputTemplate
from jedi.model.scheduling.resource_types import ResourceType, resource_type
from jedi.model.splitting.given_rules import Rules
from jedi.model.splitting.split_rules import CONSUMED, NO_SCOUT, TO_PREPROCESS, SplitRules
from jedi.model.tasks.contradictions import streams
from jedi.model.tasks.params import (
    InputItem,
    LogItem,
    NumberItem,
    OutputItem,
    ParameterItem,
    TaskParams,
)
from jedi.model.tasks.placeholders import (
    SEQUENCE,
    fill_task_id,
    placeholders,
    split_output,
    stream_of,
)
from jedi.model.tasks.refined import RefinedTask, TaskColumns
from jedi.taskrefiner.premerge import add_twins

PSEUDO_INPUT = "pseudo_dataset"
PSEUDO_SEEDS = "pseudo_RNDMSEED"
SEED = "RNDMSEED"
_CONTAINERS: dict[DatasetType, DatasetType] = {"output": "tmpl_output", "log": "tmpl_log"}
_CONVERTED = {"n_events_per_worker": 1, "resurrect_consumers": True, "core_count": 0}
"""Parameters of tasks that JEDI turns into event-service tasks."""
_PRESETS = {
    "not_discard_events": True,
    "dec_att_on_failed_es": True,
    "merge_es_on_os": True,
    "max_attempt_es": 1,
    "max_attempt_es_job": 0,
}
"""Rules that the task may give itself."""
_OF_HERDS = {"group_boundary_id": 4, "n_files_per_job": None}
"""The rules of herds: a job has the files of one unit, and its outputs have the unit's number."""
_LIMITED: dict[tuple[bool, bool], Literal["allow", "deny", "both"] | None] = {
    (False, False): None,
    (True, False): "allow",
    (False, True): "deny",
    (True, True): "both",
}
"""Rule LS, by whether sites are included and excluded."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A task to refine. `constituents`: the plain datasets behind each input name (a container
    has any number, a dataset is itself); `user_name` owns the task; `base_ram` has the MB of base
    memory by processingType, for tasks without baseRamCount."""

    jedi_task_id: int
    user_name: str
    params: TaskParams
    constituents: Mapping[str, Sequence[str]]
    resource_types: Sequence[ResourceType]
    base_ram: Mapping[str, float] = field(default_factory=dict)

    def base_ram_count(self) -> int | None:
        """MB of memory that do not grow with the cores.
        Source: docs/reference/estimates.md#memory."""
        p = self.params
        if p.base_ram_count is not None or not p.ram_unit.startswith("MBPerCore"):
            return p.base_ram_count
        known = self.base_ram.get(p.processing_type)
        return None if known is None else int(known)


@dataclass(frozen=True, slots=True)
class Refined:
    """The task is defined."""

    task: RefinedTask


@dataclass(frozen=True, slots=True)
class RepeatPreprocessing:
    """The task's pre-processing job is made once more."""


@dataclass(frozen=True, slots=True)
class Malformed:
    """The task can't run; it goes to broken."""

    problems: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class NotUnique:
    """Its owner has a task of this name, and wants no other."""

    earlier: int


@dataclass(frozen=True, slots=True)
class TryLater:
    """Something outside is not ready yet."""

    code: str
    reason: str
    wait_s: float


@dataclass(frozen=True, slots=True)
class OnTape:
    """All input is on tape: the first of these files of a dataset that is on disk is waited for."""

    dataset: str
    files: tuple[str, ...]


RefinerOutcome = Refined | RepeatPreprocessing | Malformed | NotUnique | TryLater | OnTape


class Refiner:
    """Refines tasks of any vo and prodSourceLabel."""

    def preprocessing(self, submission: Submission) -> Refined:
        """The part of a task that is known before its pre-processing job has reported: that job."""
        params = submission.params
        assert params.prepro_spec is not None
        spec, rules = params.prepro_spec, self.rules(params)
        user = names.task_scope(submission.user_name)
        name = f"{_as_name(params.task_name)}.{submission.jedi_task_id}.pp.log"
        placed = rules.model_dump(include={"included_site", "excluded_site", "limited_sites"})
        return Refined(
            RefinedTask(
                columns=replace(
                    self.columns(submission), trans_path=spec.trans_path, event_service=None
                ),
                rules=SplitRules(**placed, use_pre_pro=TO_PREPROCESS, n_files_per_job=1),
                datasets=(
                    NewDataset(PSEUDO_INPUT, "pp_input", "IN"),
                    NewDataset(f"{user}:{name}", "pp_log", "LOG0", provenance=0),
                ),
                templates=(OutputTemplate(1, f"{name}.${{SN}}.tgz", "LOG0", "log"),),
                job_params_template=spec.job_parameters,
                queue_name=params.work_queue_name,
            )
        )

    def refine(self, submission: Submission) -> RefinerOutcome:
        """The task behind a submission. Nothing outside the arguments is looked at."""
        submission = converted(submission)
        inputs = self.inputs(submission)
        if isinstance(inputs, Malformed):
            return inputs
        datasets, templates = self.outputs(submission, inputs)
        rules = self.rules(submission.params)
        if submission.params.merge_output:
            datasets, templates = add_twins(
                datasets, templates, len(inputs), submission.jedi_task_id, submission.params
            )
        if rules.in_containers:
            datasets = list(map(_as_container, datasets))
        if submission.params.build_spec:
            datasets, templates = _with_builds(submission, len(inputs), datasets, templates)
        return Refined(
            RefinedTask(
                columns=self.columns(submission),
                rules=rules,
                datasets=(*inputs, *datasets),
                templates=templates,
                job_params_template=self.job_params_template(submission.params),
                queue_name=submission.params.work_queue_name,
            )
        )

    def inputs(self, submission: Submission) -> tuple[NewDataset, ...] | Malformed:
        """Masters first: each dataset behind the first input; then every later input once for
        each master; then the random seeds, one sequence for the whole task."""
        params = submission.params
        items = [(item, self._plain(submission, item)) for item in params.items(InputItem)]
        if problems := tuple(_unfit(submission, items)):
            return Malformed(problems)
        if params.no_input or params.pfn_list:
            masters = [NewDataset(PSEUDO_INPUT, "pseudo_input", physical.STREAM)]
        else:
            item, plain = items.pop(0)
            masters = [_input(item, 0, name, container) for name, container in plain.items()]
        seen = {dataset.name for dataset in masters}
        followers: list[NewDataset] = []
        for position, (item, plain) in enumerate(items, 1):
            for name, container in plain.items():
                if name not in seen:
                    seen.add(name)
                    followers += [
                        _input(item, position, name, container, master)
                        for master in range(len(masters))
                    ]
        texts = " ".join(item.value for item in params.job_parameters)
        if SEED in {placeholder.name for placeholder in placeholders(texts)}:
            numbers = params.items(NumberItem)
            offset = next((item.offset for item in numbers if SEED in item.value), 0)
            shift = Attributes(offset=offset).render() or None
            followers.append(
                NewDataset(PSEUDO_SEEDS, "random_seed", SEED, master=0, attributes=shift)
            )
        return (*masters, *followers)

    def outputs(
        self, submission: Submission, inputs: Sequence[NewDataset]
    ) -> tuple[list[NewDataset], tuple[OutputTemplate, ...]]:
        """Output datasets (each once), with the template of every output and of the log."""
        params, task = submission.params, submission.jedi_task_id
        datasets: list[NewDataset] = []
        templates: list[OutputTemplate] = []
        for number, item in enumerate(params.items(OutputItem)):
            name, stream = fill_task_id(item.dataset, task), f"OUTPUT{number}"
            known = [dataset.name for dataset in datasets]
            if name not in known:
                datasets.append(
                    NewDataset(
                        name,
                        "output",
                        stream,
                        _container(item, task),
                        provenance=0,
                        token=item.token,
                        attributes=item.split.render() or None,
                        destination=item.destination or params.destination,
                    )
                )
            position = len(inputs) + (known.index(name) if name in known else len(known))
            template = fill_task_id(split_output(item.value)[1], task)
            templates.append(
                OutputTemplate(
                    position, template, stream, "output", item.source_name, item.max_serial_nr
                )
            )
        log, template = self.log(submission, datasets)
        templates.append(OutputTemplate(len(inputs) + len(datasets), template, "LOG0", "log"))
        logs = NewDataset(
            log,
            "log",
            "LOG0",
            _container(params.log, task),
            provenance=0,
            destination=params.destination,
        )
        return [*datasets, logs], tuple(templates)

    def log(self, submission: Submission, outputs: Sequence[NewDataset]) -> tuple[str, str]:
        """Dataset and file-name template of the logs: from the task, else named after the first
        output and the task."""
        params, task = submission.params, submission.jedi_task_id
        if params.log is not None:
            template = split_output(params.log.value)[1]
            return fill_task_id(params.log.dataset, task), fill_task_id(template, task)
        name = _as_name(params.task_name)
        user = names.task_scope(submission.user_name)
        dataset = outputs[0].name if outputs else f"{user}:{name}.{task}"
        return f"{dataset}.log", f"{name}.{task}.log.${{SN}}.tgz"

    def rules(self, params: TaskParams) -> SplitRules:
        """The split rules. Without input, a job takes one pseudo file by default."""
        one = 1 if params.no_input and not params.n_events_per_job else None
        shared = {name: getattr(params, name) for name in Rules.model_fields}
        return SplitRules(
            **shared
            | {
                "n_files_per_job": params.n_files_per_job or one,
                "first_event": params.first_event or None,
                "pfn_list": True if params.pfn_list else None,
                "use_build": True if params.build_spec else None,
                "allow_partial_finish": params.fine_grained_proc or params.allow_partial_finish,
                "input_pre_staging": params.pre_stages,
            }
            | (_OF_HERDS if params.splitter else {}),
            n_events_per_input=params.n_events_per_input_file,
            target_events_per_job=params.tgt_num_events_per_job,
            max_output_gb=params.tgt_max_output_for_ng,
            max_files_per_job=params.n_max_files_per_job,
            max_walltime_h=params.max_walltime,
            use_scout=None if _scouts(params) else NO_SCOUT,
            included_site=_listed(params.included_site),
            excluded_site=_listed(params.excluded_site),
            use_pre_pro=CONSUMED if params.prepro_spec else None,
            limited_sites=_LIMITED[bool(params.included_site), bool(params.excluded_site)],
        )

    def columns(self, submission: Submission) -> TaskColumns:
        """The task's own columns."""
        p = submission.params
        own = {f.name: getattr(p, f.name) for f in fields(TaskColumns) if hasattr(p, f.name)}
        base = submission.base_ram_count()
        shape = resource_type(
            submission.resource_types, p.core_count, p.ram_count, p.ram_unit, base
        )
        return TaskColumns(**own | {"base_ram_count": base}, resource_type=shape)

    def job_params_template(self, params: TaskParams) -> str:
        """The items' values, each followed by a blank; output names become ${OUTPUTn}."""
        parts: list[str] = []
        number = 0
        for item in params.job_parameters:
            value = item.value
            if isinstance(item, OutputItem):
                value = f"{split_output(value)[0]}${{OUTPUT{number}}}"
                number += 1
                if item.merge_only:
                    continue
            if isinstance(item, NumberItem) and item.offset:
                value = value.replace(SEQUENCE, f"{SEQUENCE[:-1]}/M[#+{item.offset}]}}")
            if not item.hidden and (params.event_service or not item.es_only):
                parts.append(value + _padding(item))
        text = "".join(parts).rstrip(" ").replace("${SURL}", params.source_url or "")
        return _in_files(text, streams(params)) if params.write_input_to_file else text

    def _plain(self, submission: Submission, item: InputItem) -> dict[str, str | None]:
        """The plain datasets behind an item, each with the container it came from."""
        containers: dict[str, str | None] = {}
        for name in item.datasets:
            for plain in submission.constituents[name]:
                containers.setdefault(plain, item.container or (None if plain == name else name))
        return containers


def converted(submission: Submission) -> Submission:
    """With the event service, if the lot falls on the task: esFraction is the chance. The lot is
    the task's own, so that a task refined again gets the same.
    Source: docs/reference/event-service.md#conversion."""
    params = submission.params
    if not params.es_fraction or params.event_service:
        return submission
    if random.Random(submission.jedi_task_id).random() >= params.es_fraction:
        return submission
    own = {name: params.model_dump(include={name})[name] for name in _PRESETS}
    presets = {name: value for name, value in _PRESETS.items() if own[name] is None}
    return replace(submission, params=params.model_copy(update=_CONVERTED | presets))


def names_of(params: TaskParams) -> list[str]:
    """The datasets and containers that input items name, each once."""
    items = params.items(InputItem)
    found = [name for item in items for name in (*item.datasets, item.container) if name]
    return list(dict.fromkeys(found))


def _unfit(
    submission: Submission, items: Iterable[tuple[InputItem, Collection[str]]]
) -> Iterator[Problem]:
    """Problems of items whose datasets data management knows otherwise or not at all."""
    for item, plain in items:
        if not plain:
            rule = "the container holds no dataset"
            yield Problem("jobParameters", item.dataset, rule, "Add datasets to it")
        members = submission.constituents[item.container] if item.container else plain
        for name in (name for name in plain if name not in members):
            rule = f"container {item.container} does not hold it"
            yield Problem("jobParameters", name, rule, "Correct one of the names")


def _container(item: OutputItem | LogItem | None, jedi_task_id: int) -> str | None:
    """The container of an item's dataset."""
    return fill_task_id(item.container, jedi_task_id) if item and item.container else None


def _as_container(dataset: NewDataset) -> NewDataset:
    """The dataset as a container if people get it; a dataset to be merged stays plain."""
    kind = _CONTAINERS.get(dataset.type)
    return dataset if kind is None else replace(dataset, type=kind)


def _with_builds(
    submission: Submission,
    n_inputs: int,
    datasets: Sequence[NewDataset],
    templates: Sequence[OutputTemplate],
) -> tuple[list[NewDataset], tuple[OutputTemplate, ...]]:
    """With a pseudo dataset that has a file for each build, and the dataset of the builds."""
    user = names.task_scope(submission.user_name)
    name = f"{_as_name(submission.params.task_name)}.{submission.jedi_task_id}"
    shared = Attributes(nosplit=True, repeat=True).render()
    libraries = n_inputs + len(datasets) + 1
    return [
        *datasets,
        NewDataset("pseudo_build", "pp_input", "BUILD", master=0),
        NewDataset(f"{user}:{name}.lib", "lib", "LIB", provenance=0, attributes=shared),
    ], (
        *templates,
        OutputTemplate(libraries, f"{name}.${{SN}}.lib.tgz", "LIB0", "output"),
        OutputTemplate(libraries, f"{name}.${{SN}}.log.tgz", "LIBLOG0", "log"),
    )


def _scouts(params: TaskParams) -> bool:
    """Return True if scouts are wanted: a job at a time is its own scout, consumers measure, and a
    herd's units are known at once."""
    alone = params.period or params.event_service or params.splitter
    return params.use_scout and not (params.skip_scout or alone)


def _listed(text: str | None) -> list[str] | None:
    return text.split(",") if text else None


def _in_files(text: str, names: Collection[str]) -> str:
    """The template with the name of a file wherever names of input files would stand."""
    for placeholder in placeholders(text):
        if placeholder.name in names:
            text = text.replace(placeholder.text, f"${{{placeholder.name}/F}}")
    return text


def _padding(item: ParameterItem) -> str:
    return " " if item.padding else ""


def _input(
    item: InputItem, position: int, name: str, container: str | None, master: int | None = None
) -> NewDataset:
    return NewDataset(
        name=name,
        type="input",
        stream_name=stream_of(item.value, position),
        container=container,
        master=master,
        attributes=item.split.render() or None,
        token=item.token,
    )


def _as_name(text: str, longest: int = 150) -> str:
    """A text as a piece of a file name."""
    word = re.sub(r"[^A-Za-z0-9._-]|\.(?=\.)", "_", text)[:longest].rstrip(".")
    return names.lfn(word if word[:1].isalnum() else f"_{word}"[:longest])
