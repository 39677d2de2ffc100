"""The job machine: what reports may change, why jobs were killed, which job stands for which."""

# Raw UPDATEs: every status is tried.

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import Engine, text
from support.calls import call
from support.commanding import end, everything, files, jobs, running, take
from support.generating import document, generate, ready, rows
from support.helpers import put_file_dataset, unguard
from support.job_rows import make_jobs
from support.situations import make_due

from jedi.agent.base import World
from jedi.core import states
from jedi.core.errors import NotFound
from jedi.core.kills import KILLS, Kill, kill
from jedi.core.reasons import JOBS
from jedi.model.jobs.wire import DIAG_MAX, Beat, Report, Reports, Resources
from jedi.service.tasks import task_details
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.jobs.jobs import ASK_TO_KILL, JobMove, move_jobs

# ----------------------------------------------------------------------------------- the machine


def test_no_step_goes_back() -> None:
    """A job whose attempt is over is closed; another one takes over. Only the queue is left and
    entered again."""
    order = [*states.JOB_LIVE, *states.JOB_FINAL]
    order.remove("throttled")
    order.insert(order.index("activated"), "throttled")
    back = {(a, b) for a, b in states.JOB.pairs if order.index(a) > order.index(b)}
    assert back == {("activated", "throttled")}
    assert not {a for a, _ in states.JOB.pairs} & states.JOB.final
    for status in states.JOB_LIVE:
        ends = {b for a, b in states.JOB.pairs if a == status} & states.JOB.final
        assert ends >= {"failed", "cancelled", "closed"}


SAYS = ("starting", "running", "finished", "failed", "cancelled")
MOVED = {
    ("sent", "starting"): "starting",
    ("sent", "running"): "running",
    ("starting", "running"): "running",
    **{(status, say): "holding" for status in states.JOB_AT_SITE for say in SAYS[2:]},
}


@pytest.mark.usefixtures("world")
def test_what_reports_may_change(engine: Engine) -> None:
    """Every report in every status: failed jobs ignore pilots that think them alive, holding and
    transferring ones are not set back, running ones not to starting; merging ones ignore all."""
    cases = [(status, say) for status in states.JOB.states for say in SAYS]
    with engine.begin() as tx:
        made = make_jobs(tx, len(cases), files=1)
        dispatch.acquire(tx, "SITE_A", len(cases), Resources(cores=1), "r", "p")
        unguard(tx)
        for job, (status, _) in zip(made.jobs, cases, strict=True):
            tx.execute(
                text(
                    "UPDATE jedi_jobs SET status = :s, postprocessed_at = CASE :s "
                    "WHEN 'finished' THEN jedi_now() END WHERE pandaid = :id"
                ),
                {"s": status, "id": job},
            )
        said = [
            Report(pandaid=job, lock_seq=1, status=say)  # type: ignore[arg-type]
            for job, (_, say) in zip(made.jobs, cases, strict=True)
        ]
        heard = dispatch.accept_reports(tx, "SITE_A", said)
        now = tx.scalars(text("SELECT status FROM jedi_jobs ORDER BY pandaid")).all()
    assert now == [MOVED.get(case, case[0]) for case in cases]
    assert [one is not None for one in heard] == [one in states.JOB_AT_SITE for one, _ in cases]


@pytest.mark.usefixtures("world")
def test_two_pilots_with_one_job(engine: Engine) -> None:
    """The one whose attempt is not the job's is told to kill it, and its reports are thrown away:
    whatever it says, the other goes on."""
    with engine.begin() as tx:
        make_jobs(tx, 1)
        (job,) = dispatch.acquire(tx, "SITE_A", 1, Resources(cores=1), "r", "p")
        tx.execute(text("UPDATE jedi_jobs SET lock_seq = 2"))  # as if it was dispatched again
        one, other = (Beat(pandaid=job.panda_id, lock_seq=seq) for seq in (1, 2))
        assert dispatch.beat(tx, "SITE_A", [one, other]) == [
            ("kill", "This attempt is not known."),
            ("none", None),
        ]
        for seq, heard in ((1, None), (3, None), (2, "failed")):
            report = Report(pandaid=job.panda_id, lock_seq=seq, status="failed")
            assert dispatch.accept_reports(tx, "SITE_A", [report]) == [heard]


@pytest.mark.usefixtures("world")
def test_reports_as_they_should_not_be(engine: Engine) -> None:
    for bad in (
        '"status": "dancing"',
        '"status": "running", "measures": {"cpu_s": NaN}',
        '"status": "running", "measures": {"wall_s": Infinity}',
        '"status": "running", "measures": {"max_pss_kb": -1}',
        '"status": "running", "nonsense": 1',
        '"status": null',
    ):
        with pytest.raises(ValidationError):
            Reports.model_validate_json(f'{{"reports": [{{"pandaid": 1, "lock_seq": 1, {bad}}}]}}')
    with engine.begin() as tx:
        make_jobs(tx, 1)
        (job,) = dispatch.acquire(tx, "SITE_A", 1, Resources(cores=1), "r", "p")
        long = Report(
            pandaid=job.panda_id,
            lock_seq=1,
            status="failed",
            error_code="x",
            error_diag="é\0" * 500_000,
            stderr_tail="y" * 1_000_000,
        )
        assert dispatch.accept_reports(tx, "SITE_A", [long, long]) == ["failed", "failed"]
        assert len(tx.scalar(text("SELECT error_diag FROM jedi_jobs")) or "") == DIAG_MAX


# ------------------------------------------------------------------------------------ kill codes


def test_kill_codes_are_reasons() -> None:
    assert KILLS.keys() <= JOBS.keys()
    assert kill("killed") == Kill(50)
    assert kill(None) is kill("payload_exit") is None


@pytest.mark.usefixtures("world")
def test_kill_codes_are_kept(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 4)
        asked, ended, failed, done = made.jobs
        moves = [JobMove(job, "sent", "acquired", "a") for job in (asked, failed, done)]
        move_jobs(tx, moves, "me", ["activated"])
        ASK_TO_KILL.run(tx, code="killed", ids=[asked, done])
        move_jobs(tx, [JobMove(done, "holding", "reported", "r")], "me", ["sent"])
        job_ends.end_jobs(
            tx,
            [
                JobEnd(asked, "closed", "reassigned", "r"),
                JobEnd(ended, "closed", "rebrokered", "r"),
                JobEnd(failed, "failed", "payload_exit", "r"),
                JobEnd(done, "finished", "ok", "r"),
            ],
            "me",
        )
        found = task_details.jobs(tx, made.task)
    assert [(job.kill_code, job.kill_number) for job in found] == [
        ("killed", 50),
        ("rebrokered", 8),
        (None, None),
        (None, None),
    ]


# -------------------------------------------------------------------------------------- lineage


def end_as(world: World, panda_id: int, target: str, code: str) -> None:
    with world.engine.begin() as tx:
        assert job_ends.end_jobs(tx, [JobEnd(panda_id, target, code, "r")], "me")


def stands(world: World, task: int, panda_id: int) -> list[tuple[int, str]]:
    with world.engine.begin() as tx:
        return [
            (job.panda_id, job.status) for job in task_details.descendants(call(tx), task, panda_id)
        ]


@pytest.mark.parametrize(
    ("target", "code", "relation"),
    [
        ("failed", "payload_exit", "retry"),
        ("closed", "shut_down", "retry"),
        ("closed", "rebrokered", "rebrokerage"),
        ("closed", "reassigned", "reassign"),
    ],
)
def test_why_a_job_takes_over(world: World, target: str, code: str, relation: str) -> None:
    task = running(world, 1)
    [first] = jobs(world, task, "activated")
    end_as(world, first, target, code)
    assert stands(world, task, first) == [(first, target)]
    everything(world)
    [second] = jobs(world, task, "activated")
    with world.engine.begin() as tx:
        one, two = task_details.jobs(tx, task)
    assert (one.predecessors, one.relation) == (None, None)
    assert (two.predecessors, two.relation) == ([first], relation)
    assert (two.unit_nr, two.origin_panda_id, two.priority) == (one.unit_nr, first, one.priority)
    assert stands(world, task, first) == [(second, "activated")]
    end_as(world, second, "failed", "payload_exit")
    make_due(world)
    everything(world)
    [third] = jobs(world, task, "activated")
    take(world, [third])
    end(world, [third])
    assert stands(world, task, first) == stands(world, task, second) == [(third, "finished")]


def test_inputs_of_several_jobs_in_one(world: World) -> None:
    """Two jobs fail, one of them with two files; a job is made of all, and one of them comes alone:
    its origin is the smallest, and it is found under each."""
    put_file_dataset(world, "demo:in", {f"f{n}": b"x" for n in range(4)}, "SITE_A_DATADISK")
    (task,) = ready(world, document(nFilesPerJob=2))
    assert generate(world) == 1
    one, two = jobs(world, task, "activated")
    end_as(world, one, "failed", "payload_exit")
    end_as(world, two, "failed", "payload_exit")
    with world.engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET rules = rules || '{\"n_files_per_job\": 3}'"))
    everything(world)
    large, small = jobs(world, task, "activated")
    history = rows(world, "SELECT * FROM jedi_job_retry_history ORDER BY newpandaid, oldpandaid")
    assert [(h.oldpandaid, h.newpandaid, h.originpandaid) for h in history] == [
        (one, large, one),
        (two, large, one),
        (two, small, two),
    ]
    assert stands(world, task, one) == [(large, "activated")]
    assert stands(world, task, two) == [(large, "activated"), (small, "activated")]
    end_as(world, small, "closed", "shut_down")
    assert stands(world, task, two) == [(small, "closed"), (large, "activated")]
    end_as(world, large, "failed", "payload_exit")
    assert stands(world, task, two) == [(large, "failed"), (small, "closed")]
    with world.engine.begin() as tx, pytest.raises(NotFound):
        task_details.descendants(call(tx), task, 10**9)


# ------------------------------------------------------------------------- attempts and failures


@pytest.mark.parametrize(
    ("said", "ends", "left"),
    [
        # cancelled jobs use up attempts, but are no failures; closed ones are nobody's fault
        ({"maxAttempt": 3, "maxFailure": 2}, ["cancelled", "failed", "cancelled"], "failed"),
        ({"maxAttempt": 3, "maxFailure": 2}, ["closed", "failed", "closed", "cancelled"], "ready"),
        ({"maxAttempt": 9, "maxFailure": 2}, ["closed", "failed", "failed"], "failed"),
        ({"maxAttempt": 2}, ["cancelled", "closed"], "ready"),
    ],
)
def test_attempts_are_not_failures(
    world: World, said: dict[str, Any], ends: list[str], left: str
) -> None:
    codes = {"failed": "payload_exit", "cancelled": "cancelled_by_user", "closed": "shut_down"}
    task = running(world, 1, **said)
    for left_to_end, target in zip(reversed(range(len(ends))), ends, strict=True):
        [job] = jobs(world, task, "activated")
        end_as(world, job, target, codes[target])
        assert generate(world) == bool(left_to_end or left == "ready")
    assert files(world, task) == {"running" if left == "ready" else left: 1}
    [row] = rows(
        world, "SELECT attemptnr, failedattempt FROM jedi_dataset_contents WHERE type = 'input'"
    )
    assert row.failedattempt == ends.count("failed")
    assert row.attemptnr == len(ends) + (left == "ready")
