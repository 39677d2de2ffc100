"""The world as brokers see it, from a real database: counts, links, freshness, and rows that say
nothing or nonsense. Then tasks of a grid through both brokerages."""

# Raw UPDATEs: odd values of sites are the point; scouts that measure tasks do not run here.

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sqlalchemy import Engine, text
from support.calls import call
from support.commanding import jobs, running
from support.generating import Catalogue, catalogue, document, generate, ready, rows
from support.helpers import add_site
from support.task_rows import row_of
from support.world import EMPTY

from jedi.agent.base import World
from jedi.brokerage.agent import TaskBroker
from jedi.brokerage.production import ProductionBroker
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import judge
from jedi.core.knobs import Knobs
from jedi.ddm.interface import Replica
from jedi.model.sites.snapshot import Snapshot
from jedi.service.brokerage.replay import replay
from jedi.service.tasks.why import why
from jedi.taskbuffer.ends.job_ends import JobEnd, end_jobs
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.scheduling import statistics
from jedi.taskbuffer.sites import decisions, snapshot


def run(engine: Engine, *statements: str) -> None:
    with engine.begin() as tx:
        for statement in statements:
            tx.execute(text(statement))


def load(engine: Engine, *nuclei: str) -> Snapshot:
    with engine.begin() as tx:
        return snapshot.load(tx, nuclei)


def test_sites_that_say_nothing_or_nonsense(engine: Engine, tmp_path: Any) -> None:
    """Zero, NULL, negative and infinite figures are no limit, or the default."""
    with engine.begin() as tx:
        add_site(tx, "S", "S_DISK", tmp_path)
    run(
        engine,
        "UPDATE jedi_sites SET corecount = -3, corepower = 'Infinity', maxtime = -1, mintime = -5, "
        "maxrss = 0, minrss = -1, maxwdir = -7, transferringlimit = -1, pledgedcpu = NULL, "
        "max_io_intensity = -1, maxdiskio = 0, lastpilot = NULL, laststart = NULL, cloud = '', "
        'catchall = \'{"minEventsForJumbo": "many", "gpu": null}\', releases = \'{}\'',
        "UPDATE jedi_ddm_endpoints SET space_free = NULL, space_total = 0",
    )
    at = load(engine)
    for column, value in {
        "cores": 1,
        "core_power": 10,
        "max_time_s": np.inf,
        "min_time_s": 0,
        "max_rss_mb": np.inf,
        "min_rss_mb": 0,
        "max_wdir_mb": np.inf,
        "transferring_limit": 2000,
        "pledged_cores": np.inf,
        "max_io_kb_s": np.inf,
        "max_disk_io_kb_s": np.inf,
        "gpu": 0,
        "jumbo_events": 0,
        "pilot_age_s": np.inf,
        "start_age_s": np.inf,
        "usable_gb": np.inf,
        "free_gb": np.inf,
        "total_gb": np.inf,
        "starts_per_h": np.inf,
        "workers": 0,
    }.items():
        assert getattr(at, column).tolist() == [value], column
    assert (at.releases, at.cloud, at.job_seed) == (("",), ("",), ("std",))
    assert Snapshot.unpack(at.packed).hash == at.hash
    run(engine, "DELETE FROM jedi_site_endpoints")
    assert load(engine).endpoint == ("",)


def test_status_of_endpoints_and_room(engine: Engine, tmp_path: Any) -> None:
    with engine.begin() as tx:
        add_site(tx, "S", "S_DISK", tmp_path, catchall='{"platforms": ["a", "b"], "gpu": true}')
    run(
        engine,
        "INSERT INTO jedi_ddm_endpoints (ddm_endpoint, is_tape, detailed_status) VALUES "
        "('S_TAPE', true, '{\"read_wan\": \"TEST\"}')",
        "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, default_write) VALUES "
        "('S', 'S_TAPE', false)",
        "UPDATE jedi_ddm_endpoints SET space_expired = 10, space_min_free = 100, "
        "space_unavailable = 5, detailed_status = "
        '\'{"read_lan": "OFF", "write_wan": "OFF"}\' WHERE ddm_endpoint = \'S_DISK\'',
    )
    at = load(engine)
    assert (at.free_gb[0], at.usable_gb[0], at.reserved_gb[0]) == (90_010, 89_910, 105)
    assert (at.takes_wan[0], at.reads_lan[0], at.gets_wan[0]) == (0, 1, 1)  # the tape does
    assert (at.tapes, at.unreadable) == (("S_TAPE",), ("S_TAPE",))
    assert (at.platforms, at.gpu[0]) == (("a,b",), 1)


def test_links_are_believed_for_a_time(engine: Engine, tmp_path: Any) -> None:
    """An hour what waits, an hour, a day or a week what was fast; the freshest speed counts."""
    with engine.begin() as tx:
        for site, place in (("A", "GA"), ("B", "GB"), ("NUC", "N")):
            add_site(tx, site, f"{site}_DISK", tmp_path, pandasite=place)
    link = (
        "INSERT INTO jedi_network_matrix (src, dst, key, value, ts) VALUES "
        "('{}', 'N', '{}', {}, jedi_now() - interval '{}')"
    )
    run(
        engine,
        link.format("GA", "production_queued", 30, "59 minutes"),
        link.format("GA", "mbps_1h", 5, "61 minutes"),
        link.format("GA", "mbps_1d", 50, "23 hours"),
        link.format("GA", "mbps_1w", 500, "1 hour"),
        link.format("GB", "production_queued", 40, "61 minutes"),
        link.format("GB", "closeness", -1, "300 days"),
        link.format("GB", "mbps_1h", "'NaN'", "1 minute"),
        link.format("GB", "mbps_1d", -7, "1 minute"),
        link.format("GONE", "production_queued", 2, "1 minute"),
    )
    at = load(engine, "NUC")
    assert at.sites == ("A", "B", "NUC")
    rows = {what: at.links.row("NUC", what) for what in ("production_queued", "mb_s", "closeness")}
    found = {what: None if row is None else row.tolist() for what, row in rows.items()}
    nothing = float("inf")
    assert found == {
        "production_queued": [30, nothing, nothing],
        "mb_s": [50, nothing, nothing],
        "closeness": [nothing, -1, nothing],
    }
    assert at.queued_in.tolist() == [0, 0, 32]
    assert load(engine).links.keys == ()


def test_counts_and_rates(engine: Engine, tmp_path: Any) -> None:
    with engine.begin() as tx:
        add_site(tx, "A", "A_DISK", tmp_path)
        add_site(tx, "B", "B_DISK", tmp_path)
    run(
        engine,
        "INSERT INTO job_stats VALUES ('A', 1, 'x', 'SCORE', 'running', 5, 5), "
        "('A', 2, 'x', 'MCORE', 'activated', 3, 24), ('A', 1, 'y', 'SCORE', 'running', 7, 7), "
        "('GONE', 1, 'x', 'SCORE', 'running', 9, 9), ('B', 1, 'x', 'SCORE', 'finished', 9, 9)",
        "INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, cores) "
        "VALUES ('A', 1, 'x', 'SCORE', 'running', -5, -5), "
        "('B', 1, 'x', 'SCORE', 'running', 2, 2)",
        "INSERT INTO job_stats_hourly VALUES "
        "(jedi_now() - interval '3 hours', 'A', 'x', 'running', 48), "
        "(jedi_now() - interval '30 minutes', 'B', 'x', 'running', 6)",
    )
    at = load(engine)
    assert at.jobs.keys == (
        ("x", "MCORE", "activated"),
        ("x", "SCORE", "running"),
        ("y", "SCORE", "running"),
    )
    assert at.running.tolist() == [7, 2]
    assert at.queued == {2: 3}
    assert at.starts_per_h.tolist() == [2, 6]


def test_since_when_jobs_wait_for_a_slot(engine: Engine, tmp_path: Any) -> None:
    """In whole minutes, from the statistics, folded or not; no other status tells it. The time
    counts without a break from when the first of them came; 0: none waits."""
    with engine.begin() as tx:
        for site in "ABCD":
            add_site(tx, site, f"{site}_DISK", tmp_path)
    change = (
        "INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, "
        "cores, modificationtime) VALUES ('{}', 1, 'x', 'SCORE', '{}', {}, 1, "
        "jedi_now() - interval '{} s')"
    )
    run(
        engine,
        change.format("A", "activated", 1, 9000),
        change.format("A", "activated", -1, 3700),
        change.format("B", "starting", 1, 7300),
        change.format("C", "running", 1, 60),
        change.format("C", "assigned", 1, 60),
    )
    expected = [0.0, 7260.0, 0.0, 0.0]
    assert load(engine).wait_age_s.tolist() == expected
    with engine.begin() as tx:
        assert statistics.fold(tx, 100) == 5
    assert load(engine).wait_age_s.tolist() == expected
    run(engine, change.format("A", "sent", 1, 130), change.format("B", "starting", 1, 60))
    with engine.begin() as tx:
        statistics.fold(tx, 100)
    run(engine, change.format("D", "activated", 1, 190), change.format("A", "sent", 1, 70))
    assert load(engine).wait_age_s.tolist() == [120.0, 7260.0, 0.0, 180.0]
    run(engine, change.format("B", "starting", -2, 10))
    with engine.begin() as tx:
        statistics.fold(tx, 100)
    assert load(engine).wait_age_s.tolist() == [120.0, 0.0, 0.0, 180.0]


# ------------------------------------------------------------------ tasks of a grid, for real


class Grid(Catalogue):
    """Data management of a grid: the input lies at SITE_A only."""

    endpoints = ("SITE_A_DATADISK",)

    def replicas(self, name: str) -> list[Replica]:
        files = self.files[name]
        return [Replica("SITE_A_DATADISK", len(files), sum(f.size for f in files))]


@pytest.fixture
def grid(world: World) -> World:
    """The two sites with room and pilots, and queues for vo atlas; both sites are nuclei."""
    run(
        world.engine,
        "INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, status) "
        "VALUES (11, 'a_user', 'user', 'atlas', 11, 'active'), "
        "(12, 'a_managed', 'managed', 'atlas', 12, 'active')",
        "UPDATE jedi_ddm_endpoints SET space_free = 90000, space_total = 100000",
    )
    return world


def tasks(world: World, label: str, n_files: int = 3) -> int:
    """A task of vo atlas that is fed."""
    files: Any = {"demo:in": catalogue(world, in_=n_files).list_files("demo:in")}
    ddm: Any = Grid(files, endpoints=("SITE_A_DATADISK",))
    world.load_ddm = lambda _tx, _knobs: ddm
    world.refresh()
    document_ = document(vo="atlas", prodSourceLabel=label)
    (task,) = ready(world, document_, label=label)
    return task


def test_a_production_task_gets_a_nucleus_and_jobs(grid: World) -> None:
    task = tasks(grid, "managed")
    run(grid.engine, "UPDATE jedi_tasks SET vo = 'atlas', currentpriority = 900")
    run(grid.engine, "UPDATE jedi_sites SET state = 'DOWN' WHERE site = 'SITE_A'")
    assert TaskBroker(grid).run_once() == 1
    row = row_of(grid, task)
    assert (row.status, row.nucleus) == ("ready", "SITE_B"), row.errordialog
    assert row.errordialog == "SITE_B was drawn by weight."
    (kept,) = rows(grid, "SELECT * FROM jedi_broker_decisions")
    need = Requirements.read(kept.need)
    assert need.data.at["SITE_A"].disk_files == 3
    assert (need.data.files, need.data.bytes, need.data.wan_source) == (3, 30.0, True)
    assert generate(grid) == 1
    decisions = rows(grid, "SELECT * FROM jedi_broker_decisions ORDER BY decision_id")
    assert [d.broker for d in decisions] == ["nucleus", "production"]
    last = decisions[-1]
    assert sorted(last.chosen) == ["SITE_A", "SITE_B"]
    assert row_of(grid, task).status == "running", row_of(grid, task).errordialog
    # what was decided can be decided again, to the bit
    (stored,) = rows(
        grid, "SELECT data FROM jedi_snapshots WHERE snapshot_hash = :h", h=last.snapshot_hash
    )
    world, asked = Snapshot.unpack(stored.data), Requirements.read(last.need)
    again = ProductionBroker().choose(world, asked, Knobs(last.knobs), (), last.seed)
    assert [again.sites.sites[i] for i in again.candidates] == last.chosen
    assert list(again.weights) == last.weights


def test_nucleus_criteria_of_a_grid(grid: World) -> None:
    task = tasks(grid, "managed")
    run(
        grid.engine,
        "UPDATE jedi_tasks SET vo = 'atlas'",
        "UPDATE jedi_ddm_endpoints SET space_free = 5000",
    )
    TaskBroker(grid).run_once()
    row = row_of(grid, task)
    assert (row.status, row.reason_code) == ("assigning", "no_nucleus")
    assert row.reason_facts == {"refused": {"little_room": 2}}
    assert "5000 GB are free when its tasks are done, more than 5120 GB must be" in row.errordialog


def test_a_nucleus_decision_tells_what_its_queues_lack(grid: World) -> None:
    """In the decision, in `why` with its near misses, and in a replay."""
    task = tasks(grid, "managed")
    run(
        grid.engine,
        "UPDATE jedi_tasks SET vo = 'atlas', ramcount = 2000, ramunit = 'MB', "
        "currentpriority = 850",
        "UPDATE jedi_sites SET laststart = NULL",
        "UPDATE jedi_sites SET maxrss = 1900 WHERE site = 'SITE_A'",
        "INSERT INTO job_stats VALUES ('SITE_B', 12, 'x', 'SCORE', 'activated', 1, 1)",
    )
    assert TaskBroker(grid).run_once() == 1
    row = row_of(grid, task)
    assert (row.reason_code, row.reason_facts) == (
        "no_nucleus",
        {"refused": {"inactive": 1, "little_memory": 1}},
    )
    assert "slots of 1900 MB, the jobs need 2000 MB" in row.errordialog
    waits_s = (row.next_run_at - row.modificationtime).total_seconds()
    assert waits_s == pytest.approx(120, abs=5)  # SITE_B may be free of its reason in a moment
    (kept,) = rows(grid, "SELECT * FROM jedi_broker_decisions")
    with grid.engine.begin() as tx:
        said = why(call(tx), task).brokerage
        again = replay(call(tx), kept.decision_id, ["broker.active_s=1e9"], ["SITE_A.maxrss=2000"])
    assert said is not None
    assert {one.code: one.sites for one in said.near_misses} == {
        "inactive": ("SITE_B",),
        "little_memory": ("SITE_A",),
    }
    gaps = {one.code: one.sentence for one in said.near_misses}
    assert gaps["little_memory"] == (
        "1 site lacks only 100 MB (little_memory: slots of 1900 MB, the jobs need 2000 MB)"
    )
    assert again.same and [site for site, _ in again.chosen] in (["SITE_A"], ["SITE_B"])
    run(
        grid.engine,
        f"UPDATE jedi_tasks SET ramcount = 3000, next_run_at = NULL WHERE jeditaskid = {task}",
        "UPDATE jedi_sites SET maxrss = 1900",
    )
    TaskBroker(grid).run_once()
    row = row_of(grid, task)
    waits_s = (row.next_run_at - row.modificationtime).total_seconds()
    assert waits_s == pytest.approx(1800, abs=5)  # a person has to change something


def test_work_assigned_in_a_cycle_counts_for_the_next_task(grid: World) -> None:
    files: Any = {"demo:in": catalogue(grid, in_=3).list_files("demo:in")}
    ddm: Any = Grid(files, endpoints=("SITE_A_DATADISK",))
    grid.load_ddm = lambda _tx, _knobs: ddm
    grid.refresh()
    ids = ready(grid, *(document(output=f"a:{i}", vo="atlas") for i in range(6)), label="managed")
    run(grid.engine, "UPDATE jedi_tasks SET vo = 'atlas', cputime = 100000000")
    TaskBroker(grid).run_once()
    works = [
        Requirements.read(d.need).work.ahead
        for d in rows(grid, "SELECT need FROM jedi_broker_decisions ORDER BY decision_id")
    ]
    days = 3 * 1e8 / 10 / 86400
    assert [round(sum(work.values()) / days, 6) for work in works] == [0, 1, 2, 3, 4, 5]
    assert len(ids) == 6
    assert {row_of(grid, t).nucleus for t in ids} == {"SITE_A", "SITE_B"}  # both get some


def test_an_analysis_task_goes_to_its_data(grid: World) -> None:
    task = tasks(grid, "user")
    run(grid.engine, "UPDATE jedi_tasks SET vo = 'atlas'")
    assert generate(grid) == 1
    (kept,) = rows(grid, "SELECT * FROM jedi_broker_decisions")
    assert (kept.broker, kept.chosen) == ("analysis", ["SITE_A"])
    reasons = rows(grid, "SELECT site, codes FROM jedi_broker_reasons")
    assert [tuple(r) for r in reasons] == [("SITE_B", ["no_data"])]
    # jobs that were closed there send the data elsewhere
    run(
        grid.engine,
        "UPDATE jedi_jobs SET status = 'closed', endtime = jedi_now()",
        "UPDATE jedi_dataset_contents SET status = 'ready', attemptnr = 0 WHERE type = 'input'",
        "UPDATE jedi_datasets SET nfilesused = 0 WHERE type = 'input'",
        f"UPDATE jedi_tasks SET next_run_at = NULL WHERE jeditaskid = {task}",
    )
    generate(grid)
    last = rows(grid, "SELECT * FROM jedi_broker_decisions ORDER BY decision_id")[-1]
    assert last.chosen == ["SITE_B"], row_of(grid, task).errordialog


def test_jobs_that_the_limit_of_a_user_kept_from_pilots_say_nothing_of_their_site(
    world: World,
) -> None:
    """Closed jobs "were not able to get CPU" since their site was busy; throttled ones wait for
    their user's own running jobs."""
    task = running(world, files=2)
    capped, waiting = jobs(world, task, "activated")
    with world.engine.begin() as tx:
        move_jobs(tx, [JobMove(capped, "throttled", "user_cap", "Cap.")], "test", ["activated"])
        ends = [
            JobEnd(capped, "closed", "throttled_timeout", "7 days."),
            JobEnd(waiting, "closed", "activated_timeout", "2 days."),
        ]
        assert len(end_jobs(tx, ends, "test")) == 2
        assert decisions.past_jobs(tx, [task], 21_600.0)[task].closed == {"SITE_A": 1}


def test_vo_local_keeps_the_generic_broker_unless_a_knob_says_otherwise(grid: World) -> None:
    tasks(grid, "user")
    generate(grid)
    (kept,) = rows(grid, "SELECT broker FROM jedi_broker_decisions")
    assert kept.broker == "generic"
    tasks(grid, "user")
    run(
        grid.engine,
        "INSERT INTO jedi_knobs (component, key, value) VALUES ('broker', 'local', '\"full\"')",
    )
    generate(grid)
    last = rows(grid, "SELECT broker FROM jedi_broker_decisions ORDER BY decision_id")[-1]
    assert last.broker == "analysis"


def test_every_filter_takes_a_world_without_sites(engine: Engine) -> None:
    verdict = judge(ProductionBroker.filters, load(engine), Requirements.read(EMPTY), Knobs())
    assert verdict.lasting
