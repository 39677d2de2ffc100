"""Merging, from pre-merge files to finished inputs, without pilots: jobs end as a test wants."""

# Raw UPDATEs: measurements and lost files of jobs that do not run here; rules for some jobs alone.

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.calls import call
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
    obey,
    sound,
    status,
    take,
)
from support.dogs import run as run_dog
from support.generating import document, generate, ready, rows
from support.helpers import put_file_dataset
from support.job_rows import watch
from support.merging import SPEC, kinds, make, merge_jobs, merged_at_last, run, task_of
from support.situations import make_due, set_sites
from support.task_rows import OUTPUT

from jedi.agent.base import World
from jedi.core.errors import BadInput, NotFound, Refused
from jedi.jobgenerator.agent import JobGenerator
from jedi.model.queries import FileQuery
from jedi.model.tasks.text import validate
from jedi.service.jobs import job_details as job_service
from jedi.service.tasks import task_details as service
from jedi.service.tasks.why import why
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd


def of_type(world: World, task: int, kind: str) -> Counter[str]:
    query = "SELECT status FROM jedi_dataset_contents WHERE jeditaskid = :t AND type = :k"
    return Counter(row.status for row in rows(world, query, t=task, k=kind))


# ---------------------------------------------------------------------------------- the way


@pytest.mark.parametrize(
    ("preset", "measured", "disk_mb"),
    [("classic", 0, 1), ("classic", 1, 2), ("current", 0, 501), ("current", 1, 501)],
)
def test_merges_ask_for_as_much_disk_before_their_task_is_measured_as_after(
    world: World, preset: str, measured: int, disk_mb: int
) -> None:
    """ "Merge jobs ask for 1 MB of disk before their task is measured and 301 after". PanDA:
    max(workDiskCount + 300 MB, 500 MB) besides their files, a few bytes here: 500 MB and a bit,
    whether a work directory of 1 MB is known or not. Classic knows neither the 300 nor the 500."""
    task = task_of(world)
    make(world, jobs(world, task, "activated"))
    with world.engine.begin() as tx:
        knobs.put(tx, "core.preset", preset, "me")
        tx.exec_driver_sql(
            "UPDATE jedi_tasks SET workdiskcount = %s, workdiskunit = 'MB'", (measured,)
        )
    everything(world)
    [merge] = merge_jobs(world, task)
    [asked] = rows(world, "SELECT disk_mb FROM jedi_jobs WHERE pandaid = :i", i=merge.panda_id)
    assert asked.disk_mb == disk_mb


def test_jobs_wait_and_end_with_the_merge(world: World) -> None:
    task = task_of(world)
    assert of_type(world, task, "trn_output") == {"pending": 4}
    first = jobs(world, task, "activated")
    make(world, first[:3])
    everything(world)
    assert kinds(world, task) == {("normal", "merging"): 3, ("normal", "activated"): 1}
    make(world, first[3:])
    assert (files(world, task), of_type(world, task, "trn_log")) == ({"running": 4}, {"ready": 4})
    sound(world)
    everything(world)
    [merge] = merge_jobs(world, task)
    assert (merge.priority, merge.status, merge.site, merge.n_inputs) == (
        5000,
        "activated",
        "SITE_A",
        4,
    )
    [command] = rows(
        world, "SELECT jobparameters FROM jedi_job_params WHERE pandaid = :i", i=merge.panda_id
    )
    names = " ".join(f"panda.um.o.{n:06}" for n in range(1, 5))
    assert command.jobparameters == f"sort -m {names} > o.000001"
    history = rows(world, "SELECT DISTINCT newpandaid, relationtype FROM jedi_job_retry_history")
    assert [tuple(row) for row in history] == [(merge.panda_id, "merge")]
    assert files(world, task) == {"running": 4}
    sound(world)
    run(world, [merge.panda_id])
    assert counts(world, task) == {"finished": 5}
    assert files(world, task) == {"finished": 4}
    assert of_type(world, task, "trn_output") == {"finished": 4}
    assert of_type(world, task, "output") == {"finished": 1}
    sound(world)
    everything(world)
    assert status(world, task) == "done"
    with world.engine.begin() as tx:
        assert [file.lfn for file in service.outputs(call(tx), task)] == ["o.000001"]
        assert {file.type for file in service.files(call(tx), task)} == {"input", "output", "log"}
        assert len(service.files(call(tx), task, query=FileQuery(["trn_output"]))) == 4
    with pytest.raises(NotFound):
        world.ddm.dataset("a:panda.um.out")
    assert world.ddm.dataset("a:panda.um.out.log").state == "closed"
    assert world.ddm.dataset("a:out").state == "closed"
    sound(world)


def test_a_full_merge_job_need_not_wait(world: World) -> None:
    task = task_of(world, 5, nFilesPerMergeJob=2)
    first = jobs(world, task, "activated")
    make(world, first[:2])
    everything(world)
    assert merge_jobs(world, task) == []
    make(world, first[2:4])
    everything(world)
    assert [job.n_inputs for job in merge_jobs(world, task)] == [2]
    assert kinds(world, task)["normal", "merging"] == 4
    make(world, first[4:])
    everything(world)
    assert [job.n_inputs for job in merge_jobs(world, task)] == [2, 2, 1]
    assert merged_at_last(world, task) == "done"
    sound(world)


def test_the_largest_come_first_and_size_limits(world: World) -> None:
    task = task_of(world, 5, nGBPerMergeJob=1)
    for gigabytes, job in zip(
        (0.1, 0.6, 0.2, 0.3, 0.1), jobs(world, task, "activated"), strict=True
    ):
        make(world, [job], int(gigabytes * 2**30))
    everything(world)
    query = (
        "SELECT pandaid, array_agg(fsize ORDER BY fileid) AS sizes FROM jedi_job_files "
        "WHERE type = 'trn_output' GROUP BY pandaid ORDER BY pandaid"
    )
    sizes = [[round(n / 2**30, 1) for n in row.sizes] for row in rows(world, query)]
    assert [sorted(some) for some in sizes] == [[0.6], [0.1, 0.1, 0.2, 0.3]]
    assert merged_at_last(world, task) == "done"


def test_merges_are_not_throttled_and_do_not_wait_for_a_held_task(world: World) -> None:
    task = task_of(world)
    make(world, jobs(world, task, "activated"))
    with world.engine.begin() as tx:
        knobs.put(tx, "throttler.queue_cap", 1, "op")
        tx.exec_driver_sql(
            "UPDATE jedi_tasks SET status = 'pending', next_run_at = jedi_now() + interval '1 h'"
        )
    assert generate(world) == 1
    assert len(merge_jobs(world, task)) == 1
    assert status(world, task) == "pending"


def test_every_output_has_its_stream(world: World) -> None:
    second = {**OUTPUT, "value": "2> e.${SN}", "dataset": "a:out", "sourceName": "errors"}
    extra = {**OUTPUT, "value": "index.${SN}", "dataset": "a:index", "mergeOnly": True}
    spec = {"transPath": "m", "jobParameters": "${TRN_OUTPUT:OUTPUT} ${TRN_LOG:LOG} ${OUTPUT1}"}
    log = {"value": "merge.${SN}.log", "dataset": "a:mergelog"}
    add_inputs(world, 2)
    task_log = {"value": "t.${SN}.log", "dataset": "a:logs"}
    said: dict[str, Any] = {
        "nFilesPerJob": 1,
        "site": "SITE_A",
        "mergeOutput": True,
        "mergeSpec": spec,
        "umNameAtEnd": True,
        "log": task_log,
        "log_merge": log,
    }
    [task] = ready(world, document(second, extra, **said))
    assert generate(world) == 1
    make(world, jobs(world, task, "activated"))
    everything(world)
    [merge] = merge_jobs(world, task)
    [row] = rows(
        world, "SELECT jobparameters FROM jedi_job_params WHERE pandaid = :i", i=merge.panda_id
    )
    assert row.jobparameters == (
        "m e.000001.panda.um,e.000002.panda.um:e.000001 o.000001.panda.um,o.000002.panda.um:"
        "o.000001 t.000001.log.panda.um,t.000002.log.panda.um:t.000001.log index.000001"
    )
    made = rows(
        world,
        "SELECT type, lfn FROM jedi_job_files WHERE pandaid = :i "
        "AND type IN ('output', 'log') ORDER BY lfn",
        i=merge.panda_id,
    )
    assert [tuple(one) for one in made] == [
        ("output", "e.000001"),
        ("output", "index.000001"),
        ("log", "merge.000001.log"),
        ("output", "o.000001"),
        ("output", "t.000001.log"),
    ]
    query = "SELECT source_name FROM jedi_job_files WHERE lfn = 'e.000001.panda.um' AND type = :t"
    assert [row.source_name for row in rows(world, query, t="output")] == ["errors"]
    sound(world)


# ----------------------------------------------------------------------------- what goes wrong


def test_three_tries_then_the_inputs_come_back(world: World) -> None:
    """JEDI document, "Output merging": "If the final attempt for the merge job fails, the status of
    merging jobs will change to cancelled and input files will be retried." """
    task = task_of(world, 2)
    first = jobs(world, task, "activated")
    make(world, first)
    for left in (2, 1, 0):
        everything(world)
        merge = merge_jobs(world, task)[-1]
        assert kinds(world, task)["normal", "merging"] == 2
        run(world, [merge.panda_id], "failed")
        assert files(world, task) == ({"running": 2} if left else {"ready": 2})
        sound(world)
    query = "SELECT status, substatus, error_code FROM jedi_jobs WHERE kind = 'normal'"
    assert {tuple(row) for row in rows(world, query)} == {
        ("cancelled", "merge_failed", "merge_failed")
    }
    assert [row.attemptnr for row in merge_jobs(world, task)] == [1, 2, 3]
    query = "SELECT failedattempt FROM jedi_dataset_contents WHERE type = 'input'"
    assert {row.failedattempt for row in rows(world, query)} == {0}
    assert merged_at_last(world, task) == "done"
    assert of_type(world, task, "trn_output") == {"failed": 2, "finished": 2}
    sound(world)


def test_inputs_that_a_merge_failed_are_retried_like_it(world: World) -> None:
    """Jobs fail by the merge's error alone; retry --like its job means the inputs of its makers."""
    task = task_of(world, 2, maxAttempt=1)
    make(world, jobs(world, task, "activated"))
    for _ in range(3):
        everything(world)
        merge = merge_jobs(world, task)[-1]
        run(world, [merge.panda_id], "failed")
    everything(world)
    assert files(world, task) == {"failed": 2}
    ask(world, task, "retry", like_job=merge.panda_id)
    make_due(world)
    assert merged_at_last(world, task) == "done"
    sound(world)


def test_a_merge_that_lacked_memory_gets_more(world: World) -> None:
    task = task_of(world, 2, mergeRamCount=2000)
    make(world, jobs(world, task, "activated"))
    everything(world)
    first = merge_jobs(world, task)[-1]
    take(world, [first.panda_id])
    with world.engine.begin() as tx:
        job_ends.end_jobs(tx, [JobEnd(first.panda_id, "failed", "memory_limit", "Oh.")], "Adder")
    everything(world)
    second = merge_jobs(world, task)[-1]
    assert (first.memory_mb, second.memory_mb) == (2000, 3000)


def test_a_job_that_fails_leaves_nothing_to_merge(world: World) -> None:
    task = task_of(world, 3, maxAttempt=1)
    first = jobs(world, task, "activated")
    run(world, first[:1], "failed")
    make(world, first[1:])
    sound(world)
    assert merged_at_last(world, task) == "finished"
    assert of_type(world, task, "trn_output") == {"failed": 1, "finished": 2}
    sound(world)
    ask(world, task, "retry")
    make_due(world)
    assert merged_at_last(world, task) == "done"
    assert of_type(world, task, "trn_output") == {"failed": 1, "finished": 3}
    sound(world)


@pytest.mark.parametrize("target", ["cancelled", "closed"])
def test_a_merge_job_that_is_killed(world: World, target: str) -> None:
    task = task_of(world, 2)
    make(world, jobs(world, task, "activated"))
    everything(world)
    [merge] = merge_jobs(world, task)
    run(world, [merge.panda_id], target)
    again = target == "closed"
    assert files(world, task) == ({"running": 2} if again else {"ready": 2})
    query = "SELECT DISTINCT status, substatus FROM jedi_jobs WHERE kind = 'normal'"
    expected = ("merging", None) if again else ("cancelled", "merge_cancelled")
    assert [tuple(row) for row in rows(world, query)] == [expected]
    sound(world)
    assert merged_at_last(world, task) == "done"
    sound(world)


def test_a_pre_merge_file_that_is_gone(world: World) -> None:
    """Its job can't be merged: it is given up and cancelled; the other one is merged."""
    task = task_of(world, 2)
    make(world, jobs(world, task, "activated"))
    everything(world)
    [merge] = merge_jobs(world, task)
    with world.engine.begin() as tx:
        tx.exec_driver_sql(
            "UPDATE jedi_job_files SET problem = 'missing' WHERE pandaid = "
            f"{merge.panda_id} AND lfn = 'panda.um.o.000001'"
        )
    run(world, [merge.panda_id], "failed")
    assert kinds(world, task)["normal", "cancelled"] == 1
    assert kinds(world, task)["normal", "merging"] == 1
    assert files(world, task) == {"ready": 1, "running": 1}
    sound(world)
    assert merged_at_last(world, task) == "done"
    sound(world)


def made_at_a(world: World) -> int:
    """A task whose files to be merged lie at SITE_A, while its merge jobs may run anywhere."""
    task = task_of(world, site=None, includedSite="SITE_A")
    with world.engine.begin() as tx:
        tx.exec_driver_sql("UPDATE jedi_tasks SET rules = rules - 'included_site'")
    make(world, jobs(world, task, "activated"))
    return task


def refusals(world: World, task: int) -> dict[str, list[str]]:
    """The sites that the last decision refused, each with its reasons."""
    query = (
        "SELECT site, codes FROM jedi_broker_reasons WHERE decision_id = (SELECT "
        "max(decision_id) FROM jedi_broker_decisions WHERE jeditaskid = :t)"
    )
    return {row.site: row.codes for row in rows(world, query, t=task)}


def test_merge_jobs_are_made_where_their_files_lie(world: World) -> None:
    """JEDI document, "Internal Merging": "merge jobs are generated at the site", though another one
    has more free slots (docs/reference/merging.md#sites-of-merge-jobs)."""
    task = made_at_a(world)
    set_sites(world, "SITE_B", nslots=100)
    everything(world)
    assert [(job.site, job.status) for job in merge_jobs(world, task)] == [("SITE_A", "activated")]
    assert refusals(world, task) == {"SITE_B": ["merge_elsewhere"]}


@pytest.mark.parametrize("trouble", [{"status": "offline"}, {"lastpilot": "2020-01-01"}])
def test_merge_jobs_go_where_the_broker_sends_them(world: World, trouble: dict[str, str]) -> None:
    """A site that the broker's filters refuse gets none: their files move to a living one."""
    task = made_at_a(world)
    set_sites(world, "SITE_A", **trouble)
    everything(world)
    [merge] = merge_jobs(world, task)
    assert (merge.site, merge.status) == ("SITE_B", "activated")  # its files have moved
    sound(world)
    assert merged_at_last(world, task) == "done"
    sound(world)


def test_decisions_about_merges_and_others_keep_their_snapshots(world: World) -> None:
    """In one cycle: those of a task with a nucleus have its links, too."""
    merged = made_at_a(world)
    add_inputs(world, 1)
    [other] = ready(world, document(output="a:other"))
    with world.engine.begin() as tx:
        tx.exec_driver_sql(
            "UPDATE jedi_tasks SET nucleus = 'SITE_A' WHERE jeditaskid = %s", (other,)
        )
        tx.exec_driver_sql(
            "INSERT INTO jedi_network_matrix (src, dst, key, value, ts) "
            "VALUES ('SITE_B', 'SITE_A', 'closeness', 3, jedi_now())"
        )
    assert generate(world) == 2
    query = (
        "SELECT jeditaskid, count(data) AS kept FROM jedi_broker_decisions "
        "LEFT JOIN jedi_snapshots USING (snapshot_hash) "
        "WHERE decision_id IN (SELECT max(decision_id) FROM jedi_broker_decisions "
        "GROUP BY jeditaskid) GROUP BY 1 ORDER BY 1"
    )
    assert [tuple(row) for row in rows(world, query)] == [(merged, 1), (other, 1)]


def test_a_site_that_goes_offline_gives_its_merge_jobs_back(world: World) -> None:
    """At once, to the next site; `why` tells where no site takes them
    (docs/reference/merging.md#sites-of-merge-jobs)."""
    task = made_at_a(world)
    set_sites(world, "SITE_B", status="brokeroff")
    everything(world)
    set_sites(world, "SITE_A", status="offline")
    assert run_dog(world, "timeouts") == {"given_back": 1}
    [first] = merge_jobs(world, task)
    assert (first.status, first.error_code) == ("closed", "given_back")
    assert first.error_diag.startswith("It waited at SITE_A, which gets no pilots, for ")
    everything(world)
    assert len(merge_jobs(world, task)) == 1
    with world.engine.begin() as tx:
        held = why(call(tx), task)
    assert (held.code, held.detail) == (
        "merging",
        "4 jobs wait until their outputs are merged. No site takes their merge jobs.",
    )
    assert held.brokerage is not None
    assert {one.code for one in held.brokerage.funnel} == {"status_offline", "status_brokeroff"}
    set_sites(world, "SITE_B", status="online")
    everything(world)
    assert [job.site for job in merge_jobs(world, task)] == ["SITE_A", "SITE_B"]
    sound(world)


def test_a_merge_job_that_no_pilot_takes_moves(world: World) -> None:
    """To another site, though its files lie at this one."""
    task = made_at_a(world)
    with world.engine.begin() as tx:
        knobs.put(tx, "watchdog.merging_timeout_s", 0, "op")
    everything(world)
    world.refresh()
    assert run_dog(world, "timeouts") == {"not_taken": 1}
    everything(world)
    assert [job.site for job in merge_jobs(world, task)] == ["SITE_A", "SITE_B"]
    assert refusals(world, task) == {"SITE_A": ["merge_left"]}
    sound(world)


def test_merge_jobs_that_no_pilot_takes_are_closed(world: World) -> None:
    """That is nobody's fault, and counts after `attempts.most_free` in a row. After three that
    count the merge is given up: its jobs are cancelled (JEDI document, "Output merging") and the
    inputs are tried again."""
    task = task_of(world, 2)
    make(world, jobs(world, task, "activated"))
    with world.engine.begin() as tx:
        knobs.put(tx, "watchdog.merging_timeout_s", 0, "op")
        knobs.put(tx, "attempts.most_free", 1, "op")
    for left in (5, 4, 3, 2, 1, 0):
        everything(world)
        assert len(merge_jobs(world, task)) == 6 - left
        world.refresh()
        assert run_dog(world, "timeouts") == {"not_taken": 1}
        assert files(world, task) == ({"running": 2} if left else {"ready": 2})
        sound(world)
    query = "SELECT DISTINCT status, substatus FROM jedi_jobs WHERE kind = 'normal'"
    assert [tuple(row) for row in rows(world, query)] == [("cancelled", "merge_closed")]


# ---------------------------------------------------------------------------------- commands


def test_kill(world: World) -> None:
    """Before, and while a pilot has the merge job."""
    task = task_of(world, 3)
    first = jobs(world, task, "activated")
    make(world, first[:2])
    ask(world, task, "kill")
    make_due(world)
    everything(world)
    assert (status(world, task), counts(world, task)) == ("aborted", {"cancelled": 3})
    sound(world)
    with pytest.raises(NotFound):
        world.ddm.dataset("a:panda.um.out")


def test_one_job_is_cancelled_while_merging(world: World) -> None:
    """Its input is tried again; not once a merge job has what it made."""
    task = task_of(world)
    first, second, *_ = made = jobs(world, task, "activated")
    make(world, made)
    with world.engine.begin() as tx:
        job_service.cancel(tx, OWNER, [first], None)
    assert files(world, task) == {"ready": 1, "running": 3}
    assert of_type(world, task, "trn_output") == {"failed": 1, "ready": 3}
    sound(world)
    everything(world)
    make(world, [job for job in jobs(world, task, "activated") if job not in made])
    everything(world)
    with (
        world.engine.begin() as tx,
        pytest.raises(Refused, match="reads the outputs of job") as refused,
    ):
        job_service.cancel(tx, OWNER, [second], None)
    assert refused.value.facts["merge_job"] in {job.panda_id for job in merge_jobs(world, task)}


def test_kill_while_merging(world: World) -> None:
    task = task_of(world, 2)
    make(world, jobs(world, task, "activated"))
    everything(world)
    [merge] = merge_jobs(world, task)
    take(world, [merge.panda_id])
    ask(world, task, "kill")
    make_due(world)
    everything(world)
    assert kinds(world, task)["normal", "merging"] == 2
    assert obey(world) == 1
    make_due(world)
    everything(world)
    assert (status(world, task), counts(world, task)) == ("aborted", {"cancelled": 3})
    assert files(world, task) == {"ready": 2}
    sound(world)


@pytest.mark.parametrize(("soft", "finished"), [(False, 0), (True, 2)])
def test_finish(world: World, *, soft: bool, finished: int) -> None:
    """What is made is merged if there is time."""
    task = task_of(world, 3)
    make(world, jobs(world, task, "activated")[:2])
    ask(world, task, "finish", soft=soft)
    make_due(world)
    assert merged_at_last(world, task) == ("finished" if soft else "failed")
    assert files(world, task).get("finished", 0) == finished
    sound(world)
    ask(world, task, "retry")
    make_due(world)
    assert merged_at_last(world, task) == "done"
    sound(world)


def test_reassign_keeps_what_is_made(world: World) -> None:
    task = task_of(world, 3)
    make(world, jobs(world, task, "activated")[:2])
    ask(world, task, "reassign", site="SITE_A")
    make_due(world)
    cycle(world)
    assert kinds(world, task) == {("normal", "merging"): 2, ("normal", "closed"): 1}
    assert merged_at_last(world, task) == "done"
    sound(world)


def test_a_paused_task_does_not_merge(world: World) -> None:
    task = task_of(world, 2)
    make(world, jobs(world, task, "activated"))
    ask(world, task, "pause")
    make_due(world)
    everything(world)
    assert (status(world, task), merge_jobs(world, task)) == ("paused", [])
    ask(world, task, "resume")
    make_due(world)
    assert merged_at_last(world, task) == "done"


# ------------------------------------------------------------------------- with other features


def test_scouts_are_merged_before_they_are_judged(world: World) -> None:
    task = task_of(world, 14, skipScout=False)
    make(world, jobs(world, task, "activated"))
    everything(world)
    assert status(world, task) == "scouting"
    run(world, [merge_jobs(world, task)[0].panda_id])
    everything(world)
    assert status(world, task) == "running"
    assert kinds(world, task) == {
        ("scout", "finished"): 10,
        ("merge", "finished"): 1,
        ("normal", "activated"): 4,
    }
    assert merged_at_last(world, task) == "done"
    sound(world)


def test_ranges_of_events(world: World) -> None:
    data = {f"e{i}": b"x" for i in range(2)}
    put_file_dataset(world, "demo:in", data, "SITE_A_DATADISK")
    side = world.ddm.path("SITE_A_DATADISK", "demo:in", "e0").parent / ".dataset.yaml"
    side.write_text("files: {e0: {nevents: 10}, e1: {nevents: 10}}\n")
    said: dict[str, Any] = {
        "nEventsPerJob": 5,
        "site": "SITE_A",
        "mergeOutput": True,
        "mergeSpec": SPEC,
        "nEventsPerMergeJob": 10,
    }
    [task] = ready(world, document(**said))
    assert generate(world) == 1
    make(world, jobs(world, task, "activated"))
    codes = "SELECT DISTINCT status FROM jedi_events"
    assert [row.status for row in rows(world, codes)] == [6]
    everything(world)
    assert [job.n_events for job in merge_jobs(world, task)] == [10, 10]
    assert merged_at_last(world, task) == "done"
    assert [row.status for row in rows(world, codes)] == [9]
    sound(world)


def test_many_tasks_merge_in_as_many_statements_as_one(world: World) -> None:
    add_inputs(world, 3)
    seen = []
    statements = watch(world.engine)
    for batch in (1, 4):
        said: dict[str, Any] = {
            "nFilesPerJob": 1,
            "site": "SITE_A",
            "mergeOutput": True,
            "mergeSpec": SPEC,
        }
        ids = ready(world, *(document(output=f"a:{batch}.{i}", **said) for i in range(batch)))
        while generate(world):
            pass
        for task in ids:
            make(world, jobs(world, task, "activated"))
        before = len(statements)
        assert JobGenerator(world).run_once() == batch
        made = len(statements) - before
        merges = [job.panda_id for task in ids for job in merge_jobs(world, task)]
        assert len(merges) == batch
        take(world, merges)
        before = len(statements)
        end(world, merges, "failed")
        seen.append((made - 2 * batch, len(statements) - before))
        assert generate(world) == batch
    assert seen[0] == seen[1]


# ----------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"mergeOutput": True}, "the task has no command for merge jobs"),
        ({"mergeSpec": SPEC}, "needs a task that merges"),
        ({"nFilesPerMergeJob": 3}, "needs a task that merges"),
        (
            {"mergeOutput": True, "mergeSpec": {"jobParameters": "cat ${TRN_OUTPUT7} ${IN}"}},
            "merge jobs have no value for the placeholder",
        ),
        (
            {"mergeOutput": True, "mergeSpec": {"jobParameters": "cat ${TRN_LOG:LOG}"}},
            "merge jobs have no value for the placeholder",
        ),
        (
            {
                "mergeOutput": True,
                "mergeSpec": SPEC,
                "log_merge": {"value": "l.${SN}", "dataset": "a:l"},
            },
            "this command reads no logs",
        ),
    ],
)
def test_what_does_not_go_together(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        validate(document(**keys))
