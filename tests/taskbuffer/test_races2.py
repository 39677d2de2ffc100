"""Who comes late, and who locks what: workers whose lease ended, dogs beside commands, rules beside
failing jobs."""

# Raw UPDATEs: the race begins in the middle of a move.

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, text
from support.job_rows import make_jobs
from support.races import blocked, killed
from support.situations import lead

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.jobdispatcher.outcome import TRANSFERRING, JobVerdict
from jedi.model.jobs.wire import Beat, Report, Resources
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.housekeeping import dogs
from jedi.taskbuffer.jobs import dispatch, jobs, retry_rules, timeouts
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk
from jedi.watchdog.timeouts import _given


def test_a_worker_whose_lease_ended_writes_nothing_any_more(world: World) -> None:
    """Dogs move tasks without a claim: what an older one of them still writes has to be void."""
    with world.engine.begin() as tx:
        task = make_jobs(tx, 1).task
        tasks.move_tasks(tx, [Move(task, None, "pending", "no_site_now", "")], "test")
        (held,) = tasks.claim(tx, ["pending"], "late", -1.0, 1)
    with world.engine.begin() as tx:  # it may still come back
        assert dogs.ON_HOLD.rows(tx, retry_s=-1.0, timeout_s=1e9, limit=10) == []
    assert walk(world, DOGS["leases"]) == Counts(lease_over=1)
    with world.engine.begin() as tx:
        assert tasks.fence(tx, [(task, held.lock_seq)]) == set()
        assert [
            row.jedi_task_id for row in dogs.ON_HOLD.rows(tx, retry_s=-1.0, timeout_s=1e9, limit=10)
        ] == [task]


def test_a_command_locks_jobs_in_one_order(world: World) -> None:
    """Those that have to be told come after others that end at once."""
    made, kill = killed(world)
    with world.engine.connect() as other:
        jobs.LOCK_JOBS.run(other, ids=made.jobs[:1])
        with blocked(world.engine, kill):
            jobs.LOCK_JOBS.run(other, ids=made.jobs)
            other.commit()
    with world.engine.begin() as tx:
        found = dict(job_ends.STATUSES.rows(tx, ids=made.jobs))
    assert [found[job] for job in made.jobs] == ["cancelled", "running"]


def test_the_dog_of_timeouts_leaves_locks_to_who_ends_jobs(world: World) -> None:
    """With a merge job end older ones that wait for it, and those are locked before."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        tx.execute(text("UPDATE jedi_jobs SET statechangetime = 'epoch'"))
    with world.engine.begin() as dog, world.engine.begin() as other:
        assert timeouts.overdue(dog, world.knobs, _given(world.knobs), 10)
        other.execute(text("SET LOCAL lock_timeout = '5s'"))
        assert dict(jobs.LOCK_JOBS.rows(other, ids=made.jobs)) == {made.jobs[0]: "activated"}


def test_what_a_rule_wants_while_others_are_obeyed_is_not_forgotten(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 2, memory_mb=2000)
    first, second = (
        [JobEnd(job, "failed", "memory_limit", "Oh.", None, "pilot")] for job in made.jobs
    )
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, first, "test")
    with world.engine.begin() as dog:
        assert [*retry_rules.due(dog, 10)] == [made.task]
        assert len(retry_rules.CAUSES.rows(dog, ids=[made.task])) == 1
        with world.engine.begin() as tx:
            job_ends.end_jobs(tx, second, "test")
        retry_rules.change(dog, {}, {})
    with world.engine.begin() as tx:
        open_ = "SELECT pandaid FROM jedi_retry_matches WHERE settled_at IS NULL"
        assert tx.scalars(text(open_)).all() == made.jobs[1:]


def test_the_adder_locks_jobs_in_one_order(world: World) -> None:
    """Those whose outputs move come after others that end."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 2)
        lead(tx, made.jobs, "sent", "running", "holding")
        # raw: what a pilot reports without staging files
        tx.execute(text("UPDATE jedi_jobs SET pilot_result = 'failed'"))
        found = job_ends.reported(tx, 2)
    verdicts = (TRANSFERRING, JobVerdict("failed", "payload_exit", "It failed.", "payload"))
    results = list(zip(found, verdicts, strict=True))
    with world.engine.connect() as other:
        jobs.LOCK_JOBS.run(other, ids=made.jobs[:1])
        with blocked(world.engine, lambda tx: Adder(world).apply(tx, results)):
            jobs.LOCK_JOBS.run(other, ids=made.jobs)
            other.commit()
    with world.engine.begin() as tx:
        ends = dict(job_ends.STATUSES.rows(tx, ids=made.jobs))
    assert [ends[job] for job in made.jobs] == ["transferring", "failed"]


def test_what_pilots_say_while_their_jobs_are_being_changed_is_heard(world: World) -> None:
    """What a statement finds when it has waited is newer than what it saw when it began."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 2)
        held = dispatch.acquire(tx, "SITE_A", 2, Resources(cores=1), "r", "p")
    who = [{"pandaid": job.panda_id, "lock_seq": job.lock_seq} for job in held]
    began = [Report.model_validate({**one, "status": "running"}) for one in who]
    beats = [Beat.model_validate({**one, "measures": {"cpu_s": 7}}) for one in who]
    ended = [Report.model_validate({**one, "status": "failed", "exit_code": 1}) for one in who]
    said: list[Callable[[Connection], object]] = [
        lambda tx: dispatch.accept_reports(tx, "SITE_A", began),
        lambda tx: dispatch.beat(tx, "SITE_A", beats),
        lambda tx: dispatch.accept_reports(tx, "SITE_A", ended),
    ]
    for say in said:
        with world.engine.connect() as other:
            other.execute(text("UPDATE jedi_jobs SET priority = priority + 1"))
            with blocked(world.engine, say):
                other.commit()
    with world.engine.begin() as tx:
        found = tx.execute(
            text("SELECT status, starttime IS NOT NULL, cpu_s, exit_code FROM jedi_jobs")
        ).all()
        steps = tx.scalars(text("SELECT status FROM jedi_jobs_statuslog ORDER BY log_id")).all()
    assert len(made.jobs) == 2
    assert found == [("holding", False, 7, 1)] * 2
    assert steps == [s for s in ("activated", "sent", "running", "holding") for _ in made.jobs]
