"""jedi_datasets and jedi_output_template: rows are made, and move from status to status."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import Connection

from jedi.model.datasets.dataset import NewDataset, OutputTemplate
from jedi.taskbuffer.db.statement import changes, returns

_INSERT = changes("""
WITH i AS (
  INSERT INTO jedi_datasets
    (datasetid, jeditaskid, datasetname, containername, masterid, provenanceid, type, vo, status,
     attributes, streamname, storagetoken, destination)
  SELECT r.datasetid, r.jeditaskid, r.datasetname, r.containername, r.masterid, r.provenanceid,
         r.type, t.vo, 'defined', r.attributes, r.streamname, r.storagetoken, r.destination
  FROM jsonb_populate_recordset(NULL::jedi_datasets, CAST(:rows AS jsonb)) r
  JOIN jedi_tasks t ON t.jeditaskid = r.jeditaskid
  RETURNING datasetid, jeditaskid, status
)
INSERT INTO jedi_datasets_statuslog (datasetid, jeditaskid, status, agent, reason_code, reason)
SELECT datasetid, jeditaskid, status, :agent, 'refined', 'refined' FROM i
""")


_INSERT_DATASETS = returns(int)("SELECT nextval('jedi_dataset_id_seq') FROM generate_series(1, :n)")


def insert_datasets(
    tx: Connection,
    tasks: Sequence[tuple[int, Sequence[NewDataset]]],
    agent: str,
    known: Mapping[int, Mapping[int, int]] = MappingProxyType({}),
) -> dict[int, list[int]]:
    """Insert the datasets of tasks; by task, the ids in the order given. Those that are `known`
    (task, position: id) have their rows."""
    has: dict[int, Mapping[int, int]] = {task_id: known.get(task_id, {}) for task_id, _ in tasks}
    wanted = sum(len(some) - len(has[task_id]) for task_id, some in tasks)
    fresh = iter(_INSERT_DATASETS.rows(tx, n=wanted))
    ids = {
        task_id: [has[task_id].get(i) or next(fresh) for i in range(len(some))]
        for task_id, some in tasks
    }

    def other(task_id: int, position: int | None) -> int | None:
        return None if position is None else ids[task_id][position]

    rows = [
        {
            "datasetid": dataset_id,
            "jeditaskid": task_id,
            "datasetname": dataset.name,
            "containername": dataset.container,
            "masterid": other(task_id, dataset.master),
            "provenanceid": other(task_id, dataset.provenance),
            "type": dataset.type,
            "attributes": dataset.attributes,
            "streamname": dataset.stream_name,
            "storagetoken": dataset.token,
            "destination": dataset.destination,
        }
        for task_id, some in tasks
        for i, (dataset_id, dataset) in enumerate(zip(ids[task_id], some, strict=True))
        if i not in has[task_id]
    ]
    _INSERT.run(tx, rows=json.dumps(rows), agent=agent)
    return ids


_INSERT_TEMPLATES = changes("""
INSERT INTO jedi_output_template
  (jeditaskid, datasetid, filenametemplate, sourcename, maxserialnr, streamname, outtype)
SELECT jeditaskid, datasetid, filenametemplate, sourcename, maxserialnr, streamname, outtype
FROM jsonb_populate_recordset(NULL::jedi_output_template, CAST(:rows AS jsonb))
""")


def insert_templates(
    tx: Connection, tasks: Sequence[tuple[int, Sequence[OutputTemplate], Sequence[int]]]
) -> None:
    """Insert the output templates of tasks: (task, templates, ids of the task's datasets)."""
    rows = [
        {
            "jeditaskid": task_id,
            "datasetid": dataset_ids[template.dataset],
            "filenametemplate": template.file_name_template,
            "sourcename": template.source_name,
            "maxserialnr": template.max_serial_nr,
            "streamname": template.stream_name,
            "outtype": template.out_type,
        }
        for task_id, templates, dataset_ids in tasks
        for template in templates
    ]
    _INSERT_TEMPLATES.run(tx, rows=json.dumps(rows))


_MOVE = changes("""
WITH m AS (
  SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:targets AS text[])) AS m(id, target)
), old AS (
  SELECT d.datasetid, d.status FROM jedi_datasets d JOIN m ON d.datasetid = m.id
  WHERE d.status <> m.target ORDER BY d.datasetid FOR NO KEY UPDATE OF d
), u AS (
  UPDATE jedi_datasets d SET status = m.target, modificationtime = jedi_now(),
    frozentime = CASE WHEN m.target IN ('done', 'finished', 'failed') THEN jedi_now() END
  FROM m JOIN old ON old.datasetid = m.id
  WHERE d.datasetid = m.id
  RETURNING d.datasetid, d.jeditaskid, old.status AS source, d.status
)
INSERT INTO jedi_datasets_statuslog
  (datasetid, jeditaskid, fromstatus, status, agent, reason_code, reason)
SELECT datasetid, jeditaskid, source, status, :agent, :code, :reason FROM u
""")


def move_datasets(
    tx: Connection,
    moves: Sequence[tuple[int, str]],
    agent: str,
    reason_code: str,
    reason: str | None = None,
) -> None:
    """Set statuses of datasets (id, status) and write the log; those that are there stay.

    The caller holds the task. An undeclared edge raises (the database refuses it).
    """
    if moves:
        _MOVE.run(
            tx,
            ids=[dataset_id for dataset_id, _ in moves],
            targets=[target for _, target in moves],
            agent=agent,
            code=reason_code,
            reason=reason or reason_code.replace("_", " "),
        )
