"""Placeholders: co-jumbo jobs at WAITING_CO_JUMBO, whose job sets no site can take now. Jumbo jobs
may process their events meanwhile.

Source: docs/reference/event-service.md#placeholders.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from jedi.model.jobs.events import WAITING_CO_JUMBO
from jedi.taskbuffer.db.sql_lists import INPUT_TYPES
from jedi.taskbuffer.db.statement import changes, returns

FLAG = changes(f"""
-- The inputs of jobs that merge wait for real co-jumbo jobs, or no longer (is_waiting,
-- nfileswaiting); their datasets are locked.
WITH c AS (
  UPDATE jedi_dataset_contents c SET is_waiting = CASE WHEN :waiting THEN 'Y' END
  FROM jedi_job_files f
  WHERE f.pandaid = ANY(CAST(:ids AS bigint[])) AND f.type IN ({INPUT_TYPES})
    AND c.fileid = f.fileid AND c.pandaid = f.pandaid
    AND (c.is_waiting IS NOT NULL) <> :waiting
  RETURNING c.datasetid
)
UPDATE jedi_datasets d SET nfileswaiting = d.nfileswaiting + n.files
FROM (SELECT datasetid, CASE WHEN :waiting THEN count(*) ELSE -count(*) END AS files
  FROM c GROUP BY datasetid) n
WHERE d.datasetid = n.datasetid
""")
_OVER = returns(int)(f"""
SELECT DISTINCT t.merge_pandaid FROM jedi_consumers c JOIN jedi_jobs j USING (pandaid)
  JOIN jedi_jobsets t USING (jobsetid)
WHERE c.pandaid = ANY(CAST(:ids AS bigint[])) AND j.site = '{WAITING_CO_JUMBO}'
""")


def over(tx: Connection, panda_ids: Sequence[int]) -> None:
    """The inputs of those of these consumers that are placeholders wait no longer."""
    if ids := _OVER.rows(tx, ids=list(panda_ids)):
        FLAG.run(tx, ids=list(ids), waiting=False)
