"""Retrying: its qualifiers, its limits, tasks that wait for a person, and broken ones."""

# Raw UPDATEs: a counter that disagrees is the point.

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from jedi_client.sandbox import bundle
from support.commanding import (
    OWNER,
    answer,
    ask,
    cycle,
    end,
    everything,
    files,
    jobs,
    running,
    sound,
    status,
    take,
    work_off,
)
from support.generating import rows

from jedi.agent.base import World
from jedi.core.errors import BadInput, Refused
from jedi.core.knobs import Knobs
from jedi.model.tasks.costs import Spent
from jedi.service.tasks import commanding
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.tasks import commands as command_rows
from jedi.taskbuffer.tasks import new_tasks, tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskbuffer.users import users
from jedi.taskcommando.limits import exceeded, limited
from jedi.taskcommando.retry import resumed


def failed(world: World, **keys: Any) -> int:
    """A task of two files, one of which failed."""
    task = running(world, 2, maxAttempt=1, **keys)
    first, second = jobs(world, task, "activated")
    take(world, [first, second])
    end(world, [first])
    end(world, [second], "failed")
    cycle(world)
    assert status(world, task) == "finished"
    return task


def move(world: World, task: int, *path: str, code: str) -> None:
    """The task goes along these statuses, for this reason."""
    with world.engine.begin() as tx:
        for target in path:
            tasks.move_tasks(tx, [Move(task, None, target, code, "As told.")], "test")


# ---------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("knob", "limit", "spent", "words"),
    [
        ("max_attempts", 3, Spent(attempts=3), "3 attempts of the task were made"),
        ("max_file_attempts", 9, Spent(file_attempts=13), "13 attempts of a file"),
        ("max_failed_hepscore_h", 5.0, Spent(failed_hepscore_h=6, hepscore_h=9), "6 HEP-score"),
        ("max_failed_hepscore_percent", 50.0, Spent(failed_hepscore_h=6, hepscore_h=9), "66.67 %"),
        ("max_failed_jobs_percent", 50.0, Spent(jobs=4, failed=2), "50 % of the jobs failed"),
        ("min_cpu_efficiency_percent", 50.0, Spent(cpu_efficiency=12.5), "used 12.5 %"),
    ],
)
def test_what_a_task_has_cost_may_be_too_much(
    knob: str, limit: float, spent: Spent, words: str
) -> None:
    assert exceeded(spent, Knobs()) is None
    assert not limited(Knobs())
    strict = Knobs({f"retry.{knob}": limit})
    assert limited(strict)
    why = exceeded(spent, strict)
    assert why is not None
    assert words in why and f"knob retry.{knob}" in why
    assert exceeded(Spent(), strict) is None


def test_a_task_that_cost_too_much_is_exhausted_unless_told_to_go_on(world: World) -> None:
    task = failed(world)
    with world.engine.begin() as tx:
        knobs.put(tx, "retry.max_failed_jobs_percent", 50.0, "op")
    ask(world, task, "retry")
    cycle(world)
    [row] = rows(world, "SELECT status, reason_code, errordialog FROM jedi_tasks")
    assert (row.status, row.reason_code) == ("exhausted", "retry_limit")
    assert "50 % of the jobs failed, the limit is 50" in row.errordialog
    ask(world, task, "retry", transcend=True)
    assert (work_off(world, task), files(world, task)) == ("done", {"finished": 2})
    sound(world)


# ------------------------------------------------------------------------------- exhausted


@pytest.mark.parametrize(
    ("old", "scouting", "target"),
    [
        ("running", False, "running"),
        ("scouting", False, "running"),
        ("scouting", True, "scouting"),
        ("prepared", False, None),
        ("pending", False, None),
    ],
)
def test_where_an_exhausted_task_goes_on(old: str, scouting: bool, target: str | None) -> None:
    assert resumed(old, scouting=scouting) == target


def test_an_exhausted_task_goes_on_at_once(world: World) -> None:
    task = running(world, 3)
    move(world, task, "exhausted", code="worker_killed")
    ask(world, task, "retry")
    cycle(world)
    [row] = rows(world, "SELECT status, attemptnr FROM jedi_tasks")
    assert (row.status, row.attemptnr) == ("running", 1)
    assert (work_off(world, task), files(world, task)) == ("done", {"finished": 3})
    sound(world)


# ---------------------------------------------------------------------------- qualifiers


def test_retried_with_other_code(world: World, tmp_path: Path) -> None:
    task = failed(world)
    with pytest.raises(BadInput, match="no such sandbox"):
        ask(world, task, "retry", sandbox="0" * 64)
    (tmp_path / "mended.sh").write_text("true")
    sandbox, _ = bundle(["mended.sh"], tmp_path, 1)
    assert sandbox
    sha = sandbox.sha256
    with world.engine.begin() as tx:
        new_tasks.PUT_SANDBOX.run(tx, sha256=sha, data=sandbox.data)
        users.PUT_USER.run(tx, user="bob", role="production", gridpref=None, cap=None)
    refused = answer(world, task, "retry", "bob", sandbox=sha)
    assert refused.error == "forbidden"  # it would run in the owner's name
    ask(world, task, "retry", sandbox=sha)
    assert work_off(world, task) == "done"
    [row] = rows(world, "SELECT sandbox_sha256 FROM jedi_taskparams")
    assert row.sandbox_sha256 == sha
    sound(world)


def test_only_inputs_of_one_cause_are_retried(world: World) -> None:
    """A retry of a cause means its inputs alone. Of four files, two failed by payload_exit and
    one by memory_limit: the two are tried again, and the third stays failed."""
    task = running(world, 4, maxAttempt=1)
    made = jobs(world, task, "activated")
    take(world, made)
    end(world, made[:1])
    end(world, made[1:3], "failed", "payload_exit")
    end(world, made[3:], "failed", "memory_limit")
    cycle(world)
    assert files(world, task) == {"finished": 1, "failed": 3}
    with pytest.raises(Refused, match=f"has no failed input whose last job failed like job {task}"):
        ask(world, task, "retry", like_job=task)
    with world.engine.begin() as tx:
        said = [commanding.foreseen(tx, task, "retry", {"like_job": job}) for job in made[2:]]
    assert said == [
        f"retry is possible: 2 failed inputs like that of job {made[2]}.",
        f"retry is possible: 1 failed input like that of job {made[3]}.",
    ]
    ask(world, task, "retry", like_job=made[2])
    assert work_off(world, task) == "finished"
    assert files(world, task) == {"finished": 3, "failed": 1}
    sound(world)


def test_an_exhausted_task_retries_the_inputs_of_a_cause(world: World) -> None:
    """A plain retry of an exhausted task goes on with nothing new; this one names failed inputs."""
    task = running(world, 2, maxAttempt=1)
    first, second = jobs(world, task, "activated")
    take(world, [first])
    end(world, [first], "failed", "payload_exit")
    move(world, task, "exhausted", code="worker_killed")
    ask(world, task, "retry", like_job=first)
    assert work_off(world, task) == "done"
    assert second and files(world, task) == {"finished": 2}
    sound(world)


def test_files_on_tape_are_not_waited_for(world: World) -> None:
    task = failed(world)
    rows(
        world,
        "INSERT INTO jedi_dataset_contents (jeditaskid, datasetid, lfn, type, status, "
        "proc_status, maxattempt) SELECT jeditaskid, datasetid, 'in000009', type, "
        "'staging', 'ready', 3 FROM jedi_dataset_contents WHERE lfn = 'in000000' "
        "RETURNING 1",
    )
    rows(world, "UPDATE jedi_datasets SET nfiles = 3 WHERE type = 'input' RETURNING 1")
    sound(world)
    ask(world, task, "retry", staged=True)
    cycle(world)
    assert files(world, task) == {"finished": 1, "ready": 2}
    sound(world)


def test_without_automatic_retries_a_file_gets_one_attempt_each_time(world: World) -> None:
    task = running(world, 1, disableAutoRetry=True)
    for attempt in (1, 2):
        [job] = jobs(world, task, "activated")
        take(world, [job])
        end(world, [job], "failed")
        cycle(world)
        assert status(world, task) == "failed"
        [row] = rows(
            world, "SELECT attemptnr, maxattempt FROM jedi_dataset_contents WHERE type = 'input'"
        )
        assert tuple(row) == (attempt, attempt)
        ask(world, task, "retry")
        everything(world)
    sound(world)


# -------------------------------------------------------------------------------- broken


def test_a_broken_task_is_not_repeated(world: World) -> None:
    task = running(world, 1)
    move(world, task, "defined", "tobroken", "broken", code="input_unknown")
    for command in ("retry", "incexec"):
        with pytest.raises(Refused, match="submit it as a new task") as refused:
            ask(world, task, command)
        assert refused.value.code == "wrong_status"
        assert "allowTaskDuplication" in refused.value.sentence


# ----------------------------------------------------------------------- two at the same time


def test_of_two_who_ask_the_same_one_is_refused(world: World) -> None:
    task = failed(world)
    asked = [ask(world, task, "retry")]
    with pytest.raises(Refused, match=r"is being retried already\. Before it comes: retry\."):
        ask(world, task, "retry", keep=True)
    with world.engine.begin() as tx:  # neither transaction saw the other's command
        asked += [command_rows.append(tx, task, "retry", OWNER, {"keep": True})]
    cycle(world)
    answers = rows(world, "SELECT command_id, outcome, message FROM jedi_commands ORDER BY 1")
    assert [row.command_id for row in answers] == asked
    assert [row.outcome for row in answers] == ["accepted", "refused"]
    assert answers[1].message == "The task is being retried already."
    assert (work_off(world, task), files(world, task)) == ("done", {"finished": 2})
    [row] = rows(world, "SELECT attemptnr FROM jedi_tasks")
    assert row.attemptnr == 2
    sound(world)
