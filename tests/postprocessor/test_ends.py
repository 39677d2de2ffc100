"""What a task is in the end: goals, products that are compared with data management, input that is
missing."""

# Raw UPDATEs: damaged rows are the point.

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import (
    OWNER,
    ask,
    end,
    everything,
    jobs,
    running,
    sound,
    status,
    take,
    work_off,
)
from support.generating import document, ready, rows
from support.helpers import put_file_dataset
from support.postprocessor import PLUGIN, master
from support.situations import make_due
from support.task_rows import row_of

from jedi.agent.base import World
from jedi.postprocessor.outcome import EndingRules, Findings
from jedi.service.tasks.recovering import recover
from jedi.taskbuffer.inputs import validation


def ended(world: World, n: int, failed: int, **keys: Any) -> int:
    """A task of `n` jobs of one file, of which so many failed, with nothing left to do."""
    task = running(world, n, maxAttempt=1, **keys)
    found = jobs(world, task, "activated")
    take(world, found)
    end(world, found[failed:])
    end(world, found[:failed], "failed")
    return task


# ------------------------------------------------------------------------------------------ goals


@pytest.mark.parametrize(
    ("wishes", "status", "because", "target"),
    [
        (EndingRules(), "prepared", "", "finished"),
        (EndingRules(use_exhausted=True), "prepared", "", "exhausted"),
        (EndingRules(use_exhausted=True), "passed", "finish", "finished"),
        (EndingRules(60.0, use_exhausted=True), "prepared", "", "finished"),
        (EndingRules(60.1, use_exhausted=True), "prepared", "", "exhausted"),
        (EndingRules(fail_goal_unreached=True), "prepared", "", "failed"),
        (EndingRules(60.0, fail_goal_unreached=True), "prepared", "", "finished"),
        (EndingRules(fail_goal_unreached=True), "passed", "finish", "finished"),
        (EndingRules(100.0, True, True), "prepared", "", "exhausted"),
        (EndingRules(100.0, True, True), "passed", "exhausted_timeout", "failed"),
    ],
)
def test_what_less_than_all_is_worth(
    wishes: EndingRules, status: str, because: str, target: str
) -> None:
    verdict = PLUGIN.conclude(status, [master(5, 3, 2)], (because, ""), None, wishes)
    assert verdict.target == target
    assert (verdict.code == "goal_not_met") == (target in ("exhausted", "failed"))


def test_events_count_where_they_are_known() -> None:
    wishes = EndingRules(80.0, use_exhausted=True)
    most = master(2, 1, 1, events=1000, events_done=900)
    assert PLUGIN.conclude("prepared", [most], ("", ""), None, wishes).target == "finished"
    other = master(2, 1, 1)
    verdict = PLUGIN.conclude("prepared", [most, other], ("", ""), None, wishes)
    assert verdict.target == "exhausted"
    assert verdict.reason == (
        "2 of 4 input files were processed; 2 failed. That is 50.0 %, less than the goal of 80 %."
    )


def test_a_task_below_its_goal_waits_for_a_person(world: World) -> None:
    task = ended(world, 3, 1, useExhausted=True, failGoalUnreached=True)
    everything(world)
    assert status(world, task) == "exhausted"
    query = "SELECT DISTINCT status FROM jedi_datasets WHERE type = 'output'"
    assert [row.status for row in rows(world, query)] == ["prepared"]
    ask(world, task, "finish")
    everything(world)
    assert status(world, task) == "finished"
    assert row_of(world, task).amiflag == "READY"
    sound(world)


def test_who_may_retry_it(world: World) -> None:
    task = ended(world, 3, 1, useExhausted=True)
    everything(world)
    ask(world, task, "retry")
    everything(world)
    take(world, jobs(world, task, "activated"))
    end(world, jobs(world, task, "sent"))
    everything(world)
    assert status(world, task) == "done"
    sound(world)


def test_a_task_below_its_goal_fails_if_it_wants(world: World) -> None:
    task = ended(world, 3, 1, failGoalUnreached=True, goal=70)
    everything(world)
    row = row_of(world, task)
    assert (row.status, row.reason_code, row.goal) == ("failed", "goal_not_met", 700)
    assert row.errordialog.endswith("That is 66.7 %, less than the goal of 70 %.")
    sound(world)


# --------------------------------------------------------------------------------------- products


def test_only_what_jobs_made_with_success_stays(world: World) -> None:
    task = ended(world, 3, 1)
    [bad] = rows(
        world, "SELECT lfn FROM jedi_dataset_contents WHERE type = 'output' AND status = 'failed'"
    )
    left = {bad.lfn: b"half", "notes.of.a.person": b"keep me"}
    put_file_dataset(world, "a:out", left, "SITE_A_DATADISK", closed=False)
    everything(world)
    assert status(world, task) == "finished"
    listed = {file.lfn for file in world.ddm.list_files("a:out")}
    assert bad.lfn not in listed
    assert "notes.of.a.person" in listed
    assert len(listed) == 3
    assert row_of(world, task).reason_facts == {"removed": 1}


def test_outputs_that_are_gone_are_named_and_made_again(world: World) -> None:
    """3 jobs succeed, one output vanishes. Row, dataset and reason say so: its row is failed, 2 of
    the dataset's files are finished and 1 failed, so it is not done; the reason names the file. A
    recovery makes it again, though the row is failed already."""
    task = ended(world, 3, 0)
    [gone, *_] = rows(world, "SELECT lfn FROM jedi_dataset_contents WHERE type = 'output'")
    world.ddm.remove_files("a:out", [gone.lfn])
    everything(world)
    row = row_of(world, task)
    facts = {"lost": 1, "lost_files": [gone.lfn]}
    assert (row.status, row.reason_facts) == ("finished", facts)
    assert row.errordialog == (
        "3 of 3 input files were processed; 1 output file is gone from data management: "
        f"{gone.lfn}."
    )
    of = "SELECT lfn FROM jedi_dataset_contents WHERE type = 'output' AND status = 'failed'"
    assert [one.lfn for one in rows(world, of)] == [gone.lfn]
    counted = "SELECT status, nfilesfinished, nfilesfailed FROM jedi_datasets WHERE type = 'output'"
    assert [tuple(one) for one in rows(world, counted)] == [("finished", 2, 1)]
    sound(world)
    with world.engine.begin() as tx:
        found = recover(call(tx, OWNER, ddm=world.ddm), [task])
    assert [one.files for one in found.tasks] == [{"a:out": [gone.lfn]}]
    everything(world)
    assert work_off(world, task) == "done"
    assert [tuple(one) for one in rows(world, counted)] == [("done", 3, 1)]
    sound(world)


def test_logs_that_are_gone_are_told_and_recorded(world: World) -> None:
    """JEDI document, "Tasks with incomplete log datasets": JEDI cleans them before jobs of
    subsequent tasks are made of them. 3 jobs succeed, one log vanishes: told as 1 log file, its row
    is failed, the counters agree (2 finished, 1 failed), the log dataset is incomplete
    (`finished`). The task is done: "all inputs of the task were successfully processed"."""
    task = ended(world, 3, 0)
    [gone, *_] = logs = rows(
        world,
        "SELECT d.datasetname, c.lfn FROM jedi_dataset_contents c JOIN jedi_datasets d "
        "USING (datasetid) WHERE c.type = 'log' ORDER BY c.fileid",
    )
    world.ddm.remove_files(gone.datasetname, [gone.lfn])
    everything(world)
    row = row_of(world, task)
    facts = {"lost_logs": 1, "lost_files": [gone.lfn]}
    assert (row.status, row.reason_facts) == ("done", facts)
    assert row.errordialog == (
        f"3 of 3 input files were processed; 1 log file is gone from data management: {gone.lfn}."
    )
    found = rows(world, "SELECT lfn, status FROM jedi_dataset_contents WHERE type = 'log'")
    assert {one.lfn: one.status for one in found} == {
        log.lfn: "failed" if log.lfn == gone.lfn else "finished" for log in logs
    }
    [dataset] = rows(
        world, "SELECT status, nfilesfinished, nfilesfailed FROM jedi_datasets WHERE type = 'log'"
    )
    assert tuple(dataset) == ("finished", 2, 1)
    query = "SELECT lfn, removed_at IS NOT NULL AS removed FROM jedi_lost_files"
    assert [tuple(lost) for lost in rows(world, query)] == [(gone.lfn, True)]
    sound(world)


def test_another_task_may_still_make_files_of_the_same_dataset(world: World) -> None:
    task = ended(world, 2, 0)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "WITH t AS (INSERT INTO jedi_tasks (status, reqid) VALUES ('running', 1) "
                "RETURNING jeditaskid), d AS (INSERT INTO jedi_datasets (jeditaskid, "
                "datasetname, type, status) SELECT jeditaskid, 'a:out', 'output', 'running' "
                "FROM t RETURNING jeditaskid, datasetid) "
                "INSERT INTO jedi_dataset_contents (jeditaskid, datasetid, lfn, type, status) "
                "SELECT jeditaskid, datasetid, v.lfn, 'output', v.status FROM d, "
                "(VALUES ('coming', 'defined'), ('made', 'finished'), ('bad', 'failed')) "
                "v(lfn, status)"
            )
        )
        found = validation.products(tx, [task])["a:out"]
    assert found.bad == {"bad"}
    assert len(found.made) == 2


def processed_twice(world: World) -> int:
    """A task one of whose inputs was read by both its jobs."""
    task = ended(world, 2, 0)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_job_files f SET fileid = o.fileid FROM (SELECT min(fileid) AS fileid "
                "FROM jedi_job_files WHERE type = 'input') o WHERE f.type = 'input'"
            )
        )
    return task


def test_input_that_was_processed_twice_is_a_question(world: World) -> None:
    task = processed_twice(world)
    everything(world)
    row = row_of(world, task)
    assert (row.status, row.reason_code, row.reason_facts) == (
        "paused",
        "duplicates_found",
        {"twice": 1},
    )
    ask(world, task, "resume")
    everything(world)
    assert status(world, task) == "done"


def test_consumers_of_events_process_no_input_twice(world: World) -> None:
    """Consumers of a job set have its inputs, too; its merge job alone has processed them."""
    task = processed_twice(world)
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO jedi_consumers (pandaid, jeditaskid, kind, number) "
                "SELECT max(pandaid), jeditaskid, 'consumer', 1 FROM jedi_jobs GROUP BY 2"
            )
        )
    everything(world)
    assert status(world, task) == "done"


def test_such_a_task_may_be_killed(world: World) -> None:
    task = processed_twice(world)
    everything(world)
    ask(world, task, "kill")
    everything(world)
    assert status(world, task) == "aborted"


def test_what_was_made_anew_is_not_twice(world: World) -> None:
    """A job whose results were given up is superseded: its input was processed again on purpose."""
    task = processed_twice(world)
    [first, _] = jobs(world, task, "finished")
    with world.engine.begin() as tx:
        tx.execute(
            text("INSERT INTO jedi_superseded_jobs (jeditaskid, pandaid) VALUES (:t, :job)"),
            {"t": task, "job": first},
        )
    everything(world)
    assert status(world, task) != "paused"


# ------------------------------------------------------------------------------- input is missing


@pytest.mark.parametrize("known", [True, False])
def test_a_task_may_do_without_any_input(world: World, known: bool) -> None:
    if known:
        put_file_dataset(world, "demo:in", {}, "SITE_A_DATADISK")
    [task] = ready(world, document(allowEmptyInput=True))
    make_due(world)
    everything(world)
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("done", "empty_input_allowed")
    sound(world)


def test_else_it_is_broken(world: World) -> None:
    [task] = ready(world, document())
    everything(world)
    assert status(world, task) == "broken"


def test_a_task_may_do_without_datasets_that_nobody_knows(world: World) -> None:
    put_file_dataset(world, "demo:in", {"f": b"x"}, "SITE_A_DATADISK")
    plain = document(ignoreMissingInDS=True)
    source = {**plain["jobParameters"][0], "dataset": "demo:in,demo:unknown"}
    [task] = ready(world, {**plain, "jobParameters": [source, *plain["jobParameters"][1:]]})
    everything(world)
    take(world, jobs(world, task, "activated"))
    end(world, jobs(world, task, "sent"))
    everything(world)
    assert status(world, task) == "done"
    sound(world)


def test_but_not_without_all_of_them(world: World) -> None:
    [task] = ready(world, document(ignoreMissingInDS=True))
    everything(world)
    row = row_of(world, task)
    assert (row.status, row.reason_code) == ("broken", "input_empty")


def test_findings_tell_only_what_there_is() -> None:
    assert Findings().facts == {}
    found = Findings(lost={6: {"c", "d"}}, lost_logs={7: {"a", "b"}, 8: {"e"}})
    assert found.facts == {"lost": 2, "lost_logs": 3, "lost_files": ["a", "b", "c", "d", "e"]}
    many = Findings(lost={6: {f"f{n:02}" for n in range(12)}})
    assert many.losses == [
        "12 output files are gone from data management: f00, f01, f02, f03, f04, f05, f06, f07, "
        "f08, f09 and 2 more"
    ]
