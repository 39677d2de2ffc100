"""`jedi-job`: jobs in their owners' hands, looked at, cancelled, held and released."""

# Raw UPDATEs: ages and owners of jobs that the builder makes for one user.

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from jedi_client.cli import job
from jedi_client.cli.common import cell, console
from jedi_client.cli.job_log import news
from jedi_client.cli.task_common import job_ids
from jedi_client.terminal import harmless
from sqlalchemy import Engine, text
from support.calls import call
from support.commanding import OWNER, ask, cycle, everything, files, running
from support.commanding import jobs as command_jobs
from support.event_sets import events_task
from support.helpers import Run, script, unguard
from support.job_rows import Made, make_jobs

from jedi.agent.base import World
from jedi.core.errors import NotFound
from jedi.core.settings import caller
from jedi.jobdispatcher.agent import Adder
from jedi.model.jobs.wire import Beat, Report, Resources
from jedi.service.jobs import job_details, job_verbs
from jedi.service.system import check
from jedi.service.tasks import why
from jedi.taskbuffer.jobs import dispatch, transfers
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.users import users


@pytest.fixture
def run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs `jedi-job` in the world."""
    yield from script(job.main, "jedi-job", world, monkeypatch, capsys)


@pytest.fixture
def made(world: World) -> Made:
    """Three activated jobs of the caller."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 3)
        for table in ("jedi_tasks", "jedi_jobs"):
            tx.execute(text(f"UPDATE {table} SET username = :me"), {"me": caller()})
    return made


def acquire(engine: Engine, request: str) -> list[int]:
    with engine.begin() as tx:
        found = dispatch.acquire(tx, "SITE_A", 9, Resources(cores=1), request, "p")
    return [one.panda_id for one in found]


@pytest.fixture(autouse=True)
def agree(engine: Engine) -> Iterator[None]:
    """The records of jobs agree in the end."""
    yield
    with engine.begin() as tx:
        found = [one for one in check.check(tx) if one.of == "job"]
        assert [one for one in found if one.violations] == []


def test_a_held_job_is_never_dispatched(run: Run, made: Made, engine: Engine) -> None:
    first, second, third = made.jobs
    held = run("hold", first, second, "--comment", "input looks odd", "--json").value
    assert [one["job"]["pgi_state"] for one in held] == ["Pre-processing-Hold"] * 2
    assert acquire(engine, "a") == [third]
    assert run("hold", first).code == 0  # it stays held
    shown = run("show", first, "--json").value
    assert shown["job"]["pgi_substate"] == "User-Request"
    assert shown["job"]["hold_reason"] == f"It was held by {caller()}: input looks odd."
    assert [step["reason_code"] for step in shown["steps"]] == [None, "held"]
    assert [(one["resource"], one["released_at"]) for one in shown["allocations"]] == [
        ("stage_in", None)
    ]
    assert "Pre-processing-Hold (User-Request)" in run("show", first).out
    assert run("release", first).code == 0
    assert acquire(engine, "b") == [first]
    assert "user_request" in run("hold", first, "--after").out
    refused = run("hold", second, first)
    assert (refused.code, f"Job {first} is sent" in refused.err) == (1, True)
    assert f"{second} " in refused.out  # the answer is that of each job
    assert run("release", third).code == 0  # it goes on


def test_a_hold_outlives_pauses_and_the_mover(made: Made, engine: Engine, run: Run) -> None:
    """A status may change before a pilot has the job: it is still held."""
    first = made.jobs[0]
    assert run("hold", first).code == 0
    with engine.begin() as tx:
        for source, target in (("activated", "throttled"), ("throttled", "activated")):
            assert move_jobs(tx, [JobMove(first, target, "test", "Moved.")], "test", [source])
    assert acquire(engine, "a") == made.jobs[1:]


def test_what_the_owner_brings_has_to_be_there(world: World, run: Run) -> None:
    task = running(world, files=3, holdJobs=["manual_stage_in"])
    held = command_jobs(world, task, "activated")
    with world.engine.begin() as tx:
        users.PUT_USER.run(tx, user=caller(), role="operator", gridpref=None, cap=None)
        inputs = [file for _, file in job_details.inputs_to_bring(tx, held)]
    gone, short, other = (
        world.ddm.path(one.endpoint or "", one.dataset, one.lfn) for one in inputs
    )
    good = other.read_bytes()
    gone.unlink()
    short.write_bytes(b"")
    other.write_bytes(bytes(len(good)))
    refused = run("release", *held)
    assert refused.code == 1
    said = [f"{one.dataset}/{one.lfn} of job {job} " for job, one in zip(held, inputs, strict=True)]
    assert all(one in " ".join(refused.err.split()) for one in said)
    for reason in ("No such file", "has 0 bytes", f"not {inputs[2].adler32}"):
        assert reason in " ".join(refused.err.split())
    assert {job["hold_kind"] for job in shown(run, held)} == {"manual_stage_in"}
    other.write_bytes(good)
    assert run("release", held[2]).code == 0
    assert run("release", "--force", *held[:2]).code == 0
    assert {job["hold_kind"] for job in shown(run, held)} == {None}


def shown(run: Run, ids: list[int]) -> list[dict[str, Any]]:
    return [run("show", one, "--json").value["job"] for one in ids]


def test_the_mover_leaves_held_jobs(made: Made, engine: Engine) -> None:
    first = made.jobs[0]
    asked = ("assigned", ("input",), (), 10)
    with engine.connect() as tx:  # not committed
        unguard(tx)
        tx.execute(text("DELETE FROM jedi_job_ready"))
        tx.execute(text("UPDATE jedi_jobs SET status = 'assigned'"))
        assert [row.panda_id for row in transfers.moving_jobs(tx, *asked)] == made.jobs
        job_details.hold(tx, caller(), [first], None)
        assert [row.panda_id for row in transfers.moving_jobs(tx, *asked)] == made.jobs[1:]


def test_holding_and_taking_at_once(made: Made, engine: Engine) -> None:
    """Nobody waits for whoever holds a job, and nobody gets it."""
    with engine.begin() as tx:
        job_details.hold(tx, caller(), made.jobs[:1], None)
        assert acquire(engine, "a") == made.jobs[1:]
    assert acquire(engine, "b") == []


def test_a_released_job_has_all_its_time(made: Made, engine: Engine) -> None:
    first = made.jobs[0]
    with engine.begin() as tx:
        job_details.hold(tx, caller(), [first], None)
        tx.execute(text("UPDATE jedi_jobs SET statechangetime = jedi_now() - interval '30 days'"))
        job_details.release(tx, caller(), [first], None)
        waited = text(
            "SELECT jedi_now() - statechangetime < interval '1 min' FROM jedi_jobs "
            "WHERE pandaid = :id"
        )
        assert tx.scalar(waited, {"id": first}) is True


def test_cancel_before_a_pilot_has_it(run: Run, made: Made, engine: Engine) -> None:
    first, second, third = made.jobs
    run("hold", first)
    answer = run("cancel", first, second, "--comment", "wrong", "--json")
    assert [one["job"]["pgi_state"] for one in answer.value] == ["Failed-Cancelled"] * 2
    shown = run("show", first, "--json").value["job"]
    assert (shown["status"], shown["kill_code"], shown["hold_kind"]) == (
        "cancelled",
        "cancelled_by_user",
        None,
    )
    tried = run("cancel", third, first, "--dry-run")
    assert (tried.code, "Dry run: nothing changed." in tried.err) == (1, True)
    again = run("cancel", first)
    assert (again.code, f"Job {first} is cancelled" in again.err) == (1, True)
    assert acquire(engine, "a") == [third]
    both = run("cancel", first, third, "--json")
    assert [one["accepted"] for one in both.value] == [False, True]  # each by itself


def test_cancel_what_a_pilot_has(run: Run, made: Made, engine: Engine, world: World) -> None:
    """Its pilot is told with the next heartbeat; then it is cancelled, not failed."""
    first, *_ = acquire(engine, "a")
    [answer] = run("cancel", first, "--json").value
    assert (answer["job"]["status"], answer["job"]["kill_code"]) == ("sent", "cancelled_by_user")
    with engine.begin() as tx:
        [(command, why)] = dispatch.beat(tx, "SITE_A", [Beat(pandaid=first, lock_seq=1)])
        assert (command, why) == ("kill", "The job is to be killed: cancelled_by_user.")
        report = Report(pandaid=first, lock_seq=1, status="cancelled")
        assert dispatch.accept_reports(tx, "SITE_A", [report]) == ["cancelled"]
    Adder(world).run_once()
    assert run("show", first, "--json").value["job"]["status"] == "cancelled"
    assert re.search(r"kill code +cancelled_by_user", run("show", first).out)


def test_inputs_of_a_cancelled_job_are_tried_again(world: World, run: Run) -> None:
    task = running(world, files=2)
    one, other = command_jobs(world, task, "activated")
    with world.engine.begin() as tx:
        job_details.cancel(tx, OWNER, [one], None)
    assert files(world, task) == {"ready": 1, "running": 1}
    everything(world)
    _, again = command_jobs(world, task, "activated")
    shown = run("show", one, "--json").value
    assert shown["latest"] == [again]
    assert re.search(rf"latest attempts +{again}\n", run("show", one).out)
    assert run("show", again, "--json").value["job"]["origin_panda_id"] == one
    assert run("cancel", one).code == 1  # what is meant for an attempt never meets the next one
    assert command_jobs(world, task, "activated") == [other, again]


def test_how_failures_are_told(run: Run, made: Made, engine: Engine, world: World) -> None:
    """A payload that fails has ended in PGI's words; what its pilot spoils was broken off."""
    codes = ("payload_exit", "pilot_error", "pilot_terminated")
    taken = acquire(engine, "a")
    assert run("hold", taken[0], "--after").code == 0
    assert "to be held" in run("show", taken[0]).out
    with engine.begin() as tx:
        said = [
            Report(pandaid=one, lock_seq=1, status="failed", error_code=code)
            for one, code in zip(taken, codes, strict=True)
        ]
        dispatch.accept_reports(tx, "SITE_A", said)
    Adder(world).run_once()
    told = [run("show", one, "--json").value["job"] for one in taken]
    assert "to be held" not in run("show", taken[0]).out
    assert [(job["pgi_state"], job["pgi_substate"]) for job in told] == [
        ("Finished", "error"),
        ("Failed-Cancelled", "failed"),
        ("Failed-Cancelled", "closed-by-system"),
    ]


def test_a_job_without_outputs_says_why(run: Run, made: Made, engine: Engine) -> None:
    """Exit code 1 has its reason; programs get it beside an empty list."""
    waits, cancelled, _ = made.jobs
    assert run("cancel", cancelled).code == 0
    for job_id, sentence in (
        (waits, f"Job {waits} is activated: its outputs are not stored yet.\n"),
        (cancelled, f"Job {cancelled} is cancelled: JEDI keeps outputs of finished jobs.\n"),
    ):
        answer = run("output", job_id)
        assert (answer.code, answer.out) == (1, sentence)
        answer = run("output", job_id, "--json")
        assert (answer.code, answer.out, answer.err) == (1, "[]\n", sentence)


def test_what_no_number_can_be_is_wrong_use(run: Run) -> None:
    for words in (
        ("show", 2**63),
        ("cancel", 1, 2**70),
        ("purge", 1, "--after", "1e300"),
        ("purge", 1, "--after", "inf"),
        ("purge", 1, "--after", "nan"),
    ):
        assert run(*words).code == 2
    assert f"is no integer from 1 to {2**63 - 1}" in run("show", 2**63).err


def test_only_owners_and_operators(made: Made, engine: Engine) -> None:
    with engine.begin() as tx:
        for command in (job_verbs.cancel, job_verbs.hold, job_verbs.release):
            for refused in command(call(tx, "eve"), made.jobs):
                assert (refused.accepted, refused.error) == (False, "forbidden")
                assert "belongs to" in refused.sentence
        users.PUT_USER.run(tx, user="olga", role="operator", gridpref=None, cap=None)
        held = job_verbs.hold(call(tx, "olga"), made.jobs)
        assert [one.job and one.job.hold_kind for one in held] == ["user_request"] * 3
        [there, missing] = job_verbs.hold(call(tx, "olga"), [made.jobs[0], 0])
        assert (there.accepted, missing.error) == (True, "not_found")
        with pytest.raises(NotFound):
            job_details.hold(tx, "olga", [made.jobs[0], 0], None)


def test_what_it_printed(run: Run, made: Made, engine: Engine) -> None:
    first = made.jobs[0]
    assert (run("log", first).code, run("log", 1).code) == (1, 1)
    with engine.begin() as tx:
        tx.execute(
            text("INSERT INTO jedi_job_tail (pandaid, stdout_tail) VALUES (:id, 'hi')"),
            {"id": first},
        )
    assert run("log", first).out == "hi"


def test_what_it_printed_is_not_obeyed_by_the_terminal(
    run: Run, made: Made, engine: Engine
) -> None:
    """ "Terminal escapes in logs are printed raw": a title, the screen cleared, a line over
    another, text from right to left. Each is shown as a sign that does nothing; letters stay."""
    hostile = "a\x1b]0;title\x07\x1b[2Jb\x9b31m\tä\n50 %\r100 %\r\nfile\u202egpj.exe\x7f\b"
    with engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_job_tail (pandaid, stdout_tail, stderr_tail) "
                "VALUES (:id, :said, :said)"
            ),
            {"id": made.jobs[0], "said": hostile},
        )
    shown = "a␛]0;title␇␛[2Jb�31m\tä\n50 %\n100 %\nfile�gpj.exe�␈"
    assert run("log", made.jobs[0]).out == shown
    assert harmless("\x1b\r\r\n\ud800x") == "␛\n�x"


def test_sentences_are_as_harmless_as_logs(capsys: pytest.CaptureFixture[str]) -> None:
    """Reasons quote payloads: `jedi-task show` and `why` print them line by line."""
    console().print("reason    it said \x1b]0;title\x07", "and \x9b31m")
    assert capsys.readouterr().out == "reason    it said ␛]0;title␇ and �31m\n"


def test_a_paused_task_with_a_held_job(world: World, run: Run) -> None:
    """Pausing and resuming do not end holds."""
    task = running(world, files=2)
    one, other = command_jobs(world, task, "activated")
    with world.engine.begin() as tx:
        job_details.hold(tx, OWNER, [one], None)
    ask(world, task, "pause")
    cycle(world)
    assert command_jobs(world, task, "throttled") == [one, other]
    ask(world, task, "resume")
    cycle(world)
    assert acquire(world.engine, "a") == [other]


def test_why_names_holds(world: World) -> None:
    """Jobs that go on are told first."""
    task = running(world, files=2)
    one, other = command_jobs(world, task, "activated")
    with world.engine.begin() as tx:
        job_details.hold(tx, OWNER, [one], None)
        assert why.why(call(tx), task).detail == "1 jobs wait at SITE_A."
        job_details.hold(tx, OWNER, [other], None)
        told = why.why(call(tx), task)
    assert (told.code, told.facts["held"]) == ("jobs_held", 2)


def test_every_verb_has_an_example_and_json() -> None:
    for command in job.app.registered_commands:
        about = (command.callback.__doc__ if command.callback else "") or ""
        assert "Example: `jedi-job " in about
        assert "as_json" in (command.callback.__annotations__ if command.callback else {})


def test_a_job_tells_what_it_runs_reads_and_makes(run: Run, made: Made, engine: Engine) -> None:
    first = made.jobs[0]
    with engine.begin() as tx:
        tx.execute(text("UPDATE jedi_job_params SET jobparameters = 'cat a > b'"))
        known = tx.execute(
            text("SELECT type, lfn FROM jedi_job_files WHERE pandaid = :j ORDER BY type, fileid"),
            {"j": first},
        ).all()
    value = run("show", first, "--json").value
    assert value["command"] == "cat a > b"
    assert [(one["type"], one["lfn"]) for one in value["files"]] == [tuple(row) for row in known]
    assert {one["type"] for one in value["files"]} >= {"input", "output", "log"}
    shown = run("show", first).out
    assert "cat a > b" in shown and all(row.lfn in shown for row in known)


def test_jobs_of_all_tasks_are_listed(run: Run, made: Made, engine: Engine) -> None:
    with engine.begin() as tx:
        other, strange = make_jobs(tx, 1), make_jobs(tx, 1)
        for task, owner in ((other.task, caller()), (strange.task, "ann")):
            for table in ("jedi_tasks", "jedi_jobs"):
                tx.execute(
                    text(f"UPDATE {table} SET username = :owner WHERE jeditaskid = :task"),
                    {"owner": owner, "task": task},
                )
        move_jobs(tx, [JobMove(made.jobs[0], "sent", "test", "test")], "test", ["activated"])
        tx.execute(
            text(
                "UPDATE jedi_jobs SET starttime = creationtime + interval '3 s' "
                "WHERE pandaid = :job"
            ),
            {"job": made.jobs[0]},
        )
    mine = [*other.jobs, *reversed(made.jobs)]
    assert [one["panda_id"] for one in run("list", "--json").value] == mine
    assert [one["panda_id"] for one in run("list", "--status", "sent", "--json").value] == [
        made.jobs[0]
    ]
    assert len(run("list", "--limit", 2).out.splitlines()) == 1 + 2 + 1
    assert [one["panda_id"] for one in run("list", "--user", "ann", "--json").value] == strange.jobs
    assert run("list", "--status", "sendt").code == 2
    [sent] = run("list", "--status", "sent", "--json").value
    created, began = (datetime.fromisoformat(sent[one]) for one in ("creation_time", "start_time"))
    header, row = run("list", "--status", "sent").out.splitlines()[:2]
    shown = row[header.index("created") : header.index("wall s")].strip()
    assert re.split("  +", shown) == [cell(created), cell(began)]


def test_what_it_prints_is_followed(
    run: Run, made: Made, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing twice, nothing left out, though a pilot sends the end only; nothing that a terminal
    would obey."""
    job_id = made.jobs[0]
    tails = iter(["one\ntwo\n", "two\nthree\n", "two\nthree\n\x1b[2J", None])

    def step(_seconds: float) -> None:
        said = next(tails)
        with engine.begin() as tx:
            if said is None:
                unguard(tx)
                tx.execute(
                    text("UPDATE jedi_jobs SET status = 'failed' WHERE pandaid = :j"), {"j": job_id}
                )
                return
            tx.execute(
                text(
                    "INSERT INTO jedi_job_tail (pandaid, stdout_tail, stderr_tail) "
                    "VALUES (:j, :said, 'oh\n') ON CONFLICT (pandaid) DO UPDATE "
                    "SET stdout_tail = :said"
                ),
                {"j": job_id, "said": said},
            )

    monkeypatch.setattr("time.sleep", step)
    answer = run("log", "-f", job_id)
    assert (answer.code, answer.out) == (0, "one\ntwo\nthree\n\u241b[2J")
    assert answer.err.splitlines() == [
        f"job {job_id} is activated",
        "oh",
        f"job {job_id} is failed",
    ]
    with engine.begin() as tx:  # the records agree again
        unguard(tx)
        tx.execute(text("UPDATE jedi_jobs SET status = 'activated'"))


def test_what_is_new_of_two_ends() -> None:
    assert news("", "ab") == "ab"
    assert news("ab", "abc") == "c"
    assert news("xab", "abc") == "c"
    assert news("ab", "ab") == ""
    assert news("ab", "cd") == "cd"
    assert news("ab", "0123ab45") == "45"


def test_jobs_are_completed(made: Made, run: Run) -> None:
    assert [name for name, _ in job_ids("")] == [str(one) for one in reversed(made.jobs)]
    assert [name for name, _ in job_ids(str(made.jobs[1]))] == [str(made.jobs[1])]
    assert job_ids("999") == []


def test_jobs_of_a_job_set_are_shown_with_it(world: World, run: Run) -> None:
    """A consumer and its merge job name their kind, their job set and its ranges; `list` has the
    kinds. Of an ordinary job there is no job set."""
    events_task(world)
    with world.engine.begin() as tx:
        for table in ("jedi_tasks", "jedi_jobs"):
            tx.execute(text(f"UPDATE {table} SET username = :me"), {"me": caller()})
        found = tx.execute(text("SELECT kind, pandaid FROM jedi_jobs"))
        ids = {row.kind: row.pandaid for row in found}
    for kind in ("consumer", "es_merge"):
        shown = run("show", ids[kind], "--json").value
        assert (shown["job"]["kind"], shown["job"]["jobset_id"]) == (kind, ids["es_merge"])
        assert f"kind       {kind}" in run("show", ids[kind]).out
        assert kind in run("list").out
    assert [one["n_events"] for one in shown["ranges"]] == [6]
