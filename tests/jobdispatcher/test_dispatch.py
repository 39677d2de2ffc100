"""acquire, report, heartbeat and log: what pilots say and get, against the database."""

# Raw UPDATEs: columns of jobs that their builder leaves at defaults.

from __future__ import annotations

import json
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import Engine, text
from sqlalchemy.exc import DBAPIError
from support.job_rows import make_jobs, watch
from support.situations import lose_job, set_sites

from jedi.agent.base import World
from jedi.core.errors import Forbidden, Refused
from jedi.ddm.filesystem import FileSystemDDM
from jedi.model.jobs.attempt import HeldJob
from jedi.model.jobs.wire import (
    AcquireRequest,
    Beat,
    LogEntry,
    Measures,
    Report,
    Resources,
    StagedOutput,
)
from jedi.pilot.delegation import delegation
from jedi.service.jobs import job_details as service_jobs
from jedi.service.pilots import pilot_requests
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.jobs import dispatch, jobs
from jedi.taskbuffer.jobs.jobs import JobMove
from jedi.taskbuffer.users.users import Identity

PILOT_A = Identity("pilot", "SITE_A", None)


@pytest.fixture(autouse=True)
def _sites(world: World) -> None:
    """Every test has SITE_A and SITE_B."""


def take(
    engine: Engine, n: int = 1, request: str = "r", site: str = "SITE_A", **slot: int
) -> list[HeldJob]:
    resources = Resources(cores=slot.pop("cores", 1), **slot)
    with engine.begin() as tx:
        return dispatch.acquire(tx, site, n, resources, request, "pilot 1")


def tell(engine: Engine, *reports: Report, site: str = "SITE_A") -> list[bool]:
    with engine.begin() as tx:
        return [one is not None for one in dispatch.accept_reports(tx, site, reports)]


def say(job: HeldJob, status: Any, **more: Any) -> Report:
    return Report(pandaid=job.panda_id, lock_seq=job.lock_seq, status=status, **more)


def ends_well(job: HeldJob) -> Report:
    made = [
        StagedOutput(lfn=f.lfn, size=7, adler32="0000abcd", guid="ab-1")
        for f in job.files
        if f.type in ("output", "log")
    ]
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return say(
        job,
        "finished",
        exit_code=0,
        started_at=at,
        ended_at=at,
        outputs=made,
        stderr_tail="bye",
        measures=Measures(cpu_s=1.5, max_rss_kb=10),
    )


def row(engine: Engine, panda_id: int) -> Any:
    with engine.begin() as tx:
        return tx.execute(
            text("SELECT * FROM jedi_jobs WHERE pandaid = :id"), {"id": panda_id}
        ).one()


def stats(engine: Engine) -> dict[str, int]:
    with engine.begin() as tx:
        rows = tx.execute(text("SELECT status, sum(jobs) FROM job_stats_delta GROUP BY status"))
        return {status: int(n) for status, n in rows if n}


def log(engine: Engine, panda_id: int) -> list[str]:
    with engine.begin() as tx:
        return list(
            tx.scalars(
                text("SELECT status FROM jedi_jobs_statuslog WHERE pandaid = :id ORDER BY log_id"),
                {"id": panda_id},
            )
        )


# ------------------------------------------------------------------------------------- acquire


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({}, ("local", None, "7")),
        ({"SLURM_JOB_ID": "12", "SLURM_JOB_PARTITION": "long"}, ("slurm", "long", "12")),
        ({"LSB_JOBID": "9", "LSB_QUEUE": ""}, ("lsf", None, "9")),
        (
            {"GRID_GLOBAL_JOBID": "https://ce/jobs/3", "PBS_JOBID": "3"},
            ("grid", None, "https://ce/jobs/3"),
        ),
    ],
)
def test_whom_a_job_was_handed_to(
    world: World, variables: dict[str, str], told: tuple[str, ...]
) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
    request = AcquireRequest.model_validate(
        {
            "request_id": "r",
            "pilot_id": "p",
            "site": "SITE_A",
            "n": 1,
            "resources": {"cores": 1},
            "delegation": delegation(variables, 7),
        }
    )
    assert (
        len(pilot_requests.acquire(world.engine, world.ddm, world.knobs, PILOT_A, request)["jobs"])
        == 1
    )
    with world.engine.begin() as tx:
        job = service_jobs.get(tx, made.jobs)[0]
    assert (job.delegation_kind, job.delegation_queue, job.delegation_id) == told


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "a\nb", "a\x1bb", ""])
def test_no_pilot_has_a_name_that_is_a_path(name: str) -> None:
    asked = {"request_id": "r", "pilot_id": name, "site": "S", "n": 1, "resources": {"cores": 1}}
    with pytest.raises(ValidationError, match="pilot_id"):
        AcquireRequest.model_validate(asked)


def test_acquire_hands_out_everything_a_pilot_needs(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 3)
    job, second = take(engine, 2)
    assert (job.panda_id, second.panda_id) == (made.jobs[0], made.jobs[1])
    assert (job.lock_seq, job.attempt_nr, job.command) == (1, 1, f"echo {job.panda_id}")
    assert Counter(f.type for f in job.files) == {
        "input": 2,
        "random_seed": 1,
        "output": 1,
        "log": 1,
    }
    assert job.site_endpoint == "SITE_A_DATADISK"
    found = row(engine, job.panda_id)
    assert (found.status, found.pilot_id) == ("sent", "pilot 1")
    assert log(engine, job.panda_id) == ["activated", "sent"]
    assert stats(engine) == {"activated": 1, "sent": 2}
    with engine.begin() as tx:
        assert tx.scalars(text("SELECT pandaid FROM jedi_job_ready")).all() == made.jobs[2:]


def test_a_repeated_request_gets_the_jobs_still_held(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 5)
    first = take(engine, 2)
    assert take(engine, 2) == first
    tell(engine, ends_well(first[0]))
    assert take(engine, 2) == first[1:]
    assert not {j.panda_id for j in take(engine, 3, "other")} & {j.panda_id for j in first}
    assert stats(engine) == {"sent": 4, "holding": 1}


def test_an_empty_answer_is_not_remembered(engine: Engine) -> None:
    assert take(engine) == []
    with engine.begin() as tx:
        make_jobs(tx, 1)
    assert len(take(engine)) == 1


def test_shares_alike_are_served_by_priority_and_age(engine: Engine) -> None:
    with engine.begin() as tx:
        low = make_jobs(tx, 2, share="a", priority=10).jobs
        high = make_jobs(tx, 1, share="a", priority=20).jobs
        other = make_jobs(tx, 2, share="b", priority=20).jobs
        elsewhere = make_jobs(tx, 1, site="SITE_B").jobs
    got = [take(engine, 1, f"r{n}")[0].panda_id for n in range(5)]
    assert got == [*high, *other, *low]
    assert take(engine, 1, "x") == []
    assert [j.panda_id for j in take(engine, 9, "y", site="SITE_B")] == elsewhere


def test_one_claim_goes_on_with_lower_priorities_and_other_shares(engine: Engine) -> None:
    with engine.begin() as tx:
        low = make_jobs(tx, 3, share="a", priority=10).jobs
        high = make_jobs(tx, 2, share="a", priority=20).jobs
        lowest = make_jobs(tx, 2, share="a", priority=-5).jobs
        other = make_jobs(tx, 2, share="b", priority=15).jobs
    assert [job.panda_id for job in take(engine, 6, "x")] == [*high, *low, lowest[0]]
    assert [job.panda_id for job in take(engine, 9, "y")] == [*other, lowest[1]]


def test_one_request_fills_up_from_several_shares(engine: Engine) -> None:
    with engine.begin() as tx:
        for share in "cab":
            make_jobs(tx, 2, share=share)
    assert len(take(engine, 5)) == 5
    assert len(take(engine, 5, "again")) == 1


def test_only_jobs_that_fit_into_the_slot(engine: Engine) -> None:
    with engine.begin() as tx:
        wide = make_jobs(tx, 1, cores=8, priority=900).jobs
        fat = make_jobs(tx, 1, memory_mb=4000, priority=800).jobs
        slim = make_jobs(tx, 1).jobs
    assert take(engine, 9, "1", walltime_s=599) == []
    assert [j.panda_id for j in take(engine, 9, "2", memory_mb=2000)] == slim
    assert [j.panda_id for j in take(engine, 9, "3", cores=8, min_cores=2)] == wide
    assert take(engine, 9, "4", min_memory_mb=4001) == []
    assert [j.panda_id for j in take(engine, 9, "5", min_memory_mb=4000)] == fat


def test_jobs_being_moved_are_passed_over(engine: Engine) -> None:
    """Who moves a job locks it first and its row in the queue then: acquire must not wait."""
    with engine.begin() as tx:
        first, second = make_jobs(tx, 2).jobs
    with engine.begin() as tx:
        tx.execute(text("SELECT FROM jedi_jobs WHERE pandaid = :id FOR UPDATE"), {"id": first})
        assert [j.panda_id for j in take(engine, 9)] == [second]
        jobs.move_jobs(tx, [JobMove(first, "cancelled", "c", "r")], "me", ["activated"])
    assert take(engine, 9, "later") == []


def test_many_pilots_get_each_job_once(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 300, files=1)

    def pilot(number: int) -> list[int]:
        got: list[int] = []
        while found := take(engine, 1 + number % 3, f"{number} {len(got)}"):
            got += [job.panda_id for job in found]
        return got

    with ThreadPoolExecutor(6) as pool:
        got = [one for some in pool.map(pilot, range(6)) for one in some]
    assert sorted(got) == made.jobs
    assert stats(engine) == {"sent": 300}


@pytest.mark.parametrize("error", [None, ZeroDivisionError])
def test_what_is_done_at_once_needs_no_commit_and_all_else_does(
    engine: Engine, error: type[Exception] | None
) -> None:
    with suppress(ZeroDivisionError), at_once(engine) as tx:
        knobs.put(tx, "adder.batch", 7, "me")
        if error:
            raise error
    with engine.connect() as tx:  # the same connection, if it is still good
        knobs.put(tx, "adder.batch", 8, "me")
    with engine.begin() as tx:
        assert knobs.load(tx)["adder.batch"] == 7


def test_a_connection_lost_while_something_is_done_at_once_is_replaced(engine: Engine) -> None:
    with engine.begin() as other, suppress(DBAPIError), at_once(engine) as tx:
        lost = tx.scalar(text("SELECT pg_backend_pid()"))
        other.execute(text("SELECT pg_terminate_backend(:pid, 10000)"), {"pid": lost})
        tx.execute(text("SELECT 1"))
        raise AssertionError("it was not lost")
    with engine.begin() as tx:
        assert tx.scalar(text("SELECT pg_backend_pid()")) != lost


def test_the_same_request_twice_at_once(engine: Engine, world: World) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 20)
    request = AcquireRequest(
        request_id="twin", pilot_id="p", site="SITE_A", n=5, resources=Resources(cores=1)
    )
    barrier = threading.Barrier(4)

    def ask(_: int) -> list[int]:
        barrier.wait()
        answer = pilot_requests.acquire(engine, world.ddm, world.knobs, PILOT_A, request)
        return [job["pandaid"] for job in answer["jobs"]]

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(ask, range(4)))
    assert all(answer == answers[0] for answer in answers)
    assert len(answers[0]) == 5
    assert stats(engine) == {"activated": 15, "sent": 5}


def test_another_site_may_not_ask(engine: Engine, world: World) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 1)
        make_jobs(tx, 1, site="SITE_B")
    request = AcquireRequest(
        request_id="r", pilot_id="p", site="SITE_B", n=1, resources=Resources(cores=1)
    )
    with pytest.raises(Forbidden, match="for SITE_A, not for SITE_B"):
        pilot_requests.acquire(engine, world.ddm, world.knobs, PILOT_A, request)
    with pytest.raises(Forbidden, match="not belong to a pilot"):
        user = Identity("user", None, "me")
        pilot_requests.acquire(engine, world.ddm, world.knobs, user, request)
    assert take(engine, request="r")
    with pytest.raises(Refused, match="Another site"):
        pilot_requests.acquire(
            engine, world.ddm, world.knobs, Identity("pilot", "SITE_B", None), request
        )


def test_orders_name_paths_and_limits(engine: Engine, world: World) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1, cores=2, memory_mb=500)
        set_sites(tx, maxwdir=1000)
        tx.execute(text("UPDATE jedi_taskparams SET sandbox_sha256 = 'abc'"))
        # two event ranges of one file
        tx.execute(
            text("UPDATE jedi_job_files SET lfn = 'in', checksum = '00000001' WHERE type = 'input'")
        )
    request = AcquireRequest(
        request_id="r", pilot_id="p", site="SITE_A", n=1, resources=Resources(cores=2)
    )
    (job,) = pilot_requests.acquire(engine, world.ddm, world.knobs, PILOT_A, request)["jobs"]
    root = world.settings.home / "storage" / "SITE_A"
    panda_id = made.jobs[0]
    assert job["inputs"] == [
        {"lfn": "in", "path": f"{root}/test/{made.task}.input/in", "size": 3, "adler32": "00000001"}
    ]
    assert job["outputs"] == [
        {"lfn": f"output.{panda_id}.1", "source_name": None, "allow_missing": False}
    ]
    assert job["log_lfn"] == f"log.{panda_id}.1"
    assert job["stage_out"] == f"{root}/.staging/{panda_id}.1"
    assert job["sandbox"] == "abc"
    assert job["limits"] == {
        "wall_s": 1200,
        "cpu_s": 2400,
        "memory_mb": 500,
        "workdir_mb": 1000,
        "max_processes": 256,
        "min_free_mb": 1000,
        "min_free_percent": 5,
    }


@pytest.mark.parametrize(
    ("needed_s", "rules", "wall_s"),
    [
        (0, {}, 0),
        (7, {}, 60),
        (600, {}, 1200),
        (600, {"max_walltime_h": 0.5}, 1800),
        (3600, {"max_walltime_h": 0.5}, 3600),
        # a scout that tells how many events fit into that time has all that its site allows
        (600, {"max_walltime_h": 0.5, "target_events_per_job": 9, "use_scout": 2}, 7200),
        (600, {"max_walltime_h": 0.5, "target_events_per_job": 9, "use_scout": 3}, 1800),
        (
            600,
            {
                "max_walltime_h": 0.5,
                "target_events_per_job": 9,
                "use_scout": 2,
                "n_files_per_job": 1,
            },
            1800,
        ),
    ],
)
def test_a_job_has_more_time_than_it_is_thought_to_need_or_what_its_owner_said(
    engine: Engine, world: World, needed_s: int, rules: dict[str, float], wall_s: int
) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 1)
        tx.execute(text("UPDATE jedi_jobs SET walltime_s = :s"), {"s": needed_s})
        set_sites(tx, maxtime=7200)
        tx.execute(
            text("UPDATE jedi_tasks SET rules = CAST(:r AS jsonb)"), {"r": json.dumps(rules)}
        )
    request = AcquireRequest(
        request_id="r", pilot_id="p", site="SITE_A", n=1, resources=Resources(cores=1)
    )
    (job,) = pilot_requests.acquire(engine, world.ddm, world.knobs, PILOT_A, request)["jobs"]
    assert job["limits"]["wall_s"] == wall_s


def test_a_job_whose_input_has_no_place_fails_with_the_reason(engine: Engine, world: World) -> None:
    with engine.begin() as tx:
        bad, good = make_jobs(tx, 2).jobs
        tx.execute(
            text(
                "UPDATE jedi_job_files SET endpoint = 'NOWHERE' "
                "WHERE pandaid = :id AND type = 'input'"
            ),
            {"id": bad},
        )
    request = AcquireRequest(
        request_id="r", pilot_id="p", site="SITE_A", n=2, resources=Resources(cores=1)
    )
    answer = pilot_requests.acquire(engine, world.ddm, world.knobs, PILOT_A, request)
    assert [job["pandaid"] for job in answer["jobs"]] == [good]
    failed = row(engine, bad)
    assert (failed.status, failed.pilot_result) == ("holding", "failed")
    assert failed.error_code == "endpoint_missing"
    assert "NOWHERE" in failed.error_diag


def test_an_endpoint_may_be_younger_than_what_the_service_knows(
    engine: Engine, world: World
) -> None:
    with engine.begin() as tx:
        [job] = make_jobs(tx, 1).jobs
    request = AcquireRequest(
        request_id="r", pilot_id="p", site="SITE_A", n=1, resources=Resources(cores=1)
    )
    answer = pilot_requests.acquire(
        engine, FileSystemDDM({}), world.knobs, PILOT_A, request, lambda: world.ddm
    )
    assert [order["pandaid"] for order in answer["jobs"]] == [job]


# ------------------------------------------------------------------------------------- reports


def test_a_life_in_reports(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_jobs(tx, 1)
    (job,) = take(engine)
    assert tell(engine, say(job, "starting")) == [True]
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert tell(engine, say(job, "running", started_at=at)) == [True]
    assert row(engine, job.panda_id).starttime == at
    with engine.begin() as tx:
        outputs = tx.scalars(
            text("SELECT status FROM jedi_dataset_contents WHERE type IN ('output', 'log')")
        )
        assert set(outputs) == {"running"}
    assert tell(engine, ends_well(job)) == [True]
    found = row(engine, job.panda_id)
    assert (found.status, found.pilot_result, found.exit_code) == ("holding", "finished", 0)
    assert (found.cpu_s, found.max_rss_kb, found.read_bytes) == (1.5, 10, None)
    assert log(engine, job.panda_id) == ["activated", "sent", "starting", "running", "holding"]
    assert stats(engine) == {"holding": 1}
    with engine.begin() as tx:
        files = tx.execute(
            text(
                "SELECT fsize, checksum, guid FROM jedi_job_files WHERE type <> 'input' "
                "AND datasetid IN (:out, :log)"
            ),
            {"out": made.output, "log": made.log},
        )
        assert set(files.all()) == {(7, "0000abcd", "ab-1")}
        assert tx.scalar(text("SELECT stderr_tail FROM jedi_job_tail")) == "bye"


def test_reports_out_of_order_and_repeated(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 1)
    (job,) = take(engine)
    assert tell(engine, say(job, "running")) == [True]
    before = row(engine, job.panda_id)
    assert tell(engine, say(job, "starting"), say(job, "running")) == [True, True]
    now = row(engine, job.panda_id)
    assert (now.status, now.statechangetime) == ("running", before.statechangetime)
    end = ends_well(job)
    assert tell(engine, end) == [True]
    assert tell(engine, end, say(job, "running"), say(job, "failed")) == [True] * 3
    assert row(engine, job.panda_id).pilot_result == "finished"
    assert log(engine, job.panda_id) == ["activated", "sent", "running", "holding"]
    with engine.begin() as tx:
        jobs.move_jobs(tx, [JobMove(job.panda_id, "finished", "c", "r")], "me", ["holding"])
    assert tell(engine, end) == [True]


def test_several_reports_of_a_job_in_one_message(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 2)
    one, two = take(engine, 2)
    said = tell(
        engine,
        say(one, "starting"),
        ends_well(one),
        say(one, "running"),
        say(two, "starting"),
        say(two, "running"),
    )
    assert said == [True] * 5
    assert row(engine, one.panda_id).status == "holding"
    assert row(engine, two.panda_id).status == "running"


def test_a_report_after_another_dispatch_is_stale(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 1)
    (job,) = take(engine)
    with engine.begin() as tx:
        lose_job(tx)
    assert tell(engine, ends_well(job)) == [False]
    assert row(engine, job.panda_id).status == "sent"
    with engine.begin() as tx:
        entry = LogEntry(pandaid=job.panda_id, lock_seq=job.lock_seq, stdout_tail="x")
        assert dispatch.store_tails(tx, "SITE_A", [entry]) == [False]


def test_late_foreign_and_unknown_reports_are_stale(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 2)
    lost, mine = take(engine, 2)
    with engine.begin() as tx:
        jobs.move_jobs(tx, [JobMove(lost.panda_id, "failed", "c", "r")], "me", ["sent"])
    unknown = Report(pandaid=10**9, lock_seq=1, status="running")
    assert tell(engine, ends_well(lost), ends_well(mine), unknown) == [False, True, False]
    assert tell(engine, ends_well(mine), site="SITE_B") == [False]
    assert row(engine, lost.panda_id).pilot_result is None


def test_reports_of_many_jobs_cost_as_many_statements_as_of_one(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 101)
    first, *others = take(engine, 101)
    statements = watch(engine)
    tell(engine, ends_well(first))
    for_one = len(statements)
    statements.clear()
    assert tell(engine, *map(ends_well, others)) == [True] * 100
    assert len(statements) == for_one <= 3


# ----------------------------------------------------------------- heartbeats and live output


def test_heartbeats(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 4)
    alive, killed, lost, done = take(engine, 4)
    tell(engine, ends_well(done))
    with engine.begin() as tx:
        jobs.ASK_TO_KILL.run(tx, code="task_killed", ids=[killed.panda_id])
        end = JobMove(lost.panda_id, "failed", "lost_heartbeat", "Not heard of for 2 hours.")
        jobs.move_jobs(tx, [end], "me", ["sent"])
        tx.execute(text("UPDATE jedi_jobs SET heartbeat_at = NULL"))
    measures = Measures(cpu_s=3, workdir_kb=4)
    beats = [
        Beat(pandaid=j.panda_id, lock_seq=j.lock_seq, measures=measures)
        for j in (alive, killed, lost, done)
    ]
    beats.append(Beat(pandaid=alive.panda_id, lock_seq=9))
    with engine.begin() as tx:
        commands, whys = zip(*dispatch.beat(tx, "SITE_A", beats), strict=True)
    assert commands == ("none", "kill", "kill", "none", "kill")
    assert whys[0] is None
    assert whys[3] is None
    assert "task_killed" in str(whys[1])
    assert whys[2] == "Not heard of for 2 hours."
    assert whys[4] == "This attempt is not known."
    found = row(engine, alive.panda_id)
    assert found.heartbeat_at is not None
    assert (found.cpu_s, found.workdir_kb) == (3.0, 4)
    assert row(engine, lost.panda_id).heartbeat_at is None
    with engine.begin() as tx:
        unknown = [("kill", "This attempt is not known.")]
        assert dispatch.beat(tx, "SITE_B", beats[:1]) == unknown


def test_live_output(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 1)
    (job,) = take(engine)
    for out, err in (("one", None), (None, "two")):
        entry = LogEntry(
            pandaid=job.panda_id, lock_seq=job.lock_seq, stdout_tail=out, stderr_tail=err
        )
        with engine.begin() as tx:
            assert dispatch.store_tails(tx, "SITE_A", [entry]) == [True]
    with engine.begin() as tx:
        tail = tx.execute(text("SELECT stdout_tail, stderr_tail FROM jedi_job_tail")).one()
    assert tuple(tail) == ("one", "two")


def test_what_payloads_print_is_made_storable() -> None:
    entry = LogEntry(pandaid=1, lock_seq=1, stdout_tail="a\0b\ud800c" + "x" * 20_000)
    assert entry.stdout_tail == "x" * 10_000
    said = Report(pandaid=1, lock_seq=1, status="failed", error_diag="a\0b\ud800c")
    assert said.error_diag == "a\ufffdb?c"


def test_sites_know_when_pilots_were_seen_and_jobs_started(engine: Engine) -> None:
    with engine.begin() as tx:
        make_jobs(tx, 1)
        set_sites(tx, lastpilot=None, laststart=None)
    (job,) = take(engine)

    def seen() -> list[tuple[bool, bool]]:
        with engine.begin() as tx:
            rows = tx.execute(
                text(
                    "SELECT lastpilot IS NOT NULL, laststart IS NOT NULL FROM jedi_sites "
                    "ORDER BY site"
                )
            )
            return [tuple(one) for one in rows]

    assert take(engine, request="another") == []  # it asks in vain
    assert seen() == [(True, False), (False, False)]
    tell(engine, say(job, "running"))
    assert seen() == [(True, True), (False, False)]
