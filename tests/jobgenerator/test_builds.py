"""Builds: the software of a task is built once for all sites that share storage."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from support.helpers import publish, put_file_dataset
from support.situations import make_due, pilots_ask, set_sites
from support.task_rows import OUTPUT, good, put, row_of
from support.working import ENDPOINT, cycle, end_jobs

from jedi.agent.base import World
from jedi.core import clock
from jedi.core.errors import BadInput
from jedi.model.tasks.text import validate
from jedi.service.tasks import commanding
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs

SPEC = {"transPath": "build", "jobParameters": "-i ${IN} -o ${OUT} ${SURL}", "archiveName": "a.tgz"}
READ = {
    "type": "template",
    "param_type": "input",
    "value": "-l ${LIB} -i ${IN}",
    "dataset": "demo:in",
}


def start(world: World, n_files: int = 1, **keys: Any) -> int:
    put_file_dataset(world, "demo:in", {f"f{i}": b"f" for i in range(n_files)}, ENDPOINT)
    asked = {"site": "SITE_A", "skipScout": True, "nFilesPerJob": 1, **keys}
    document = good(buildSpec=SPEC, sourceURL="http://x", jobParameters=[READ, OUTPUT])
    (task_id,) = put(world, document | asked)
    cycle(world, jobs_end_too=False)
    return task_id


def jobs(world: World) -> list[tuple[str, str, str]]:
    with world.engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT kind, site, status, jobparameters FROM jedi_jobs JOIN jedi_job_params "
                "USING (pandaid) ORDER BY pandaid"
            )
        )
        return [(row.kind, row.status, row.jobparameters) for row in rows]


def again(world: World, *, target: str = "finished") -> None:
    """Jobs end; whoever waits for them is looked at."""
    end_jobs(world, target)
    with world.engine.begin() as tx:
        make_due(tx)
    cycle(world, jobs_end_too=False)


def test_jobs_read_what_was_built_first(world: World) -> None:
    task_id = start(world, 2)
    assert row_of(world, task_id).status == "running"
    assert jobs(world) == [("build", "activated", "build -i a.tgz -o t.1.000001.lib.tgz http://x")]
    again(world)
    assert [one[2] for one in jobs(world)[1:]] == [
        "-l t.1.000001.lib.tgz -i f0 > o.000001",
        "-l t.1.000001.lib.tgz -i f1 > o.000002",
    ]
    with world.engine.begin() as tx:
        query = text("SELECT priority FROM jedi_jobs ORDER BY pandaid")
        assert list(tx.scalars(query)) == [2000, 1000, 1000]
        query = text("SELECT endpoint FROM jedi_job_files WHERE lfn LIKE '%.lib.tgz'")
        assert set(tx.scalars(query)) == {ENDPOINT}
    again(world)
    assert row_of(world, task_id).status == "done"


def test_a_task_says_that_it_waits_for_its_build(world: World) -> None:
    task_id = start(world)
    with world.engine.begin() as tx:
        make_due(tx)
    cycle(world, jobs_end_too=False)
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("running", "build_running")
    assert [one[0] for one in jobs(world)] == ["build"]


def test_a_build_that_fails_three_times_breaks_a_scouting_task(world: World) -> None:
    task_id = start(world, 20, skipScout=False)
    for failures in range(3):
        assert row_of(world, task_id).status == "scouting"
        assert [one[0] for one in jobs(world)] == ["build"] * (failures + 1)
        again(world, target="failed")
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("broken", "build_failed")


def test_without_scouts_the_task_waits_for_a_person(world: World) -> None:
    task_id = start(world)
    for _ in range(3):
        again(world, target="failed")
    task = row_of(world, task_id)
    assert (task.status, task.reason_code) == ("pending", "build_failed")
    assert ENDPOINT in task.errordialog


def test_what_was_built_is_used_again_for_a_week(world: World) -> None:
    task_id = start(world)
    again(world)
    end_jobs(world, "failed")
    cycle(world, jobs_end_too=False)
    assert [one[0] for one in jobs(world)] == ["build", "normal", "normal"]
    try:
        clock.turn_to(clock.now() + timedelta(days=8))
        with world.engine.begin() as tx:
            pilots_ask(tx)
        again(world, target="failed")
        assert [one[0] for one in jobs(world)] == ["build", "normal", "normal", "build"]
        again(world)
        again(world)
        assert row_of(world, task_id).status == "done"
    finally:
        clock.turn_to(None)


def test_what_was_lost_is_built_again(world: World) -> None:
    start(world)
    again(world)
    world.ddm.remove_files("user.anna:t.1.lib", ["t.1.000001.lib.tgz"])
    again(world, target="failed")
    assert [one[0] for one in jobs(world)] == ["build", "normal", "build"]


def test_each_storage_has_its_build(world: World) -> None:
    with world.engine.begin() as tx:
        set_sites(tx, nslots=1)
    put_file_dataset(world, "demo:in", {f"f{i}": b"f" for i in range(40)}, ENDPOINT)
    document = good(buildSpec=SPEC, jobParameters=[READ, OUTPUT], skipScout=True, nFilesPerJob=1)
    (task_id,) = put(world, document)
    for _ in range(20):
        cycle(world, jobs_end_too=False)
        if not end_jobs_where_they_are(world):
            break
    with world.engine.begin() as tx:
        rows = tx.execute(text("SELECT site, kind, count(*) AS n FROM jedi_jobs GROUP BY 1, 2"))
        found = {(row.site, row.kind): row.n for row in rows}
    assert found["SITE_A", "build"] == 1
    assert {n for (_, kind), n in found.items() if kind == "build"} == {1}
    assert row_of(world, task_id).status == "done"


def end_jobs_where_they_are(world: World) -> int:
    """Every job ends, with its outputs at its own site."""
    with world.engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT site, array_agg(pandaid ORDER BY pandaid) AS ids FROM jedi_jobs "
                "WHERE postprocessed_at IS NULL GROUP BY site"
            )
        ).all()
        for row in rows:
            publish(world, tx, row.ids, f"{row.site}_DATADISK")
            for source, now in (
                ("assigned", "activated"),
                ("activated", "sent"),
                ("sent", "holding"),
            ):
                move_jobs(tx, [JobMove(job, now, "c", "r") for job in row.ids], "test", [source])
            job_ends.end_jobs(tx, [JobEnd(job, "finished", "c", "r") for job in row.ids], "test")
        make_due(tx)
    return len(rows)


def test_a_retry_builds_again_what_failed(world: World) -> None:
    task_id = start(world)
    for _ in range(3):
        again(world, target="failed")
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "finish")
    cycle(world)
    assert row_of(world, task_id).status == "failed"
    with world.engine.begin() as tx:
        commanding.command(tx, "anna", task_id, "retry")
    cycle(world, jobs_end_too=False)
    again(world)
    again(world)
    assert row_of(world, task_id).status == "done"


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"jobParameters": "x"}, "the name of its output"),
        ({"jobParameters": "${OUT} ${LIB}"}, "no value for the placeholder"),
        ({"jobParameters": "${OUT/S}"}, "no value for the placeholder"),
    ],
)
def test_builds_are_checked(spec: dict[str, Any], wrong: str) -> None:
    with pytest.raises(BadInput, match=wrong):
        validate(good(buildSpec=spec))
    with pytest.raises(BadInput, match="LIB"):
        validate(good(jobParameters=[READ, OUTPUT]))
    with pytest.raises(BadInput, match="useBuild"):
        validate(good(useBuild=True))
