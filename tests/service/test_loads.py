"""Figures of the whole system: loads, rates, what holds tasks, refusals, alerts."""

# Raw UPDATEs: states that come by themselves after hours.

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from sqlalchemy import text
from support.calls import call
from support.grid_rows import at_work
from support.job_rows import watch

from jedi.agent.base import World
from jedi.core.errors import NotFound
from jedi.core.holds import HOLDS, hold_of
from jedi.core.states import TASK_STATES
from jedi.service.brokerage import decision_reports, refusals
from jedi.service.queues import held
from jedi.service.sites import loads
from jedi.service.system import alerts
from jedi.service.system import figures as system_figures
from jedi.service.system.alerts import Alert
from jedi.service.system.figures import SystemFigures

RULES = Path(__file__).parents[2] / "config" / "prometheus-rules.yaml"


def figures(world: World) -> SystemFigures:
    with world.engine.begin() as tx:
        return system_figures.show(call(tx))


def alert(world: World, code: str) -> Alert | None:
    return next((one for one in figures(world).alerts if one.code == code), None)


def do(world: World, statement: str) -> None:
    with world.engine.begin() as tx:
        tx.execute(text(statement))


@pytest.fixture
def grid(world: World) -> World:
    at_work(world)
    return world


def test_figures_of_a_grid_at_work(grid: World) -> None:
    found = figures(grid)
    [a, b, _c] = found.sites
    assert (a.site, a.n_slots, a.pilots_running, a.pilots_submitted) == ("SITE_A", 4, 1, 1)
    assert a.n_running == found.jobs["running"] > 0
    assert a.n_waiting >= found.jobs["activated"] - b.n_waiting > 0
    assert a.reached["finished"] > 23 * 45
    assert len(found.rates) == 24
    assert sum(found.tasks.values()) == 3
    assert {one.hold for one in found.held} == {"", "brokerage"}
    assert {one.queue_name for one in found.shares} >= {"user"}


def test_figures_take_four_statements(grid: World) -> None:
    with grid.engine.begin() as tx:
        seen = watch(grid.engine)
        system_figures.show(call(tx))
    assert len([one for one in seen if "SELECT" in one]) == 4


def test_rates_of_one_site(grid: World) -> None:
    with grid.engine.begin() as tx:
        assert len(loads.rates(call(tx), 24, "SITE_A")) == 24
        assert len(loads.rates(call(tx), 2, "SITE_A")) == 2
        assert loads.rates(call(tx), 24, "SITE_C") == []


def test_figures_of_a_site(grid: World) -> None:
    with grid.engine.begin() as tx:
        found = loads.site_figures(call(tx), "SITE_A")
        [_, _, refusing] = loads.site_loads(call(tx))
        other = loads.site_figures(call(tx), "SITE_C")
        with pytest.raises(NotFound, match="Did you mean SITE_"):
            loads.site_figures(call(tx), "SITE_X")
    assert {one.batch_id for one in found.pilots} == {"4711", "4712"}
    assert found.load in figures(grid).sites
    assert found.rates == figures(grid).rates
    assert other.load == refusing
    assert {one.code for one in other.refused.refusals} == {"little_memory", "no_data"}
    assert other.pilots == []


def test_flow_has_the_cores_of_live_jobs(grid: World) -> None:
    with grid.engine.begin() as tx:
        found = held.flow(call(tx))
    jobs = figures(grid).jobs
    assert sum(one.cores_running for one in found) == jobs["running"]
    assert sum(one.cores_waiting for one in found) >= jobs["activated"]


def test_refusals_by_reason(grid: World) -> None:
    with grid.engine.begin() as tx:
        everywhere, there = (
            refusals.count(call(tx), None, 24),
            refusals.count(call(tx), "SITE_C", 24),
        )
        nowhere = refusals.count(call(tx), "SITE_X", 24)
    assert everywhere.decisions == 2
    assert {(one.site, one.code) for one in everywhere.refusals} >= {("SITE_C", "no_data")}
    [memory] = [one for one in there.refusals if one.code == "little_memory"]
    assert (memory.refusals, memory.only) == (1, 0)
    assert memory.sentence == "slots of 1000 MB, the jobs need 2000 MB"
    assert nowhere.refusals == []


def test_a_decision_site_by_site(world: World) -> None:
    decision = at_work(world)
    with world.engine.begin() as tx:
        found = decision_reports.record(call(tx), decision)
        with pytest.raises(NotFound):
            decision_reports.record(call(tx), 10_000)
    assert [(one.site, one.place) for one in found.sites] == [
        ("SITE_A", 1),
        ("SITE_B", 2),
        ("SITE_C", None),
    ]
    assert found.replayable
    assert {one.code for one in found.sites[2].reasons} == {"little_memory", "no_data"}


@pytest.mark.parametrize("status", TASK_STATES)
def test_each_status_has_a_hold_or_jobs(status: str) -> None:
    assert hold_of(status, None) in {*HOLDS, ""}


def test_a_hold_follows_from_the_reason() -> None:
    assert hold_of("pending", "no_site_fits") == "brokerage"
    assert hold_of("running", "generation_failed") == "problem"


def test_agents_are_missed(grid: World) -> None:
    silent, failing = alert(grid, "agent_silent"), alert(grid, "agent_failing")
    assert silent
    assert "WatchDog" in silent.subject
    assert "JobGenerator" not in silent.subject
    assert figures(grid).alerts[0].severity == "page"
    assert failing
    assert failing.subject == "Adder"


def test_jobs_wait_for_pilots(grid: World) -> None:
    assert alert(grid, "no_pilots") is None
    do(grid, "UPDATE jedi_sites SET lastpilot = jedi_now() - interval '1 day'")
    found = alert(grid, "no_pilots")
    assert found
    assert (found.kind, found.subject) == ("site", "SITE_A")
    assert found.since is not None


def test_no_job_runs(grid: World) -> None:
    assert alert(grid, "no_job_runs") is None
    do(grid, "DELETE FROM job_stats WHERE status = 'running'")
    assert alert(grid, "no_job_runs")


def test_more_jobs_fail_than_finish(grid: World) -> None:
    assert alert(grid, "jobs_fail") is None
    do(grid, "UPDATE job_stats_hourly SET jobs = 5000 WHERE status = 'failed'")
    assert alert(grid, "jobs_fail")


def test_the_submitter_and_commands_and_statistics_wait(grid: World) -> None:
    do(
        grid,
        "INSERT INTO jedi_site_metrics (site, gshare, metric, value) "
        "VALUES ('SITE_B', '', 'submitter', '{\"reason\": \"sbatch fails\"}')",
    )
    do(
        grid,
        "INSERT INTO jedi_commands (jeditaskid, command, username, creationtime) "
        "VALUES (1, 'kill', 'me', jedi_now() - interval '1 hour')",
    )
    do(
        grid,
        "INSERT INTO job_stats_delta (site, workqueue, gshare, resource_type, status, jobs, "
        "cores) SELECT 'SITE_A', 1, '', '', 'running', 0, 0 "
        f"FROM generate_series(0, {alerts.STATISTICS})",
    )
    found = {one.code for one in figures(grid).alerts}
    assert found >= {"submitter_waits", "commands_wait", "statistics_lag"}


def test_tasks_that_need_a_person(grid: World) -> None:
    assert alert(grid, "tasks_problem") is None
    do(grid, "UPDATE jedi_tasks SET reason_code = 'internal_error' WHERE status = 'pending'")
    found = alert(grid, "tasks_problem")
    assert found
    assert found.sentence.startswith("1 tasks")


def test_bounds_are_those_of_prometheus() -> None:
    rules = yaml.safe_load(RULES.read_text())["groups"][0]["rules"]
    bounds = {one["alert"]: one["expr"] for one in rules}
    assert bounds["JediCommandsWait"].endswith(f"> {alerts.COMMANDS_S}")
    assert bounds["JediStatisticsLag"].endswith(f"> {alerts.STATISTICS}")
    assert f"> {alerts.FAILED}" in bounds["JediJobsFail"]
