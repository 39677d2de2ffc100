"""Figures of a task's jobs: live and archived jobs count alike, and a look reads each job once.

The seed is silent: `show` counts all jobs of a task, names each cause of failures
with its latest job, and compares forecasts with the largest figures of finished jobs.
"""

# Raw INSERTs: jobs with the figures of many pilots, half of them archived.

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Engine, text
from support.calls import call
from support.pages import nodes, plan_of, vacuum

from jedi.service.tasks import task_details, task_reports
from jedi.service.tasks.forecasts import Forecast
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.jobs import archive_groups
from jedi.taskbuffer.reports import job_groups, why_facts
from jedi.taskbuffer.reports.job_listings import FailureCause

_LIVE, _ARCHIVED = "jedi_jobs", "jedi_jobs_archived"
_JOB = """
INSERT INTO {table} (pandaid, originpandaid, jeditaskid, taskid, unit_nr, attemptnr, kind, status,
  site, priority, cores, memory_mb, walltime_s, disk_mb, n_inputs, wall_s, max_pss_kb, max_rss_kb,
  workdir_kb, error_code, error_source, exit_code, error_diag, retention, purged_at,
  postprocessed_at)
VALUES (:id, :id, 5, 5, :id, :attempt, :kind, :status, :site, 1, 1, 2000, :limit_s, 0, 1, :wall_s,
  :pss, :rss, :disk, :code, 'payload', :exit, :diag, :until, :gone,
  CASE WHEN :status IN ('finished', 'failed') THEN jedi_now() END)
"""
_TASK = """
INSERT INTO jedi_tasks (jeditaskid, reqid, status, taskname, username)
VALUES (5, 5, 'running', 'test', 'me') ON CONFLICT DO NOTHING
"""
_UNTIL = datetime(2030, 1, 1, tzinfo=UTC)


def add(
    engine: Engine, table: str, id: int, status: str, site: str = "A", **figures: object
) -> None:
    names = ("wall_s", "pss", "rss", "disk", "code", "exit", "diag", "until", "gone")
    values = {"attempt": 1, "kind": "normal", "limit_s": 0, **dict.fromkeys(names)}
    with engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text(_TASK))
        given = {**values, **figures, "id": id, "status": status, "site": site}
        tx.execute(text(_JOB.format(table=table)), given)
        archive_groups.count_all(tx)


def test_live_and_archived_jobs_are_counted_together(engine: Engine) -> None:
    add(engine, _ARCHIVED, 1, "finished", wall_s=50, pss=204_800, disk=3_072, limit_s=900)
    add(engine, _ARCHIVED, 2, "failed", code="payload_exit", exit=3, diag="older", limit_s=1200)
    add(engine, _LIVE, 3, "failed", code="payload_exit", exit=3, diag="newer")
    add(engine, _LIVE, 4, "failed", code="stagein_missing", diag="gone")
    add(engine, _LIVE, 5, "finished", "B", wall_s=70, rss=102_400, attempt=2, limit_s=7200)
    add(engine, _LIVE, 6, "running", "C")
    add(engine, _LIVE, 7, "finished", kind="merge", wall_s=1_000)
    with engine.begin() as tx:
        found = task_details.show(call(tx), 5)
    assert found.jobs == {"failed": 3, "finished": 3, "running": 1}
    seen = [(one.first_seen, one.last_seen) for one in found.failures]
    assert all(first <= last for first, last in seen)
    assert found.failures == [
        FailureCause("payload_exit", "payload", 3, 2, 3, "newer", *seen[0], None),
        FailureCause("stagein_missing", "payload", None, 1, 4, "gone", *seen[1], None),
    ]
    # merges have no forecast; 1200 s is the most of a first attempt; 0 MB of disk: no limit
    assert found.forecasts == [
        Forecast("jobs", 5, 6, ""),
        Forecast("wall time", 1200, 70.0, "s"),
        Forecast("memory", 2000, 200, "MB"),
        Forecast("disk", None, 3, "MB"),
        Forecast("sites", (), ("A", "B"), ""),
    ]
    assert (found.purging.gone, found.purging.leaving) == (0, 0)


def test_outputs_that_leave_are_counted_in_both_tables(engine: Engine) -> None:
    add(engine, _ARCHIVED, 1, "finished", until=_UNTIL)
    add(engine, _ARCHIVED, 2, "finished", gone=_UNTIL)
    add(engine, _LIVE, 3, "finished", until=_UNTIL)
    add(engine, _LIVE, 4, "finished")
    with engine.begin() as tx:
        found = task_details.show(call(tx), 5).purging
    assert (found.gone, found.leaving, found.leaving_at) == (1, 2, _UNTIL)


def test_a_look_reads_each_job_once(engine: Engine) -> None:
    for id in range(1, 40):
        add(engine, _LIVE, id, "activated")
    vacuum(engine)
    for statement, values in (
        (job_groups.OF_TASK, {"task": 5}),
        (why_facts.TASK, {"task": 5, "unit_s": 60.0}),
    ):
        plan = plan_of(engine, statement, **values)
        reads = [one for one in nodes(plan) if one.get("Relation Name") == _LIVE]
        assert sum(one["Actual Rows"] * one["Actual Loops"] for one in reads) == 39


def test_a_report_has_the_numbers_and_the_reason(engine: Engine) -> None:
    """Expected: a task whose job runs is held by `running`; of its live jobs one runs and one
    waits. Its row has neither a priority nor the time of its status."""
    add(engine, _LIVE, 1, "running")
    add(engine, _LIVE, 2, "activated")
    add(engine, _LIVE, 3, "failed", code="payload_exit", exit=1)
    add(engine, _ARCHIVED, 4, "finished")
    with engine.begin() as tx:
        found = task_reports.report(call(tx, knobs=knobs.load(tx)), 5, events=5)
        assert task_reports.job_counts(call(tx), 5) == found.jobs
    assert (found.task.n_jobs_running, found.task.n_jobs_waiting) == (1, 1)
    assert (found.why.code, found.why.facts["activated"]) == ("running", 1)
    assert [(one.error_code, one.jobs) for one in found.failures] == [("payload_exit", 1)]
    counted = {(one.status, one.jobs) for one in found.jobs}
    assert counted == {("running", 1), ("activated", 1), ("failed", 1), ("finished", 1)}
