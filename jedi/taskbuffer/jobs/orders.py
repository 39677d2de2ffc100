"""Input of the job generator: tasks that want jobs, their ready files, fresh ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from jedi.core import states
from jedi.model.datasets import physical
from jedi.model.datasets.dataset import Attributes
from jedi.model.jobs.demand import Demand
from jedi.model.jobs.generation import (
    CommandTemplate,
    Input,
    JobOutput,
    OutputDataset,
    Predecessor,
    TaskOrder,
)
from jedi.model.sites.request import Request
from jedi.model.splitting.split_rules import TO_PREPROCESS, SplitRules
from jedi.model.tasks.rows import ClaimedTask
from jedi.taskbuffer.db.sql_lists import JOB_MAKING_TYPES
from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.scheduling import task_order
from jedi.taskbuffer.scheduling.task_order import Stopped
from jedi.taskbuffer.sites.sites import SPACES
from jedi.taskbuffer.tasks import tasks

STATUSES: tuple[str, ...] = ("ready", "scouting", "running", "topreprocess", "preprocessing")
SCOUT_PRIORITY = 901

_ANY_WANTING = returns(bool)(f"""
SELECT EXISTS (SELECT FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
  WHERE {task_order.HAS_FILES} AND t.status = ANY(:statuses) AND {task_order.READY})
OR EXISTS (SELECT FROM jedi_tasks
  WHERE status = ANY(:merging) AND rules @> '{{"merge_output": true}}')
""")
_READ_TASKS = returns(ClaimedTask)(
    f"SELECT {tasks.COLUMNS} FROM jedi_tasks t WHERE jeditaskid = ANY(:ids)"
)


class InputRow(NamedTuple):
    """A dataset of which jobs are made."""

    jedi_task_id: int
    dataset_id: int
    dataset_name: str
    type: str
    stream_name: str
    master_id: int | None
    attributes: str | None
    n_files: int
    n_files_to_be_used: int
    n_files_used: int
    n_files_missing: int


_READ_INPUTS = returns(InputRow)(f"""
SELECT jeditaskid, datasetid, datasetname, type,
  streamname, masterid, attributes, nfiles,
  nfilestobeused, nfilesused,
  nfilesmissing
FROM jedi_datasets WHERE jeditaskid = ANY(:ids)
  AND type IN ({JOB_MAKING_TYPES}, 'random_seed') AND status IN ('ready', 'running')
ORDER BY datasetid
""")


class OutputRow(NamedTuple):
    """An output template with its dataset. `last_serial_nr`: of all tasks that fill the dataset;
    `spaces`: endpoints with its storage token, by site."""

    jedi_task_id: int
    template_id: int
    dataset_id: int
    file_name_template: str
    source_name: str | None
    max_serial_nr: int | None
    stream_name: str
    out_type: str
    dataset_name: str
    container_name: str | None
    status: str
    type: str
    destination: str | None
    last_serial_nr: int
    spaces: dict[str, str] | None


_READ_OUTPUTS = returns(OutputRow)(f"""
SELECT o.jeditaskid, o.outtempid AS template_id, o.datasetid,
  o.filenametemplate, o.sourcename,
  o.maxserialnr, o.streamname, o.outtype,
  d.datasetname, d.containername, d.status, d.type,
  d.destination, (
  -- other tasks may have filled the same dataset
  SELECT max(s.serialnr)
  FROM jedi_datasets e JOIN jedi_output_template s USING (jeditaskid, datasetid)
  WHERE e.datasetname = d.datasetname AND s.filenametemplate = o.filenametemplate
) AS last_serial_nr, {SPACES} AS spaces
FROM jedi_output_template o JOIN jedi_datasets d USING (jeditaskid, datasetid)
WHERE o.jeditaskid = ANY(:ids) ORDER BY o.outtempid
""")


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claimed task as it stands in the database."""

    row: ClaimedTask
    inputs: Sequence[InputRow]
    outputs: Sequence[OutputRow]
    params_template: str
    pfns: Sequence[str] = ()
    merge: Mapping[str, str] | None = None
    units: int | None = None

    @property
    def ready(self) -> int:
        """Master files that wait for jobs."""
        masters = [d for d in self.inputs if d.master_id is None]
        return sum(max(0, _ready(d)) for d in masters)

    def order(self, *, merging: bool = False, building: bool = False) -> TaskOrder:
        """The task for the generator; `merging`: for merge jobs, which make the outputs where
        others make what is merged. ValueError: the database holds what it does not know."""
        row = self.row
        rules = SplitRules.model_validate(row.rules or {})
        preparing = rules.use_pre_pro == TO_PREPROCESS
        command = CommandTemplate(row.trans_path, self.params_template)
        first, beside = (
            (_merge(self.merge, command), command) if rules.event_mode else (command, None)
        )
        return TaskOrder(
            jedi_task_id=row.jedi_task_id,
            lock_seq=row.lock_seq,
            status=row.status,
            vo=row.vo,
            label=row.prod_source_label,
            work_queue=row.workqueue_id or 0,
            sites=tuple(filter(None, (row.site or "").split(","))),
            trans_path=first.trans_path,
            params_template=first.template,
            beside=beside,
            rules=rules.of_scouts() if rules.scouting else rules,
            demand=Demand.of(row, rules.max_walltime_h).shared(rules.sharers),
            request=Request.of(row),
            inputs=tuple(map(_input, self.inputs)),
            paths={one.lfn: one.path for one in physical.files(self.pfns)},
            units=None if merging or building else self.units,
            outputs=tuple(
                _output(one)
                for one in self.outputs
                if (one.type == "pp_log") == preparing
                and (one.type == "lib") == building
                and (
                    building
                    or not rules.merge_output
                    or merging != (one.type in states.PRE_MERGE_TYPES)
                )
            ),
            columns={
                "jeditaskid": row.jedi_task_id,
                "taskid": row.req_id,
                "prodsourcelabel": row.prod_source_label,
                "processingtype": row.processing_type,
                "username": row.user_name,
                "vo": row.vo,
                "nucleus": row.nucleus,
                "workqueue_id": row.workqueue_id or 0,
                "gshare": row.gshare or "",
                "resource_type": row.resource_type or "",
                "kind": rules.job_kind,
                "priority": _priority(row, rules),
            },
        )


class JobParamsTemplate(NamedTuple):
    """The template of a task's job parameters, its list of physical file names, its esmergeSpec,
    and the number of its units, if it is a herd."""

    jedi_task_id: int
    template: str
    pfns: list[str] | None
    merge: dict[str, str] | None
    units: int | None


_PARAMS = returns(JobParamsTemplate)("""
SELECT j.jeditaskid, j.jobparamstemplate AS template,
  CASE WHEN t.rules @> '{"pfn_list": true}'
  THEN (SELECT p.taskparams -> 'pfnList' FROM jedi_taskparams p WHERE p.jeditaskid = t.jeditaskid)
  END AS pfns, CASE WHEN t.eventservice > 0
  THEN (SELECT p.taskparams -> 'esmergeSpec' FROM jedi_taskparams p
        WHERE p.jeditaskid = t.jeditaskid) END AS merge,
  (SELECT h.n_units FROM jedi_herds h WHERE h.jeditaskid = t.jeditaskid) AS units
FROM jedi_jobparams_template j JOIN jedi_tasks t USING (jeditaskid)
WHERE j.jeditaskid = ANY(:ids)
""")


def claim(
    tx: Connection, me: str, lease_s: float, limit: int, stopped: Sequence[Stopped] = ()
) -> list[Claimed]:
    """Take tasks that have ready files, those whose turn it is, with all that is known of their
    datasets; none of those that are `stopped`."""
    found = task_order.values(stopped)
    rows = tasks.claim_chosen(tx, task_order.NEXT, me, lease_s, limit=limit, **found)
    return _with_datasets(tx, rows) if rows else []


def any_wanting(tx: Connection, merging: Sequence[str]) -> bool:
    """Return True if a task wants jobs and nobody has it, whether the throttler lets it or not, or
    if a task in one of the statuses `merging` merges its outputs."""
    return _ANY_WANTING.value(tx, statuses=list(STATUSES), merging=list(merging))


def read(tx: Connection, task_ids: Sequence[int]) -> list[Claimed]:
    """Tasks with all that is known of their datasets, without a lease."""
    return _with_datasets(tx, read_tasks(tx, task_ids))


def read_tasks(tx: Connection, task_ids: Collection[int]) -> list[ClaimedTask]:
    """Rows of tasks, without a lease."""
    return _READ_TASKS.rows(tx, ids=sorted({*task_ids}))


def _with_datasets(tx: Connection, rows: Sequence[ClaimedTask]) -> list[Claimed]:
    ids = {"ids": [row.jedi_task_id for row in rows]}
    inputs = _by_task(_READ_INPUTS.rows(tx, **ids))
    outputs = outputs_of(tx, ids["ids"])
    templates = _PARAMS.rows(tx, **ids)
    params = {
        row.jedi_task_id: (row.template, row.pfns or (), row.merge, row.units) for row in templates
    }
    return [
        Claimed(
            row,
            inputs.get(row.jedi_task_id, []),
            outputs.get(row.jedi_task_id, []),
            *params.get(row.jedi_task_id, ("",)),
        )
        for row in sorted(rows, key=lambda row: (-(row.current_priority or 0), row.jedi_task_id))
    ]


def outputs_of(tx: Connection, task_ids: Sequence[int]) -> dict[int, list[OutputRow]]:
    """The output templates of tasks with their datasets."""
    return _by_task(_READ_OUTPUTS.rows(tx, ids=list(task_ids)))


def _merge(spec: Mapping[str, str] | None, command: CommandTemplate) -> CommandTemplate:
    """The command that merges pieces; without it the job makes what its copies make."""
    return (
        CommandTemplate(spec.get("transPath"), spec.get("jobParameters", "")) if spec else command
    )


def _priority(row: ClaimedTask, rules: SplitRules) -> int:
    """The priority of a task's jobs: scouts come before all others."""
    priority = int(row.current_priority or 0)
    return max(SCOUT_PRIORITY, priority + 1) if rules.scouting else priority


_OfTask = TypeVar("_OfTask", InputRow, OutputRow)


def _by_task(rows: Sequence[_OfTask]) -> dict[int, list[_OfTask]]:
    found: dict[int, list[_OfTask]] = {}
    for row in rows:
        found.setdefault(row.jedi_task_id, []).append(row)
    return found


def _ready(row: InputRow) -> int:
    """Files of a dataset that wait for jobs."""
    return int(row.n_files_to_be_used - row.n_files_used - row.n_files_missing)


def _input(row: InputRow) -> Input:
    return Input(
        dataset_id=row.dataset_id,
        name=row.dataset_name,
        type=row.type,
        stream=row.stream_name,
        master_id=row.master_id,
        attributes=Attributes.parse(row.attributes),
        n_files=row.n_files,
        ready=_ready(row),
        coming=row.n_files - row.n_files_to_be_used,
    )


def _output(row: OutputRow) -> JobOutput:
    return JobOutput(
        template_id=row.template_id,
        dataset=OutputDataset(row.dataset_id, row.dataset_name, row.status, row.container_name),
        type=row.type,
        role=row.out_type,
        stream=row.stream_name,
        template=row.file_name_template,
        source_name=row.source_name,
        serial_nr=row.last_serial_nr,
        max_serial_nr=row.max_serial_nr,
        destination=row.destination,
        spaces=row.spaces or {},
    )


class FreshIds(NamedTuple):
    """Ids of new jobs and files, ascending, and the last number of a unit of the task."""

    panda_ids: list[int]
    file_ids: list[int]
    last_unit: int


_IDS = returns(FreshIds)("""
SELECT ARRAY(SELECT nextval('jedi_panda_id_seq') FROM generate_series(1, :jobs)) AS panda_ids,
  ARRAY(SELECT nextval('jedi_file_id_seq') FROM generate_series(1, :files)) AS file_ids,
  greatest((SELECT max(unit_nr) FROM jedi_jobs WHERE jeditaskid = :task),
           (SELECT max(unit_nr) FROM jedi_jobs_archived WHERE jeditaskid = :task),
           (SELECT n_units FROM jedi_herds WHERE jeditaskid = :task), 0) AS last_unit
""")


def take_ids(tx: Connection, task_id: int, jobs: int, files: int) -> FreshIds:
    """Fresh ids, ascending, for jobs and for files, and the last number of a unit of the task."""
    (ids,) = _IDS.rows(tx, jobs=jobs, files=files, task=task_id)
    return ids


class EarlierJob(NamedTuple):
    """A job that had files before: see Predecessor."""

    panda_id: int
    origin: int
    unit_nr: int
    n_inputs: int
    kind: str
    kill_code: str | None


_EARLIER = returns(EarlierJob)("""
SELECT pandaid, originpandaid AS origin, unit_nr, n_inputs, kind, kill_code
FROM jedi_jobs
WHERE pandaid = ANY(:ids)
UNION ALL
SELECT pandaid, originpandaid, unit_nr, n_inputs, kind, kill_code FROM jedi_jobs_archived
WHERE pandaid = ANY(:ids)
""")


def earlier_jobs(tx: Connection, panda_ids: Sequence[int]) -> dict[int, Predecessor]:
    """Return the records of jobs that had these files before."""
    return {
        row.panda_id: Predecessor(row.origin, row.unit_nr, row.n_inputs, row.kind, row.kill_code)
        for row in _EARLIER.rows(tx, ids=list(panda_ids))
    }
