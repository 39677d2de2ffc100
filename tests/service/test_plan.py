"""Plans tell what then happens; they write nothing; a snapshot file gives the same plan."""

# Raw UPDATEs: measurements of jobs, pilots and sites that do not run here.

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from jedi_client.cli import task as task_cli
from sqlalchemy import text
from support import resubmission
from support.calls import call
from support.generating import SECOND, Catalogue, catalogue, document, generate, ready, rows, use
from support.helpers import add_site, put_file_dataset
from support.resubmission import OUT
from support.situations import set_sites
from support.task_rows import INPUT
from support.working import ENDPOINT, cycle

from jedi.agent.base import World
from jedi.brokerage.agent import TaskBroker
from jedi.brokerage.record import lottery_seed
from jedi.cli import jedi as cli
from jedi.core.errors import BadInput, JediError, NotFound
from jedi.core.settings import caller
from jedi.ddm import factory
from jedi.ddm.interface import DatasetInfo, FileInfo, Replica
from jedi.host.home import Home
from jedi.model.sites.snapshot import KINDS
from jedi.service.brokerage import system_state
from jedi.service.planning.task_plan import TaskPlan
from jedi.service.planning.text_plans import (
    Alternative,
    PlanWithAlternative,
    plan_by_snapshot,
    plan_now,
)
from jedi.service.sites import changes
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks import task_details
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users.users import PUT_USER

EVENTS = [FileInfo(f"f{i}", 10, "00000001", nevents=5 + i) for i in range(4)]
LATER = [FileInfo(f"f{i}", 10, "00000001", boundary=1 + i // 3) for i in range(9)]


class Grid(Catalogue):
    """What lies where, dataset by dataset; others are unknown."""

    def dataset(self, name: str) -> DatasetInfo:
        if name not in self.files:
            raise NotFound(f"There is no dataset {name}.")
        return super().dataset(name)

    def replicas(self, name: str) -> list[Replica]:
        return [Replica(e, len(self.files[name]), 10) for e in self.endpoints]

    def constituents(self, name: str) -> list[str]:
        return [name]


def stock(world: World, **files: int | Sequence[FileInfo]) -> Grid:
    """Datasets as `catalogue` has them."""
    found: Grid = use(world, Grid(catalogue(world, **files).files))
    return found


def foresee(
    world: World, asked: Mapping[str, Any], seed: int = 0, **other: Any
) -> PlanWithAlternative:
    """The plan of a document, made where nothing can be written."""
    said = {"processingType": "generic", **asked}
    with world.engine.connect() as connection:
        tx = connection.execution_options(postgresql_readonly=True)
        return plan_now(
            tx,
            world.ddm,
            examined(Document(json.dumps(said), "json", Path()), "anna"),
            seed,
            Alternative(**other),
        )


def spans(jobs: Sequence[Any], column: str) -> tuple[int, int] | None:
    values = [getattr(one, column) for one in jobs]
    return (min(values), max(values)) if any(values) else None


def said(plan: TaskPlan, name: str) -> tuple[float, float] | None:
    found = getattr(plan, name)
    return None if found is None else (found.least, found.most)


@pytest.mark.parametrize(
    ("files", "asked"),
    [
        ({"in_": 10}, document(nFilesPerJob=3, ramCount=1500)),
        ({"in_": 7, "second": 7}, document(SECOND, cpuTime=10, nMaxFilesPerJob=2)),
        (
            {"in_": EVENTS},
            document(nEventsPerJob=4, cpuTime=100, outDiskCount=10, outDiskUnit="kBPerEvent"),
        ),
        ({"in_": LATER}, document(groupBoundaryID=2, nMaxFilesPerJob=4)),
        (
            {},
            {
                **document(),
                "noInput": True,
                "nEvents": 10,
                "nEventsPerJob": 3,
                "jobParameters": document()["jobParameters"][1:],
            },
        ),
        ({"in_": 100}, document(nFiles=20, nFilesPerJob=1)),
    ],
)
def test_a_plan_is_what_then_happens(world: World, files: Any, asked: dict[str, Any]) -> None:
    stock(world, **files)
    (task,) = ready(world, asked)
    (lock,) = rows(world, "SELECT lock_seq FROM jedi_tasks")
    plan = foresee(
        world,
        {
            **asked,
            "taskName": "u",
            "jobParameters": [
                one if one["param_type"] == "input" else {**one, "dataset": "a:other"}
                for one in asked["jobParameters"]
            ],
        },
        lottery_seed(task, lock.lock_seq + 1),
    ).plan
    generate(world)
    jobs = rows(world, "SELECT * FROM jedi_jobs ORDER BY pandaid")
    assert (plan.jobs, plan.scouts, plan.files_left) == (len(jobs), 0, 0)
    assert said(plan, "files_per_job") == spans(jobs, "n_inputs")
    assert said(plan, "events_per_job") == spans(jobs, "n_events")
    for name in ("cores", "walltime_s", "memory_mb", "disk_mb"):
        assert said(plan, name) in (spans(jobs, name), (0, 0)), name
    assert {one.site: one.jobs for one in plan.at if one.jobs} == Counter(j.site for j in jobs)
    assert plan.brokerage is not None
    (decision,) = rows(world, "SELECT * FROM jedi_broker_decisions")
    assert list(plan.brokerage.chosen) == decision.chosen


def test_scouts_and_the_wait_for_a_slot(world: World) -> None:
    stock(world, in_=30)
    asked = document(nFilesPerJob=1)
    del asked["skipScout"]
    found = foresee(world, asked).plan
    assert (found.jobs, found.scouts, found.wait_s, found.unknown) == (
        30,
        10,
        None,
        "no_start_rate",
    )
    with world.engine.begin() as tx:
        tx.execute(
            text("INSERT INTO job_stats_hourly VALUES (jedi_now(), 'SITE_B', '', 'running', 120)")
        )
    found = foresee(world, asked).plan
    assert found.wait_s == 30.0
    assert {one.site: one.unknown for one in found.at} == {
        "SITE_A": "no_start_rate",
        "SITE_B": None,
    }


@pytest.fixture
def t1s(world: World) -> World:
    """Six sites of a grid, three of them nuclei."""
    with world.engine.begin() as tx:
        for letter in "CDEF":
            root = world.settings.home / "storage" / f"SITE_{letter}"
            root.mkdir(parents=True)
            role = "nucleus" if letter == "C" else "satellite"
            add_site(tx, f"SITE_{letter}", f"SITE_{letter}_DATADISK", root, role=role)
        PUT_USER.run(tx, user="anna", role="production", gridpref=None, cap=None)
        for name, value in {"broker.local": "full", "broker.min_output_mb": 0.0}.items():
            knobs.put(tx, name, value, "olga")
    world.refresh()
    return world


def scouted(**keys: Any) -> dict[str, Any]:
    """A production task that is not told to have no scouts."""
    said = document(
        prodSourceLabel="managed",
        taskType="prod",
        processingType="generic",
        taskPriority=500,
        **keys,
    )
    return {key: value for key, value in said.items() if key != "skipScout"}


@pytest.mark.parametrize(
    ("files", "asked", "jobs", "sizes"),
    [
        # ten scouts of one file each, and one job of the thirty others: nothing limits it
        ({"in_": 40}, {}, 11, (1, 30)),
        ({"in_": 40}, {"nFilesPerJob": 2}, 20, (2, 2)),
        # 20 files of 10 events: 50 jobs of 4 events
        (
            {"in_": [FileInfo(f"f{i}", 10, "00000001", nevents=10) for i in range(20)]},
            {"nEventsPerJob": 4},
            50,
            None,
        ),
        # each of 20 files is cut evenly into two ranges of 5 events, a job each
        (
            {"in_": [FileInfo(f"f{i}", 10, "00000001", nevents=10) for i in range(20)]},
            {"tgtNumEventsPerJob": 5},
            40,
            None,
        ),
        # each job has a file of the second dataset: scouts use ten
        ({"in_": 12, "second": 12}, {"nFilesPerJob": 1}, 12, (1, 1)),
    ],
)
def test_scouts_are_planned_as_they_will_be(
    t1s: World, files: Any, asked: dict[str, Any], jobs: int, sizes: tuple[int, int] | None
) -> None:
    """JEDI document, "Job brokerage explained", 3: "If priority>900 or scout job: remove non T1
    queues"; for WORLD tasks T1s are the nuclei. docs/reference/splitting.md#batches: 25 jobs a
    batch, 2 of scouts."""
    stock(t1s, **files)
    told = scouted(**asked)
    if "second" in files:
        told["jobParameters"] = [INPUT, SECOND, *told["jobParameters"][1:]]
    plan = foresee(t1s, told).plan
    assert plan.brokerage is not None
    assert (plan.jobs, plan.scouts, plan.files_left) == (jobs, 10, 0)
    assert sizes is None or said(plan, "files_per_job") == sizes
    nuclei = {"SITE_A", "SITE_B", "SITE_C"}
    assert set(plan.brokerage.chosen) == nuclei
    assert sum(one.jobs for one in plan.at) == 10
    (task,) = ready(t1s, told, label="managed")
    with t1s.engine.begin() as tx:  # `put` says 1000
        tx.execute(text("UPDATE jedi_tasks SET taskpriority = 500, currentpriority = 500"))
    TaskBroker(t1s).run_once()
    generate(t1s)
    last = rows(t1s, "SELECT * FROM jedi_broker_decisions ORDER BY decision_id")[-1]
    assert (last.broker, set(last.chosen)) == ("production", nuclei)
    made = rows(t1s, "SELECT * FROM jedi_jobs WHERE jeditaskid = :t ORDER BY pandaid", t=task)
    assert [one.kind for one in made] == ["scout"] * 10
    for found in (Counter(one.site for one in made), {s.site: s.jobs for s in plan.at if s.jobs}):
        assert len(found) > 1 and {n % 2 for n in found.values()} == {0}
    assert all(a.site == b.site for a, b in zip(made[::2], made[1::2], strict=True))


def test_scouts_that_have_no_site_are_no_jobs(t1s: World) -> None:
    """Where nothing starts, though something waits, no scouts are promised."""
    stock(t1s, in_=40)
    with t1s.engine.begin() as tx:
        tx.execute(
            text(
                "INSERT INTO job_stats (site, workqueue, gshare, resource_type, status, "
                "jobs, cores) SELECT site, 1, 'x', 'SCORE', 'activated', 1, 1 "
                "FROM jedi_sites"
            )
        )
        set_sites(tx, laststart=None)
    plan = foresee(t1s, scouted()).plan
    assert (plan.jobs, plan.scouts, plan.why_not) == (0, 0, "no_nucleus")
    assert plan.nucleus is not None
    told = {one.site: [reason.code for reason in one.reasons] for one in plan.nucleus.sites}
    assert told == {f"SITE_{letter}": ["inactive"] for letter in "ABC"}


def test_another_world(world: World) -> None:
    stock(world, in_=4)
    found = foresee(
        world, document(nFilesPerJob=1), knobs=["broker.max_sites=1"], sites=["SITE_A.cores=0.5"]
    )
    assert found.then is not None and found.then.brokerage is not None
    assert len(found.then.at) == 1 and found.then.jobs == found.plan.jobs
    assert "lost" in {one.change for one in found.differences}
    with pytest.raises(BadInput, match="max_site"):
        foresee(world, document(), knobs=["broker.max_site=1"])


def test_nowhere(world: World) -> None:
    stock(world, in_=4)
    found = foresee(world, document(ramCount=3000), sites=["SITE_A.maxrss=100"])
    assert found.then is not None and found.then.jobs > 0
    both = foresee(
        world, document(ramCount=3000), sites=["SITE_A.maxrss=100", "SITE_B.maxrss=2990"]
    ).then
    assert both is not None and both.brokerage is not None
    assert (both.jobs, both.why_not, both.brokerage.chosen) == (0, "no_site_fits", ())
    (last,) = both.brokerage.sites[1].reasons
    assert (last.code, last.observed, last.limit, last.unit, last.lasting) == (
        "little_memory",
        2990,
        3000,
        "MB",
        True,
    )


def test_input_that_is_not_there(world: World) -> None:
    stock(world, in_=[])
    with pytest.raises(JediError) as wrong:
        foresee(world, document())
    assert wrong.value.code == "input_empty"


GRID = Path(__file__).parents[2] / "examples" / "grid"


def grid_of_the_docs(world: World, said: str) -> dict[str, Any]:
    """docs/sites.md#a-grid, with this file of sites; its task."""
    texts = [(GRID / f"{name}.yaml").read_text() for name in ("endpoints", "network", "task")]
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user="anna", role="operator", gridpref=None, cap=None)
        for name, value in (
            ("broker.local", "full"),
            ("taskbroker.room_tb", 0.0),
            ("broker.min_free_gb", 0.0),
        ):
            knobs.put(tx, name, value, "anna")
        at = call(tx, "anna", home=Home(world.settings.home))
        changes.make_roots(changes.import_sites(at, said))
        changes.import_endpoints(at, texts[0])
        changes.import_links(at, texts[1])
        tx.execute(text("DELETE FROM jedi_sites WHERE site LIKE 'SITE%'"))
        tx.execute(text("UPDATE jedi_sites SET lastpilot = jedi_now()"))
    world.load_ddm = factory.load
    world.refresh()
    asked: dict[str, Any] = yaml.safe_load(texts[2])
    return asked


def test_the_grid_of_the_docs_makes_jobs(world: World) -> None:
    """docs/sites.md#a-grid: the plan promises forty jobs, of which ten scouts come first; the
    agents make them, and a nucleus collects their outputs."""
    asked = grid_of_the_docs(world, (GRID / "sites.yaml").read_text())
    plan = foresee(world, asked).plan
    assert plan.nucleus is not None and {*plan.nucleus.chosen} < {"GENEVA", "CHICAGO"}
    assert (plan.jobs, plan.scouts) == (40, 10)
    (task,) = ready(world, asked, label="managed")
    TaskBroker(world).run_once()
    assert generate(world) == 1
    (row,) = rows(world, "SELECT status, nucleus FROM jedi_tasks WHERE jeditaskid = :t", t=task)
    assert (row.status, row.nucleus in ("GENEVA", "CHICAGO")) == ("scouting", True)
    made = rows(world, "SELECT site FROM jedi_jobs WHERE jeditaskid = :t", t=task)
    assert len(made) == 10 and {job.site for job in made} <= {"GENEVA", "CHICAGO"}
    state = world.ddm.dataset(f"user.grid:made.{task}").state
    assert (state, world.ddm.replicas(f"user.grid:made.{task}")[0].endpoint) == (
        "open",
        f"{row.nucleus}_DATADISK",
    )


def test_a_plan_tries_the_registration_of_outputs(world: World) -> None:
    """The agents register outputs before they make jobs: a plan fails where they would."""
    said = re.sub(r", path: [^,}]+", "", (GRID / "sites.yaml").read_text())
    with pytest.raises(JediError) as wrong:
        foresee(world, grid_of_the_docs(world, said))
    assert wrong.value.code == "endpoint_missing"


def test_a_nucleus_and_a_file_of_the_world(world: World, tmp_path: Path) -> None:
    """In the world of a file, which is as it was, the plan is the same, without a database. A file
    has what its sites keep for shares (num_slots_map)."""
    grid = stock(world, in_=5)
    set_sites(world, "SITE_A", catchall={"num_slots_map": {"user": {"SCORE": 40}}})
    with world.engine.begin() as tx:
        PUT_USER.run(tx, user="anna", role="production", gridpref=None, cap=None)
        tx.execute(
            text(
                "INSERT INTO jedi_knobs (component, key, value, username) VALUES "
                "('broker', 'local', '\"full\"', 'olga')"
            )
        )
    asked = document(
        prodSourceLabel="managed", taskType="prod", nFilesPerJob=1, output="a:o.$JEDITASKID"
    )
    plan = foresee(world, asked, 7).plan
    assert plan.nucleus is not None and len(plan.nucleus.chosen) == 1
    with world.engine.begin() as tx:
        exported = system_state.write(system_state.from_database(tx, grid, 7), ["demo:in"])
    again = plan_by_snapshot(
        system_state.read(exported),
        examined(Document(json.dumps(asked), "json", Path()), "anna"),
        None,
        Alternative(),
    )
    assert again.plan == plan
    assert system_state.write(system_state.read(exported), ["demo:in"]) == exported
    other = plan_by_snapshot(
        system_state.read(exported),
        examined(Document(json.dumps(asked), "json", Path()), "anna"),
        8,
        Alternative(),
    )
    assert other.plan.seed == 8
    with pytest.raises(JediError, match=r"unknown.* jedi snapshot export --dataset"):
        plan_by_snapshot(
            system_state.read(exported),
            examined(Document(json.dumps(document(SECOND)), "json", Path()), "anna"),
            1,
            Alternative(),
        )
    for bad in (
        "",
        "[]",
        '{"format": "x"}',
        exported.replace('"pledges"', '"pledge"'),
        exported.replace('"max_rss_mb"', '"maxrss"'),
        exported.replace('"SITE_A",', "", 1),
        exported.replace("40.0", "40.0, 1", 1),
    ):
        with pytest.raises(BadInput):
            system_state.read(bad)
    (task,) = ready(world, asked, label="managed")
    TaskBroker(world).run_once()
    row = rows(world, "SELECT status, nucleus FROM jedi_tasks WHERE jeditaskid = :t", t=task)[0]
    assert row.status == "ready" and row.nucleus.startswith("SITE")


@pytest.mark.usefixtures("service")
def test_the_command_line(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("JEDI_DATABASE_URL", str(world.settings.database_url))
    put_file_dataset(world, "demo:in", {f"f{i}": b"12345" for i in range(6)}, "SITE_A_DATADISK")
    file, exported = tmp_path / "task.json", tmp_path / "world.json"
    file.write_text(json.dumps(document(INPUT, nFilesPerJob=2)))

    def run(main: Any, *words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["jedi", *words])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), capsys.readouterr().out

    with world.engine.begin() as tx:
        before = tx.execute(text("SELECT last_value, is_called FROM jedi_task_id_seq")).one()
    code, told = run(task_cli.main, "plan", str(file))
    assert code == 0 and "jobs      3" in told
    assert "wait      unknown, since no job began there in the last week (no_start_rate)" in told
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT count(*) FROM jedi_tasks")) == 0
        assert (
            tx.execute(text("SELECT last_value, is_called FROM jedi_task_id_seq")).one() == before
        )
    assert run(cli.main, "snapshot", "export", str(exported), "--dataset", "demo:in")[0] == 0
    code, told = run(task_cli.main, "plan", str(file), "--json")
    monkeypatch.setenv("JEDI_DATABASE_URL", "postgresql://nobody@localhost:1/nothing")
    assert run(task_cli.main, "plan", str(file), "--snapshot", str(exported), "--json") == (0, told)
    found = json.loads(told)["plan"]["brokerage"]
    assert {"site", "kept", "reasons", "weight", "factors"} == set(found["sites"][0])
    assert found["chosen"] == ["SITE_A", "SITE_B"]
    off = [word for site in "AB" for word in ("--site", f"SITE_{site}.status=offline")]
    code, told = run(task_cli.main, "plan", str(file), "--snapshot", str(exported), *off)
    assert code == 1 and "status_offline" in told and "lost" in told


@pytest.mark.usefixtures("service")
def test_a_task_submitted_again_plans_what_is_left(
    world: World,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    """Three files, of which a done task used two, one a job: one job is left. When that is done,
    too, there are none, as `submit` makes none. JEDI document, "Task retry and resubmission":
    resubmission processes only files that are new, unused or failed."""
    monkeypatch.setenv("JEDI_DATABASE_URL", str(world.settings.database_url))
    put_file_dataset(world, "demo:in", {lfn: lfn.encode() for lfn in "abc"}, ENDPOINT)
    file = tmp_path / "task.json"

    def run(*words: str, **keys: Any) -> tuple[int, str]:
        keys = {"taskName": "p", "site": "SITE_A", "nFilesPerJob": 1, "maxAttempt": 1, **keys}
        file.write_text(json.dumps({**keys, "jobParameters": [INPUT, OUT]}))
        monkeypatch.setattr(sys, "argv", ["jedi-task", words[0], str(file), *words[1:]])
        with pytest.raises(SystemExit) as end:
            task_cli.main()
        return int(end.value.code or 0), capsys.readouterr().out

    first = resubmission.submit(world, who=caller(), nFiles=2).jedi_task_id
    cycle(world)
    nothing = f"jobs      none: continues task {first}; nothing is left to process"
    code, told = run("plan", nFiles=2)
    assert code == 1 and nothing in told
    code, told = run("plan")
    assert code == 0 and "jobs      1\n" in told
    assert f"continues task {first}; 1 files are left" in told
    assert json.loads(run("plan", "--json")[1])["plan"]["continues"] == first
    again = f"This is task {first} again: attempt 2, with new and failed inputs (toincexec).\n"
    assert run("submit") == (0, again)
    cycle(world)
    assert rows(world, "SELECT count(*) AS n FROM jedi_jobs")[0].n == 3
    code, told = run("plan")
    assert code == 1 and nothing in told


def test_what_was_foreseen_stands_beside_the_truth(world: World) -> None:
    catalogue(world, in_=4)
    (task,) = ready(world, document(nFilesPerJob=2, ramCount=500, cpuTime=100))
    generate(world)
    with world.engine.begin() as tx:
        assert task_details.show(call(tx), task).forecasts == []
        tx.execute(text("ALTER TABLE jedi_jobs DISABLE TRIGGER USER"))
        tx.execute(
            text(
                "UPDATE jedi_jobs SET status = 'finished', wall_s = 7.5, site = 'SITE_B', "
                "postprocessed_at = jedi_now(), max_pss_kb = 204800, "
                "workdir_kb = 1024"
            )
        )
        found = {
            one.name: (one.foreseen, one.true)
            for one in task_details.show(call(tx), task).forecasts
        }
    # 2 files of one event each: 200 HS06 s by 10 HS06 and 90 %, and 600 s besides
    assert found["jobs"] == (2, 2) and found["wall time"] == (623, 7.5)
    assert found["memory"] == (500, 200) and found["disk"] == (1, 1)
    assert found["sites"] == (("SITE_A", "SITE_B"), ("SITE_B",))


def test_the_page_tells_of_every_column() -> None:
    page = (Path(__file__).parents[2] / "docs/plan.md").read_text()
    assert [name for name in KINDS if f"`{name}`" not in page] == []
