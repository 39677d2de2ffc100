"""Jobs come into being: everything about them in one transaction, in as many statements for one
job as for 10,000.

The caller holds the tasks (`tasks.fence`); files go ready → running directly, because the lease
has kept them. Rows come in by COPY, so there is no plan to go wrong; the one join has an index on
either side.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from jedi.core import states
from jedi.core.errors import JediError
from jedi.model.jobs.generation import EventUse, InputUse, NewJobs, NewSeeds, SharedInput, TaskOrder
from jedi.taskbuffer.db import engine
from jedi.taskbuffer.db.copying import Block, copy_binary, copy_rows
from jedi.taskbuffer.db.statement import changes
from jedi.taskbuffer.jobs import jobs
from jedi.taskbuffer.tasks import dataset_rows

TaskJobs = Sequence[tuple[TaskOrder, NewJobs]]


def write_jobs(tx: Connection, batch: TaskJobs, agent: str) -> None:
    """Write the jobs of tasks with their files, parameters, logs and counters.

    Raises JediError if one of the files is no longer ready: then nothing may be kept.
    """
    _use_inputs(tx, batch)
    copy_rows(tx, "jedi_jobs", (_jobs(order, new) for order, new in batch))
    copy_rows(
        tx,
        "jedi_job_params",
        (
            {
                "pandaid": list(new.panda_ids),
                "jobparameters": list(new.commands),
                "texts": _texts(new),
            }
            for _, new in batch
        ),
    )
    copy_rows(tx, "jedi_dataset_contents", (b for one in batch for b in _contents(*one)))
    copy_rows(tx, "jedi_job_files", (b for one in batch for b in _job_files(*one)))
    copy_rows(tx, "jedi_events", (_events(order, e) for order, new in batch for e in new.events))
    copy_rows(tx, "jedi_job_ready", (_ready(order, new) for order, new in batch))
    copy_rows(tx, "jedi_jobs_statuslog", (_log(order, new, agent) for order, new in batch))
    copy_rows(tx, "jedi_job_retry_history", (_retries(order, new) for order, new in batch))
    jobs.append_deltas(tx, [row for one in batch for row in _deltas(*one)])
    _count(tx, batch)
    _open_outputs(tx, batch, agent)
    engine.wake(tx, *sorted({f"job:{s}" for _, new in batch for s in new.statuses}))


# -------------------------------------------------------------------------------- input files

_MAP = changes("""
CREATE TEMP TABLE IF NOT EXISTS jedi_gen_map
  (fileid bigint PRIMARY KEY, pandaid bigint, place smallint) ON COMMIT DELETE ROWS
""")
_ROW = np.dtype(
    [
        ("fields", ">i2"),
        ("l1", ">i4"),
        ("fileid", ">i8"),
        ("l2", ">i4"),
        ("pandaid", ">i8"),
        ("l3", ">i4"),
        ("place", ">i2"),
    ]
)

# The rows to look at are given as ranges of the ready index, three for each task at most: one range
# for all would read what lies between. The planner knows neither these ranges nor, in a new
# database, the files: without the map's key it paired all files with the whole map, for minutes.
_USE = """
WITH u AS (
  UPDATE jedi_dataset_contents c SET status = 'running', pandaid = m.pandaid,
    attemptnr = c.attemptnr + 1, lastattempttime = jedi_now(), proc_status = 'queued'
  FROM jedi_gen_map m WHERE c.fileid = m.fileid AND c.ready AND ({ranges})
  RETURNING c.*, m.place
)
INSERT INTO jedi_job_files (pandaid, fileid, jeditaskid, datasetid, type, lfn, source_name,
  endpoint, fsize, checksum, guid, n_events, start_event, end_event)
SELECT pandaid, fileid, jeditaskid, datasetid, type, lfn,
  CASE type WHEN 'pseudo_input' THEN CAST(:paths AS jsonb) ->> concat(jeditaskid, ' ', lfn) END,
  (CAST(:endpoints AS text[]))[place], fsize, checksum, guid, nevents, startevent, endevent
FROM u
"""
_RANGE = "c.datasetid = ANY(:d{n}) AND c.fileid BETWEEN :a{n} AND :b{n}"


def _use_inputs(tx: Connection, batch: TaskJobs) -> None:
    """Files go to their jobs, and into the jobs' lists of files."""
    _MAP.run(tx)
    endpoints = sorted({name for _, new in batch for name in new.endpoints})
    paths = {f"{o.jedi_task_id} {lfn}": path for o, new in batch for lfn, path in new.paths.items()}
    values: dict[str, Any] = {"endpoints": endpoints, "paths": json.dumps(paths)}
    uses = [(use, new.endpoints) for _, new in batch for use in new.inputs]
    for n, (use, _) in enumerate(uses):
        first, last = int(use.file_ids.min()), int(use.file_ids.max())
        values |= {f"d{n}": list(use.used), f"a{n}": first, f"b{n}": last}
    rows = [_map_rows(use, names, endpoints).tobytes() for use, names in uses]
    copy_binary(tx, "jedi_gen_map", b"".join(rows))
    ranges = " OR ".join(f"({_RANGE.format(n=n)})" for n in range(len(uses)))
    used = changes(_USE.format(ranges=ranges)).run(tx, **values)
    wanted = sum(len(use.file_ids) for use, _ in uses)
    if used != wanted:
        raise JediError(
            f"{wanted - used} of {wanted} input files are no longer ready.",
            code="inputs_changed",
            wanted=wanted,
            ready=used,
        )


def _map_rows(use: InputUse, names: Sequence[str], endpoints: Sequence[str]) -> NDArray[Any]:
    """Rows of jedi_gen_map in PostgreSQL's binary format."""
    rows = np.zeros(len(use.file_ids), _ROW)
    rows["fields"], rows["l1"], rows["l2"], rows["l3"] = 3, 8, 8, 2
    rows["fileid"], rows["pandaid"] = use.file_ids, use.panda_ids
    rows["place"] = np.array([0, *(1 + endpoints.index(name) for name in names)])[use.places]
    return rows


# ---------------------------------------------------------------------------------- new rows


def _jobs(order: TaskOrder, new: NewJobs) -> Block:
    return {
        **order.columns,
        **({"kind": list(new.kinds)} if new.kinds else {}),
        "pandaid": list(new.panda_ids),
        "originpandaid": list(new.origins),
        "unit_nr": list(new.units),
        "attemptnr": list(new.attempts),
        "priority": list(new.priorities),
        "status": list(new.statuses),
        "site": list(new.sites),
        "cores": list(new.cores),
        "memory_mb": list(new.memory_mb),
        "walltime_s": list(new.walltime_s),
        "disk_mb": list(new.disk_mb),
        "n_inputs": list(new.n_inputs),
        "n_events": list(new.n_events),
    }


def _texts(new: NewJobs) -> list[str] | None:
    """The files made for each job, as JSON."""
    if not new.texts:
        return None
    columns = zip(*new.texts.values(), strict=True)
    return [json.dumps(dict(zip(new.texts, texts, strict=True))) for texts in columns]


def _contents(order: TaskOrder, new: NewJobs) -> Iterator[Block]:
    """Outputs to be made, and seeds made for these jobs."""
    for one in new.outputs:
        merged = one.output.type in states.PRE_MERGE_TYPES
        yield {
            "fileid": list(one.file_ids),
            "datasetid": [dataset.dataset_id for dataset in one.datasets],
            "jeditaskid": order.jedi_task_id,
            "lfn": list(one.lfns),
            "type": one.output.type.removeprefix("tmpl_"),
            "scope": one.output.dataset.name.partition(":")[0],
            # what is to be merged is an input of later jobs, not tried yet
            "status": "pending" if merged else "defined",
            "attemptnr": 0 if merged else list(new.attempts),
            "keeptrack": 1,
            "pandaid": list(new.panda_ids),
            "outpandaid": list(new.panda_ids),
            "proc_status": "queued",
            "boundaryid": list(new.boundaries),
        }
    if new.seeds:
        yield {
            "fileid": list(new.seeds.file_ids),
            "datasetid": new.seeds.dataset_id,
            "jeditaskid": order.jedi_task_id,
            "lfn": list(map(str, new.seeds.numbers)),
            "type": "random_seed",
            "scope": None,
            "status": "running",
            "attemptnr": 1,
            "keeptrack": 1,
            "pandaid": list(new.seeds.panda_ids),
            "outpandaid": None,
            "proc_status": "queued",
            "boundaryid": None,
        }


def _job_files(order: TaskOrder, new: NewJobs) -> Iterator[Block]:
    """Files of jobs that `_use_inputs` did not list."""
    for one in new.outputs:
        yield {
            "pandaid": list(new.panda_ids),
            "fileid": list(one.file_ids),
            "jeditaskid": order.jedi_task_id,
            "datasetid": [dataset.dataset_id for dataset in one.datasets],
            "type": one.output.role,
            "lfn": list(one.lfns),
            "source_name": one.output.source_name,
            "endpoint": list(one.endpoints),
            "fsize": None,
            "n_events": None,
        }
    for shared in new.shared:
        yield _shared(order, shared, [None, *new.endpoints])
    if new.seeds:
        yield _seeds(order, new.seeds)


def _shared(order: TaskOrder, shared: SharedInput, endpoints: Sequence[str | None]) -> Block:
    files, at = shared.stream, shared.files
    return {
        "pandaid": shared.panda_ids.tolist(),
        "fileid": files.file_ids[at].tolist(),
        "jeditaskid": order.jedi_task_id,
        "datasetid": files.dataset_ids[at].tolist(),
        "type": "input",
        "lfn": [files.lfns[i] for i in at.tolist()],
        "source_name": None,
        "endpoint": [endpoints[place] for place in shared.places.tolist()],
        "fsize": files.sizes[at].tolist(),
        "n_events": [n or None for n in files.events[at].tolist()],
    }


def _seeds(order: TaskOrder, seeds: NewSeeds) -> Block:
    return {
        "pandaid": list(seeds.panda_ids),
        "fileid": list(seeds.file_ids),
        "jeditaskid": order.jedi_task_id,
        "datasetid": seeds.dataset_id,
        "type": "random_seed",
        "lfn": list(map(str, seeds.numbers)),
        "source_name": None,
        "endpoint": None,
        "fsize": None,
        "n_events": None,
    }


def _events(order: TaskOrder, use: EventUse) -> Block:
    return {
        "jeditaskid": order.jedi_task_id,
        "datasetid": use.dataset_ids.tolist(),
        "fileid": use.file_ids.tolist(),
        "status": states.EVENT_CODES["ready"],
        "pandaid": use.panda_ids.tolist(),
        "job_processid": 0,
        "def_min_eventid": use.starts.tolist(),
        "def_max_eventid": use.ends.tolist(),
        "attemptnr": use.attempts.tolist(),
        "event_offset": use.offsets.tolist(),
    }


def _ready(order: TaskOrder, new: NewJobs) -> Block:
    """The queue of activated jobs."""

    def activated(column: Sequence[Any]) -> list[Any]:
        found = zip(column, new.statuses, strict=True)
        return [value for value, status in found if status == "activated"]

    return {
        "pandaid": activated(new.panda_ids),
        "site": activated(new.sites),
        "gshare": order.columns["gshare"],
        "priority": activated(new.priorities),
        "cores": activated(new.cores),
        "memory_mb": activated(new.memory_mb),
        "walltime_s": activated(new.walltime_s),
        "disk_mb": activated(new.disk_mb),
    }


def _log(order: TaskOrder, new: NewJobs, agent: str) -> Block:
    return {
        "pandaid": list(new.panda_ids),
        "jeditaskid": order.jedi_task_id,
        "status": list(new.statuses),
        "agent": agent,
        "reason_code": "generated",
        "reason": "generated",
    }


def _retries(order: TaskOrder, new: NewJobs) -> Block:
    return {
        "jeditaskid": order.jedi_task_id,
        "oldpandaid": [one.old for one in new.retries],
        "newpandaid": [one.new for one in new.retries],
        "relationtype": [one.relation for one in new.retries],
        "originpandaid": [one.origin for one in new.retries],
    }


# ---------------------------------------------------------------------------------- counters


def _deltas(order: TaskOrder, new: NewJobs) -> Iterator[dict[str, Any]]:
    """The new jobs by site and status."""
    found = Counter(zip(new.sites, new.statuses, new.cores, strict=True))
    for (site, status, cores), count in found.items():
        yield {
            "site": site,
            "workqueue": order.work_queue,
            "gshare": order.columns["gshare"],
            "resource_type": order.columns["resource_type"],
            "status": status,
            "jobs": count,
            "cores": count * cores,
        }


_COUNT = changes("""
WITH m AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:made AS bigint[]), CAST(:used AS bigint[]))
    m(id, made, used)
), old AS (  -- in one order, as those do who end jobs
  SELECT d.datasetid FROM jedi_datasets d JOIN m ON d.datasetid = m.id
  ORDER BY d.datasetid FOR NO KEY UPDATE OF d
)
UPDATE jedi_datasets d SET nfiles = nfiles + made, nfilesused = nfilesused + used,
  nfilestobeused = nfilestobeused + CASE WHEN d.type = 'random_seed' THEN made ELSE 0 END,
  modificationtime = jedi_now()
FROM m JOIN old ON old.datasetid = m.id WHERE d.datasetid = m.id
""")
_ADVANCE = changes("""
UPDATE jedi_output_template o SET serialnr = m.last
FROM unnest(CAST(:ids AS bigint[]), CAST(:last AS int[])) m(id, last) WHERE o.outtempid = m.id
""")


def _count(tx: Connection, batch: TaskJobs) -> None:
    """Counters of datasets, and serial numbers."""
    used: Counter[int] = Counter()
    made: Counter[int] = Counter()
    serials: dict[int, int] = {}
    for _, new in batch:
        for use in new.inputs:
            used.update(use.used)
        for one in new.outputs:
            made.update(dataset.dataset_id for dataset in one.datasets)
            serials[one.output.template_id] = one.serials[-1]
        if new.seeds:
            made[new.seeds.dataset_id] += len(new.seeds.file_ids)
            used[new.seeds.dataset_id] += len(new.seeds.file_ids)
    ids = sorted({*used, *made})
    _COUNT.run(tx, ids=ids, made=[made[i] for i in ids], used=[used[i] for i in ids])
    _ADVANCE.run(tx, ids=list(serials), last=list(serials.values()))


def _open_outputs(tx: Connection, batch: TaskJobs, agent: str) -> None:
    """Output datasets, which data management knows by now, begin to fill."""
    outputs = [one for _, new in batch for one in new.outputs]
    filled = {*(one.output.dataset for one in outputs), *chain(*(one.datasets for one in outputs))}
    status = {dataset.dataset_id: dataset.status for dataset in filled}
    for before, after, code in (
        ("defined", "ready", "registered"),
        ("ready", "running", "jobs_generated"),
    ):
        moves = [(dataset, after) for dataset, now in status.items() if now == before]
        dataset_rows.move_datasets(tx, moves, agent, code)
        status |= dict(moves)
