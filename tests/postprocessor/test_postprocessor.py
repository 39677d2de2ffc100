"""How tasks end: outcome, datasets, data management."""

# Raw UPDATEs: counters that disagree with rows are the point.

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text
from support.helpers import put_file_dataset
from support.job_rows import Made, make_jobs, watch
from support.postprocessor import PLUGIN, end, finish_jobs, master, processed
from support.situations import make_due
from support.statuses import statuses

from jedi.agent.base import World
from jedi.core.errors import NotFound
from jedi.postprocessor.agent import PostProcessor
from jedi.postprocessor.outcome import EndingDataset, EndingRules
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move


@pytest.mark.parametrize(
    ("masters", "target", "reason"),
    [
        ([master(3, 3)], "done", "3 of 3"),
        ([master(3, 2, 1)], "finished", "2 of 3 ... 1 failed"),
        ([master(3, 0, 2, 1)], "failed", "0 of 3 ... 2 failed, 1 missing"),
        ([master(3, 3), master(1, 0, 1)], "finished", "3 of 4 ... 1 failed"),
        ([master(3, 3), master(1, 0, 1, status="removed")], "done", "3 of 3"),
    ],
)
def test_the_outcome_follows_from_the_masters(
    masters: list[EndingDataset], target: str, reason: str
) -> None:
    secondary = master(9, 0, 9, master_id=1)
    verdict = PLUGIN.conclude("prepared", [*masters, secondary], ("", ""))
    count, _, details = reason.partition(" ... ")
    told = f"{count} input files were processed{details and f'; {details}'}."
    assert (verdict.target, verdict.reason) == (target, told)


def test_input_that_was_open_to_the_end_is_never_done() -> None:
    verdict = PLUGIN.conclude("passed", [master(3, 3, status="running")], ("", ""))
    told = "3 of 3 input files were processed; more could have come."
    assert (verdict.target, verdict.reason) == ("finished", told)
    verdict = PLUGIN.conclude("prepared", [master(3, 3, status="broken")], ("", ""))
    told = "3 of 3 input files were processed; dataset s:d is broken."
    assert (verdict.target, verdict.reason) == ("finished", told)
    late = replace(master(3, 3), withheld=2)
    verdict = PLUGIN.conclude("passed", [late], ("", ""), wishes=EndingRules(by_events=True))
    told = "3 of 3 ranges of events were processed; 2 files are still withheld."
    assert (verdict.target, verdict.reason) == ("finished", told)


@pytest.mark.parametrize("masters", [[], [master(0, 0)]])
def test_a_task_without_input_fails(masters: list[EndingDataset]) -> None:
    verdict = PLUGIN.conclude("prepared", masters, ("", ""))
    assert (verdict.target, verdict.reason) == ("failed", "The task had no input file.")


def test_a_killed_or_broken_task_keeps_its_reason() -> None:
    for status, target in (("toabort", "aborted"), ("tobroken", "broken")):
        verdict = PLUGIN.conclude(status, [master(1, 1)], ("why", "Because."))
        assert (verdict.target, verdict.code, verdict.reason) == (target, "why", "Because.")


def test_a_master_that_was_never_listed_is_left_alone() -> None:
    assert PLUGIN.settle([master(0, 0, status="defined")]) == []
    assert PLUGIN.settle([master(0, 0, status="defined", master_id=7)]) == [(1, "done")]


OUTPUT = EndingDataset(2, "s:out.1", "output", None, "running", 0, 40, 0, 0, container="s:out")
CONTAINER = replace(
    OUTPUT, dataset_id=3, name="s:out", type="tmpl_output", finished=0, container=""
)
EMPTY = replace(OUTPUT, dataset_id=4, name="s:out.2", finished=0)


@pytest.mark.parametrize(
    ("target", "processed", "expected"),
    [
        ("aborted", 40, "done"),
        ("aborted", 39, "finished"),
        ("broken", 1, "finished"),
        ("failed", 39, "finished"),  # goal_not_met
        ("aborted", 0, "failed"),
        ("finished", 40, "finished"),
        ("done", 40, "done"),
    ],
)
def test_outputs_end_by_what_they_have(target: str, processed: int, expected: str) -> None:
    """JEDI document, "Task aborting and forced termination": abort "deletes or freezes output
    datasets"; complete ones have not failed. Source: docs/reference/task-states.md#outputs."""
    found = dict(PLUGIN.release(target, [master(40, processed), OUTPUT, CONTAINER, EMPTY]))
    assert found == {2: expected, 3: expected, 4: "done" if target == "done" else "failed"}


# ------------------------------------------------------------------------------- the agent


def run(world: World) -> None:
    agent = PostProcessor(world)
    while agent.run_once():
        pass


def publish_outputs(world: World, made: Made, *kinds: str) -> None:
    """What finished jobs have made comes to where it belongs."""
    query = "SELECT lfn FROM jedi_dataset_contents WHERE type = :kind AND status = 'finished'"
    for kind in kinds:
        with world.engine.begin() as tx:
            lfns = tx.scalars(text(query), {"kind": kind}).all()
        files = dict.fromkeys(lfns or [f"{kind}.1"], b"x")
        name = f"test:{made.task}.{kind}"
        put_file_dataset(world, name, files, "SITE_A_DATADISK", closed=False)


@pytest.mark.parametrize(
    ("ends", "target"),
    [
        (["finished", "finished"], "done"),
        (["finished", "failed"], "finished"),
        (["failed", "failed"], "failed"),
    ],
)
def test_a_processed_task_ends(world: World, ends: list[str], target: str) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 2, max_attempt=1)
    run(world)
    with world.engine.begin() as tx:
        assert statuses(tx, made.task, "tasks") == ["running"]
        finish_jobs(tx, made, ends)
    publish_outputs(world, made, "output", "log")
    run(world)
    with world.engine.begin() as tx:
        found = statuses(tx, made.task, "datasets", by="type")
        task = tx.execute(text("SELECT * FROM jedi_tasks")).one()
        frozen = tx.scalars(text("SELECT frozentime IS NOT NULL FROM jedi_datasets"))
    assert task.status == target
    assert found == {"input": target, "random_seed": "done", "output": target, "log": target}
    assert all(frozen)
    assert world.ddm.dataset(f"test:{made.task}.output").state == "closed"
    assert world.ddm.dataset(f"test:{made.task}.log").state == "closed"
    assert task.progress == 50 * ends.count("finished")
    assert task.failurerate == 50 * ends.count("failed")
    assert None not in (task.endtime, task.assessmenttime, task.split_at)
    assert task.lockedby is None


def test_who_waits_for_an_output_is_called(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1, max_attempt=1)
        finish_jobs(tx, made, ["finished"])
        for name in (f"test:{made.task}.output", f"test:{made.task}.input"):
            tx.execute(
                text(
                    "WITH t AS (INSERT INTO jedi_tasks (status, reqid, next_run_at) VALUES "
                    "('defined', 1, jedi_now() + interval '1 hour') RETURNING jeditaskid) "
                    "INSERT INTO jedi_datasets (jeditaskid, datasetname, type, status) "
                    "SELECT jeditaskid, :name, 'input', 'defined' FROM t"
                ),
                {"name": name},
            )
    run(world)
    with world.engine.begin() as tx:
        waiting = tx.scalars(
            text(
                "SELECT next_run_at IS NOT NULL FROM jedi_tasks WHERE status = 'defined' "
                "ORDER BY jeditaskid"
            )
        ).all()
    assert waiting == [False, True]


def test_a_task_with_an_attempt_left_goes_on(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 2, max_attempt=2)
        finish_jobs(tx, made, ["finished", "failed"])
    assert PostProcessor(world).run_once() == 0


def test_a_live_job_keeps_its_task(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1, max_attempt=1)
        tx.execute(text("UPDATE jedi_datasets SET nfilesfinished = nfilestobeused"))
    assert PostProcessor(world).run_once() == 0
    with world.engine.begin() as tx:
        assert statuses(tx, made.task, "tasks") == ["running"]


def test_an_unlisted_master_keeps_its_task(world: World) -> None:
    processed(world, "defined")
    assert PostProcessor(world).run_once() == 0


def test_a_task_with_an_open_master_is_not_done(world: World) -> None:
    made = processed(world, "running")
    assert PostProcessor(world).run_once() == 1
    with world.engine.begin() as tx:
        found = statuses(tx, made.task, "datasets", by="type")
        task = tx.execute(text("SELECT * FROM jedi_tasks")).one()
    assert (task.status, task.reason_code) == ("defined", "input_still_open")
    assert (found["input"], found["output"]) == ("running", "running")
    assert PostProcessor(world).run_once() == 0


def test_a_killed_task_loses_its_empty_datasets(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1)
        end(tx, made, ["cancelled"])
        tasks.move_tasks(tx, [Move(made.task, None, "aborting", "kill", "Killed by me.")], "test")
        tasks.move_tasks(tx, [Move(made.task, None, "toabort", "kill", "Killed by me.")], "test")
    publish_outputs(world, made, "log")
    world.ddm.create(f"test:{made.task}.output", "SITE_A_DATADISK")
    run(world)
    with world.engine.begin() as tx:
        found = statuses(tx, made.task, "datasets", by="type")
        task = tx.execute(text("SELECT * FROM jedi_tasks")).one()
    assert task.status == "aborted"
    assert found == {"input": "failed", "random_seed": "done", "output": "failed", "log": "failed"}
    assert (task.reason_code, task.errordialog) == ("kill", "Killed by me.")
    assert world.ddm.dataset(f"test:{made.task}.log").state == "closed"
    with pytest.raises(NotFound):
        world.ddm.dataset(f"test:{made.task}.output")


def test_a_task_without_datasets_breaks_with_its_diagnosis(world: World) -> None:
    with world.engine.begin() as tx:
        task = tx.scalar(
            text(
                "INSERT INTO jedi_tasks (status, reqid) VALUES ('registered', 1) "
                "RETURNING jeditaskid"
            )
        )
        tasks.move_tasks(tx, [Move(task, None, "tobroken", "malformed", "No such key.")], "test")
        tasks.move_tasks(tx, [Move(task, None, "tobroken", "unreachable", "Wait.")], "test")
    run(world)
    with world.engine.begin() as tx:
        row = tx.execute(text("SELECT status, errordialog FROM jedi_tasks")).one()
    assert tuple(row) == ("broken", "No such key.")


def test_trouble_with_storage_is_told_and_tried_again(world: World) -> None:
    with world.engine.begin() as tx:
        made = make_jobs(tx, 1, max_attempt=1)
        finish_jobs(tx, made, ["finished"])
    publish_outputs(world, made, "output", "log")
    home = world.ddm.path("SITE_A_DATADISK", f"test:{made.task}.output", "x").parent
    (home / ".dataset.yaml").write_text("state: open\n")
    run(world)
    with world.engine.begin() as tx:
        task = tx.execute(text("SELECT * FROM jedi_tasks")).one()
        assert task.status == "prepared"
        assert task.reason_code == "declared_otherwise"
        assert task.next_run_at is not None
        make_due(tx)
    (home / ".dataset.yaml").unlink()
    run(world)
    with world.engine.begin() as tx:
        assert statuses(tx, made.task, "tasks") == ["done"]


def test_statements_do_not_grow_with_the_batch(world: World) -> None:
    counts = []
    seen = watch(world.engine)
    for n in (1, 20):
        with world.engine.begin() as tx:
            for _ in range(n):
                made = make_jobs(tx, 1, max_attempt=1)
                finish_jobs(tx, made, ["finished"])
        seen.clear()
        assert [PostProcessor(world).run_once() for _ in range(2)] == [n, n]
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_looking_for_work_among_many_tasks_is_cheap(world: World) -> None:
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_tasks (jeditaskid, status, reqid, currentpriority) "
                "SELECT g, 'running', g, 1000 FROM generate_series(1, 2000) g"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_datasets (datasetid, jeditaskid, datasetname, type, status, "
                "nfiles, nfilestobeused) SELECT g * 3 + k, g, 's:d', "
                "(ARRAY['input', 'output', 'log'])[k + 1], 'ready', 10, 10 "
                "FROM generate_series(1, 2000) g, generate_series(0, 2) k"
            )
        )
        tx.execute(
            text(
                "INSERT INTO jedi_jobs (pandaid, jeditaskid, taskid, originpandaid, unit_nr, "
                "attemptnr, status, site, priority, cores, memory_mb, walltime_s, disk_mb) "
                "SELECT g, g % 2000 + 1, 1, g, g, 1, 'running', 'SITE_A', 1, 1, 0, 0, 0 "
                "FROM generate_series(1, 100000) g"
            )
        )
    agent = PostProcessor(world)
    for _ in range(2):
        with world.engine.begin() as tx:
            assert agent.claim(tx, 50) == []
            read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables"
            jobs = tx.scalar(text(f"{read} WHERE relname = 'jedi_jobs'"))
            assert jobs is not None
            assert jobs <= 10_000
        with world.engine.begin() as tx:
            tx.execute(text("ANALYZE"))
