"""Incremental execution: tasks that have ended go on with what is new, and other parameters. The
records agree."""

# Raw UPDATEs: measurements of scouts that do not run here.

from __future__ import annotations

from typing import Any

import pytest
from support.commanding import (
    OWNER,
    add_inputs,
    ask,
    counts,
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
from support.event_service import event_task
from support.generating import document, generate, ready, rows
from support.helpers import put_file_dataset
from support.situations import end_leases, make_due
from support.task_rows import put

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import BadInput, Refused, Unreachable
from jedi.model.tasks.incremental import CHANGEABLE, change
from jedi.service.tasks import task_details as service
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.scheduling import shares
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.tasks import tasks
from jedi.taskbuffer.tasks.tasks import Move
from jedi.taskbuffer.users import users
from jedi.taskcommando.agent import TaskCommando
from jedi.taskcommando.retry import reopen
from jedi.taskrefiner.agent import TaskRefiner
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk


def incexec(world: World, task: int, **parameters: Any) -> None:
    ask(world, task, "incexec", parameters=parameters)


def attempts(world: World, task: int) -> list[tuple[str, int, int]]:
    """Of each input: its status, how often it was tried and may be."""
    query = (
        "SELECT status, attemptnr, maxattempt FROM jedi_dataset_contents "
        "WHERE jeditaskid = :t AND type = 'input' ORDER BY fileid"
    )
    return [tuple(row) for row in rows(world, query, t=task)]


def task_row(world: World, task: int) -> Any:
    return rows(world, "SELECT * FROM jedi_tasks WHERE jeditaskid = :t", t=task)[0]


# ----------------------------------------------------------------------------- the pure rules


def test_only_some_parameters_can_change() -> None:
    task = document()
    values: tuple[Any, ...] = (2, "SITE_A", True, "use", ["run.sh"])
    for key in CHANGEABLE:
        given = event_task() if key in ("nEventsPerWorker", "nJumboJobs") else task
        assert [] in [change(given, {key: value})[1] for value in values], key
    for key, words in (
        ("nEvents", None),
        ("vo", "can't be changed after the submission"),
        ("jobParameters", "can't be changed after the submission"),
        ("nEventPerJob", "no such key"),
        ("hpoRequestData", "not supported yet"),
    ):
        _, problems = change(task, {key: 1})
        assert [words in problem.rule for problem in problems if words] == ([True] if words else [])


def test_what_does_not_go_together_is_told() -> None:
    task = document(nFilesPerJob=5)
    _, problems = change(task, {"nMaxFilesPerJob": 3})
    assert [problem.path for problem in problems] == ["nMaxFilesPerJob"]
    _, problems = change(task, {"nMaxFilesPerJob": 3, "nFilesPerJob": None})
    assert problems == []
    _, problems = change(task, {"nFilesPerJob": "two"})
    assert [problem.path for problem in problems] == ["nFilesPerJob"]


def test_which_datasets_are_looked_up_again() -> None:
    assert reopen("input", "done") == reopen("random_seed", "removed") == "toupdate"
    assert reopen("output", "failed") == "ready"
    assert reopen("input", "defined") is reopen("output", "running") is None


# ------------------------------------------------------------------------------- what is new


def test_a_done_task_goes_on_with_new_files_in_jobs_of_another_size(world: World) -> None:
    task = running(world, 4)
    assert work_off(world, task) == "done"
    add_inputs(world, 5, first=4)
    incexec(world, task, nFilesPerJob=2)
    cycle(world, TaskRefiner)
    row = task_row(world, task)
    assert (row.status, row.attemptnr, row.endtime) == ("defined", 2, None)
    assert (row.rules["n_files_per_job"], "NF=2" in row.splitrule) == (2, True)
    sound(world)
    everything(world)
    sizes = rows(world, "SELECT n_inputs FROM jedi_jobs WHERE status = 'activated' ORDER BY 1")
    assert [row.n_inputs for row in sizes] == [1, 2, 2]
    assert work_off(world, task) == "done"
    assert files(world, task) == {"finished": 9}
    sound(world)


def test_a_task_without_anything_new_ends_again(world: World) -> None:
    task = running(world, 2)
    assert work_off(world, task) == "done"
    incexec(world, task)
    everything(world)
    assert (status(world, task), counts(world, task)) == ("done", {"finished": 2})
    assert task_row(world, task).attemptnr == 2
    sound(world)


def test_new_input_that_can_not_be_looked_up_is_tried_again(world: World) -> None:
    class Away:
        def growth(self, name: str) -> None:
            raise Unreachable("The storage does not answer.")

    task = running(world, 2)
    assert work_off(world, task) == "done"
    incexec(world, task)
    cycle(world, TaskRefiner)
    there, away = world.load_ddm, Away()
    world.load_ddm = lambda _tx, _knobs: away  # type: ignore[assignment, return-value]
    ContentsFeeder(world).run_once()
    row = task_row(world, task)
    assert (row.status, row.oldstatus, row.reason_code) == ("pending", "defined", "feeding_failed")
    query = "SELECT status FROM jedi_datasets WHERE jeditaskid = :t AND type = 'input'"
    assert [row.status for row in rows(world, query, t=task)] == ["pending"]
    world.load_ddm = there
    with world.engine.begin() as tx:
        knobs.put(tx, "watchdog.pending_retry_s", 0, "op")
    world.refresh()
    add_inputs(world, 1, first=2)
    assert walk(world, DOGS["pending"]) == Counts(hold_over=1)
    assert work_off(world, task) == "done"
    assert files(world, task) == {"finished": 3}
    sound(world)


def test_a_limit_is_raised(world: World) -> None:
    task = running(world, 5, nFiles=2)
    assert (work_off(world, task), files(world, task)) == ("done", {"finished": 2, "skipped": 3})
    incexec(world, task, nFiles=None)
    assert (work_off(world, task), files(world, task)) == ("done", {"finished": 5})
    assert "nFiles" not in rows(world, "SELECT taskparams FROM jedi_taskparams")[0].taskparams
    sound(world)


def container(world: World, *members: str) -> None:
    """Make the container demo:in of these datasets."""
    world.ddm.create("demo:in", "SITE_A_DATADISK", container=True)
    world.ddm.add_members("demo:in", list(members))
    world.ddm.close("demo:in")


def test_a_container_gets_and_loses_datasets(world: World) -> None:
    ddm = world.ddm
    for name in ("demo:one", "demo:two", "demo:three"):
        put_file_dataset(world, name, {name.replace(":", "."): b"x"}, "SITE_A_DATADISK")
    put_file_dataset(world, "demo:second", {"second": b"x"}, "SITE_A_DATADISK")
    container(world, "demo:one", "demo:two")
    second = {
        "type": "template",
        "param_type": "input",
        "value": "${IN2/S}",
        "dataset": "demo:second",
        "attributes": "repeat",
    }
    seed = {"type": "template", "param_type": "number", "value": "${RNDMSEED}"}
    [task] = ready(world, document(second, seed, nFilesPerJob=1, site="SITE_A"))
    everything(world)
    assert work_off(world, task) == "done"
    ddm.delete("demo:in")
    container(world, "demo:two", "demo:three")
    incexec(world, task)
    cycle(world, TaskRefiner)
    query = (
        "SELECT d.datasetname, d.type, d.status, m.datasetname AS master FROM jedi_datasets d "
        "LEFT JOIN jedi_datasets m ON m.datasetid = d.masterid "
        "WHERE d.type IN ('input', 'random_seed') ORDER BY d.datasetid"
    )
    assert [tuple(row) for row in rows(world, query)] == [
        ("demo:one", "input", "removed", None),
        ("demo:two", "input", "toupdate", None),
        ("demo:second", "input", "removed", "demo:one"),
        ("demo:second", "input", "toupdate", "demo:two"),
        ("pseudo_RNDMSEED", "random_seed", "toupdate", "demo:one"),
        ("demo:three", "input", "defined", None),
        ("demo:second", "input", "defined", "demo:three"),
    ]
    sound(world)
    assert work_off(world, task) == "done"
    sound(world)


def test_a_dataset_that_the_container_lost_no_longer_counts(world: World) -> None:
    """20 of the 21 files that are left are finished: 95 % of the task. The five failed ones of the
    removed dataset are no work, and hold no boost."""
    for letter, n in (("x", 20), ("y", 5), ("z", 1)):
        files = {f"{letter}{k}": b"x" for k in range(n)}
        put_file_dataset(world, f"demo:{letter}", files, "SITE_A_DATADISK")
    container(world, "demo:x", "demo:y")
    given = document(nFilesPerJob=1, maxAttempt=1, site="SITE_A")
    [task] = put(world, given, label="managed")
    everything(world)
    lost = rows(world, "SELECT pandaid FROM jedi_job_files WHERE lfn LIKE 'y%'")
    taken = jobs(world, task, "activated")
    failed = {row.pandaid for row in lost}
    take(world, taken)
    end(world, [one for one in taken if one not in failed])
    end(world, [one for one in taken if one in failed], "failed")
    cycle(world)
    assert status(world, task) == "finished"
    world.ddm.delete("demo:in")
    container(world, "demo:x", "demo:z")
    incexec(world, task)
    make_due(world)
    everything(world)
    assert walk(world, DOGS["progress"]) == Counts(assessed=1)
    row = task_row(world, task)
    assert (row.status, row.progress) == ("running", 95)
    with world.engine.begin() as tx:
        summary = service.get(tx, task)
        assert (summary.n_files, summary.n_files_finished, summary.n_files_failed) == (21, 20, 0)
        assert sum(queue.demand for queue in shares.READ.rows(tx, files=True)) == 1
        read = {one.dataset_name: one.n_files for one in decisions.inputs(tx, [task])[task]}
        assert read == {"demo:x": 20, "demo:z": 1}
        assert set(datasets.WITH_READY_FILES.rows(tx, ids=[task])) == set()
    assert walk(world, DOGS["boost"]) == Counts(boosted=1)
    assert work_off(world, task) == "done"
    walk(world, DOGS["progress"])
    assert task_row(world, task).progress == 100
    sound(world)


def test_a_limit_of_files_leaves_lost_datasets_out(world: World) -> None:
    for name in ("demo:one", "demo:two", "demo:three"):
        put_file_dataset(world, name, {name.replace(":", "."): b"x"}, "SITE_A_DATADISK")
    container(world, "demo:one", "demo:two")
    [task] = ready(world, document(nFilesPerJob=1, nFiles=2, site="SITE_A"))
    everything(world)
    assert work_off(world, task) == "done"
    world.ddm.delete("demo:in")
    container(world, "demo:two", "demo:three")
    incexec(world, task)
    assert (work_off(world, task), files(world, task)) == ("done", {"finished": 3})
    sound(world)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"includedSite": "SITE_A"}, {"includedSite": "SITE_B"}),
        ({"excludedSite": "SITE_B"}, {"excludedSite": "SITE_A"}),
        ({"excludedSite": "SITE_B"}, {"excludedSite": None, "includedSite": "SITE_B"}),
    ],
)
def test_new_lists_of_sites_replace_the_old_ones(
    world: World, given: dict[str, str], told: dict[str, str]
) -> None:
    for endpoint in ("SITE_A_DATADISK", "SITE_B_DATADISK"):
        put_file_dataset(world, "demo:in", {"x": b"x"}, endpoint)
    [task] = ready(world, document(nFilesPerJob=1, maxAttempt=1, **given))
    assert generate(world) == 1
    [first] = jobs(world, task, "activated")
    take(world, [first])
    end(world, [first], "failed")
    cycle(world)
    incexec(world, task, **told)
    make_due(world)
    everything(world)
    query = "SELECT site FROM jedi_jobs WHERE jeditaskid = :t ORDER BY pandaid"
    assert [row.site for row in rows(world, query, t=task)] == ["SITE_A", "SITE_B"]
    sound(world)


# ---------------------------------------------------------------------- what did not work out


@pytest.mark.parametrize(("told", "allowed"), [({}, 6), ({"maxAttempt": 4}, 4)])
def test_failed_files_get_new_attempts(world: World, told: dict[str, int], allowed: int) -> None:
    task = running(world, 2, maxAttempt=1)
    first, second = jobs(world, task, "activated")
    take(world, [first, second])
    end(world, [first])
    end(world, [second], "failed")
    cycle(world)
    assert status(world, task) == "finished"
    with world.engine.begin() as tx:
        tx.exec_driver_sql("UPDATE jedi_dataset_contents SET ramcount = 4000 WHERE type = 'input'")
    incexec(world, task, **told)
    cycle(world)
    assert attempts(world, task) == [("finished", 1, 1), ("ready", 1, allowed)]
    found = rows(
        world,
        "SELECT ramcount FROM jedi_dataset_contents WHERE status = 'ready' AND type = 'input'",
    )
    assert [row.ramcount for row in found] == [None]
    assert work_off(world, task) == "done"
    sound(world)


def test_a_killed_task_goes_on(world: World) -> None:
    task = running(world, 3)
    ask(world, task, "kill")
    cycle(world)
    assert status(world, task) == "aborted"
    with pytest.raises(Refused, match=r"Possible now: incexec\."):
        ask(world, task, "retry")
    incexec(world, task)
    assert (work_off(world, task), files(world, task)) == ("done", {"finished": 3})
    sound(world)


def test_a_task_that_was_never_refined_is_now(world: World) -> None:
    add_inputs(world, 2)
    [task] = put(world, document(nFilesPerJob=1, site="SITE_A"))
    ask(world, task, "kill")
    cycle(world)
    incexec(world, task, nFilesPerJob=2)
    assert (work_off(world, task), counts(world, task)) == ("done", {"finished": 1})
    sound(world)


def test_measured_and_decided_columns_stay(world: World) -> None:
    task = running(world, 1)
    assert work_off(world, task) == "done"
    rows(
        world,
        "UPDATE jedi_tasks SET ramcount = 7, nucleus = 'SITE_B', "
        "rules = rules || '{\"max_walltime_h\": 3}' RETURNING 1",
    )
    incexec(world, task, nFilesPerJob=2, site="SITE_B", taskPriority=950)
    cycle(world, TaskRefiner)
    row = task_row(world, task)
    assert (row.ramcount, row.nucleus, row.site) == (7, "SITE_B", "SITE_B")
    assert (row.rules["max_walltime_h"], row.rules["n_files_per_job"]) == (3, 2)
    assert (row.taskpriority, row.currentpriority) == (950, 950)
    ask(world, task, "kill")
    cycle(world)
    incexec(world, task, ramCount=2000)
    cycle(world, TaskRefiner)
    assert task_row(world, task).ramcount == 2000


# ----------------------------------------------------------------------------- bad moments


def test_a_lost_worker_leaves_the_rest_to_another(world: World) -> None:
    task = running(world, 2)
    assert work_off(world, task) == "done"
    incexec(world, task, nFilesPerJob=2)
    agent = TaskCommando(world)
    assert agent.run_once() == 1
    assert status(world, task) == "toincexec"
    with world.engine.begin() as tx:
        [order] = agent.claim(tx, 10)  # and dies
        end_leases(tx)
    cycle(world, TaskRefiner)
    with world.engine.begin() as tx:
        agent.apply(tx, [(order, None)])
    assert (status(world, task), task_row(world, task).attemptnr) == ("defined", 2)
    sound(world)


def test_what_was_changed_is_not_forgotten_by_a_pause(world: World) -> None:
    task = running(world, 2)
    assert work_off(world, task) == "done"
    add_inputs(world, 2, first=2)
    incexec(world, task, nFilesPerJob=2)
    cycle(world)
    assert status(world, task) == "rerefine"
    for command in ("pause", "resume"):
        ask(world, task, command)
        cycle(world)
    assert status(world, task) == "rerefine"
    assert (work_off(world, task), counts(world, task)) == ("done", {"finished": 3})
    sound(world)


def test_a_task_is_killed_before_it_is_refined_again(world: World) -> None:
    task = running(world, 1)
    assert work_off(world, task) == "done"
    incexec(world, task)
    TaskCommando(world).run_once()
    assert status(world, task) == "toincexec"
    ask(world, task, "kill")
    make_due(world)
    cycle(world)
    assert status(world, task) == "aborted"
    sound(world)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"nFilePerJob": 2}, "Did you mean nFilesPerJob"),
        ({"transPath": "cat"}, "can't be changed after the submission"),
        ({"site": "NOWHERE"}, "no such site"),
        ({"excludedSite": "*"}, "excludes every site|all are excluded"),
        ({"nFilesPerJob": 5000}, "no job gets more than 1000 files"),
        ({"taskPriority": 5000}, "a user's tasks have priorities from"),
    ],
)
def test_bad_parameters_are_told_and_nothing_changes(
    world: World, told: dict[str, Any], words: str
) -> None:
    task = running(world, 1)
    with world.engine.begin() as tx:
        tasks.move_tasks(tx, [Move(task, None, "exhausted", "worker_killed", "Died.")], "test")
    with pytest.raises(BadInput, match=words):
        incexec(world, task, **told)
    assert rows(world, "SELECT FROM jedi_commands") == []
    if "taskPriority" in told:
        with world.engine.begin() as tx:
            users.PUT_USER.run(tx, user=OWNER, role="production", gridpref=None, cap=None)
        incexec(world, task, **told)
