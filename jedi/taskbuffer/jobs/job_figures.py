"""Figures of one job: resources asked and used, its times, its relatives."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.schema.all_jobs import all_jobs

_COLUMNS = (
    "pandaid, unit_nr, cores, memory_mb, walltime_s, disk_mb, n_inputs, n_events, creationtime, "
    "statechangetime, starttime, endtime, heartbeat_at, pilot_result, error_source, cpu_s, wall_s, "
    "max_rss_kb, max_pss_kb, read_bytes, write_bytes, workdir_kb, input_bytes, output_bytes, "
    "gshare, nucleus, status, site, jeditaskid"
)


@dataclass(frozen=True, slots=True)
class JobFigures:
    """Figures of a job: asked (0: no limit) and used, its times, the limits of its site (0 or None:
    none), its relatives by attempts, and the effects of retry rules on its failure."""

    unit_nr: int
    task_name: str
    share: str
    nucleus: str | None
    cores: int
    memory_mb: int
    walltime_s: int
    disk_mb: int
    n_inputs: int
    n_events: int | None
    creation_time: datetime
    state_change_time: datetime
    start_time: datetime | None
    end_time: datetime | None
    heartbeat_at: datetime | None
    pilot_result: str | None
    error_source: str | None
    cpu_s: float | None
    wall_s: float | None
    max_rss_kb: int | None
    max_pss_kb: int | None
    read_bytes: int | None
    write_bytes: int | None
    workdir_kb: int | None
    input_bytes: int | None
    output_bytes: int | None
    ram_unit: str | None
    site_walltime_s: int | None
    site_memory_mb: int | None
    site_disk_mb: int | None
    last_pilot: datetime | None
    predecessors: list[int]
    successors: list[int]
    relation: str | None
    retry_effects: list[str]


FIGURES = returns(JobFigures)(f"""
-- The figures of a job; None: there is none.
SELECT j.unit_nr, t.taskname, j.gshare AS share, j.nucleus, j.cores, j.memory_mb,
  j.walltime_s, j.disk_mb,
  j.n_inputs, j.n_events, j.creationtime, j.statechangetime,
  j.starttime, j.endtime, j.heartbeat_at, j.pilot_result, j.error_source,
  j.cpu_s, j.wall_s, j.max_rss_kb, j.max_pss_kb, j.read_bytes, j.write_bytes, j.workdir_kb,
  j.input_bytes, j.output_bytes, t.ramunit,
  s.maxtime AS site_walltime_s, s.maxrss AS site_memory_mb, s.maxwdir AS site_disk_mb,
  s.lastpilot,
  ARRAY(SELECT oldpandaid FROM jedi_job_retry_history h
    WHERE h.newpandaid = :id AND h.jeditaskid = j.jeditaskid ORDER BY 1) AS predecessors,
  ARRAY(SELECT newpandaid FROM jedi_job_retry_history h WHERE h.oldpandaid = :id ORDER BY 1)
    AS successors,
  (SELECT min(relationtype) FROM jedi_job_retry_history h
    WHERE h.newpandaid = :id AND h.jeditaskid = j.jeditaskid) AS relation,
  ARRAY(SELECT effect FROM jedi_retry_matches m WHERE m.pandaid = :id ORDER BY rule_id)
    AS retry_effects
FROM {all_jobs(_COLUMNS)} j JOIN jedi_tasks t USING (jeditaskid)
  LEFT JOIN jedi_sites s ON s.site = j.site
WHERE j.pandaid = :id
""")
