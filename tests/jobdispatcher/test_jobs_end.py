"""What the end of jobs means for files and datasets; many who end jobs at once."""

# Raw UPDATEs: pilots that report files are not there.

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError
from support.job_rows import Made, make_jobs, watch
from support.races import blocked
from support.situations import lead

from jedi.agent.base import World
from jedi.model.jobs.wire import Report, Resources
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import dispatch, jobs


@pytest.fixture(autouse=True)
def _sites(world: World) -> None:
    """Every test has SITE_A and SITE_B."""


def reach(tx: Connection, jobs: list[int], status: str) -> None:
    """All jobs are in this status, as if they had come there."""
    path = ("activated", "sent", "starting", "running", "holding", "transferring")
    lead(tx, jobs, *path[1 : path.index(status) + 1])


def end(engine: Engine, *ends: JobEnd) -> list[int]:
    with engine.begin() as tx:
        return [job.panda_id for job in job_ends.end_jobs(tx, ends, "me")]


def files(engine: Engine, dataset: int) -> list[tuple[str, int]]:
    with engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT status, failedattempt FROM jedi_dataset_contents "
                "WHERE datasetid = :d ORDER BY fileid"
            ),
            {"d": dataset},
        )
        return [tuple(row) for row in rows]


def dataset(engine: Engine, dataset_id: int) -> Any:
    with engine.begin() as tx:
        return tx.execute(
            text("SELECT * FROM jedi_datasets WHERE datasetid = :d"), {"d": dataset_id}
        ).one()


def wrong_counters(engine: Engine) -> list[Any]:
    """Datasets whose counters differ from their rows."""
    with engine.begin() as tx:
        return list(
            tx.execute(
                text(
                    "SELECT d.datasetid, d.nfilesused, d.nfilesfinished, d.nfilesfailed, r.* "
                    "FROM jedi_datasets d JOIN (SELECT datasetid, "
                    " count(*) FILTER (WHERE type NOT IN ('output', 'log') "
                    "  AND status IN ('picked', 'running', 'finished', 'failed')) AS used, "
                    " count(*) FILTER (WHERE status = 'finished') AS finished, "
                    " count(*) FILTER (WHERE status = 'failed') AS failed "
                    " FROM jedi_dataset_contents GROUP BY datasetid) r USING (datasetid) "
                    "WHERE (d.nfilesfinished, d.nfilesfailed) <> (r.finished, r.failed) "
                    "  OR d.nfilesused <> r.used"
                )
            )
        )


def test_success(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 2)
        reach(tx, made.jobs, "holding")
        tx.execute(
            text(
                "UPDATE jedi_job_files SET fsize = 5, checksum = 'c', guid = 'g' "
                "WHERE type = 'output'"
            )
        )
    one = made.jobs[0]
    assert end(engine, JobEnd(one, "finished", "ok", "It worked.")) == [one]
    assert files(engine, made.input) == [("finished", 0)] * 2 + [("running", 0)] * 2
    assert files(engine, made.seeds) == [("finished", 0), ("running", 0)]
    assert files(engine, made.output) == [("finished", 0), ("defined", 0)]
    assert files(engine, made.log) == [("finished", 0), ("defined", 0)]
    inputs = dataset(engine, made.input)
    assert (inputs.nfilesfinished, inputs.nfilesused, inputs.neventsused) == (2, 4, 20)
    assert dataset(engine, made.output).nfilesfinished == 1
    assert dataset(engine, made.output).neventsused is None
    assert wrong_counters(engine) == []
    with engine.begin() as tx:
        output = tx.execute(
            text(
                "SELECT fsize, checksum, guid, proc_status FROM jedi_dataset_contents "
                "WHERE type = 'output' AND status = 'finished'"
            )
        ).one()
        assert tuple(output) == (5, "c", "g", "finished")
        job = tx.execute(text("SELECT * FROM jedi_jobs WHERE pandaid = :id"), {"id": one}).one()
        assert (job.status, job.error_code, job.error_diag) == ("finished", None, None)
        assert job.postprocessed_at is not None
        assert job.endtime is not None
        log = tx.execute(
            text(
                "SELECT fromstatus, status, agent, reason_code, reason FROM jedi_jobs_statuslog "
                "WHERE pandaid = :id ORDER BY log_id DESC LIMIT 1"
            ),
            {"id": one},
        ).one()
        assert tuple(log) == ("holding", "finished", "me", "ok", "It worked.")


def test_a_file_that_another_changes_at_this_moment_is_settled_too(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 2)
        reach(tx, made.jobs, "holding")
    ends = [JobEnd(job, "finished", "ok", "It worked.") for job in made.jobs]
    with engine.connect() as other:
        other.execute(
            text(
                "UPDATE jedi_dataset_contents SET ramcount = 7 WHERE fileid IN ("
                "SELECT min(fileid) FROM jedi_dataset_contents WHERE datasetid = :d)"
            ),
            {"d": made.input},
        )
        with blocked(engine, lambda tx: job_ends.end_jobs(tx, ends, "me")):
            other.commit()
    assert files(engine, made.input) == [("finished", 0)] * 4
    assert dataset(engine, made.input).nfilesfinished == 4
    assert wrong_counters(engine) == []


@pytest.mark.parametrize(
    ("target", "attempt", "max_attempt", "max_failure", "status", "failures"),
    [
        ("failed", 1, 3, None, "ready", 1),
        ("failed", 3, 3, None, "failed", 1),
        ("failed", 1, 3, 1, "failed", 1),
        ("failed", 1, 3, 2, "ready", 1),
        ("closed", 1, 3, 1, "ready", 0),
        ("closed", 3, 3, None, "failed", 0),
        ("cancelled", 2, 3, None, "ready", 0),
    ],
)
def test_failure(
    engine: Engine,
    target: str,
    attempt: int,
    max_attempt: int,
    max_failure: int | None,
    status: str,
    failures: int,
) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1, attempt=attempt, max_attempt=max_attempt, max_failure=max_failure)
        reach(tx, made.jobs, "running")
    assert end(engine, JobEnd(made.jobs[0], target, "why", "Because.", None, "pilot"))
    assert files(engine, made.input) == [(status, failures)] * 2
    assert files(engine, made.seeds)[0][0] == "ready"
    assert {s for s, _ in files(engine, made.output) + files(engine, made.log)} == {"failed"}
    inputs = dataset(engine, made.input)
    assert inputs.nfilesused == (0 if status == "ready" else 2)
    assert inputs.neventsused is None
    assert dataset(engine, made.seeds).nfilesused == 0
    assert wrong_counters(engine) == []
    with engine.begin() as tx:
        job = tx.execute(text("SELECT * FROM jedi_jobs")).one()
        assert (job.error_source, job.error_code, job.error_diag) == ("pilot", "why", "Because.")


def test_a_second_end_and_a_stale_fence_change_nothing(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 2)
        reach(tx, made.jobs, "running")
        tx.execute(text("UPDATE jedi_jobs SET lock_seq = 5"))
    one, other = made.jobs
    assert end(engine, JobEnd(one, "failed", "a", "a"), JobEnd(one, "failed", "a", "a")) == [one]
    assert end(engine, JobEnd(one, "finished", "b", "b")) == []
    assert end(engine, JobEnd(other, "failed", "a", "a", lock_seq=4)) == []
    assert end(engine, JobEnd(other, "failed", "a", "a", lock_seq=5)) == [other]
    assert end(engine) == []
    assert files(engine, made.input) == [("ready", 1)] * 4
    assert wrong_counters(engine) == []


def test_a_queued_job_leaves_the_queue(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1)
    assert end(engine, JobEnd(made.jobs[0], "cancelled", "killed", "By me.", None, "user"))
    with engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) == 0
    assert files(engine, made.input) == [("ready", 0)] * 2


def test_an_input_that_another_job_uses_now_is_left_alone(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 2, files=1)
        reach(tx, made.jobs, "running")
        one, other = made.jobs
        tx.execute(
            text(
                "UPDATE jedi_dataset_contents SET pandaid = :to "
                "WHERE pandaid = :id AND type = 'input'"
            ),
            {"id": one, "to": other},
        )
    end(engine, JobEnd(one, "failed", "x", "x"))
    assert files(engine, made.input) == [("running", 0)] * 2


def test_success_must_come_from_where_it_can(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1)
    with pytest.raises(DBAPIError, match="forbidden move"):
        end(engine, JobEnd(made.jobs[0], "finished", "x", "x"))
    assert files(engine, made.input) == [("running", 0)] * 2


def test_transferring(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1)
        reach(tx, made.jobs, "holding")
    (job,) = made.jobs
    with engine.begin() as tx:
        move = jobs.JobMove(job, "transferring", "outputs_move", "On their way.")
        assert [m.panda_id for m in job_ends.await_transfer(tx, [move], "me")] == [job]
    assert files(engine, made.output) == [("prepared", 0)]
    assert files(engine, made.input) == [("running", 0)] * 2
    end(engine, JobEnd(job, "finished", "ok", "ok"))
    assert files(engine, made.output) == [("finished", 0)]
    assert wrong_counters(engine) == []


def test_statements_do_not_grow_with_the_batch(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 101)
        reach(tx, made.jobs, "holding")
    seen = watch(engine)
    end(engine, JobEnd(made.jobs[0], "finished", "x", "x"))
    for_one = len(seen)
    seen.clear()
    end(engine, *(JobEnd(job, "finished", "x", "x") for job in made.jobs[1:]))
    assert len(seen) == for_one <= 6


def test_four_enders_two_pilots_and_a_dispatcher_at_once(engine: Engine) -> None:
    """Batches of all sizes over shared datasets, most jobs ended by two: no dead-lock, every job
    ends once, every counter is right."""
    with engine.begin() as tx:
        tasks = [make_jobs(tx, 120, files=3, max_attempt=1 + n) for n in range(4)]
        held = dispatch.acquire(tx, "SITE_A", 400, Resources(cores=1), "r", "p")
    everything = [job for made in tasks for job in made.jobs]

    def ender(number: int) -> list[int]:
        dice, ended, mine = random.Random(number), [], everything[:]
        dice.shuffle(mine)
        while mine:
            batch = [mine.pop() for _ in range(min(len(mine), dice.choice((1, 3, 20))))]
            target = dice.choice(("failed", "closed", "cancelled"))
            ended += end(engine, *(JobEnd(job, target, "c", "r") for job in batch))
        return ended

    def pilot(number: int) -> list[int]:
        dice, mine = random.Random(-number), held[:]
        dice.shuffle(mine)
        for start in range(0, len(mine), 7):
            said = [
                Report(pandaid=j.panda_id, lock_seq=1, status="running")
                for j in mine[start : start + 7]
            ]
            with engine.begin() as tx:
                dispatch.accept_reports(tx, "SITE_A", said)
        return []

    def dispatcher(number: int) -> list[int]:
        for n in range(40):
            with engine.begin() as tx:
                dispatch.acquire(tx, "SITE_A", 1, Resources(cores=1), f"{number} {n}", "p")
        return []

    workers = [ender] * 4 + [pilot] * 2 + [dispatcher]
    with ThreadPoolExecutor(len(workers)) as pool:
        runs = [pool.submit(work, n) for n, work in enumerate(workers)]
        ended = [job for run in runs for job in run.result()]
    assert sorted(ended) == everything
    assert wrong_counters(engine) == []
    check_rows(engine, tasks)


def check_rows(engine: Engine, tasks: list[Made]) -> None:
    with engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_job_ready")) == 0
        in_log = tx.execute(
            text(
                "SELECT status, count(*) FROM jedi_jobs_statuslog WHERE status IN "
                "('failed', 'closed', 'cancelled') GROUP BY status"
            )
        ).all()
        in_rows = tx.execute(text("SELECT status, count(*) FROM jedi_jobs GROUP BY status")).all()
        deltas = tx.execute(text("SELECT status, sum(jobs) FROM job_stats_delta GROUP BY status"))
        assert Counter(dict(in_log)) == Counter(dict(in_rows))
        assert {s: int(n) for s, n in deltas if n} == dict(in_rows)
        failures = tx.execute(
            text(
                "SELECT j.status, c.failedattempt, count(*) FROM jedi_jobs j "
                "JOIN jedi_dataset_contents c USING (pandaid) WHERE c.type = 'input' "
                "GROUP BY 1, 2"
            )
        )
        assert {(status, n) for status, n, _ in failures} == {
            ("failed", 1),
            ("closed", 0),
            ("cancelled", 0),
        }
    assert {s for s, _ in files(engine, tasks[0].input)} == {"failed"}
    assert {s for s, _ in files(engine, tasks[1].input)} == {"ready"}
