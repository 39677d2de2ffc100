"""Commands: what is accepted when, killing, finishing, retrying."""

# Raw UPDATEs: statuses and priorities that many steps lead to.

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, Row, text
from support.helpers import publish
from support.job_rows import Made, make_jobs
from support.situations import end_leases, lead, make_due
from support.statuses import statuses

from jedi.agent.base import World
from jedi.core import clock, states
from jedi.postprocessor.agent import PostProcessor
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.tasks import commands, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskcommando.agent import TaskCommando
from jedi.taskcommando.commands import COMMANDS
from jedi.taskcommando.retry import RetriedDataset, plan

# ----------------------------------------------------------------------------- the pure rules


def test_what_is_accepted_when() -> None:
    final = {"done", "finished", "failed", "aborted", "broken"}
    never = final | {"prepared", "toabort", "aborting"}
    assert set(states.TASK_STATES) - COMMANDS["kill"].allowed >= never
    assert {"registered", "running", "pending", "finishing"} <= COMMANDS["kill"].allowed
    assert COMMANDS["retry"].allowed == {"finished", "failed", "exhausted"}
    assert not COMMANDS["finish"].allowed & (never | {"passed", "tobroken"})


def test_a_refusal_says_what_is_possible() -> None:
    assert COMMANDS["kill"].refusal("running") is None
    assert COMMANDS["kill"].refusal("aborting") == "The task is being killed already."
    assert COMMANDS["retry"].refusal("done") == (
        "A task that is done can't be retried: retry is accepted in the statuses failed, "
        "finished, exhausted. Possible now: recover, incexec."
    )


@pytest.mark.parametrize(
    ("command", "status", "sentence"),
    [
        ("kill", "aborted", "It is already aborted."),
        ("kill", "done", "It is already done."),
        ("finish", "finished", "It is already finished."),
        ("pause", "paused", "It is already paused."),
        ("kill", "prepared", "A task that is prepared can't be killed. Possible now: pause."),
        (
            "reassign",
            "paused",
            "A task that is paused can't be reassigned. Possible now: kill, finish, resume.",
        ),
    ],
)
def test_a_refusal_is_short(command: str, status: str, sentence: str) -> None:
    """The refusal says "It is already aborted." instead of a list of 23 statuses."""
    assert COMMANDS[command].refusal(status) == sentence


def dataset(number: int, status: str, revived: int = 0, **more: Any) -> RetriedDataset:
    values = {"type": "input", "master_id": None, "state": "closed", "used": 1, **more}
    return RetriedDataset(number, status=status, revived=revived, **values)


@pytest.mark.parametrize(
    ("datasets", "target", "moves"),
    [
        ([], "registered", []),
        ([dataset(1, "defined", used=0)], "defined", []),
        ([dataset(1, "ready", used=0)], "defined", []),
        ([dataset(1, "ready")], "ready", []),
        ([dataset(1, "done")], None, []),
        ([dataset(1, "finished", 2)], "ready", [(1, "ready")]),
        ([dataset(1, "finished", 2, state="open")], "ready", [(1, "running")]),
        ([dataset(1, "done", withheld=True)], "ready", [(1, "running")]),
        ([dataset(1, "done", withheld=True, type="pseudo_input")], "ready", [(1, "ready")]),
        (
            [
                dataset(1, "done"),
                dataset(2, "failed", 1),
                dataset(3, "done", master_id=1),
                dataset(4, "done", master_id=2),
                dataset(5, "finished", type="output"),
            ],
            "ready",
            [(2, "ready"), (4, "ready"), (5, "ready")],
        ),
    ],
)
def test_where_a_retried_task_goes_on(
    datasets: list[RetriedDataset], target: str | None, moves: list[tuple[int, str]]
) -> None:
    found = plan(datasets)
    assert (found.target, found.datasets) == (target, moves)


# ------------------------------------------------------------------------------- the agent


def cycle(world: World) -> None:
    """All that can be done now."""
    agents = (TaskCommando(world), PostProcessor(world))
    while sum(agent.run_once() for agent in agents):
        pass


def ask(tx: Connection, task: int, command: str, **arguments: Any) -> int:
    return commands.append(tx, task, command, "alice", arguments, "it is wrong")


def task_row(tx: Connection) -> Row[Any]:
    return tx.execute(text("SELECT * FROM jedi_tasks")).one()


def command_row(tx: Connection, command_id: int) -> tuple[str, str]:
    row = tx.execute(
        text("SELECT outcome, message FROM jedi_commands WHERE command_id = :id"),
        {"id": command_id},
    ).one()
    return row.outcome, row.message


def end(tx: Connection, jobs: list[int], target: str) -> None:
    assert len(job_ends.end_jobs(tx, [JobEnd(j, target, "c", "r") for j in jobs], "test"))


def kill_codes(tx: Connection) -> list[str | None]:
    return list(tx.scalars(text("SELECT kill_code FROM jedi_jobs ORDER BY pandaid")))


def test_kill_ends_queued_jobs_at_once_and_asks_pilots_for_the_others(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 4)
        lead(tx, made.jobs[1:], "sent")
        lead(tx, made.jobs[2:], "running")
        lead(tx, made.jobs[3:], "holding")
        command = ask(tx, made.task, "kill")
    cycle(world)
    with world.engine.begin() as tx:
        assert command_row(tx, command) == ("accepted", "Accepted.")
        assert statuses(tx) == ["cancelled", "sent", "running", "holding"]
        assert kill_codes(tx) == ["killed", "killed", "killed", None]
        task = task_row(tx)
        assert task.status == "aborting"
        assert task.errordialog == "Killed by alice: it is wrong"
        end(tx, made.jobs[1:], "cancelled")
        make_due(tx)
    cycle(world)
    with world.engine.begin() as tx:
        task = task_row(tx)
        log = tx.execute(
            text("SELECT status, username, reason FROM jedi_tasks_statuslog ORDER BY log_id")
        ).all()
        diag = tx.scalar(text("SELECT error_diag FROM jedi_jobs ORDER BY pandaid LIMIT 1"))
    assert [row.status for row in log] == ["aborting", "toabort", "aborted"]
    assert {row.reason for row in log} == {"Killed by alice: it is wrong"} == {diag}
    assert log[0].username == "alice"
    assert (task.status, task.attemptnr) == ("aborted", 1)


def test_tasks_that_wait_for_their_jobs_are_looked_at_ever_more_seldom(world: World) -> None:
    """ "9.6 statements/s for two aborting tasks": each was looked at every 2 s, 300 times in ten
    minutes, as long as a pilot had a job of it. A wait of a tenth of the time since the kill, 2 to
    30 s, makes 10 looks in 20 s, some 28 until 5 minutes (20 s x 1.1^28 = 290 s), and 10 in the
    rest. When the jobs have ended the task does within 30 s."""
    began = datetime(2031, 5, 4, tzinfo=UTC)
    clock.turn_to(began)
    try:
        with world.engine.begin() as tx:
            made = [make_jobs(tx, 1) for _ in range(2)]
            for one in made:
                lead(tx, one.jobs, "sent")
                lead(tx, one.jobs, "running")
                ask(tx, one.task, "kill")
        agent, looks = TaskCommando(world), 0
        for second in range(0, 600, 2):
            clock.turn_to(began + timedelta(seconds=second))
            looks += agent.run_once()
        assert 60 <= looks <= 120  # of both tasks
        with world.engine.begin() as tx:
            for one in made:
                end(tx, one.jobs, "cancelled")
        clock.turn_to(began + timedelta(seconds=631))
        cycle(world)
        with world.engine.begin() as tx:
            assert set(tx.scalars(text("SELECT status FROM jedi_tasks"))) == {"aborted"}
    finally:
        clock.turn_to(None)


def test_many_queued_jobs_are_killed_batch_by_batch(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 10)
        ask(tx, made.task, "kill")
        tx.execute(
            text(
                "INSERT INTO jedi_knobs (component, key, value) "
                "VALUES ('taskcommando', 'kill_batch', '4')"
            )
        )
    agent = TaskCommando(world)
    left = []
    while agent.run_once():
        with world.engine.begin() as tx:
            left.append(tx.scalar(text("SELECT count(*) FROM jedi_job_ready")))
    assert left == [10, 6, 2, 0]
    with world.engine.begin() as tx:
        assert task_row(tx).status == "toabort"


def test_a_task_that_was_put_off_is_killed_at_once(world: World) -> None:
    with world.engine.begin() as tx:
        task = tx.scalar(
            text(
                "INSERT INTO jedi_tasks (status, reqid, next_run_at) VALUES ('registered', 1, "
                "jedi_now() + interval '1 hour') RETURNING jeditaskid"
            )
        )
        ask(tx, task, "kill")
    cycle(world)
    with world.engine.begin() as tx:
        assert task_row(tx).status == "aborted"


def test_a_leased_task_is_left_to_its_owner(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        tasks.claim(tx, ["running"], "somebody", 60, 1)
        ask(tx, made.task, "kill")
    assert TaskCommando(world).run_once() == 0


def test_commands_are_taken_up_one_after_the_other(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        asked = [ask(tx, made.task, name) for name in ("finish", "kill", "retry", "dance")]
    agent = TaskCommando(world)
    answers = []
    for _ in range(len(asked)):
        assert agent.run_once() == 1
        with world.engine.begin() as tx:
            answers.append(
                tx.scalar(text("SELECT count(*) FROM jedi_commands WHERE outcome IS NOT NULL"))
            )
    assert answers == [1, 2, 3, 4]
    with world.engine.begin() as tx:
        assert task_row(tx).status == "aborting"
        assert [command_row(tx, c)[0] for c in asked] == [
            "accepted",
            "accepted",
            "refused",
            "refused",
        ]
        assert command_row(tx, asked[3])[1] == "dance is not supported."
    cycle(world)
    with world.engine.begin() as tx:
        assert task_row(tx).status == "aborted"


def test_a_command_that_can_never_be_carried_out_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    impossible = replace(COMMANDS["kill"], doing="tobroken", allowed=frozenset({"running"}))
    monkeypatch.setitem(COMMANDS, "kill", impossible)
    with world.engine.begin() as tx:
        make_jobs(tx, 1)
        command = ask(tx, 1, "kill")
    cycle(world)
    with world.engine.begin() as tx:
        outcome, message = command_row(tx, command)
        assert (outcome, task_row(tx).status) == ("refused", "running")
        assert message.startswith("It can't be carried out: ")
        assert task_row(tx).lockedby is None


def test_what_the_database_does_not_take_is_tried_ever_more_seldom(world: World) -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    clock.turn_to(begin)
    with world.engine.begin() as tx:
        make_jobs(tx, 1)
        command = ask(tx, 1, "kill")
        tx.execute(text("CREATE SEQUENCE tries"))
        tx.execute(
            text(
                "CREATE FUNCTION always_deadlocked() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM nextval('tries'); RAISE SQLSTATE '40P01'; END $$"
            )
        )
        tx.execute(
            text(
                "CREATE TRIGGER never BEFORE UPDATE OF status ON jedi_tasks FOR EACH ROW "
                "WHEN (NEW.status = 'aborting') EXECUTE FUNCTION always_deadlocked()"
            )
        )
    tries = []
    for minutes in range(0, 90, 10):
        clock.turn_to(begin + timedelta(minutes=minutes))
        cycle(world)
        cycle(world)
        with world.engine.begin() as tx:
            tries.append(tx.scalar(text("SELECT last_value FROM tries")))
            outcome, message = command_row(tx, command)
            assert outcome == ("refused" if minutes == 80 else None)
            assert (task_row(tx).status, task_row(tx).lockedby) == ("running", None)
    assert tries == [1, 2, 3, 3, 4, 4, 4, 4, 5]
    assert message.startswith("It can't be carried out: ")


def test_a_lost_worker_changes_nothing(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        ask(tx, made.task, "kill")
    agent = TaskCommando(world)
    world.refresh()
    with world.engine.begin() as tx:
        orders = agent.claim(tx, 10)
        end_leases(tx)
    with world.engine.begin() as tx:
        tasks.claim(tx, ["running"], "somebody else", 60, 1)
    with world.engine.begin() as tx:
        agent.apply(tx, [(order, agent.work(order)) for order in orders])
    with world.engine.begin() as tx:
        assert task_row(tx).status == "running"
        assert tx.scalar(text("SELECT acknowledged_at FROM jedi_commands")) is None


# ----------------------------------------------------------------------------------- finish


@pytest.mark.parametrize("soft", [False, True])
def test_finish_counts_what_was_not_tried_as_failed(world: World, soft: bool) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 4)
        lead(tx, made.jobs[1:], "sent", "running")
        lead(tx, made.jobs[3:], "holding")
        ask(tx, made.task, "finish", soft=soft)
    cycle(world)
    with world.engine.begin() as tx:
        assert task_row(tx).status == "finishing"
        asked = None if soft else "killed"
        assert statuses(tx) == ["cancelled", "running", "running", "holding"]
        assert kill_codes(tx) == ["killed", asked, asked, None]
        end(tx, made.jobs[1:3], "failed" if soft else "cancelled")
        end(tx, made.jobs[3:], "finished")
        make_due(tx)
    cycle(world)
    with world.engine.begin() as tx:
        assert_counters(tx)
        row = tx.execute(text("SELECT * FROM jedi_datasets WHERE type = 'input'")).one()
        assert task_row(tx).status == "finished"
    assert (row.nfilesfinished, row.nfilesfailed, row.nfilesused) == (2, 6, 8)


# ------------------------------------------------------------------------------------ retry


def assert_counters(tx: Connection) -> None:
    """Counters of input datasets equal rows."""
    wrong = tx.execute(
        text(
            "SELECT d.type, d.nfilesused, d.nfilesfailed, d.nfilesfinished, c.* "
            "FROM jedi_datasets d, LATERAL ("
            "  SELECT count(*) FILTER (WHERE status IN ('picked', 'running', 'finished', "
            "'failed')) AS used, count(*) FILTER (WHERE status = 'failed') AS failed, "
            "count(*) FILTER (WHERE status = 'finished') AS finished "
            "  FROM jedi_dataset_contents c WHERE c.datasetid = d.datasetid) c "
            "WHERE d.type IN ('input', 'random_seed') "
            "AND (nfilesused, nfilesfailed, nfilesfinished) <> (used, failed, c.finished)"
        )
    ).all()
    assert wrong == []


def ended_task(world: World, targets: list[str], **more: Any) -> Made:
    """A task that is through, its jobs having ended so."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, len(targets), **{"max_attempt": 1, **more})
        tx.execute(
            text("UPDATE jedi_datasets SET masterid = :i WHERE datasetid = :s"),
            {"i": made.input, "s": made.seeds},
        )
        lead(tx, made.jobs, "sent", "holding")
        for job, target in zip(made.jobs, targets, strict=True):
            end(tx, [job], target)
            if target == "finished":
                publish(world, tx, [job], "SITE_A_DATADISK")
    cycle(world)
    return made


def test_retry_gives_failed_files_new_attempts(world: World) -> None:
    made = ended_task(world, ["finished", "failed"])
    with world.engine.begin() as tx:
        assert task_row(tx).status == "finished"
        tx.execute(text("UPDATE jedi_tasks SET taskpriority = 500, currentpriority = 900"))
        command = ask(tx, made.task, "retry")
    cycle(world)
    with world.engine.begin() as tx:
        task = task_row(tx)
        assert command_row(tx, command)[0] == "accepted"
        assert (task.status, task.attemptnr, task.currentpriority) == ("ready", 2, 500)
        assert (task.endtime, task.next_run_at, task.lockedby) == (None, None, None)
        rows = tx.execute(
            text(
                "SELECT status, attemptnr, maxattempt FROM jedi_dataset_contents "
                "WHERE type = 'input' ORDER BY status"
            )
        ).all()
        assert rows == [("finished", 1, 1)] * 2 + [("ready", 1, 6)] * 2
        assert_counters(tx)
        datasets = tx.execute(text("SELECT type, status, frozentime FROM jedi_datasets")).all()
        assert {row.type: row.status for row in datasets} == dict.fromkeys(
            ("input", "random_seed", "output", "log"), "ready"
        )
        assert {row.frozentime for row in datasets} == {None}


def test_attempts_that_are_left_are_not_raised(world: World) -> None:
    made = ended_task(world, ["failed"], max_attempt=3, max_failure=1)
    with world.engine.begin() as tx:
        ask(tx, made.task, "retry")
    cycle(world)
    with world.engine.begin() as tx:
        row = tx.execute(
            text(
                "SELECT DISTINCT status, maxattempt, maxfailure FROM jedi_dataset_contents "
                "WHERE type = 'input'"
            )
        ).one()
    assert tuple(row) == ("ready", 3, 6)


def test_a_task_with_nothing_to_retry_stays_what_it_was(world: World) -> None:
    made = ended_task(world, ["finished"])
    with world.engine.begin() as tx:
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        tx.execute(text("UPDATE jedi_tasks SET status = 'finished'"))
        ask(tx, made.task, "retry")
    cycle(world)
    with world.engine.begin() as tx:
        task = task_row(tx)
        kept = tx.scalars(text("SELECT DISTINCT status FROM jedi_datasets")).all()
    assert (task.status, task.reason_code, task.attemptnr) == ("finished", "nothing_to_retry", 1)
    assert kept == ["done"]


@pytest.mark.parametrize(
    ("files", "used", "target"),
    [(False, 0, "registered"), (True, 0, "defined"), (True, 1, "ready")],
)
def test_an_exhausted_task_goes_on_where_it_stopped(
    world: World, files: bool, used: int, target: str
) -> None:
    with world.engine.begin() as tx:
        task = tx.scalar(
            text(
                "INSERT INTO jedi_tasks (status, reqid) VALUES ('registered', 1) "
                "RETURNING jeditaskid"
            )
        )
        if files:
            tx.execute(
                text(
                    "INSERT INTO jedi_datasets (jeditaskid, datasetname, type, status, "
                    "nfilestobeused, nfilesused) VALUES (:t, 's:d', 'input', 'ready', 5, :u)"
                ),
                {"t": task, "u": used},
            )
        tasks.move_tasks(tx, [Move(task, None, "exhausted", "worker_killed", "Died.")], "test")
        ask(tx, task, "retry")
    cycle(world)
    with world.engine.begin() as tx:
        assert task_row(tx).status == target
