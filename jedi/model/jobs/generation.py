"""Input and results of the job generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from jedi.core.states import TEMPLATE_TYPES
from jedi.model.arrays import Ints
from jedi.model.datasets.chunk import Files
from jedi.model.datasets.dataset import Attributes
from jedi.model.jobs.demand import Demand
from jedi.model.jobs.events import WAITING_CO_JUMBO, NewJobSets
from jedi.model.sites.request import Request
from jedi.model.splitting.split_rules import SplitRules
from jedi.model.splitting.units import OptionValue

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Input:
    """An input dataset of a task; `ready` files of a master wait for jobs, `coming` ones are not
    released yet: they come from tape, say."""

    dataset_id: int
    name: str
    type: str
    stream: str
    master_id: int | None
    attributes: Attributes
    n_files: int
    ready: int
    coming: int = 0


@dataclass(frozen=True, slots=True)
class OutputDataset:
    """A dataset of outputs. `container`: the one that it belongs to, if any."""

    dataset_id: int
    name: str
    status: str
    container: str | None = None


@dataclass(frozen=True, slots=True)
class JobOutput:
    """An output template with its dataset; serial numbers up to `serial_nr` are used up. `role` of
    a file in the job that makes it: output or log; its dataset's `type` may be another.
    `destination` is the endpoint where the files go, None: where the job runs, at one of `spaces`
    (by site) if its storage token is known there. Of a template type are containers: `at_sites` has
    the datasets in them by the site whose jobs fill them."""

    template_id: int
    dataset: OutputDataset
    type: str
    role: str
    stream: str
    template: str
    source_name: str | None
    serial_nr: int
    max_serial_nr: int | None
    destination: str | None
    spaces: Mapping[str, str] = field(default_factory=dict)
    at_sites: Mapping[str, OutputDataset] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommandTemplate:
    """A command with placeholders."""

    trans_path: str | None
    template: str


@dataclass(frozen=True, slots=True)
class HerdUnit:
    """A unit of a herd: the PandaID of its first attempt, which has not been made if `is_new`, and
    the options that its placeholders stand for."""

    unit_nr: int
    origin: int
    is_new: bool
    options: Mapping[str, OptionValue]


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """A claimed task that wants jobs. All jobs share the `columns` of jedi_jobs but the priority,
    which falls by one with every `jobs_per_step` jobs, 0: never, that the owner has already; these
    are `jobs_before`. `beside`: the command of further jobs for the same inputs, if any. `paths`:
    paths of inputs by LFN, if the task names them. `units` of a herd; None: another task."""

    jedi_task_id: int
    lock_seq: int
    status: str
    vo: str
    label: str
    work_queue: int
    sites: tuple[str, ...]
    trans_path: str | None
    params_template: str
    beside: CommandTemplate | None
    rules: SplitRules
    demand: Demand
    request: Request
    inputs: tuple[Input, ...]
    outputs: tuple[JobOutput, ...]
    columns: Mapping[str, Any]
    jobs_before: int = 0
    jobs_per_step: int = 0
    units: int | None = None
    paths: Mapping[str, str] = field(default_factory=dict)

    @property
    def masters(self) -> list[Input]:
        """Datasets whose files make jobs."""
        return [one for one in self.inputs if one.master_id is None and one.type != "random_seed"]

    @property
    def containers(self) -> list[int]:
        """Outputs whose datasets are made for the jobs that fill them."""
        ids = (one.dataset.dataset_id for one in self.outputs if one.type in TEMPLATE_TYPES)
        return list(dict.fromkeys(ids))

    @property
    def seeds(self) -> Input | None:
        """The random seeds of the task's jobs."""
        return next((one for one in self.inputs if one.type == "random_seed"), None)


@dataclass(frozen=True, slots=True)
class Predecessor:
    """An earlier job: the origin and the unit it stands for, how many inputs it had, its kind,
    why it was killed, if it was."""

    origin: int
    unit: int
    n_inputs: int
    kind: str = "normal"
    kill_code: str | None = None


@dataclass(frozen=True, eq=False)
class InputUse:
    """The ready files of each job, and the number of files used of each dataset. `places` are
    positions in the endpoints of NewJobs, counted from 1, of where the file is read (0: it is not
    real)."""

    used: Mapping[int, int]
    file_ids: Ints
    panda_ids: Ints
    places: NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class SharedInput:
    """The files of each job from a stream whose use is not kept track of; `files` are positions
    in `stream`."""

    stream: Files
    files: Ints
    panda_ids: Ints
    places: NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class EventUse:
    """The events that each job processes: rows of contents, first and last event in the file, and
    how many events lie before the file's first."""

    file_ids: Ints
    dataset_ids: Ints
    panda_ids: Ints
    attempts: Ints
    starts: Ints
    ends: Ints
    offsets: Ints

    def of(self, panda_ids: Set[int], *, within: bool = True) -> EventUse:
        """The rows of these jobs, or of all others."""
        at = np.isin(self.panda_ids, [*panda_ids]) == within
        return EventUse(*(getattr(self, one.name)[at] for one in fields(self)))


@dataclass(frozen=True, eq=False)
class NewOutput:
    """The files of one output template, one for each job, their serial numbers, and the datasets
    they go to."""

    output: JobOutput
    serials: Sequence[int]
    datasets: Sequence[OutputDataset]
    file_ids: Sequence[int]
    lfns: Sequence[str]
    endpoints: Sequence[str]


@dataclass(frozen=True, slots=True)
class NewSeeds:
    """Random seeds made for the last of the jobs."""

    dataset_id: int
    file_ids: Sequence[int]
    numbers: Sequence[int]
    panda_ids: Sequence[int]


@dataclass(frozen=True, slots=True)
class Retry:
    """A job takes over from an earlier one, or merges its outputs."""

    old: int
    new: int
    origin: int
    relation: str = "retry"


@dataclass(frozen=True, eq=False)
class NewJobs:
    """The jobs of one task, column by column; 0 MB, 0 s: not known. Outputs have the boundary id of
    their job, if any. Inputs stand apart by masters, secondaries and seeds; `paths` says where
    those lie whose paths the task gives; `events` of masters whose jobs have records of ranges;
    `texts` are files made for each job, by name; `beside` are commands of further jobs, in which
    $PANDAID stands; `sets`: the jobs wait for consumers of their events, but for ordinary ones by
    their `kinds`; None: all have the task's kind."""

    panda_ids: Sequence[int]
    origins: Sequence[int]
    units: Sequence[int]
    attempts: Sequence[int]
    sites: Sequence[str]
    statuses: Sequence[str]
    priorities: Sequence[int]
    cores: Sequence[int]
    memory_mb: Sequence[int]
    walltime_s: Sequence[int]
    disk_mb: Sequence[int]
    n_inputs: Sequence[int]
    n_events: Sequence[int | None]
    commands: Sequence[str]
    beside: Sequence[str]
    texts: Mapping[str, Sequence[str]]
    inputs: Sequence[InputUse]
    paths: Mapping[str, str]
    events: Sequence[EventUse]
    endpoints: Sequence[str]
    outputs: Sequence[NewOutput]
    boundaries: Sequence[int | None]
    shared: Sequence[SharedInput]
    seeds: NewSeeds | None
    retries: Sequence[Retry]
    sets: NewJobSets | None
    kinds: Sequence[str] | None = None

    def __len__(self) -> int:
        return len(self.panda_ids)

    @property
    def of_sets(self) -> NewJobs:
        """The columns of the jobs that wait for consumers."""
        kinds = self.kinds
        if kinds is None:
            return self

        def those(column: Sequence[T]) -> list[T]:
            return [one for one, kind in zip(column, kinds, strict=True) if kind == "es_merge"]

        return replace(
            self,
            panda_ids=those(self.panda_ids),
            sites=those(self.sites),
            priorities=those(self.priorities),
            cores=those(self.cores),
            memory_mb=those(self.memory_mb),
            walltime_s=those(self.walltime_s),
            disk_mb=those(self.disk_mb),
            beside=those(self.beside),
            texts={name: those(texts) for name, texts in self.texts.items()},
        )

    @property
    def waits(self) -> bool:
        """Return True if the jobs have no site yet: placeholders stand for their consumers."""
        return self.sites[:1] == [WAITING_CO_JUMBO]

    @property
    def places(self) -> list[str]:
        """The site of each job that pilots get: of the consumers, if the jobs wait for these."""
        if self.sets is None:
            return list(self.sites)
        kinds = self.kinds or ()
        ordinary = [s for s, kind in zip(self.sites, kinds, strict=False) if kind != "es_merge"]
        return [one.site or "" for one in self.sets.consumers] + ordinary
