"""Brokers: every filter, every reason, weights, the lottery, and the record of a decision."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.split import choice, chunk, demand, files, sites

from jedi.brokerage import nucleus
from jedi.brokerage.explain import counts, why_nowhere
from jedi.brokerage.generic import GenericBroker
from jedi.brokerage.lottery import Lottery, candidates
from jedi.brokerage.record import lottery_seed, record
from jedi.brokerage.requirements import Requirements, atom
from jedi.brokerage.verdict import judge
from jedi.brokerage.weights import product
from jedi.core.knobs import Knobs
from jedi.model.datasets.chunk import Secondary
from jedi.model.jobs.demand import GB, MB, InputSize
from jedi.model.sites.snapshot import Snapshot

HOUR = 3600.0


def need(load: InputSize | None = None, *names: str, **columns: Any) -> Requirements:
    """What a task asks for that says only this."""
    return Requirements(demand(**columns), load or InputSize(100 * MB, 10.0), names)


def codes(world: Snapshot, asked: Requirements, **knobs: Any) -> list[str]:
    """Why the first site is refused."""
    verdict = judge(GenericBroker.filters, world, asked, Knobs(knobs))
    return [verdict.filters[i].code for i in verdict.reasons(0)]


# Each attribute at both sides of its limit: 8-core jobs of 2000 MB a core and 1000 MB besides
# take 17,000 MB; 1000 events of 1000 HS06 s take 13,889 s + 600 s; 100 MB of input and as much
# work space make 200 MB; there is room besides only in the preset of today.
MULTI = {
    "core_count": 8,
    "ram_count": 2000,
    "ram_unit": "MBPerCore",
    "base_ram_count": 1000,
    "cpu_time": 1000,
    "work_disk_count": 100,
    "work_disk_unit": "MB",
}


@pytest.mark.parametrize(
    ("column", "good", "bad", "code"),
    [
        ("cores", 2, 1, "few_cores"),
        ("max_rss_mb", 17_000, 16_999, "little_memory"),
        ("min_rss_mb", 17_000, 17_001, "much_memory"),
        ("max_time_s", 14_489, 14_488, "little_time"),
        ("min_time_s", 14_488, 14_489, "much_time"),
        ("max_wdir_mb", 200, 199, "little_scratch"),
        ("usable_gb", 200.01, 200, "little_storage"),
        ("pilot_age_s", 10_800, 10_801, "no_pilots"),
        ("pilot_age_s", 0, None, "no_pilots"),
        ("status", "online", "offline", "status_offline"),
        ("status", "online", "brokeroff", "status_brokeroff"),
        ("status", "online", "paused", "status_paused"),
        ("status", "online", "test", "status_test"),
        ("status", "online", "standby", "status_standby"),
        ("endpoint", "DISK", "", "no_endpoint"),
    ],
)
def test_each_filter_at_its_border(column: str, good: Any, bad: Any, code: str) -> None:
    asked = need(InputSize(100 * MB, 1000.0), **MULTI)
    eight: dict[str, Any] = {"cores": [8]}
    assert codes(sites("S", **{**eight, column: [good]}), asked) == []
    assert codes(sites("S", **{**eight, column: [bad]}), asked) == [code]


def test_cores() -> None:
    single, several = sites("S", cores=[1]), sites("S", cores=[8])
    assert codes(single, need(core_count=1)) == codes(several, need(core_count=8)) == []
    assert codes(single, need(core_count=4)) == ["few_cores"]
    assert codes(several, need(core_count=1)) == ["many_cores"]
    assert codes(single, need(core_count=0)) == codes(several, need(core_count=0)) == []


def test_a_unified_site_gives_parts_of_its_slots() -> None:
    world = sites("S", cores=[8], unified=[1], max_rss_mb=[16000], min_rss_mb=[800])
    single = need(core_count=1, ram_count=2000, ram_unit="MB")
    assert codes(world, single) == []
    assert codes(world, need(core_count=8, ram_count=2000, ram_unit="MBPerCore")) == []
    assert codes(world, need(core_count=1, ram_count=2001, ram_unit="MB")) == ["little_memory"]
    assert codes(world, need(core_count=1, ram_count=99, ram_unit="MB")) == ["much_memory"]
    assert codes(sites("S", cores=[1], unified=[1]), need(core_count=4)) == ["few_cores"]


def test_what_is_not_said_is_no_limit() -> None:
    """A site that says nothing takes a task that says nothing; unknown room is room enough."""
    assert codes(sites("S", usable_gb=[None]), need()) == []
    # but a site for long jobs wants to know
    assert codes(sites("S", min_time_s=[60]), need()) == ["much_time"]


@pytest.mark.parametrize("preset", ["classic", "current"])
def test_a_task_that_says_nothing_of_memory_may_go_anywhere(preset: str) -> None:
    """docs/reference/estimates.md#memory: minrss skips a site only where the task's memory is
    known."""
    kept = sites("S", min_rss_mb=[1000])
    assert codes(kept, need(), **{"core.preset": preset}) == []
    said = need(ram_count=900, ram_unit="MB")
    assert codes(kept, said, **{"core.preset": preset}) == ["much_memory"]


def test_single_core_jobs_get_their_part_of_a_slot_s_scratch() -> None:
    asked = need(InputSize(1000 * MB, 1.0), core_count=0)
    assert codes(sites("S", cores=[4], max_wdir_mb=[1000]), asked) == []
    alone = replace(asked, demand=demand(core_count=1))
    assert "little_scratch" in codes(sites("S", cores=[4], max_wdir_mb=[3999]), alone)


def test_all_reasons_are_kept_not_the_first() -> None:
    world = sites("S", status=["test"], cores=[8], usable_gb=[1], pilot_age_s=[None])
    assert codes(world, need()) == ["status_test", "many_cores", "little_storage", "no_pilots"]


def test_the_memory_factor_is_a_knob() -> None:
    asked = need(ram_count=1000, ram_unit="MB")
    assert codes(sites("S", max_rss_mb=[950]), asked) == ["little_memory"]
    assert codes(sites("S", max_rss_mb=[950]), asked, **{"core.preset": "current"}) == []


def test_the_atom_is_the_largest_of_the_smallest_jobs() -> None:
    master = files(5, [1, 5, 9, 1, 20], [1, 1, 1, 1, 0])
    assert atom([chunk(master)], 1) == InputSize(20.0, 1.0)
    assert atom([chunk(master)], 2) == InputSize(20.0, 2.0)  # 1+5, 9+1, 20
    assert atom([chunk(master)], 9) == InputSize(36.0, 5.0)
    assert atom([chunk(master), chunk(files(1, [50]))], 1).bytes == 50
    whole = Secondary("IN2", files(2, [100, 100]), whole=True)
    beside = Secondary("IN2", files(4, [10] * 4), ratio=2)
    assert atom([chunk(master, whole, beside)], 1).bytes == 20 + 200 + 20


# ------------------------------------------------------------------------ weights and choice


def test_weights() -> None:
    """(running + 1) / (activated + defined + 1) / (defined + 1)."""
    world = sites("A", "B", running=[9, 0], activated=[4, 0], defined=[0, 3])
    weights = product(GenericBroker().factors(world, need(), Knobs()))
    assert weights.tolist() == pytest.approx([10 / 5, 1 / 4 / 4])


def test_used_sites_come_first_then_weights_then_names() -> None:
    names, passed = ["A", "B", "C", "D", "E"], np.array([True, True, False, True, True])
    weights = np.array([1.0, 3.0, 9.0, 1.0, 2.0])
    assert candidates(names, passed, weights, (), 9) == [1, 4, 0, 3]
    assert candidates(names, passed, weights, ["D", "C", "X"], 9) == [3, 1, 4, 0]
    assert candidates(names, passed, weights, (), 2) == [1, 4]


def test_five_sites_at_most() -> None:
    assert len(choice(sites(*"ABCDEFG"), need()).candidates) == 5


def test_a_site_preset_by_the_task_is_honoured() -> None:
    world = sites("A", "B", running=[100, 0])
    assert choice(world, need(None, "B")).sites.sites == ("B",)
    assert choice(world, need(None, "X")).candidates == ()
    refused = choice(sites("A", "B", status=["online", "offline"]), need(None, "B"))
    assert refused.candidates == ()
    assert why_nowhere(refused.verdict) == "1 site: 1 status_offline (the site is offline)"


def test_the_lottery_is_drawn_in_proportion_and_can_be_repeated() -> None:
    def drawn(seed: int) -> list[int]:
        lottery = Lottery([3.0, 1.0], [0, 0], seed)
        return [lottery.draw() for _ in range(2000)]

    assert drawn(7) == drawn(7) != drawn(8)
    assert Counter(drawn(7))[0] / 2000 == pytest.approx(0.75, abs=0.05)


def test_a_site_that_got_jobs_weighs_less() -> None:
    lottery = Lottery([1.0, 1.0], [0.0, 0.0], seed=1)
    got = Counter[int]()
    for _ in range(400):
        site = lottery.draw()
        lottery.got(site, 25)
        got[site] += 25
    assert abs(got[0] - got[1]) <= 1500
    idle = Lottery([1.0, 1e-9], [0.0, 1e9], seed=1)
    idle.got(0, 10**9)  # the queue of the first is now as long, and its weight as small
    assert {idle.draw() for _ in range(50)} == {0, 1}


@given(st.lists(st.floats(1e-9, 1e9), min_size=1, max_size=5), st.integers(0, 2**63))
def test_a_draw_is_always_a_site(weights: list[float], seed: int) -> None:
    lottery = Lottery(weights, [0.0] * len(weights), seed)
    for _ in range(20):
        site = lottery.draw()
        assert 0 <= site < len(weights)
        lottery.got(site, 25)


# ------------------------------------------------------------------------- reasons and records


def test_what_nobody_measured_is_not_shown_as_measured() -> None:
    """By hand: a duration that is unknown is not 0 s; without any pilot there was none for ever; a
    limit of 0 that must be exceeded is not reached by nothing, and 0.4 GB are not 0."""

    def said(world: Snapshot, task: Requirements) -> str:
        return why_nowhere(choice(world, task).verdict)

    assert "(kept for jobs above 60 s, the duration of these is unknown)" in said(
        sites("S", min_time_s=[60]), need()
    )
    assert "(no pilot was ever seen)" in said(sites("S", pilot_age_s=[None]), need())
    assert "(the last pilot was seen 86400 s ago, 10800 s may pass)" in said(
        sites("S", pilot_age_s=[86_400]), need()
    )
    assert "(0.4 GB usable at its endpoint, more than 200 GB must be)" in said(
        sites("S", usable_gb=[0.4]), need()
    )


def test_the_reasons_in_a_sentence() -> None:
    world = sites("A", "B", "C", max_rss_mb=[1000, 1500, None], pilot_age_s=[0, None, None])
    verdict = choice(world, need(ram_count=2000, ram_unit="MB")).verdict
    assert why_nowhere(verdict) == (
        "3 sites: 2 little_memory (slots of 1500 MB, the jobs need 2000 MB), "
        "2 no_pilots (no pilot was ever seen)"
    )
    assert counts(verdict) == {"little_memory": 2, "no_pilots": 2}
    assert not verdict.lasting  # C only waits for pilots
    assert choice(sites("A", cores=[4]), need()).verdict.lasting
    assert choice(sites(), need()).verdict.lasting
    assert why_nowhere(choice(sites(), need()).verdict) == "there is no site to choose from"


def test_every_filter_can_speak() -> None:
    world = sites("S")
    for one in (*GenericBroker.filters, *nucleus.FILTERS):
        said = one.say.format(observed=1.5, limit=2.5)
        assert said
        assert "{" not in said
    assert why_nowhere(judge(GenericBroker.filters, world, need(), Knobs()))


def test_a_snapshot_survives_storage() -> None:
    world = sites("A", "B", max_rss_mb=[None, 2000], pilot_age_s=[None, 60])
    world = replace(world, queued={3: 5, 1: 2})
    again = Snapshot.unpack(world.packed)
    assert again.hash == world.hash != sites("A", "B").hash
    assert again.queued == world.queued
    for name, column in world.__dict__.items():
        if isinstance(column, np.ndarray):
            assert getattr(again, name).tolist() == column.tolist(), name
    assert again.endpoints == world.endpoints


def test_a_decision_can_be_replayed_from_its_record() -> None:
    world = sites("A", "B", "C", max_rss_mb=[1000, None, None], running=[5, 3, 50])
    asked, seed = need(ram_count=2000, ram_unit="MB"), lottery_seed(12, 3)
    found = choice(world, asked, seed)
    kept = record(12, "generic", world, asked, Knobs(), found)
    stored = json.loads(json.dumps(asdict(kept), allow_nan=False))
    assert stored["refusals"] == [
        {"site": "A", "codes": ["little_memory"], "observed": [1000.0], "limits": [2000.0]}
    ]
    assert stored["chosen"] == ["C", "B"]
    assert "broker.min_free_gb" in stored["knobs"]
    asked_again = Requirements(
        demand=type(asked.demand)(**stored["need"]["demand"]),
        atom=InputSize(**stored["need"]["atom"]),
        sites=tuple(stored["need"]["sites"]),
    )
    replayed = GenericBroker().choose(
        Snapshot.unpack(world.packed), asked_again, Knobs(stored["knobs"]), (), stored["seed"]
    )
    assert [replayed.sites.sites[i] for i in replayed.candidates] == stored["chosen"]
    assert list(replayed.weights) == stored["weights"]
    one, other = found.lottery(), replayed.lottery()
    assert [one.draw() for _ in range(50)] == [other.draw() for _ in range(50)]


def test_infinite_figures_are_stored_as_nothing() -> None:
    asked = need()
    found = choice(sites("A", pilot_age_s=[None]), asked)
    kept = record(1, "generic", found.sites, asked, Knobs(), found)
    assert kept.refusals[0].observed == [None]
    assert kept.refusals[0].limits == [10_800.0]


@given(
    st.lists(
        st.tuples(st.integers(0, 4000), st.integers(1, 8), st.integers(0, 40)),
        min_size=1,
        max_size=6,
    ),
    st.integers(0, 3000),
    st.integers(0, 8),
    st.randoms(),
)
def test_the_order_of_filters_and_sites_does_not_matter(
    rows: list[tuple[int, int, int]], ram: int, cores: int, random: Any
) -> None:
    names = [f"S{i}" for i in range(len(rows))]
    asked = need(InputSize(10 * GB, 5.0), ram_count=ram, ram_unit="MB", core_count=cores)

    def passed(order: list[int], filters: tuple[Any, ...]) -> set[str]:
        world = sites(
            *(names[i] for i in order),
            max_rss_mb=[rows[i][0] or None for i in order],
            cores=[rows[i][1] for i in order],
            max_wdir_mb=[1024 * rows[i][2] or None for i in order],
        )
        verdict = judge(filters, world, asked, Knobs())
        return {names[i] for i, good in zip(order, verdict.passed, strict=True) if good}

    order, filters = list(range(len(rows))), list(GenericBroker.filters)
    first = passed(order, tuple(filters))
    random.shuffle(order)
    random.shuffle(filters)
    assert passed(order, tuple(filters)) == first


# ------------------------------------------------------------------- nucleus and throttler


def test_the_nucleus_with_most_free_space() -> None:
    world = sites(
        "A",
        "B",
        "C",
        "D",
        "E",
        usable_gb=[100, 500, 900, 9999, 9999],
        state=["ACTIVE", "ACTIVE", "DOWN", "ACTIVE", "ACTIVE"],
        role=["nucleus", "nucleus", "nucleus", "satellite", "nucleus"],
        endpoint=["d", "d", "d", "d", ""],
    )
    found = nucleus.most_space(world, need(), Knobs(), 1)
    assert [found.sites.sites[i] for i in found.candidates] == ["B"]
    assert found.weights == (500.0,)
    none = nucleus.most_space(world, need(), Knobs({"taskbroker.min_free_gb": 600.0}), 1)
    assert none.candidates == ()
    assert why_nowhere(none.verdict) == (
        "4 sites: 2 little_space (500 GB usable, 600 GB must be), "
        "1 nucleus_inactive (the nucleus is not ACTIVE), "
        "1 no_endpoint (no storage endpoint to write to)"
    )
