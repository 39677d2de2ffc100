"""Parts of a retry besides new attempts of files: the cost of a task, and its code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from jedi.model.tasks.costs import Spent
from jedi.taskbuffer.db.sql_lists import MASTER_TYPES
from jedi.taskbuffer.db.statement import Columns, changes, returns

_COLUMNS = "jeditaskid, site, status, wall_s, cpu_s, cores"
_SPENT = returns(Columns)(f"""
SELECT t.jeditaskid, t.attemptnr AS attempts, j.*,
  coalesce((SELECT max(maxattempt - freeattempt) FROM jedi_dataset_contents c
            WHERE c.jeditaskid = t.jeditaskid AND c.type IN ({MASTER_TYPES})), 0) AS file_attempts
FROM jedi_tasks t, LATERAL (
  SELECT count(*) AS jobs, count(*) FILTER (WHERE failed) AS failed,
    coalesce(sum(hepscore_h), 0) AS hepscore_h,
    coalesce(sum(hepscore_h) FILTER (WHERE failed), 0) AS failed_hepscore_h,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY 100 * cpu_s / nullif(wall_s * cores, 0))
      AS cpu_efficiency
  FROM (SELECT o.*, o.status = 'failed' AS failed,
          o.wall_s * o.cores * s.corepower / 3600 AS hepscore_h
        FROM (SELECT {_COLUMNS} FROM jedi_jobs WHERE jeditaskid = t.jeditaskid UNION ALL
              SELECT {_COLUMNS} FROM jedi_jobs_archived WHERE jeditaskid = t.jeditaskid) o
          LEFT JOIN jedi_sites s USING (site)
        WHERE o.status IN ('finished', 'failed')) o) j
WHERE t.jeditaskid = ANY(CAST(:ids AS bigint[]))
""")


def spent(tx: Connection, task_ids: Sequence[int]) -> dict[int, Spent]:
    """Return the costs of tasks."""
    rows = _SPENT.rows(tx, ids=task_ids)
    return {row.pop("jeditaskid"): Spent(**row) for row in rows}


_USE_CODE = changes("""
UPDATE jedi_taskparams p SET sandbox_sha256 = n.sha256
FROM unnest(CAST(:ids AS bigint[]), CAST(:shas AS text[])) n(id, sha256)
WHERE p.jeditaskid = n.id
""")


def use_code(tx: Connection, code: Mapping[int, str]) -> None:
    """Tasks (id: sha256 of a sandbox) run with other local files from now on."""
    if code:
        _USE_CODE.run(tx, ids=list(code), shas=list(code.values()))
