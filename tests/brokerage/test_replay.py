"""Decisions of real tasks made again, to the bit, and with changed snapshots."""

# Raw UPDATEs: a stored decision is altered, so that its replay must differ.

from __future__ import annotations

import json
import sys

import pytest
from sqlalchemy import text
from support.calls import call
from support.generating import catalogue, document, generate, ready, rows, use
from support.helpers import add_site
from support.service_process import served
from support.situations import make_due, set_sites

from jedi.agent.base import World
from jedi.brokerage.agent import TaskBroker
from jedi.cli import jedi as cli
from jedi.core.errors import BadInput, NotFound
from jedi.ddm.interface import Replica
from jedi.service.brokerage import decision_reports
from jedi.service.brokerage.replay import Replay, replay
from jedi.taskbuffer.db import knobs
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk


def ask(world: World, decision: int, *told: str, sites: tuple[str, ...] = ()) -> Replay:
    with world.engine.begin() as tx:
        return replay(call(tx), decision, [*told], [*sites])


def do(world: World, statement: str) -> None:
    with world.engine.begin() as tx:
        tx.execute(text(statement))


def decided(world: World) -> int:
    """The number of the last decision."""
    return int(rows(world, "SELECT max(decision_id) AS id FROM jedi_broker_decisions")[0].id)


@pytest.fixture
def grid(world: World) -> World:
    """A third site with little memory, and the brokers of a grid."""
    root = world.settings.home / "storage" / "SITE_C"
    root.mkdir(parents=True)
    with world.engine.begin() as tx:
        add_site(tx, "SITE_C", "SITE_C_DATADISK", root, maxrss=1000)
        for name, value in (("broker.local", "full"), ("broker.min_output_mb", 0.0)):
            knobs.put(tx, name, value, "olga")
    world.refresh()
    return world


def test_a_decision_is_made_again_to_the_bit(grid: World) -> None:
    catalogue(grid, in_=20)
    ready(grid, document(ramCount=2000))
    generate(grid)
    found = ask(grid, decided(grid))
    assert (found.broker, found.same, found.departures) == ("analysis", True, ())
    assert found.chosen == found.recorded and found.differences == ()
    assert [site for site, _ in found.chosen] == ["SITE_A", "SITE_B"]
    refused = next(one for one in found.sites if one.site == "SITE_C")
    assert not refused.kept
    memory = next(one for one in refused.reasons if one.code == "little_memory")
    assert (memory.observed, memory.limit, memory.unit, memory.lasting) == (1000, 2000, "MB", True)


def test_decisions_are_listed_and_explained(grid: World) -> None:
    """Refusals by criterion: SITE_C has 1000 MB of 2000, and no replica."""
    catalogue(grid, in_=20)
    ready(grid, document(ramCount=2000))
    generate(grid)
    with grid.engine.begin() as tx:
        newest, *older = decision_reports.find(call(tx), None, None, 10)
        assert decision_reports.find(call(tx), newest.jedi_task_id, None, 10) == [newest, *older]
        assert decision_reports.find(call(tx), None, newest.decision_id, 10) == older
        assert (newest.decision_id, newest.chosen, newest.refused) == (
            decided(grid),
            ["SITE_A", "SITE_B"],
            1,
        )
        told = decision_reports.show(call(tx), newest.decision_id)
        with pytest.raises(NotFound, match="There is no decision 999"):
            decision_reports.show(call(tx), 999)
    assert told.chosen == ("SITE_A", "SITE_B")
    refused = {one.code: (one.sites, one.only) for one in told.funnel}
    assert refused == {"little_memory": (1, 0), "no_data": (1, 0)}
    assert told.near_misses == ()  # SITE_C lacks two things


def test_later_decisions_remember_the_sites_used_before(grid: World) -> None:
    """Analysis jobs go first to the sites that the task has used."""
    catalogue(grid, in_=6).endpoints = [f"SITE_{x}_DATADISK" for x in "ABC"]
    ready(grid, document(nFilesPerJob=1))
    do(grid, "UPDATE jedi_sites SET status = 'paused' WHERE site <> 'SITE_B'")
    do(grid, "UPDATE jedi_datasets SET nfilestobeused = 2 WHERE type = 'input'")
    generate(grid)
    set_sites(grid, status="online")
    do(grid, "UPDATE jedi_datasets SET nfilestobeused = 6 WHERE type = 'input'")
    make_due(grid)
    generate(grid)
    found = ask(grid, decided(grid))
    assert found.same and found.chosen[0][0] == "SITE_B"
    assert rows(grid, "SELECT used FROM jedi_broker_decisions ORDER BY decision_id")[-1].used == [
        "SITE_B"
    ]


def test_a_nucleus_is_drawn_again(grid: World) -> None:
    files = catalogue(grid, in_=3)
    files.replicas = lambda name: [Replica("SITE_A_DATADISK", 3, 30)]  # type: ignore[attr-defined]
    use(grid, files)
    ready(grid, document(nucleus="SITE_A"), label="managed")
    do(grid, "UPDATE jedi_tasks SET prodsourcelabel = 'managed'")
    assert TaskBroker(grid).run_once() == 1
    found = ask(grid, decided(grid))
    assert (found.broker, found.same) == ("nucleus", True)


def test_other_knobs_and_sites(grid: World) -> None:
    catalogue(grid, in_=2).endpoints = [f"SITE_{x}_DATADISK" for x in "ABC"]
    ready(grid, document(ramCount=2000))
    generate(grid)
    number = decided(grid)
    relaxed = ask(grid, number, "broker.memory_factor=0.5")
    assert [(one.site, one.change, one.before) for one in relaxed.differences] == [
        ("SITE_C", "gained", None)
    ]
    other = ask(grid, number, sites=("SITE_C.maxrss=4000", "SITE_A.status=offline"))
    assert {one.site: one.change for one in other.differences} == {
        "SITE_A": "lost",
        "SITE_C": "gained",
    }
    assert other.same, "the decision as such is the same"
    lost = next(one for one in other.differences if one.site == "SITE_A")
    assert lost.reasons == ("status_offline",)
    still = ask(grid, number, sites=("SITE_C.maxrss=4000", "SITE_C.status=offline"))
    assert [(one.site, one.change, one.reasons) for one in still.differences] == [
        ("SITE_C", "reasons", ("status_offline",))
    ]
    with pytest.raises(BadInput) as wrong:
        ask(grid, number, "broker.memry_factor=1", sites=())
    assert "Did you mean broker.memory_factor?" in str(wrong.value)
    with pytest.raises(BadInput) as wrong:
        ask(grid, number, sites=("SITE_D.maxrss=1", "SITE_A.maxrs=1", "SITE_A.maxrss=much"))
    assert len(wrong.value.problems) == 3
    with pytest.raises(BadInput, match=r"'SITE_A': it is not NAME\.attribute=value"):
        ask(grid, number, sites=("SITE_A",))
    with pytest.raises(BadInput) as wrong:
        ask(grid, number, "broker.memry_factor=1", sites=("SITE_D.maxrss=1",))
    assert [problem.path for problem in wrong.value.problems] == ["--site", "--set"]


def test_snapshots_take_no_more_room_than_they_may(grid: World) -> None:
    """One that is too large is not kept, the oldest of too many are forgotten."""
    catalogue(grid, in_=2)
    do(
        grid,
        "INSERT INTO jedi_snapshots (snapshot_hash, data, creationtime) SELECT i::text, "
        "decode(repeat('ab', 700000), 'hex'), jedi_now() - i * interval '1 hour' "
        "FROM generate_series(1, 4) i",
    )
    do(
        grid,
        "INSERT INTO jedi_knobs (component, key, value, username) VALUES "
        "('decisions', 'total_max_mb', '2', 'olga'), ('decisions', 'snapshot_max_mb', '0', 'olga')",
    )
    grid.refresh()
    assert walk(grid, DOGS["retention"])["surplus"] == 2
    kept = rows(grid, "SELECT snapshot_hash FROM jedi_snapshots ORDER BY 1")
    assert [one.snapshot_hash for one in kept] == ["1", "2"]
    ready(grid, document())
    generate(grid)
    with pytest.raises(NotFound, match="has removed the snapshot"):
        ask(grid, decided(grid))


def test_what_differs_is_told(
    grid: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JEDI_HOME", str(grid.settings.home))
    catalogue(grid, in_=2)
    ready(grid, document())
    generate(grid)
    number = str(decided(grid))

    def run(*words: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["jedi", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return int(end.value.code or 0), capsys.readouterr().out

    with served(grid):
        code, told = run("replay", number)
        assert code == 0 and "to the bit" in told
        assert run("replay", number, "--site", "SITE_A.status=offline")[0] == 0
        do(grid, "UPDATE jedi_broker_decisions SET weights = ARRAY[weights[1], 0.25]")
        code, told = run("replay", number, "--json")
        found = json.loads(told)
        assert (code, found["same"], found["departures"]) == (1, False, [found["recorded"][1][0]])
        do(grid, "DELETE FROM jedi_snapshots")
        assert run("replay", number)[0] == 1
    with pytest.raises(NotFound, match="has removed the snapshot"):
        ask(grid, int(number))
    with pytest.raises(NotFound, match="no decision"):
        ask(grid, 999)
