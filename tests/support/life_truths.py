"""What has to be true of a whole system whatever happens, and what has happened: see life.py."""

from __future__ import annotations

from jedi.core import states

_INPUTS = "c.type IN ('input', 'pseudo_input') AND d.masterid IS NULL"
TWICE = """
SELECT f.fileid, array_agg(concat_ws(' ', j.pandaid, j.kind, j.jeditaskid, j.attemptnr,
  j.error_code) ORDER BY j.pandaid) AS jobs
FROM jedi_job_files f JOIN jedi_jobs j USING (pandaid)
  JOIN jedi_datasets d ON d.datasetid = f.datasetid AND d.type = 'input'
WHERE j.status = 'finished' AND f.type = 'input'
  AND j.kind NOT IN ('consumer', 'fine', 'co_jumbo', 'jumbo')
GROUP BY f.fileid HAVING count(*) > 1
"""
WRONG_END = f"""
SELECT * FROM (
  SELECT t.jeditaskid, t.parent_tid, t.status, count(c.fileid) AS files,
    count(c.fileid) FILTER (WHERE c.status = 'finished') AS finished
  FROM jedi_tasks t LEFT JOIN jedi_datasets d USING (jeditaskid)
    LEFT JOIN jedi_dataset_contents c ON c.datasetid = d.datasetid AND {_INPUTS}
  GROUP BY t.jeditaskid) t
WHERE status = 'done' AND (finished < files OR files = 0)
   OR status = 'finished' AND (finished = 0 OR finished = files AND parent_tid = jeditaskid)
   OR status = 'failed' AND finished > 0
"""
OUTPUTS = f"""
SELECT d.jeditaskid, d.datasetname,
  array_agg(c.lfn) FILTER (WHERE c.status = 'finished') AS lfns
FROM jedi_datasets d JOIN jedi_tasks t USING (jeditaskid)
  LEFT JOIN jedi_dataset_contents c USING (jeditaskid, datasetid)
WHERE d.type = 'output'
  AND t.status IN ({", ".join(f"'{status}'" for status in sorted(states.TASK.final))})
GROUP BY d.jeditaskid, d.datasetname
"""
WITHOUT_ANSWER = "SELECT command_id, command FROM jedi_commands WHERE acknowledged_at IS NULL"
HAPPENED = {
    "task": "SELECT status, count(*) FROM jedi_tasks_statuslog GROUP BY status",
    "job": "SELECT status, count(*) FROM jedi_jobs_statuslog GROUP BY status",
    "because": "SELECT error_code, count(*) FROM jedi_jobs GROUP BY error_code",
    "kind": "SELECT kind, count(*) FROM jedi_jobs GROUP BY kind",
    "periodical": "SELECT 'job', count(*) FROM jedi_jobs JOIN jedi_tasks USING (jeditaskid) "
    "WHERE period IS NOT NULL",
    "person": "SELECT reason_code, count(*) FROM jedi_jobs_statuslog "
    "WHERE reason_code IN ('held', 'released') GROUP BY reason_code",
    "command": "SELECT command, count(*) FROM jedi_commands WHERE outcome = 'accepted' "
    "GROUP BY command",
}
