"""A large database: tasks at work and ended ones, live jobs and archived ones, and their files. The
server makes them from one task that the agents have refined and fed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass
from itertools import product
from typing import Any

from sqlalchemy import Engine, Table, text

from benchmarks.common import make_world, run
from benchmarks.jobs_world import Held, fed_task, place
from jedi.taskbuffer.jobs import archive_groups
from jedi.taskbuffer.schema import tables

SITES, SHARES = 20, 5
_STATUS = "(ARRAY['running', 'running', 'running', 'scouting', 'exhausted', 'pending'])[1 + n % 6]"
"""The status of task `n`, if it is at work: half of these run."""
_ENDED = "(ARRAY['done', 'done', 'finished', 'failed'])[1 + n % 4]"


@dataclass(frozen=True, slots=True)
class Size:
    """Numbers of waiting jobs, of all live ones, of archived ones, of tasks at work and of ended
    ones; jobs of two large tasks beside them, one at work and one ended."""

    waiting: int = 100_000
    live: int = 1_000_000
    archived: int = 5_000_000
    working: int = 10_000
    ended: int = 90_000
    large_live: int = 100_000
    large_archived: int = 500_000

    def part(self, share: int) -> Size:
        """The same, `share` times as small."""
        return Size(*(number // share for number in astuple(self)))

    @property
    def tasks(self) -> int:
        """All tasks, but for large ones."""
        return self.working + self.ended

    @property
    def jobs(self) -> int:
        """All jobs, but for those of large tasks."""
        return self.live + self.archived

    @property
    def large_working(self) -> int:
        """The number of the large task at work."""
        return self.tasks + 1

    @property
    def large_ended(self) -> int:
        """The number of the large ended task."""
        return self.tasks + 2

    @property
    def per_working(self) -> int:
        """Live jobs of a task at work."""
        return -(-self.live // self.working)

    @property
    def per_ended(self) -> int:
        """Archived jobs of an ended task."""
        return -(-self.archived // self.ended)


def fill(engine: Engine, size: Size) -> None:
    """Fill a new database. Each job has one input file. Live jobs run, but for those that wait."""
    place(engine, SITES, SHARES)
    ddm: Any = Held(1)
    world = make_world(engine, ddm)
    model = fed_task(engine, world, 1)
    _tasks(engine, model, size)
    run(
        engine,
        "SET LOCAL session_replication_role = replica",
        f"UPDATE jedi_tasks SET status = 'aborted' WHERE jeditaskid = {model}",
    )
    each = max(1, size.live // size.waiting)
    jobs = {
        _ARCHIVED: (
            _Jobs(1, size.archived, model + 1, size.per_ended, 0),
            _Jobs(
                size.jobs + size.large_live + 1,
                size.large_archived,
                model + size.large_ended,
                size.large_archived,
                0,
            ),
        ),
        _LIVE: (
            _Jobs(size.archived + 1, size.live, model + size.ended + 1, size.per_working, each),
            _Jobs(
                size.jobs + 1, size.large_live, model + size.large_working, size.large_live, each
            ),
        ),
    }
    with engine.begin() as tx:
        dataset = tx.scalar(
            text("SELECT datasetid FROM jedi_datasets WHERE jeditaskid = :task AND type = 'input'"),
            {"task": model},
        )
        more = {"input": dataset, "model": model, "sites": SITES, "shares": SHARES}
        for statements, parts in jobs.items():
            for statement, part in product(statements, parts):
                tx.execute(text(statement), {**asdict(part), **more})
        tx.execute(text(_STATISTICS))
        archive_groups.count_all(tx)
    autocommit = engine.execution_options(isolation_level="AUTOCOMMIT")
    with autocommit.connect() as connection:
        connection.execute(text("VACUUM (ANALYZE)"))
        connection.execute(text("CHECKPOINT"))


def copies(table: Table, count: str, changed: Mapping[str, str], where: str) -> str:
    """A statement that copies rows so many times, numbered `n`; the SQL of changed columns."""
    columns = [one.name for one in table.columns if one.computed is None]
    values = [changed.get(name, f"m.{name}") for name in columns]
    return (
        f"INSERT INTO {table.name} ({', '.join(columns)}) SELECT {', '.join(values)} "
        f"FROM {table.name} m, generate_series(1, {count}) n WHERE {where}"
    )


def _tasks(engine: Engine, model: int, size: Size) -> None:
    """Tasks `model + n`, the last of which are at work, and the large ones. Pending ones wait for
    their time. The datasets of a task have ten numbers."""
    task, count = f"{model} + n", f"{size.large_ended}"
    live = f"n BETWEEN {size.ended} + 1 AND {size.large_working}"
    age = "jedi_now() - make_interval(mins => 1 + n % 50)"
    every = f"jeditaskid = {model}"
    ended = f"CASE WHEN {live} THEN NULL ELSE {age} END"
    n_files = (
        f"CASE WHEN n = {size.large_working} THEN {size.large_live} "
        f"WHEN n = {size.large_ended} THEN {size.large_archived} "
        f"WHEN {live} THEN {size.per_working} ELSE {size.per_ended} END"
    )
    n_done = f"CASE WHEN {live} THEN 0 ELSE {n_files} END"
    counters = ("nfiles", "nfilestobeused", "nfilesused")
    masters = dict.fromkeys(counters, f"CASE WHEN m.type = 'input' THEN {n_files} ELSE 0 END")
    run(
        engine,
        "SET LOCAL session_replication_role = replica",  # no guards: these moves are none
        copies(
            tables.tasks,
            count,
            {
                "jeditaskid": task,
                "reqid": task,
                "taskname": "'bench.' || n",
                "parent_tid": "NULL",
                "username": "'user' || n % 500",
                "endtime": ended,
                "statechangetime": age,
                "status": f"CASE WHEN n = {size.large_working} THEN 'running' WHEN {live} THEN "
                f"{_STATUS} ELSE {_ENDED} END",
                "oldstatus": "'running'",
                "workqueue_id": f"1 + n % {SHARES}",
                "gshare": f"'share' || 1 + n % {SHARES}",
                "currentpriority": "500 + n % 50",
                "next_run_at": f"CASE WHEN {live} AND n % 6 = 5 "
                "THEN jedi_now() + interval '1 h' END",
                "reason_code": "CASE WHEN n % 6 = 5 THEN 'no_site' END",
            },
            every,
        ),
        *(
            copies(table, count, {"jeditaskid": task}, every)
            for table in (tables.task_params, tables.job_params_template)
        ),
        copies(
            tables.datasets,
            count,
            {
                **masters,
                "jeditaskid": task,
                "datasetname": "m.datasetname || '.' || n",
                "datasetid": f"{model} + 10 * n + m.datasetid % 10",
                "status": f"CASE WHEN {live} THEN m.status ELSE 'finished' END",
                "nfilesfinished": f"CASE WHEN m.type = 'input' THEN {n_done} ELSE 0 END",
            },
            every,
        ),
        copies(
            tables.output_template,
            count,
            {
                "jeditaskid": task,
                "outtempid": f"{model} + 10 * n + m.outtempid % 10",
                "datasetid": f"{model} + 10 * n + m.datasetid % 10",
            },
            every,
        ),
        f"INSERT INTO jedi_tasks_statuslog (jeditaskid, fromstatus, status, agent, reason_code) "
        f"SELECT jeditaskid, l.fromstatus, coalesce(l.status, t.status), 'bench', 'bench' "
        f"FROM jedi_tasks t, (VALUES (NULL, 'registered'), ('registered', 'defined'), "
        f"('defined', 'ready'), ('ready', 'running'), ('running', NULL)) l(fromstatus, status) "
        f"WHERE jeditaskid > {model}",
    )


@dataclass(frozen=True, slots=True)
class _Jobs:
    """So many jobs from number `first` on, `per` in each task from `task` on; one in `each` waits
    (0: none)."""

    first: int
    jobs: int
    task: int
    per: int
    each: int


_NUMBERED = """
SELECT g, :task + (g - :first) / :per AS task, 1 + (g - :first) % :per AS unit,
  1 + (:task - :model + (g - :first) / :per) % :shares AS queue,
  CASE WHEN :each > 0 AND g % greatest(:each, 1) = 0 THEN 'activated'
    WHEN :each > 0 THEN 'running' WHEN g % 20 = 0 THEN 'failed' ELSE 'finished' END AS status
FROM generate_series(:first, :first + :jobs - 1) g
"""


def _files(table: str, **columns: str) -> str:
    """A statement that inserts the input files of jobs, with these columns, too (SQL)."""
    names, values = (
        "".join(f", {name}" for name in columns),
        "".join(f", {value}" for value in columns.values()),
    )
    return f"""
INSERT INTO {table} (fileid, pandaid, jeditaskid, datasetid, lfn, type, fsize, checksum{names})
SELECT 1000000 + g, g, task, :model + 10 * (task - :model) + :input % 10, 'data.' || g, 'input',
  1000000000, '0badcafe'{values} FROM ({_NUMBERED}) j"""


def _rows(table: str, **columns: str) -> str:
    """A statement that inserts jobs, with these columns, too (SQL)."""
    names, values = (
        "".join(f", {name}" for name in columns),
        "".join(f", {value}" for value in columns.values()),
    )
    return f"""
INSERT INTO {table} (pandaid, originpandaid, jeditaskid, taskid, unit_nr, attemptnr, status,
  prodsourcelabel, processingtype, username, vo, site, workqueue_id, gshare, resource_type,
  priority, cores, memory_mb, walltime_s, disk_mb, n_inputs, n_events, lock_seq,
  heartbeat_at{names})
SELECT g, g, task, task, unit, 1, status, 'user', 'generic', 'user' || task % 500, 'local',
  'BENCH' || g % :sites, queue, 'share' || queue, 'SCORE', 500 + g % 50, 1, 2000, 86400, 9537, 1,
  1000, CASE WHEN status = 'activated' THEN 0 ELSE 1 END,
  CASE WHEN status <> 'activated' THEN jedi_now() END{values} FROM ({_NUMBERED}) j"""


_USED = {"attemptnr": "1", "maxattempt": "3", "keeptrack": "1"}
_LIVE = (
    _rows("jedi_jobs"),
    _files("jedi_job_files"),
    _files("jedi_dataset_contents", status="'running'", proc_status="'queued'", **_USED),
    "INSERT INTO jedi_job_params (pandaid, jobparameters) "
    f"SELECT g, 'cat data.' || g FROM ({_NUMBERED}) j",
    "INSERT INTO jedi_job_ready (pandaid, site, gshare, priority, cores, memory_mb, walltime_s, "
    "disk_mb) SELECT pandaid, site, gshare, priority, cores, memory_mb, walltime_s, disk_mb "
    "FROM jedi_jobs WHERE status = 'activated' AND pandaid >= :first AND pandaid < :first + :jobs",
    "INSERT INTO jedi_jobs_statuslog (pandaid, jeditaskid, status, agent, reason_code) "
    f"SELECT g, task, 'activated', 'JobGenerator', 'generated' FROM ({_NUMBERED}) j",
)
_ARCHIVED = (
    _rows(
        "jedi_jobs_archived",
        starttime="jedi_now()",
        endtime="jedi_now()",
        postprocessed_at="jedi_now()",
        pilot_result="status",
        wall_s="60",
        max_rss_kb="2000 * (g % 999)",
        error_source="CASE status WHEN 'failed' THEN 'payload' END",
        error_code="CASE status WHEN 'failed' THEN 'payload_failed' END",
        exit_code="CASE status WHEN 'failed' THEN g / 20 % 3 ELSE 0 END",
    ),
    _files("jedi_job_files_archived"),
    _files("jedi_dataset_contents", status="'finished'", proc_status="'finished'", **_USED),
)
_STATISTICS = """
INSERT INTO job_stats (site, workqueue, gshare, resource_type, status, jobs, cores)
SELECT site, workqueue_id, gshare, resource_type, status, count(*), sum(cores) FROM (
  SELECT site, workqueue_id, gshare, resource_type, status, cores FROM jedi_jobs UNION ALL
  SELECT site, workqueue_id, gshare, resource_type, status, cores FROM jedi_jobs_archived) j
GROUP BY 1, 2, 3, 4, 5
"""
