"""Analysis of a container: each of its datasets is brokered where it lies.

JEDI document, "Workflow for analysis": "JEDI takes a few files from the Contents table per dataset
and runs the brokerage to choose a site"; "Input data transfer": "Basically analysis jobs go to
data"; "Throttled jobs and tasks": "when one task uses 100 input datasets and 1 dataset is available
only at busy sites, the first jobs go to data and thus jobs for the 99 datasets keep running".
"""

# Raw UPDATEs: a task that waits is ready again without its cause going.

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import end, take
from support.generating import document, generate, ready, rows
from support.helpers import put_file_dataset
from support.situations import make_due, set_sites
from support.task_rows import INPUT, OUTPUT, row_of

from jedi.agent.base import World
from jedi.service.brokerage.replay import replay
from jedi.service.planning.text_plans import Alternative, plan_now
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks.why import why
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.sites import decisions

HOMES = {"demo:one": "SITE_A", "demo:two": "SITE_B"}
BOTH: Any = {
    "jobParameters": [{**INPUT, "dataset": "demo:both"}, OUTPUT],
    "nFilesPerJob": 1,
    "processingType": "generic",
}


@pytest.fixture
def grid(world: World) -> World:
    """The brokers of a grid, and a container of two datasets of four files, one at each site."""
    with world.engine.begin() as tx:
        for name, value in {"broker.local": "full", "broker.min_output_mb": 0.0}.items():
            knobs.put(tx, name, value, "olga")
    for name, site in HOMES.items():
        files = {f"{name[5:]}.{n}": b"12345" for n in range(4)}
        put_file_dataset(world, name, files, f"{site}_DATADISK")
    world.ddm.create("demo:both", "SITE_A_DATADISK", container=True)
    world.ddm.add_members("demo:both", list(HOMES))
    world.ddm.close("demo:both")
    world.refresh()
    return world


def do(world: World, statement: str) -> None:
    with world.engine.begin() as tx:
        tx.execute(text(statement))


def made(world: World) -> set[tuple[str, str, int]]:
    """By dataset and site, how many jobs there are."""
    found = rows(
        world,
        "SELECT d.datasetname, j.site, count(*) AS jobs FROM jedi_jobs j "
        "JOIN jedi_dataset_contents c ON c.pandaid = j.pandaid "
        "JOIN jedi_datasets d USING (datasetid) WHERE d.type = 'input' GROUP BY 1, 2",
    )
    return {(row.datasetname, row.site, row.jobs) for row in found}


def decided(world: World) -> list[tuple[str, list[str]]]:
    """What was chosen for which dataset, in order."""
    query = "SELECT need, chosen FROM jedi_broker_decisions ORDER BY decision_id"
    return [(row.need["dataset"], row.chosen) for row in rows(world, query)]


def test_each_dataset_goes_to_its_site(grid: World) -> None:
    (task,) = ready(grid, document(**BOTH))
    assert generate(grid) == 1
    assert made(grid) == {("demo:one", "SITE_A", 4), ("demo:two", "SITE_B", 4)}
    jobs = rows(grid, "SELECT DISTINCT status FROM jedi_jobs")
    assert [row.status for row in jobs] == ["activated"]  # nothing has to be moved
    assert decided(grid) == [("demo:one", ["SITE_A"]), ("demo:two", ["SITE_B"])]
    with grid.engine.begin() as tx:
        assert decisions.used_sites(tx, [task]) == {task: ["SITE_A", "SITE_B"]}
        ids = [row.decision_id for row in rows(grid, "SELECT * FROM jedi_broker_decisions")]
        assert [replay(call(tx), one).same for one in ids] == [True, True]


def test_a_dataset_that_has_no_site_keeps_no_other_waiting(grid: World) -> None:
    """Not even if it comes first and has more files than a cycle takes."""
    (task,) = ready(grid, document(**BOTH))
    set_sites(grid, "SITE_A", status="offline")
    with grid.engine.begin() as tx:
        for name, value in {"jobgen.n_files": 1, "jobgen.hard_max_files_per_job": 1}.items():
            knobs.put(tx, name, value, "olga")
    grid.refresh()
    assert generate(grid) == 1
    assert {(name, site) for name, site, _ in made(grid)} == {("demo:two", "SITE_B")}
    assert row_of(grid, task).status == "running"
    with grid.engine.begin() as tx:
        found = why(call(tx), task).brokerage
    assert found is not None and (found.dataset, found.chosen) == ("demo:one", ())
    assert {one.code: one.sites for one in found.near_misses} == {
        "status_offline": ("SITE_A",),
        "no_data": ("SITE_B",),
    }
    for _ in range(4):
        make_due(grid)
        generate(grid)
    assert made(grid) == {("demo:two", "SITE_B", 4)}
    row = row_of(grid, task)
    assert (row.status, row.reason_code) == ("pending", "no_site_now")
    set_sites(grid, status="online")
    for _ in range(4):
        make_due(grid)
        do(grid, f"UPDATE jedi_tasks SET status = 'running' WHERE jeditaskid = {task}")
        generate(grid)
    assert made(grid) == {("demo:one", "SITE_A", 4), ("demo:two", "SITE_B", 4)}


def test_jobs_of_one_dataset_count_for_the_next(grid: World) -> None:
    """Both lie at both sites, where nothing waits: what the first dataset sends to a site makes it
    weigh less for the second. Analysis weight: (running + 1) / (waiting + 1)."""
    for name, site in {"demo:one": "SITE_B", "demo:two": "SITE_A"}.items():
        files = {f"{name[5:]}.{n}": b"12345" for n in range(4)}
        put_file_dataset(grid, name, files, f"{site}_DATADISK")
    ready(grid, document(**BOTH))
    generate(grid)
    first, second = rows(grid, "SELECT * FROM jedi_broker_decisions ORDER BY decision_id")
    (site,) = {site for name, site, _ in made(grid) if name == "demo:one"}
    other = "SITE_B" if site == "SITE_A" else "SITE_A"
    assert first.weights == [1.0, 1.0]
    assert dict(zip(second.chosen, second.weights, strict=True)) == {site: 0.2, other: 1.0}


def test_the_plan_tells_it_dataset_by_dataset(grid: World) -> None:
    with grid.engine.connect() as connection:
        tx = connection.execution_options(postgresql_readonly=True)
        plan = plan_now(
            tx,
            grid.ddm,
            examined(Document(json.dumps(document(**BOTH)), "json", Path()), "anna"),
            0,
            Alternative(),
        ).plan
    assert plan.brokerage is not None
    told = [(one.dataset, one.chosen) for one in (plan.brokerage, *plan.others)]
    assert told == [("demo:one", ("SITE_A",)), ("demo:two", ("SITE_B",))]
    assert (plan.jobs, plan.local) == (8, 8)
    assert {one.site: one.jobs for one in plan.at} == {"SITE_A": 4, "SITE_B": 4}


def put_knobs(world: World, **values: int) -> None:
    with world.engine.begin() as tx:
        for name, value in values.items():
            knobs.put(tx, name.replace("__", "."), value, "olga")
    world.refresh()


def test_the_limit_on_sites_holds_for_all_datasets_of_a_task(grid: World) -> None:
    """JEDI document, "Workflow for analysis": "There would be an upper limit on the number of sites
    where jobs are assigned." With a limit of one, the dataset at the second site waits until the
    jobs at the first have ended."""
    put_knobs(grid, analysis__max_sites=1)
    (task,) = ready(grid, document(**BOTH))
    assert generate(grid) == 1
    assert made(grid) == {("demo:one", "SITE_A", 4)}
    last = decided(grid)[-1]
    assert last == ("demo:two", [])
    with grid.engine.begin() as tx:
        ids = [row.decision_id for row in rows(grid, "SELECT * FROM jedi_broker_decisions")]
        assert [replay(call(tx), one).same for one in ids] == [True, True]
        said = why(call(tx), task).brokerage
    assert said is not None
    assert {one.code: one.sites for one in said.near_misses}["many_sites"] == ("SITE_B",)
    make_due(grid)
    generate(grid)
    assert made(grid) == {("demo:one", "SITE_A", 4)}
    ids = [row.pandaid for row in rows(grid, "SELECT pandaid FROM jedi_jobs")]
    take(grid, ids)
    end(grid, ids)
    make_due(grid)
    do(grid, f"UPDATE jedi_tasks SET status = 'running' WHERE jeditaskid = {task}")
    generate(grid)
    assert {(name, site) for name, site, _ in made(grid)} == {
        ("demo:one", "SITE_A"),
        ("demo:two", "SITE_B"),
    }


def test_a_cycle_reads_no_more_than_it_uses(grid: World) -> None:
    """JEDI document, "Workflow for analysis": "JEDI takes a few files from the Contents table per
    dataset". Thirty datasets with four files each, and a cycle for 24 files, with two files of each
    dataset at least: a cycle reads twelve datasets, and in the end all have their jobs."""
    many = [f"demo:x{n:02}" for n in range(30)]
    for name in many:
        files = {f"{name[5:]}.{n}": b"12345" for n in range(4)}
        put_file_dataset(grid, name, files, "SITE_A_DATADISK")
    grid.ddm.create("demo:many", "SITE_A_DATADISK", container=True)
    grid.ddm.add_members("demo:many", many)
    grid.ddm.close("demo:many")
    put_knobs(
        grid,
        jobgen__n_files=24,
        jobgen__hard_max_files_per_job=1,
        analysis__cap_jobs=1000,
        analysis__overload_jobs=1000,
    )
    ready(grid, document(**{**BOTH, "jobParameters": [{**INPUT, "dataset": "demo:many"}, OUTPUT]}))
    generate(grid)
    first = [name for name, _ in decided(grid)]
    assert len(first) == 12
    assert first == sorted(first) != many[:12]
    for _ in range(40):
        make_due(grid)
        generate(grid)
    assert made(grid) == {(name, "SITE_A", 4) for name in many}
