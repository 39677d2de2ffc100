"""The nucleus of a task: criteria, best effort, weight, draw."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.nucleus import choose, held, large_input
from support.production import CURRENT, codes_of, names, need, world

from jedi.brokerage import nucleus_filters
from jedi.brokerage.record import refusals
from jedi.brokerage.requirements import RemainingWork, ahead
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import GB
from jedi.model.sites.decision import Pledge
from jedi.model.sites.request import InputAvailability, SiteInput

BIG = {"free_gb": [200_000.0], "total_gb": [400_000.0]}


FREE_TO_MOVE = Knobs({"taskbroker.local_gives_way": 1})
"""Classic, but for that the input may be brought."""


@pytest.mark.parametrize(
    ("good", "bad", "code"),
    [
        ({"state": ["ACTIVE"]}, {"state": ["DOWN"]}, "nucleus_inactive"),
        ({"queued_in": [1999]}, {"queued_in": [2000]}, "nucleus_backlog"),
        ({"free_gb": [5120.01]}, {"free_gb": [5120]}, "little_room"),
        ({"free_gb": [None]}, {"free_gb": [0]}, "little_room"),
        ({"full_chain": [""]}, {"full_chain": ["only"]}, "full_chain_only"),
        ({"max_rss_mb": [2000]}, {"max_rss_mb": [1999]}, "little_memory"),
    ],
)
def test_each_criterion_at_its_border(good: dict[str, Any], bad: dict[str, Any], code: str) -> None:
    asked = need(columns={"ram_count": 2000, "ram_unit": "MB"})
    assert names(choose(world("S", **good), asked)) == ["S"]
    assert codes_of(choose(world("S", **bad), asked)) == [code]


def test_today_a_nucleus_may_have_just_100_tb() -> None:
    assert names(choose(world("S", free_gb=[102_400]), need(), CURRENT)) == ["S"]
    assert codes_of(choose(world("S", free_gb=[102_399]), need(), CURRENT)) == ["little_room"]


def test_only_nuclei_and_a_full_chain_needs_its_own() -> None:
    assert names(choose(world("A", "B", role=["satellite", "nucleus"]), need())) == ["B"]
    assert codes_of(choose(world("A"), need(full_chain=True))) == ["no_full_chain"]
    assert names(choose(world("A", full_chain=["only"]), need(full_chain=True))) == ["A"]


def test_the_backlog_matters_also_where_all_jobs_are_to_go_there() -> None:
    """JEDI document, "Task brokerage": "The queue of output files transferring to the nucleus must
    be below 2000 files", with no exemption; a negative t1Weight is one in preset current."""
    asked = need(t1_weight=-1)
    at = world("S", queued_in=[2000], free_gb=[204_800], total_gb=[204_800])
    assert codes_of(choose(at, asked)) == ["nucleus_backlog"]
    assert names(choose(at, asked, CURRENT)) == ["S"]
    assert names(choose(world("S", queued_in=[1999]), asked)) == ["S"]


def test_work_that_is_left_takes_its_room() -> None:
    """277.8 core-days write 69.4 GB (docs/reference/nucleus.md#remaining-work)."""
    days = 2.4e8 / 10 / 86400
    assert days * nucleus_filters.GB_PER_CORE_DAY == pytest.approx(69.4, abs=0.05)
    asked = replace(need(), work=RemainingWork(all={"S": days}))
    assert names(choose(world("S", free_gb=[5190]), asked)) == ["S"]
    assert codes_of(choose(world("S", free_gb=[5189]), asked)) == ["little_room"]


def test_another_queue_of_the_nucleus_may_run_the_jobs() -> None:
    asked = need(columns={"core_count": 8})
    places: dict[str, Any] = {"grid_site": ["X", "X"], "cores": [1, 8]}
    assert sorted(codes_of(choose(world("A", "B", **places), asked))) == []
    assert names(choose(world("A", "B", **{**places, "cores": [1, 1]}), asked)) == []


def test_a_nucleus_is_refused_for_what_its_own_queues_lack() -> None:
    """Where no queue of a grid site can run the jobs, each has its own reasons with their figures;
    where another can, they do not count. Those of both kinds are told once."""
    asked = need(columns={"ram_count": 2000, "ram_unit": "MB"})
    places: dict[str, Any] = {"grid_site": ["X", "X", "Y"], "cores": [8, 1, 1]}
    found = choose(world(*"ABC", **places, max_rss_mb=[1999, 1500, 1000]), asked)
    told = {
        one.site: [*zip(one.codes, one.observed, one.limits, strict=True)]
        for one in refusals(found.verdict)
    }
    memory = [("little_memory", figure, 2000.0) for figure in (1999.0, 1500.0, 1000.0)]
    assert told == {"A": [("many_cores", 8.0, 1.0), memory[0]], "B": [memory[1]], "C": [memory[2]]}
    assert found.verdict.lasting
    helped = choose(world(*"ABC", **places, max_rss_mb=[1999, 2000, 1000]), asked)
    assert {one.site for one in refusals(helped.verdict)} == {"C"}
    nowhere = choose(world("S", endpoint=[""]), asked)
    assert codes_of(nowhere) == ["no_endpoint"] and nowhere.verdict.lasting
    idle_at = world("S", start_age_s=[None], wait_age_s=[7260], jobs={"activated": [1]})
    idle = choose(idle_at, need(scout=True))
    assert codes_of(idle) == ["inactive"] and not idle.verdict.lasting


# -------------------------------------------------------------------------------- locality


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (held(10 * GB, 100), []),
        (held(9.9 * GB, 100), ["input_elsewhere"]),
        (held(10 * GB, 99), ["input_files_elsewhere"]),
        (held(10 * GB, 100, disk=False), []),  # tape will do
    ],
)
def test_a_tenth_of_the_input_must_be_there(at: SiteInput, expected: list[str]) -> None:
    asked = need(large_input(S=at, FULL=held(100 * GB, 1000)))
    assert codes_of(choose(world("S", "FULL"), asked)) == expected


@pytest.mark.parametrize(
    ("asked", "waits", "expected"),
    [
        ({}, 0.0, ["S"]),
        ({"io_kb_s": 200.0}, 0.0, ["S"]),
        ({"io_kb_s": 201.0}, 0.0, []),
        ({"io_kb_s": 201.0, "priority": 800}, 0.0, ["S"]),
        ({"io_kb_s": 201.0}, 7.0, ["S"]),
    ],
)
def test_where_nobody_has_the_input(
    asked: dict[str, Any], waits: float, expected: list[str]
) -> None:
    wanted = replace(need(large_input(), **asked), waits_days=waits)
    found = choose(world("S"), wanted, FREE_TO_MOVE)
    assert names(found) == expected
    assert ({"data", "tape"} & set(found.factors) == set()) == bool(expected)
    down = world("S", state=["DOWN"])
    # "nobody" is counted among those that pass the rest
    assert names(choose(down, wanted, FREE_TO_MOVE)) == []
    # JEDI document, "Task brokerage": "nuclei not fulfilling any of the criteria is skipped"
    assert names(choose(world("S"), wanted)) == []


def test_no_source_of_the_input() -> None:
    """A criterion of preset current alone: docs/reference/presets.md."""
    data = InputAvailability(GB / 2, 50, False, {"B": held(GB / 2, 50)})
    at = world("A", "B", free_gb=[204_800] * 2, total_gb=[204_800] * 2)
    assert names(choose(at, need(data), CURRENT)) == ["B"]
    assert codes_of(choose(at, need(data), CURRENT)) == ["no_source"]
    assert codes_of(choose(at, need(data))) == []


# ---------------------------------------------------------------------------- weight, draw


def test_the_weight_of_old() -> None:
    """available × tape / (max'(RW) × total), RW below 50 core-days counting as 1."""
    data = large_input(
        A=held(50 * GB, 500), B=held(100 * GB, 1000, disk=False), C=held(20 * GB, 200)
    )
    asked = replace(need(data), work=RemainingWork(ahead={"A": 49.9, "B": 50.0, "C": 200.0}))
    found = choose(world(*"ABC"), asked)
    product = np.prod(list(found.factors.values()), axis=0)
    assert product.tolist() == pytest.approx([0.5, 1 * 0.001 / 50, 0.2 / 200])


def test_a_nucleus_without_the_input_has_the_smallest_part_never_none() -> None:
    data = InputAvailability(GB / 2, 10, True, {"A": held(GB / 4, 5), "B": held(GB / 20, 1)})
    found = choose(world(*"ABC"), need(data))
    assert found.factors["data"].tolist() == pytest.approx([0.5, 0.1, 0.1])
    assert "data" not in choose(world("A"), need()).factors


def test_the_weight_of_today() -> None:
    """Free space and its part of the total count; the part of the input only if I/O is heavy."""
    at = world("A", "B", free_gb=[204_800, 4_096_000], total_gb=[409_600, 4_096_000])
    data = large_input(A=held(50 * GB, 500), B=held(50 * GB, 500))
    found = choose(at, need(data, io_kb_s=100.0), CURRENT)
    assert "data" not in found.factors
    product = np.prod(list(found.factors.values()), axis=0)
    assert product.tolist() == pytest.approx([0.5 * 200, 1.0 * 1000])
    assert "data" in choose(at, need(data), CURRENT).factors


def test_queues_of_one_grid_site_share_its_weight() -> None:
    at = world("A1", "A2", "B", grid_site=["A", "A", "B"])
    drawn = Counter(choose(at, need(), seed=seed).best for seed in range(3000))
    assert drawn["B"] / 3000 == pytest.approx(0.5, abs=0.05)


def test_the_draw_is_proportional_and_can_be_repeated() -> None:
    asked = replace(need(), work=RemainingWork(ahead={"A": 100.0, "B": 300.0}))
    at = world("A", "B")
    drawn = [choose(at, asked, seed=seed).best for seed in range(3000)]
    assert drawn.count("A") / 3000 == pytest.approx(0.75, abs=0.05)
    assert drawn == [choose(at, asked, seed=seed).best for seed in range(3000)]


def test_work_ahead_is_that_of_the_queue_and_of_no_lower_priority() -> None:
    pledges = [
        Pledge("A", 1, 500, 10.0),
        Pledge("A", 1, 499, 20.0),
        Pledge("A", 2, 900, 40.0),
        Pledge("B", 1, 900, 80.0),
    ]
    work = ahead(pledges, 1, 500)
    assert work.all == {"A": 70.0, "B": 80.0}
    assert work.ahead == {"A": 10.0, "B": 80.0}
