"""The dictionary that describes a task, typed. Keys are PanDA's (camelCase).

`text` reads it, `contradictions` compares its keys, `problems` puts errors into words,
`unsupported` lists legal JEDI that is not built yet. Source:
docs/reference/task-parameters.md#mandatory-keys-and-defaults.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from jedi.core import names
from jedi.model.datasets import physical
from jedi.model.datasets.dataset import Attributes
from jedi.model.splitting.given_rules import Flag, Rules
from jedi.model.tasks import period, placeholders
from jedi.model.tasks.output_containers import with_containers
from jedi.model.tasks.preprocessing import without_stand_ins

EVENT_CODES = {"es": 1, "cloning": 2, "fine": 3}
"""jedi_tasks.eventservice by mode (docs/reference/event-service.md#modes)."""
MAX_PRIORITY = 10_000
MAX_ATTEMPT = 1_000

_TaskId = Annotated[int, Field(ge=1, le=2**63 - 1)]
_Int4 = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Count = Annotated[int, Field(ge=1, le=2**31 - 1)]
_Word = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[!-~]+$")]
_Label = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=r"^[ -~]+$")]
MAX_TEXT = 100_000
_Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
_Positive = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
_Chance = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
_DiskUnit = Literal["kB", "MB", "GB", "kBPerEvent", "MBPerEvent", "GBPerEvent"]


def _dataset_list(text: str) -> str:
    return ",".join(":".join(names.dataset(name.strip())) for name in text.split(","))


def _site_list(text: str) -> str:
    sites = [name.strip() for name in text.split(",")]
    for name in sites:
        names.site(name.replace("*", "x"))
    return ",".join(sites)


def _term_condition(text: str) -> str:
    if not re.fullmatch(r"(100|\d{1,2}(\.\d)?)% of (files|events)", text):
        raise ValueError("is like '90% of files' or '99.5% of events'")
    return text


def _output_dataset(text: str) -> str:
    name = names.scoped(text.removesuffix("/"))
    names.dataset(placeholders.longest_name(name) + ".log")  # the default of logs
    return name


def _output_value(text: str) -> str:
    template = placeholders.split_output(text)[1]
    if placeholders.SERIAL not in template:
        raise PydanticCustomError(
            "no_serial_number",
            "every job and every new attempt makes a file of its own, so the name needs {serial}",
            {"serial": placeholders.SERIAL, "remedy": "End with a name like out.${SN}.txt"},
        )
    names.lfn(placeholders.longest_name(template))
    return text


def _input_file(text: str) -> str:
    dataset, _, lfn = text.rpartition("/")
    name = ":".join(names.dataset(dataset)) + "/" if dataset else ""
    return name + names.lfn(lfn)


def _attributes(text: str) -> str:
    return Attributes.parse(text).render()


def _option(value: Any, depth: int = 0) -> Any:
    """A text or a number, or a list of them; lists may have lists as elements."""
    if isinstance(value, list) and depth < 2:
        return [_option(one, depth + 1) for one in value]
    if isinstance(value, str) and len(value) <= MAX_TEXT:
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        return str(value)
    raise ValueError(f"must be a text (at most {MAX_TEXT} characters), a number, or a list of them")


_Period = Annotated[str, AfterValidator(period.written)]
_Site = Annotated[str, AfterValidator(names.site)]
_TermCondition = Annotated[str, AfterValidator(_term_condition)]
_SiteList = Annotated[str, AfterValidator(_site_list)]
_Lfn = Annotated[str, AfterValidator(names.lfn)]
_InputFile = Annotated[str, AfterValidator(_input_file)]
_OutputDataset = Annotated[str, AfterValidator(_output_dataset)]
_OutputValue = Annotated[_Text, AfterValidator(_output_value)]


class _CamelModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)


class ParameterItem(_CamelModel):
    """A piece of the job parameters; with padding, a blank follows it; a hidden one is left out,
    one for the event service (es_only) in other tasks."""

    value: _Text
    padding: bool = True
    hidden: bool = False
    es_only: Flag = Field(default=None, alias="es_only")


class ConstantItem(ParameterItem):
    """Text that is the same for every job but for its placeholders."""

    type: Literal["constant"]


class TemplateItem(ParameterItem):
    """Text with a dataset or a number behind it."""

    type: Literal["template"]


ATTRIBUTE_KEYS = {
    "ratio": "ratio",
    "event_ratio": "event_ratio",
    "n_files_per_job": "per_job",
    "reusable": "reusable",
    "offset": "offset",
    "num_records": "records",
    "random": "random",
    "check": "check",
    "index_consistent": "index_consistent",
    "usedup": "duplicates",
    "pseudo": "pseudo",
}
"""Keys of an input item that are attributes of its datasets, and their names there."""


class InputItem(TemplateItem):
    """Input files; the first item of files is the master, later ones follow it.

    `include` and `exclude` are comma-separated patterns of file names, as in the shell; `files`
    names them, `dataset/file` one of a single dataset. `offset` and `num_records` take a part of
    the rest, by number; for the others see model.datasets.dataset.Attributes, whose short forms may
    stand in `attributes` instead."""

    param_type: Literal["input"] = Field(alias="param_type")
    dataset: Annotated[str, AfterValidator(_dataset_list)]
    container: _OutputDataset | None = None
    files: list[_InputFile] = []
    include: _Text | None = None
    exclude: _Text | None = None
    offset: _Int4 | None = None
    num_records: _Count | None = Field(default=None, alias="num_records")
    random: bool | None = None
    ratio: _Positive | None = None
    event_ratio: _Positive | None = None
    n_files_per_job: _Count | None = None
    reusable: bool | None = None
    check: bool | None = None
    index_consistent: bool | None = None
    usedup: bool | None = None
    pseudo: bool | None = None
    expand: bool | None = None
    consolidate: bool | None = None
    token: _Word | None = None
    attributes: Annotated[str, AfterValidator(_attributes)] | None = None

    @property
    def datasets(self) -> list[str]:
        """The names in the comma-separated list, each once."""
        return list(dict.fromkeys(self.dataset.split(",")))

    @property
    def split(self) -> Attributes:
        """The rules for the split of its datasets."""
        own = {name: getattr(self, key) for key, name in ATTRIBUTE_KEYS.items()}
        given = {name: value for name, value in own.items() if value is not None}
        return replace(Attributes.parse(self.attributes), **given)


class OutputItem(TemplateItem):
    """An output file of each job; the name follows the last `=` or blank of the value."""

    param_type: Literal["output"] = Field(alias="param_type")
    value: _OutputValue
    dataset: _OutputDataset
    container: _OutputDataset | None = None
    source_name: _Lfn | None = None
    max_serial_nr: _Count | None = None
    merge_only: Flag = None
    allow_no_output: Flag = None
    transient: Flag = None
    token: _Word | None = None
    destination: _Site | None = None

    @property
    def split(self) -> Attributes:
        """The attributes of its dataset."""
        return Attributes(no_output=bool(self.allow_no_output), transient=bool(self.transient))


class NumberItem(TemplateItem):
    """A number made by JEDI, ${RNDMSEED} or ${SEQNUMBER}; the offset is added to it."""

    param_type: Literal["number"] = Field(alias="param_type")
    offset: _Int4 = 0


class LogItem(_CamelModel):
    """The template of log files, instead of the default."""

    type: Literal["template"] = "template"
    param_type: Literal["log"] = Field(default="log", alias="param_type")
    value: _OutputValue
    dataset: _OutputDataset
    container: _OutputDataset | None = None


ITEM_MODELS: dict[str, type[ParameterItem]] = {
    "constant": ConstantItem,
    "input": InputItem,
    "output": OutputItem,
    "number": NumberItem,
}


def item_kind(item: Any) -> str | None:
    """Return the key of an item in ITEM_MODELS, or an unknown one; None: it names none."""
    if isinstance(item, ParameterItem):
        return next(kind for kind, model in ITEM_MODELS.items() if isinstance(item, model))
    given = item if isinstance(item, dict) else {}
    kind = "constant" if given.get("type") == "constant" else given.get("param_type")
    return kind if isinstance(kind, str) else None


AnyItem = Annotated[
    Annotated[ConstantItem, Tag("constant")]
    | Annotated[InputItem, Tag("input")]
    | Annotated[OutputItem, Tag("output")]
    | Annotated[NumberItem, Tag("number")],
    Discriminator(item_kind),
]

_ItemKind = TypeVar("_ItemKind", bound=ParameterItem)


class JobSpec(_CamelModel):
    """The command of special jobs. Other jobs run transPath and jobParameters of the task."""

    trans_path: _Text | None = None
    job_parameters: _Text = ""


class BuildSpec(JobSpec):
    """The build of the software: `${IN}` stands for archiveName, `${OUT}` for the result, `${SURL}`
    for sourceURL."""

    archive_name: _Lfn | None = None
    prod_source_label: _Word | None = None


class MergeSpec(JobSpec):
    """The command of merge jobs. `${TRN_OUTPUT0}` stands for the files to merge, with the forms of
    an input, and `${OUTPUT0}` for the merged one; `${TRN_OUTPUT:OUTPUT}` for all as `in1,in2:out`.
    Merge jobs always copy their inputs, as useLocalIO asks."""

    use_local_io: bool | int = Field(default=True, alias="useLocalIO")


_OptionName = Annotated[str, StringConstraints(max_length=128, pattern=r"^[A-Za-z_][\w.]*$")]
_Option = Annotated[Any, AfterValidator(_option)]


class SplitterSpec(_CamelModel):
    """The division of a herd: `name` is the split strategy, `options` are its own; `values` are the
    options that every child has, with variables. Source: docs/reference/herds.md."""

    name: _Word
    options: dict[_OptionName, _Option] = {}
    values: dict[_OptionName, _Option] = {}


class TaskParams(_CamelModel, Rules):
    """A task as submitted. None: unset; the reader of a value knows its default."""

    task_name: _Label
    job_parameters: list[AnyItem]
    user_name: _Label | None = None
    vo: _Word = "local"
    prod_source_label: _Word = "user"
    task_priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY)] | None = None
    current_priority: Annotated[int, Field(ge=0, le=MAX_PRIORITY)] | None = None
    task_type: Literal["anal", "prod"] | None = None
    processing_type: _Word = "generic"
    architecture: _Text = ""
    trans_uses: _Text = ""
    trans_home: _Text | None = None
    trans_path: _Text | None = None
    working_group: _Word | None = None
    country_group: _Word | None = None
    gshare: _Word | None = None
    work_queue_name: _Word | None = None
    campaign: _Label | None = None
    framework: _Label | None = None
    container_name: _Label | None = Field(default=None, alias="container_name")
    cli_params: _Text | None = None
    source_url: _Label | None = Field(default=None, alias="sourceURL")
    fixed_sandbox: _Label | None = None
    object_store: _Label | None = None
    transfer_type: _Label | None = None
    os_info: _Label | None = None
    ttcr_timestamp: _Label | None = None
    official: Flag = None
    no_email: Flag = None
    tar_ball_via_ddm: Flag = Field(default=None, alias="tarBallViaDDM")
    request_type: _Label | None = None
    ticket_id: _Label | None = Field(default=None, alias="ticketID")
    ticket_system_type: _Label | None = None
    req_id: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = Field(default=None, alias="reqID")
    core_count: Annotated[int, Field(ge=0, le=10_000)] = 1
    ram_count: _Int4 | None = None
    ram_unit: Literal["MB", "MBPerCore", "MBPerCoreFixed"] = "MBPerCore"
    base_ram_count: _Int4 | None = None
    cpu_time: _Int4 | None = None
    cpu_time_unit: Literal[
        "HS06sPerEvent", "mHS06sPerEvent", "HS06sPerEventFixed", "mHS06sPerEventFixed"
    ] = "HS06sPerEvent"
    walltime: _Int4 | None = None
    walltime_unit: Literal["sPerMB"] | None = None
    io_intensity: _Int4 | None = None
    io_intensity_unit: Literal["kBPerS"] | None = None
    cpu_efficiency: Annotated[int, Field(ge=0, le=100)] = 90
    base_walltime: _Int4 | None = None
    out_disk_count: _Int4 | None = None
    out_disk_unit: _DiskUnit = "kB"
    work_disk_count: _Int4 | None = None
    work_disk_unit: _DiskUnit = "kB"
    cloud: Annotated[str, AfterValidator(names.cloud)] | None = None
    site: _SiteList | None = None
    nucleus: _Site | None = None
    included_site: _SiteList | None = None
    excluded_site: _SiteList | None = None
    destination: _Site | None = None
    max_attempt: Annotated[int, Field(ge=1, le=MAX_ATTEMPT)] | None = None
    max_failure: Annotated[int, Field(ge=1, le=MAX_ATTEMPT)] | None = None
    no_input: bool = False
    pfn_list: list[Annotated[str, AfterValidator(physical.written)]] | None = None
    n_files: _Count | None = None
    n_events: _Count | None = None
    n_events_per_input_file: _Count | None = None
    tgt_num_events_per_job: _Count | None = None
    tgt_max_output_for_ng: _Positive | None = Field(default=None, alias="tgtMaxOutputForNG")
    n_max_files_per_job: _Count | None = None
    max_walltime: _Positive | None = None
    n_events_per_output_file: _Count | None = None
    skip_files_used_by: list[_TaskId] = []
    get_num_events_in_metadata: Flag = None
    use_in_files_with_new_attempt_nr: Flag = None
    use_in_files_in_container: Flag = None
    skip_short_input: Flag = None
    skip_short_output: Flag = None
    es_fraction: _Chance | None = None
    es_convertible: Flag = None
    esmerge_spec: JobSpec | None = None
    skip_scout: bool = False
    use_scout: bool = True
    goal_percent: Annotated[float, Field(gt=0, le=100, multiple_of=0.1)] | None = Field(
        default=None, alias="goal"
    )
    term_condition: _TermCondition | None = None
    no_throttle: Flag = None
    parent_task_name: _Label | None = None
    unique_task_name: Flag = None
    allow_task_duplication: Flag = None
    use_new_code: Flag = None
    lost_files: list[_Lfn] = []
    lost_files_dataset: Annotated[str, AfterValidator(_dataset_list)] | None = None
    recover_into: Literal["same", "new"] | None = None
    sandbox: list[Annotated[str, StringConstraints(min_length=1, max_length=4096)]] = []
    hold_jobs: list[Literal["manual_stage_in", "manual_stage_out", "user_request"]] = []
    log: LogItem | None = None
    merge_spec: MergeSpec | None = None
    merge_ram_count: _Int4 | None = None
    merge_core_count: Annotated[int, Field(ge=0, le=10_000)] | None = None
    log_merge: LogItem | None = Field(default=None, alias="log_merge")
    um_name_at_end: Flag = None
    prepro_spec: JobSpec | None = None
    splitter: SplitterSpec | None = None
    build_spec: BuildSpec | None = None
    period: _Period | None = None
    panda_data_carousel: Flag = Field(default=None, alias="panda_data_carousel")

    @model_validator(mode="before")
    @classmethod
    def _with_containers(cls, data: Any) -> Any:
        return with_containers(data) if isinstance(data, dict) else data

    @property
    def event_service(self) -> int | None:
        """The code of the way in which jobs get events while they run; None: they do not."""
        if self.use_job_cloning:
            return EVENT_CODES["cloning"]
        if self.fine_grained_proc:
            return EVENT_CODES["fine"]
        return EVENT_CODES["es"] if self.n_events_per_worker else None

    @property
    def pre_stages(self) -> Flag:
        """Return True if input is brought from tape first."""
        return self.input_pre_staging or self.panda_data_carousel

    @property
    def goal(self) -> int | None:
        """In tenths of a percent, as jedi_tasks has it."""
        return None if self.goal_percent is None else round(self.goal_percent * 10)

    def items(self, kind: type[_ItemKind]) -> list[_ItemKind]:
        """The job parameters of one kind, in order."""
        return [item for item in self.job_parameters if isinstance(item, kind)]

    def dump(self) -> dict[str, Any]:
        """The dictionary again, with the defaults filled in."""
        document = self.model_dump(by_alias=True, exclude_none=True)
        return without_stand_ins(document) if self.prepro_spec else document
