"""Output datasets that are made where jobs need them: one for each site, or one for a while, in a
container of the name that the task gives.

Source: JEDI document, "Workflow for analysis"; docs/reference/inputs.md#output-datasets.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.core.errors import LockLost
from jedi.model.jobs.generation import OutputDataset, TaskOrder
from jedi.taskbuffer.db.sql_lists import PRODUCT_TYPES, TASK_FINAL, TEMPLATE_TYPES
from jedi.taskbuffer.db.statement import returns


class SiteDataset(NamedTuple):
    """An output dataset of a site; `place` is empty for jobs anywhere."""

    template_id: int
    dataset_id: int
    dataset_name: str
    status: str
    container_name: str | None
    place: str


_AT_SITES = returns(SiteDataset)("""
WITH t AS (
  SELECT jeditaskid FROM jedi_tasks WHERE jeditaskid = :task AND lock_seq = :seq FOR NO KEY UPDATE
), w AS (
  SELECT d.*, s.site AS place FROM t JOIN jedi_datasets d USING (jeditaskid),
    unnest(CAST(:sites AS text[])) s(site)
  WHERE d.datasetid = ANY(CAST(:containers AS bigint[]))
), old AS (
  SELECT d.templateid, d.datasetid, d.datasetname, d.status, d.containername, w.place
  FROM w JOIN jedi_datasets d ON d.jeditaskid = w.jeditaskid AND d.templateid = w.datasetid
    AND coalesce(d.site, :any) = w.place AND d.status IN ('defined', 'ready', 'running')
), fresh AS MATERIALIZED (
  SELECT w.*, nextval('jedi_dataset_id_seq') AS id FROM w
  WHERE (w.datasetid, w.place) NOT IN (SELECT templateid, place FROM old)
), new AS (
  INSERT INTO jedi_datasets
    (datasetid, jeditaskid, datasetname, containername, provenanceid, type, vo, status, attributes,
     streamname, storagetoken, destination, site, templateid)
  SELECT id, jeditaskid, datasetname || '.' || id, datasetname, provenanceid,
    substr(type, length('tmpl_') + 1), vo, 'defined', attributes, streamname, storagetoken,
    destination, nullif(place, :any), datasetid
  FROM fresh
  RETURNING templateid, datasetid, datasetname, status, containername, site, jeditaskid
), l AS (
  INSERT INTO jedi_datasets_statuslog (datasetid, jeditaskid, status, agent, reason_code, reason)
  SELECT datasetid, jeditaskid, status, :agent, 'made_for_site', 'made for site' FROM new
)
SELECT templateid, datasetid, datasetname, status,
  containername, place FROM old UNION ALL
SELECT templateid, datasetid, datasetname, status, containername, coalesce(site, :any) FROM new
ORDER BY datasetid
""")


def at_sites(
    tx: Connection, order: TaskOrder, sites: Sequence[str], agent: str
) -> dict[int, dict[str, OutputDataset]]:
    """The datasets that jobs of a claimed task at these sites ('': wherever they run) fill, by
    container and site: those that are not closed, else new ones, named after the container and
    their ids. LockLost: the task was claimed anew."""
    task, containers = order.jedi_task_id, order.containers
    values = {
        "task": task,
        "seq": order.lock_seq,
        "sites": list(sites),
        "any": "",
        "containers": containers,
        "agent": agent,
    }
    found: dict[int, dict[str, OutputDataset]] = {}
    for row in _AT_SITES.rows(tx, **values):
        dataset = OutputDataset(row.dataset_id, row.dataset_name, row.status, row.container_name)
        found.setdefault(row.template_id, {})[row.place] = dataset
    if not found:
        raise LockLost(f"Task {task} was claimed anew.")
    return found


_TO_COME = returns(str)(f"""
SELECT d.datasetname FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE d.datasetname = ANY(:names) AND d.type IN ({TEMPLATE_TYPES})
  AND t.status NOT IN ({TASK_FINAL})
UNION
SELECT d.containername FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
WHERE d.containername = ANY(:names) AND d.type IN ({PRODUCT_TYPES})
  AND t.status NOT IN ({TASK_FINAL})
UNION
SELECT w.name FROM jedi_tasks t JOIN jedi_taskparams p USING (jeditaskid),
  LATERAL jsonb_array_elements(p.taskparams -> 'jobParameters') i,
  LATERAL (VALUES (i ->> 'container', true), (i ->> 'dataset',
    'true' IN (p.taskparams ->> 'instantiateTmpl', p.taskparams ->> 'instantiateTmplSite'))
  ) w(name, is_container)
WHERE t.status = 'registered' AND i ->> 'param_type' = 'output' AND w.name = ANY(:names)
  AND w.is_container
""")


def to_come(tx: Connection, names: Collection[str]) -> set[str]:
    """The datasets that are containers of outputs of living tasks."""
    return set(_TO_COME.rows(tx, names=sorted(names))) if names else set()
