"""Tasks of a real system through the brokers of a grid, which a knob gives to vo local."""

# Raw UPDATEs: time passes.

from __future__ import annotations

from collections import Counter

import pytest
from scenarios.real_system import System
from sqlalchemy import text
from support.calls import call
from support.situations import set_sites

from jedi.core.settings import caller
from jedi.service.brokerage.replay import replay
from jedi.service.sites import changes
from jedi.service.system import knobs

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def grid(system: System) -> System:
    """Endpoints as small as these machines have, and a network that is known."""
    with system.engine.begin() as tx:
        knobs.put(call(tx, caller()), "broker.local", "full")
        knobs.put(call(tx, caller()), "taskbroker.room_tb", "0")
        knobs.put(call(tx, caller()), "broker.min_output_mb", "0")
        ways = (("SITE_A", "SITE_B"), ("SITE_B", "SITE_A"))
        links = "\n".join(f"- {{src: {a}, dst: {b}, mb_s_1h: 300}}" for a, b in ways)
        assert changes.import_links(call(tx, caller()), links) == 2
    return system


def decisions(system: System, task: int) -> list[tuple[str, str]]:
    """Who decided about a task, and for which site first."""
    with system.engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT broker, chosen FROM jedi_broker_decisions WHERE jeditaskid = :task "
                "ORDER BY decision_id"
            ),
            {"task": task},
        )
        return [(row.broker, (row.chosen or ["nowhere"])[0]) for row in rows]


def test_analysis_goes_to_its_data(grid: System) -> None:
    lines = grid.texts("user:here", 4, "DISK_B")
    task = grid.copying("user:here", nFilesPerJob=1)
    assert grid.settle(task) == ["done"]
    assert grid.lines(task) == lines
    assert set(decisions(grid, task)) == {("analysis", "SITE_B")}
    grid.check()


def test_production_collects_its_outputs_at_a_nucleus(grid: System) -> None:
    lines = grid.texts("user:there", 4, "DISK_A")
    task = grid.copying(
        "user:there", nFilesPerJob=1, prodSourceLabel="managed", taskType="prod", taskPriority=500
    )
    assert grid.settle(task) == ["done"]
    assert grid.lines(task) == lines
    (_, nucleus), *later = decisions(grid, task)
    assert {broker for broker, _ in later} == {"production"}
    assert grid.replicas(f"user:out.{task}")[nucleus.replace("SITE", "DISK")] == 4
    grid.check()


def test_each_dataset_of_a_container_is_processed_where_it_lies(grid: System) -> None:
    lines = grid.texts("user:left", 4, "DISK_A") + grid.texts("user:right", 4, "DISK_B")
    with grid.engine.begin() as tx:
        data = grid.ddm(tx)
        data.create("user:sides", "DISK_A", container=True)
        data.add_members("user:sides", ["user:left", "user:right"])
        data.close("user:sides")
    task = grid.copying("user:sides", nFilesPerJob=1)
    assert grid.settle(task) == ["done"]
    assert grid.lines(task) == sorted(lines)
    assert set(decisions(grid, task)) == {("analysis", "SITE_A"), ("analysis", "SITE_B")}
    assert jobs_at(grid, task) == {"SITE_A": 4, "SITE_B": 4}
    assert grid.replicas("user:left") == {"DISK_A": 4}  # nothing was moved
    grid.check()


def test_scouts_spread_over_sites_where_nothing_ever_started(grid: System) -> None:
    lines = grid.texts("user:fresh", 22, "DISK_A")
    grid.put("scout.chunks", 20)
    with grid.engine.begin() as tx:
        set_sites(tx, laststart=None)
        for table in ("job_stats", "job_stats_delta"):  # and nothing waited since yesterday
            tx.execute(text(f"UPDATE {table} SET modificationtime = jedi_now() - interval '1 d'"))
    task = grid.copying(
        "user:fresh", nFilesPerJob=1, prodSourceLabel="managed", taskType="prod", taskPriority=500
    )
    assert grid.settle(task) == ["done"]
    grid.put("scout.chunks", 0)
    assert grid.lines(task) == lines
    scouts = jobs_at(grid, task, "scout")
    assert sum(scouts.values()) == 20 and scouts.keys() == {"SITE_A", "SITE_B"}
    assert {n % 2 for n in scouts.values()} == {0}
    grid.check()


def jobs_at(system: System, task: int, kind: str = "normal") -> dict[str, int]:
    """The finished jobs of a task by site."""
    with system.engine.begin() as tx:
        query = (
            "SELECT site, count(*) FROM {} WHERE jeditaskid = :t AND kind = :k "
            "AND status = 'finished' GROUP BY site"
        )
        found: Counter[str] = Counter()
        for table in ("jedi_jobs", "jedi_jobs_archived"):
            found.update(dict(tx.execute(text(query.format(table)), {"t": task, "k": kind}).all()))
        return dict(found)


def test_what_was_foreseen_is_true_and_decisions_are_made_again(grid: System) -> None:
    grid.texts("user:planned", 6, "DISK_A")
    task = grid.copying("user:planned", nFilesPerJob=2, skipScout=True)
    assert grid.settle(task) == ["done"]
    found = {one.name: (one.foreseen, one.true) for one in grid.show(task).forecasts}
    assert found["jobs"] == (3, 3) and found["sites"][1] == ("SITE_A",)
    with grid.engine.begin() as tx:
        made = tx.scalars(text("SELECT decision_id FROM jedi_broker_decisions")).all()
        assert [one for one in made if not replay(call(tx), one).same] == []
    grid.check()
