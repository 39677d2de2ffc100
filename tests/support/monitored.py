"""Tasks that run, fail and wait, with all that pages show of them: jobs in many statuses, logs,
decisions, commands, relatives, texts that try to break pages."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, text

from jedi.agent.base import World
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from support.job_rows import Made, make_jobs
from support.situations import lead
from support.task_rows import good, put

ODD = "<script>alert(1)</script> \u202eevil\u202c " + "x" * 10_000
"""A text that would run, turn its neighbours, and fill the page."""

_MEASURED = text("""
UPDATE jedi_jobs SET starttime = jedi_now() - interval '30 min', endtime = jedi_now() - interval
  '5 min', wall_s = 1500, cpu_s = 1400, max_rss_kb = 1900000, max_pss_kb = 1800000,
  workdir_kb = 500000, walltime_s = 3600, memory_mb = 2000, disk_mb = 1000, read_bytes = 123456789,
  write_bytes = 2345678, exit_code = 0, cores = 1
WHERE pandaid = ANY(:ids)
""")
_TAIL = text("""
INSERT INTO jedi_job_tail (pandaid, stdout_tail, stderr_tail)
SELECT unnest(CAST(:ids AS bigint[])), :out, :err
""")
_DELEGATE = text("""
UPDATE jedi_jobs SET pilot_id = 'pilot-7', delegation_kind = 'slurm', delegation_queue = 'short',
  delegation_id = '4711' WHERE pandaid = ANY(:ids)
""")


def running_task(world: World, diag: str = "exit code 3") -> Made:
    """A task with jobs that are finished, failed by two causes, running and activated."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 12, files=1)
        tx.execute(
            text(
                "UPDATE jedi_tasks SET workqueue_id = 1, gshare = 'user', "
                "statechangetime = jedi_now(), creationdate = jedi_now(), "
                "prodsourcelabel = 'user', currentpriority = 900"
            )
        )
        tx.execute(_DELEGATE, {"ids": made.jobs[:9]})
    jobs = made.jobs
    for status in ("sent", "starting", "running"):
        lead(world, jobs[:9], status)
    with world.engine.begin() as tx:
        tx.execute(_MEASURED, {"ids": jobs[:7]})
        tx.execute(
            _TAIL, {"ids": jobs[:9], "out": "event 1\nevent 2\n", "err": f"warning: {diag}\n"}
        )
        tx.execute(
            text("UPDATE jedi_jobs SET exit_code = 3 WHERE pandaid = ANY(:ids)"), {"ids": jobs[4:6]}
        )
        tx.execute(text("UPDATE jedi_datasets SET nfilesfinished = 4 WHERE type = 'input'"))
        _fail(tx, jobs[4:6], "payload_exit", diag)
        _fail(tx, jobs[6:7], "memory_limit", "It used 2.1 GB, more than 2 GB.")
    lead(world, jobs[:4], "holding", "transferring", "finished")
    return made


def _fail(tx: Connection, jobs: list[int], code: str, diag: str) -> None:
    moves = [JobMove(job, "failed", code, diag, error_source="payload") for job in jobs]
    assert len(move_jobs(tx, moves, "Adder", ("running",))) == len(jobs)


def waiting_task(world: World, **keys: Any) -> int:
    """A task that no site can take: a broker has refused all sites."""
    [task] = put(world, good("a:waits", **keys))
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_tasks SET status = 'pending', oldstatus = 'ready', "
                "workqueue_id = 1, gshare = 'user', reason_code = 'no_site_now', "
                "errordialog = 'No site can run its jobs now.', "
                "next_run_at = jedi_now() + interval '10 min' WHERE jeditaskid = :task"
            ),
            {"task": task},
        )
        decide(tx, task)
    return task


def decide(tx: Connection, task: int) -> int:
    """A decision that refuses SITE_A for memory and SITE_B for disk and memory."""
    number: int = tx.execute(
        text(
            "INSERT INTO jedi_broker_decisions (jeditaskid, broker, snapshot_hash, seed, knobs, "
            "outcome, chosen, weights, need, used) VALUES (:task, 'analysis', 'x', 1, '{}', "
            "'none', '{}', '{}', :need, '{}') RETURNING decision_id"
        ),
        {"task": task, "need": json.dumps({})},
    ).scalar_one()
    tx.execute(
        text(
            "INSERT INTO jedi_broker_reasons (decision_id, site, codes, observed, limits) VALUES "
            "(:id, 'SITE_A', '{memory}', '{2000}', '{4000}'), "
            "(:id, 'SITE_B', '{memory,disk}', '{1000,NULL}', '{4000,10}')"
        ),
        {"id": number},
    )
    return number


def command(world: World, task: int, name: str = "pause") -> None:
    """A person's command, answered. Raw: no TaskCommando runs here."""
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_commands (jeditaskid, command, username, comment, outcome, "
                "message, acknowledged_at) VALUES (:task, :name, 'ops', 'storage is full', "
                "'accepted', 'It pauses.', jedi_now())"
            ),
            {"task": task, "name": name},
        )


def child_of(world: World, parent: int) -> int:
    """A task that waits for its parent."""
    [task] = put(world, good("a:child"))
    with world.engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_tasks SET parent_tid = :parent WHERE jeditaskid = :task"),
            {"parent": parent, "task": task},
        )
    return task


__all__ = ["ODD", "child_of", "command", "decide", "running_task", "waiting_task"]
