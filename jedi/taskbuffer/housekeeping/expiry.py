"""Temporary outputs of ended tasks."""

from __future__ import annotations

from typing import NamedTuple

from jedi.taskbuffer.db.sql_lists import PRODUCT_TYPES, TASK_FINAL, listed
from jedi.taskbuffer.db.statement import changes, returns

_IN_VAIN = listed(("aborted", "broken", "failed"))


class ExpiredDataset(NamedTuple):
    """A dataset whose time is over, and the files of its task."""

    dataset_id: int
    dataset_name: str
    lfns: list[str]


EXPIRED = returns(ExpiredDataset)(f"""
-- Datasets whose time is over: transient outputs, logs of tasks that came to nothing, and those of
-- others, so many seconds after the task's end (0: never). Not those that another task fills as
-- well, or still reads, nor those in `stuck`.
SELECT d.datasetid, d.datasetname, ARRAY(
  SELECT c.lfn FROM jedi_dataset_contents c
  WHERE c.jeditaskid = d.jeditaskid AND c.datasetid = d.datasetid) AS lfns
FROM jedi_tasks t JOIN jedi_datasets d USING (jeditaskid)
WHERE t.status IN ({TASK_FINAL}) AND d.datasetid <> ALL(CAST(:stuck AS bigint[]))
  AND (d.state = 'missing' AND d.statechecktime >= t.endtime) IS NOT TRUE
  AND (d.type = 'output' AND 'tr' = ANY(string_to_array(d.attributes, ','))
      AND :transient_s > 0 AND t.endtime < jedi_now() - make_interval(secs => :transient_s)
    OR d.type IN ('log', 'trn_log') AND t.status IN ({_IN_VAIN})
      AND :failed_logs_s > 0 AND t.endtime < jedi_now() - make_interval(secs => :failed_logs_s)
    OR d.type = 'log'
      AND :logs_s > 0 AND t.endtime < jedi_now() - make_interval(secs => :logs_s))
  AND NOT EXISTS (
    SELECT FROM jedi_datasets o JOIN jedi_tasks u USING (jeditaskid)
    WHERE o.datasetname = d.datasetname AND o.jeditaskid <> d.jeditaskid
      AND (o.type IN ({PRODUCT_TYPES}) OR u.status NOT IN ({TASK_FINAL})))
ORDER BY t.endtime, d.datasetid LIMIT :limit
""")


NOTE_GONE = changes("""
-- Data management does not have these datasets any more.
UPDATE jedi_datasets SET state = 'missing', statechecktime = jedi_now()
WHERE datasetid = ANY(CAST(:ids AS bigint[]))
""")
