"""Where the presets of brokers differ: classic knows the criteria of the JEDI document alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.nucleus import choose as choose_nucleus
from support.nucleus import held, large_input
from support.production import (
    CLASSIC,
    CURRENT,
    HEAVY,
    SHARE,
    choose,
    codes,
    data,
    names,
    need,
    world,
)
from support.split import chunk, files

from jedi.brokerage import weights
from jedi.brokerage.analysis import AnalysisBroker
from jedi.brokerage.requirements import Requirements
from jedi.jobgenerator.plan import plan
from jedi.jobgenerator.strategies import FileStrategy
from jedi.model.jobs.demand import GB, InputSize
from jedi.model.sites.request import InputAvailability, RecentJobs
from jedi.model.sites.snapshot import Snapshot
from jedi.model.splitting.split_rules import SplitRules


@pytest.mark.parametrize(
    ("columns", "asked", "code"),
    [
        ({"max_io_kb_s": [49]}, {"io_kb_s": 50.0}, "io_intensive"),
        ({"disk_io_kb_s": [100], "max_disk_io_kb_s": [49]}, {"disk_io_kb_s": 50.0}, "disk_io"),
    ],
)
def test_io_limits_of_sites_are_of_today(
    columns: dict[str, Any], asked: dict[str, Any], code: str
) -> None:
    """JEDI document, "Job brokerage explained", 3 has neither max_io_intensity nor maxdiskio;
    docs/reference/brokerage.md#disk-io-and-io-limits-of-sites."""
    assert codes(world("S", **columns), need(**asked)) == []
    assert codes(world("S", **columns), need(**asked), CURRENT) == [code]


def test_scouts_need_no_slot_of_a_day() -> None:
    """JEDI document, "Job brokerage explained", 3: "Walltime", with no least slot for scouts."""
    at = world("S", max_time_s=[7200])
    assert codes(at, need(scout=True)) == []
    assert codes(at, need(scout=True), CURRENT) == ["short_slots"]


@pytest.mark.parametrize(
    ("site", "columns", "past"),
    [
        ("X_HOSPITAL", {}, {}),
        ("S", {}, {"failed": {"S": 6}}),
        ("S", {"jobs": {"activated": [21.0]}}, {}),
    ],
)
def test_users_jobs_avoid_troubled_sites_today(
    site: str, columns: dict[str, Any], past: dict[str, Any]
) -> None:
    """JEDI document, "Input data transfer": "Basically analysis jobs go to data"; it has the limit
    on closed jobs alone."""
    asked = replace(need(label="user"), past=RecentJobs(**past))
    at = world(site, **columns)
    assert names(AnalysisBroker().choose(at, asked, CLASSIC, (), 1)) == [site]
    assert names(AnalysisBroker().choose(at, asked, CURRENT, (), 1)) == []


def test_how_much_waits_for_a_nucleus_stops_jobs_today() -> None:
    """JEDI document, "Job brokerage explained": satellites "with over max_queued (currently 300)
    files queued to the nucleus" are skipped; all links together (docs/reference/brokerage.md#links)
    do not count there."""
    at = world("S", "NUC", queued_in=[0, 10_000])
    assert codes(at, need(nucleus="NUC")) == []
    assert codes(at, need(nucleus="NUC"), CURRENT) == ["nucleus_busy"]


def intensive(event_service: bool) -> Requirements:
    asked = need(data(16, 90), HEAVY, io_kb_s=300.0, event_service=event_service)
    return replace(asked, atom=InputSize(GB, 1.0))


def test_event_service_must_not_move_much_either() -> None:
    """JEDI document, "Job brokerage explained": "If IO Intensity of the task is larger than 200
    kB/s: the total size of missing files must be less than 10GB", with no word of event service,
    which PanDA of today spares."""
    assert codes(world("S"), intensive(event_service=False)) == ["much_to_move"]
    assert codes(world("S"), intensive(event_service=True)) == ["much_to_move"]
    assert codes(world("S"), intensive(event_service=True), CURRENT) == []


def test_a_nucleus_whose_endpoint_is_closed_stands_today_alone_aside() -> None:
    """Six criteria in docs/reference/nucleus.md#criteria, none of them the status of endpoints."""
    closed = world("S", takes_wan=[0], free_gb=[500_000], total_gb=[500_000])
    assert names(choose_nucleus(closed, need())) == ["S"]
    found = choose_nucleus(closed, need(), CURRENT)
    assert [found.verdict.filters[i].code for i in found.verdict.reasons(0)] == ["endpoint_off"]


def test_classic_nuclei_keep_locality_however_long_it_takes() -> None:
    """JEDI document, "Task brokerage": "nuclei not fulfilling any of the criteria is skipped"; "If
    the total input size is larger than 1GB, totalInputSize×10% must be available in the
    nucleus"."""
    nowhere = replace(need(large_input(), priority=900), waits_days=30.0)
    at = world("S", free_gb=[500_000], total_gb=[500_000])
    assert names(choose_nucleus(at, nowhere, CLASSIC)) == []
    assert names(choose_nucleus(at, nowhere, CURRENT)) == ["S"]


def test_where_the_input_lies_counts_no_more_once_it_may_be_brought() -> None:
    """docs/reference/nucleus.md#weight: the input and tape factors count only while locality is
    required; after 7 days in assigning the check is dropped, so all nuclei weigh the same."""
    at = world("A", "B", "C", free_gb=[204_800] * 3, total_gb=[409_600] * 3)
    lies = large_input(A=held(100 * GB, 1000), B=held(50 * GB, 500, disk=False))
    fresh, old = (replace(need(lies), waits_days=days) for days in (0.0, 7.0))
    assert {"data", "tape"} <= set(choose_nucleus(at, fresh, CURRENT).factors)
    found = choose_nucleus(at, old, CURRENT)
    assert not {"data", "tape"} & set(found.factors)
    # nobody has a tenth: the input may be brought, and what little lies at B does not count
    little = InputAvailability(100 * GB, 1000, True, {"B": held(GB, 10, disk=False)})
    assert not {"data", "tape"} & set(choose_nucleus(at, need(little), CURRENT).factors)


# ------------------------------------------------------------------- what is of today alone


def test_sites_with_nothing_of_the_share_get_a_batch_first() -> None:
    """docs/reference/network-and-weights.md#bootstrap: a site without any job of the share weighs 0
    for priorities up to 150, but not for merge and express jobs;
    docs/reference/brokerage.md#choice: such sites come first, and the lottery draws them first,
    then in proportion to the weights."""
    at = world(*"ABCD", jobs={"running": [5.0, 0, 90, 0], "activated": [1.0, 0, 0, 0]})
    found = choose(at, need(priority=150), CURRENT)
    assert names(found) == ["B", "D", "C", "A"]
    assert found.weights[:2] == (0.0, 0.0) and all(w > 0 for w in found.weights[2:])
    firsts = set()
    for seed in range(20):
        lottery = choose(at, need(priority=150), CURRENT, seed).lottery()
        drawn = [lottery.draw() for _ in range(20)]
        assert sorted(drawn[:2]) == [0, 1] and set(drawn[2:]) <= {2, 3}
        firsts.add(drawn[0])
    assert firsts == {0, 1}
    for others in ({"priority": 151}, {"merging": True}, {"processing_type": "urgent"}):
        assert all(w > 0 for w in choose(at, need(**others), CURRENT).weights)
    assert all(w > 0 for w in choose(at, need(priority=150)).weights)  # classic has no such rule


def test_where_all_sites_had_their_first_batch_the_rest_waits() -> None:
    """25 jobs a batch (docs/reference/brokerage.md#choice): of 100 files for two idle sites 50
    become jobs now."""
    master = chunk(files(100, [1] * 100))
    for knobs, n in ((CURRENT, 50), (CLASSIC, 100)):
        found = choose(world("A", "B"), need(), knobs)
        rules = SplitRules(n_files_per_job=1)
        cuts, _ = plan([master], found, FileStrategy(), rules, need().demand, knobs, 1000)
        assert [len(cut) for cut in cuts] == [n]


@pytest.mark.parametrize(
    ("columns", "running"),
    [
        ({"streaming": [1]}, 12),
        ({"streaming": [0]}, 5),
        ({"streaming": [1], "pilot_age_s": [10_801]}, 5),
        ({"streaming": [1], "workers": [3]}, 5),
    ],
)
def test_pilots_count_as_running_jobs_where_they_come_before_jobs(
    columns: dict[str, Any], running: int
) -> None:
    """docs/reference/network-and-weights.md#bootstrap: if fewer than 20 run, min(20, pilots) counts
    as running; current: for priorities up to 150 where pilots come before jobs and were seen."""
    at = world("S", jobs={"running": [5]}, **{"workers": [12], **columns})
    assert weights.queue_factor(at, need(), CURRENT)[0] == pytest.approx((running + 1) / 10)
    of_old = max(5, int(at.workers[0]))
    assert weights.queue_factor(at, need(), CLASSIC)[0] == pytest.approx((of_old + 1) / 10)


@pytest.mark.parametrize(
    ("slots", "asked", "expected"),
    [
        (None, {}, 6 / 17),
        (0, {}, 13 / 17),  # 5 + 7 starting
        (83, {}, 11 / 17),  # int(83 / 8)
        (83, {"priority": 151}, 6 / 17),
        (8, {}, 6 / 17),
        (83, {"resource_type": "SCORE"}, 6 / 17),
    ],
)
def test_declared_slots_count_as_running_jobs(
    slots: float | None, asked: dict[str, Any], expected: float
) -> None:
    """docs/reference/network-and-weights.md#bootstrap: n declared slots count as max(n ÷ cores,
    running), 0 slots as running + starting."""
    at = world(
        "S", jobs={"running": [5], "starting": [7]}, cores=[8], slots=[[[SHARE, "MCORE"], [slots]]]
    )
    wanted = need(columns={"core_count": 8}, **{"resource_type": "MCORE", **asked})
    assert weights.queue_factor(at, wanted, CURRENT)[0] == pytest.approx(expected)
    assert weights.queue_factor(at, wanted, CLASSIC)[0] == pytest.approx(6 / 17)
    assert Snapshot.unpack(at.packed).slots.row(SHARE, "MCORE") is not None
    assert at.only(["S"]).hash == at.hash


def test_a_site_that_declares_slots_needs_no_pilots() -> None:
    """docs/reference/brokerage.md#pilots: skipped without pilots in the last 3 h, unless it has
    standby slots."""
    at = world("S", pilot_age_s=[None], slots=[[[SHARE, "SCORE"], [10]]])
    asked = need(resource_type="SCORE")
    assert codes(at, asked, CURRENT) == []
    assert codes(at, asked) == codes(at, need(resource_type="MCORE"), CURRENT) == ["no_pilots"]


def heavy_with(*at: str) -> Requirements:
    """16 GB that must lie where the jobs run, at these sites."""
    lies = InputAvailability(16 * GB, 90, True, {site: held(16 * GB, 90) for site in at})
    asked = need(lies, HEAVY, io_kb_s=300.0, resource_type="SCORE")
    return replace(asked, atom=InputSize(GB, 1.0))


@pytest.mark.parametrize(
    ("columns", "jobs", "expected"),
    [
        ({}, {}, ["A"]),
        ({"pilot_age_s": [None, 0]}, {}, []),  # temporary: #24 comes after #23
        ({"usable_gb": [1, 1000]}, {}, []),
        ({}, {"activated": [900.0, 0]}, []),  # caps come later still
        ({"status": ["offline", "online"]}, {}, ["B"]),  # A never got as far
        ({"max_time_s": [10, None]}, {}, ["B"]),
    ],
)
def test_the_io_check_is_void_only_where_nobody_passes_for_it(
    columns: dict[str, Any], jobs: dict[str, list[float]], expected: list[str]
) -> None:
    """docs/reference/brokerage.md#io-intensive-input: if no site passes, current drops the check;
    temporary reasons take sites away afterwards. A has the input, B would have to move it."""
    at = world("A", "B", jobs=jobs, **columns)
    assert names(choose(at, heavy_with("A"), CURRENT)) == expected
    assert names(choose(at, heavy_with(), CURRENT)) != []  # void: nobody has it


def test_mcore_jobs_do_not_stand_in_the_way_of_score_tasks_at_unified_sites() -> None:
    """docs/reference/brokerage.md#waiting-jobs: current counts each resource type apart."""
    plain = world("S", cores=[8], unified=[1]).plain()
    plain["jobs"] = [[[SHARE, "MCORE", "activated"], [500.0]]]
    at = Snapshot.read(plain)
    asked = need(columns={"core_count": 1}, resource_type="SCORE")
    assert codes(at, asked, CURRENT) == []
    assert choose(at, asked, CURRENT).lottery()._queued == [0.0]
    several = need(columns={"core_count": 8}, resource_type="MCORE")
    assert codes(at, several, CURRENT) == ["waiting_cap"]
    plain["unified"] = [0.0]
    apart = need(columns={"core_count": 8}, resource_type="SCORE")
    assert codes(Snapshot.read(plain), apart, CURRENT) == ["queue_cap"]
