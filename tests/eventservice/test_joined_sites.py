"""Sites of a job set: whatever sites read, its pieces can be merged, unless a site was lost; then
the lost ones are processed again. Source: docs/reference/event-service.md#merging."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.commanding import files, sound
from support.event_sets import EventPilot, events_task, range_counts, serve
from support.generating import rows
from support.helpers import add_site
from support.situations import pilots_ask, read_afar, set_sites

from jedi.agent.base import World
from jedi.ddm.filesystem import FileSystemDDM
from jedi.eventservice.set_sites import joining, joint, next_site, unread
from jedi.jobdispatcher.agent import Adder
from jedi.model.jobs.event_texts import PIECES
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.events.set_ends import ConsumerSite

A, B, C = (ConsumerSite(1, site, at, 0, f"{site}_DISK") for at, site in enumerate("ABC", 1))


def names(sites: list[ConsumerSite]) -> str:
    return "".join(one.site for one in sites)


@pytest.mark.parametrize(
    ("readers", "together"),
    [
        ([], "A"),
        (["A", "B", "C"], "A"),
        (["AC", "B"], "AC"),
        (["AB", "AC"], "AB"),
        (["AC", "BC"], "AC"),
        (["B"], "A"),
        (["ABC"], "ABC"),
    ],
)
def test_first_sites_share_a_reader(readers: list[str], together: str) -> None:
    """A is the broker's choice, B and C the next best. Expected: "only sites whose usual write
    endpoints some one online site can read together", the better one first: with readers of A
    and B and of A and C, the sites are A and B."""
    assert "".join("ABC"[at] for at in joint("ABC", readers)) == together


@pytest.mark.parametrize(
    ("held", "readers", "joined", "lost"),
    [
        ({}, ["A", "BC"], "ABC", ""),
        ({"A": 1}, ["A", "BC"], "A", ""),
        ({"A": 1, "C": 1}, ["A", "AC", "BC"], "AC", ""),
        ({"A": 1}, ["AB", "AC"], "ABC", ""),
        ({"A": 3, "C": 1}, ["A", "BC"], "A", "C"),  # the reader of both was lost
        ({"A": 1, "C": 3}, ["A", "BC"], "BC", "A"),
        ({"X": 9, "A": 1}, ["A", "X"], "A", "X"),  # nobody at X takes consumers
        ({"X": 9}, ["BC"], "BC", "X"),
        ({"A": 9}, [], "ABC", ""),  # no site reads anything: wait
    ],
)
def test_followers_join_most_pieces(
    held: dict[str, int], readers: list[str], joined: str, lost: str
) -> None:
    """Expected: a follower is where one site reads its pieces with all others; after a loss, with
    most of them, and the merge gives the rest back."""
    sites = [one._replace(endpoint=one.site) for one in (A, B, C)]
    assert names(joining(sites, held, readers)) == joined
    assert "".join(unread(sites, held, readers)) == lost


_SITES = st.integers(1, 6)


@st.composite
def grids(draw: st.DrawFn) -> tuple[list[ConsumerSite], list[set[str]]]:
    """Sites, each writing to an own storage or to an earlier one's, and what each reads: that
    storage, and some others."""
    n = draw(_SITES)
    at = [draw(st.integers(0, number)) for number in range(n)]
    sites = [ConsumerSite(1, f"S{i}", i, 0, f"D{disk}") for i, disk in enumerate(at)]
    disks = st.sets(st.sampled_from([one.endpoint for one in sites]))
    return sites, [{one.endpoint, *draw(disks)} for one in sites]


@given(grids(), st.integers(1, 4), st.randoms(use_true_random=False))
def test_pieces_have_a_reader_unless_a_site_is_lost(
    grid: tuple[list[ConsumerSite], list[set[str]]], wanted: int, chance: random.Random
) -> None:
    """Random sites and storages: consumers come, some without leaving a piece, and all pieces have
    one reader. Then sites are lost: what the best of the others does not read is given back, and
    the rest has one reader again; so has the next consumer's piece."""
    sites, readers = grid
    first = [sites[at] for at in joint([one.endpoint for one in sites], readers)][:wanted]
    held = Counter(one.endpoint for one in first)
    for _ in range(5):
        last, progress = chance.choice([None, *sites]), chance.random() < 0.5
        site = next_site(joining(sites, held, readers), last and last.site, progress)
        held[next(one.endpoint for one in sites if one.site == site)] += 1
        assert any(held.keys() <= reads for reads in readers)
        if len(held) > 1 and chance.random() < 0.5:  # it left nothing
            del held[chance.choice(sorted(held))]
    stay = [at for at in range(len(sites)) if chance.random() < 0.5]
    sites, readers = [sites[at] for at in stay], [readers[at] for at in stay]
    for one in unread(sites, held, readers):
        del held[one]
    if sites:
        assert any(held.keys() <= reads for reads in readers)
        held.update(one.endpoint for one in joining(sites, held, readers)[:1])
        assert any(held.keys() <= reads for reads in readers)


GRID = "ABCD"


def make_grid(world: World, chance: random.Random) -> World:
    """Four sites; each reads its own storage, and that of any other with an even chance."""
    home = world.settings.home / "storage"
    roots = {f"SITE_{one}_DATADISK": home / f"SITE_{one}" for one in GRID}
    with world.engine.begin() as tx:
        for one in GRID[2:]:
            roots[f"SITE_{one}_DATADISK"].mkdir()
            add_site(tx, f"SITE_{one}", f"SITE_{one}_DATADISK", roots[f"SITE_{one}_DATADISK"])
        for site, disk in itertools.permutations(GRID, 2):
            if chance.random() < 0.5:
                read_afar(tx, f"SITE_{site}", f"SITE_{disk}_DATADISK")
    made = World(world.engine, world.settings, knobs.load, lambda _tx, _knobs: FileSystemDDM(roots))
    made.refresh()
    set_sites(made, corecount=1)
    pilots_ask(made)
    return made


class RandomSites:
    """A job set of three consumers at up to three sites, and pilots that process some ranges, or
    none, and end."""

    def __init__(self, world: World, seed: int) -> None:
        self.chance = random.Random(seed)
        self.world = world = make_grid(world, self.chance)
        sites = ",".join(f"SITE_{one}" for one in GRID)
        self.task = events_task(
            world, 16, site=sites, nSitesPerJob=3, nEsConsumers=3, maxAttemptEsJob=20
        )
        self.pilots = {f"SITE_{one}": EventPilot(world, f"SITE_{one}") for one in GRID}

    def play(self) -> None:
        """One job of the site that has waited longest."""
        serve(self.world)
        queue = rows(
            self.world,
            "SELECT site FROM jedi_jobs WHERE status = 'activated' ORDER BY pandaid LIMIT 1",
        )
        for row in queue:
            pilot = self.pilots[row.site]
            [job] = pilot.take()
            if PIECES not in (job.texts or {}):
                if found := pilot.ask(job, self.chance.randint(0, 3)):
                    pilot.process(job, found)
                how = self.chance.choice(("finished", "failed"))
                more = {} if how == "finished" else {"error_code": "payload_exit"}
                pilot.end(job, how, **more)
            else:
                pilot.end(job)
            while Adder(self.world).run_once():
                pass

    def waits(self) -> list[str]:
        found = rows(self.world, "SELECT wait_code FROM jedi_jobsets WHERE wait_code IS NOT NULL")
        return [row.wait_code for row in found]


@pytest.mark.parametrize("seed", range(3))
def test_a_set_always_has_a_site_for_its_merge(world: World, seed: int) -> None:
    """No site is lost: the merge never waits for a site, and the input is finished."""
    found = RandomSites(world, seed)
    world = found.world
    for _ in range(40):
        found.play()
        assert found.waits() == []
        if files(world, found.task) == {"finished": 1}:
            break
    serve(world)
    assert files(world, found.task) == {"finished": 1}
    assert range_counts(world, found.task)["merged"] == 8
    sound(world)


@pytest.mark.parametrize("seed", range(2))
def test_a_set_ends_after_a_loss(world: World, seed: int, at: Callable[[float], None]) -> None:
    """All ranges are processed. A site with pieces is lost for good, with its storage, before the
    merge starts: its pieces are processed again elsewhere, and the input is finished."""
    at(0)
    found = RandomSites(world, seed + 100)
    world = found.world
    time, lost = 0.0, False
    for _ in range(60):
        found.play()
        time += 100
        at(time)
        counts = range_counts(world, found.task)
        if not lost and not counts["ready"] + counts["sent"]:
            [row] = rows(world, "SELECT endpoint FROM jedi_event_zips ORDER BY ziprow_id LIMIT 1")
            site = row.endpoint.removesuffix("_DATADISK")
            with world.engine.begin() as tx:
                tx.exec_driver_sql(
                    "DELETE FROM jedi_site_endpoints WHERE ddm_endpoint = %s", (row.endpoint,)
                )
            set_sites(world, site, status="offline")
            lost = True
        if files(world, found.task) == {"finished": 1}:
            break
    serve(world)
    assert files(world, found.task) == {"finished": 1}
    counts = range_counts(world, found.task)
    assert counts["merged"] == 8 and counts["corrupted"] > 0
    sound(world)
