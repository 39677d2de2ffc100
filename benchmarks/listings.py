"""Looks at tasks and jobs, as people make them, beside many tasks and a large archive."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from sqlalchemy import Connection, Engine, text
from support.calls import call

from benchmarks.common import Result, make_world, run, seconds
from benchmarks.jobs_world import Held, place
from jedi.model.queries import JobQuery, ListPage, TaskQuery
from jedi.service.tasks import task_details, why
from jedi.taskbuffer.jobs import archive_groups

TASKS, ARCHIVED = 100_000, 5_000_000
SMOKE = 500
REPEATS = 5
LEAST = 20.0
"""Looks a second: 50 ms each."""

FIRST = ListPage(limit=50)
LARGE = 1
"""The task with most jobs: a tenth of all."""

_FILL = (
    """
INSERT INTO jedi_tasks (jeditaskid, reqid, parent_tid, taskname, username, status, superstatus, vo,
  prodsourcelabel, processingtype, taskpriority, currentpriority, workqueue_id, gshare,
  resource_type, creationdate, statechangetime, reason_code, errordialog)
SELECT n, n, n, 'user.u' || n % 500 || '.higgs.' || n, 'u' || n % 500,
  CASE WHEN n % 20 = 0 THEN 'pending' WHEN n % 20 = 1 THEN 'failed' ELSE 'done' END, 'x', 'local',
  'user', 'generic', 1000, 1000, 1, 'share1', 'SCORE', jedi_now() - make_interval(secs => n),
  jedi_now() - make_interval(secs => n),
  CASE WHEN n % 20 = 0 THEN 'no_site_fits' ELSE 'inputs_done' END, 'A sentence about it.'
FROM generate_series(1, :tasks) n""",
    """
INSERT INTO jedi_taskparams (jeditaskid, taskparams)
SELECT n, '{"taskName": "x", "jobParameters": []}' FROM generate_series(1, :tasks) n""",
    """
INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, nfiles,
  nfilestobeused, nfilesused, nfilesfinished)
SELECT 3 * n + k, n, 'bench:' || t.type || n, t.type, 'done', 50, 50, 50, 50
FROM generate_series(1, :tasks) n,
  unnest(ARRAY['input', 'output', 'log']) WITH ORDINALITY t(type, k)""",
    """
INSERT INTO jedi_tasks_statuslog (jeditaskid, status, agent, reason_code, reason)
SELECT n, s, 'bench', 'bench', 'A sentence.' FROM generate_series(1, :tasks) n,
  unnest(ARRAY['registered', 'defined', 'ready', 'running', 'done']) s""",
    """
INSERT INTO jedi_jobs_archived (pandaid, originpandaid, jeditaskid, taskid, unit_nr, attemptnr,
  status, prodsourcelabel, processingtype, username, vo, site, workqueue_id, gshare, resource_type,
  priority, cores, memory_mb, walltime_s, disk_mb, n_inputs, n_events, pilot_result, exit_code,
  starttime, endtime, postprocessed_at, lock_seq)
SELECT g, g, t, t, g, 1, 'finished', 'user', 'generic', 'u' || t % 500, 'local',
  'BENCH' || g % 20, 1, 'share1', 'SCORE', 1000, 1, 0, 0, 9537, 1, 1000, 'finished', 0, jedi_now(),
  jedi_now(), jedi_now(), 1
FROM generate_series(1, :archived) g,
  LATERAL (SELECT CASE WHEN g % 10 = 0 THEN 1 ELSE 1 + g % :tasks END AS t) p""",
    "ANALYZE",
)


def measure(engine: Engine, tasks: int = TASKS, archived: int = 0) -> list[Result]:
    """So many tasks of 500 users, and archived jobs (50 times as many, unless there are others)."""
    archived = archived or tasks * ARCHIVED // TASKS
    place(engine, 20)
    with engine.begin() as tx:
        for statement in _FILL:
            tx.execute(text(statement), {"tasks": tasks, "archived": archived})
        archive_groups.count_all(tx)
    run(engine, "SELECT setval('jedi_task_id_seq', 1000000)")
    make_world(engine, Held(0))  # type: ignore[arg-type]
    waiting, usual = tasks // 20 * 20, tasks // 2 + 1
    least = LEAST if (tasks, archived) == (TASKS, ARCHIVED) else None
    return [
        Result(name, "looks/s", _rate(engine, look), least=least)
        for name, look in _looks(waiting, usual).items()
    ]


def _looks(waiting: int, usual: int) -> dict[str, Callable[[Connection], object]]:
    """Looks at tasks: one that waits, a usual one, the one with most jobs."""
    return {
        "list: the newest 50": lambda tx: task_details.find(tx, page=FIRST),
        "list: a user's": lambda tx: task_details.find(tx, TaskQuery(user="u7"), FIRST),
        "list: pending": lambda tx: task_details.find(
            tx, TaskQuery(status=["pending"]), ListPage(limit=50)
        ),
        "list: a status of nobody": lambda tx: task_details.find(
            tx, TaskQuery(status=["paused"]), ListPage(limit=50)
        ),
        "list: a name": lambda tx: task_details.find(tx, TaskQuery(name="*higgs.77*"), FIRST),
        "list: a reason": lambda tx: task_details.find(
            tx, TaskQuery(where=["reason=no_site_fits"]), ListPage(limit=50)
        ),
        "list: a request": lambda tx: task_details.find(
            tx, TaskQuery(user="u7", where=["request=507"])
        ),
        "show": lambda tx: task_details.show(call(tx), usual),
        "show: most jobs": lambda tx: task_details.show(call(tx), LARGE),
        "why: it waits": lambda tx: why.why(call(tx), waiting),
        "why: it has ended": lambda tx: why.why(call(tx), usual),
        "jobs": lambda tx: task_details.jobs(tx, usual, limit=1000),
        "jobs: 1,000 of most": lambda tx: task_details.jobs(tx, LARGE, limit=1000),
        "jobs: failed ones of most": lambda tx: task_details.jobs(
            tx, LARGE, JobQuery(["failed"]), limit=1000
        ),
        "history": lambda tx: task_details.history(call(tx), usual),
    }


def _rate(engine: Engine, look: Callable[[Connection], object]) -> float:
    def once() -> None:
        with engine.connect() as tx:
            look(tx)

    once()
    return 1 / median(seconds(once) for _ in range(REPEATS))
