"""The production broker: worked numbers, each filter at its border, and what always holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.production import (
    CLASSIC,
    CURRENT,
    HEAVY,
    HELD,
    choose,
    codes,
    data,
    names,
    need,
    world,
)
from support.split import demand

from jedi.brokerage import network, weights
from jedi.brokerage.filters.policy import accepts
from jedi.brokerage.production import ProductionBroker
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import judge
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import GB, MB, InputSize
from jedi.model.sites.request import InputAvailability, SiteInput
from jedi.model.sites.snapshot import Snapshot

RUN = {"running": [9]}
WAITS = {"jobs": {"activated": [1], **RUN}}
LIMITED = Knobs({"broker.site_io_limits": 1, "broker.unknown_time_h": 24})


def input_of(n: int, size: float, **held: SiteInput) -> InputAvailability:
    return InputAvailability(size, n, True, held)


# ----------------------------------------------------------------------------- worked numbers


def test_the_golden_weight() -> None:
    """nRun 100, act 40, ass 30, start 5, def 5; 100 GB, 60 GB of them local, 200 files missing;
    75 of 150 files on the link, 60 MB/s: 0.9277
    (docs/reference/network-and-weights.md#golden-example)."""
    at = world(
        "S",
        jobs={
            "running": [100],
            "activated": [40],
            "assigned": [30],
            "starting": [5],
            "defined": [5],
        },
        links={"production_queued": [75], "mb_s": [60]},
    )
    data = input_of(500, 100 * GB, S=SiteInput(60 * GB, 300, 60 * GB, 300))
    asked = need(data, nucleus="NUC")
    knobs = Knobs({"core.preset": "current", "network.active": 1})
    factors = weights.production(at, asked, knobs)
    assert factors["queue"][0] == pytest.approx(101 / 90)
    assert factors["data"][0] == pytest.approx(1.6 / 3)
    assert factors["queue"][0] * factors["data"][0] == pytest.approx(0.5985, abs=5e-5)
    assert factors["network"][0] == pytest.approx(1.55)
    assert weights.product(factors)[0] == pytest.approx(0.9277, abs=5e-5)


def test_the_two_curves_of_the_network_weight() -> None:
    files = np.array([0, 150, 300, 500.0])
    assert network.queued_weight(files, 300.0).tolist() == [2.0, 1.5, 1.0, 1.0]
    speeds = np.array([0.5, 1, 1.5, 3, 15, 30, 60, 80, 150, 201.0])
    expected = [1.0, 1.0, 1.1, 1.2, 1.3, 1.5, 1.7, 1.8, 1.9, 2.0]
    assert network.speed_weight(speeds, 1.7).tolist() == expected
    close = np.array([0, 11, np.inf, 5.5, 20])
    assert network.closeness_weight(close).tolist() == pytest.approx([2.0, 1.0, 1.3, 1.5, 1.0])


def test_without_any_figure_closeness_stands_for_the_speed() -> None:
    at = world("A", "B", "NUC", links={"closeness": [0, None, None]})
    found = network.link_weight(at, need(nucleus="NUC"), CLASSIC)
    assert found.tolist() == pytest.approx([(2 + 2) / 2, (2 + 1.3) / 2, 2.5])


def test_urgent_jobs_look_at_the_express_queue() -> None:
    at = world("S", links={"production_queued": [0], "express_queued": [300], "mb_s": [300]})
    assert network.link_weight(at, need(nucleus="NUC"), CLASSIC)[0] == 2.0
    urgent = need(nucleus="NUC", processing_type="urgent")
    assert network.link_weight(at, urgent, CLASSIC)[0] == 1.5
    assert codes(at, urgent) == ["slow_link"]
    assert codes(at, need(nucleus="NUC", priority=1000)) == ["slow_link"]


@pytest.mark.parametrize(
    ("jobs", "workers", "expected"),
    [
        ({"running": 100}, 0, 101 / 10),
        ({"running": 5}, 12, 13 / 10),  # so many pilots, at most 20
        ({"running": 5}, 50, 21 / 10),
        ({"running": 30}, 50, 31 / 10),
        ({"activated": 10, "starting": 5, "defined": 5}, 0, 1 / 30),
        ({"assigned": 90}, 0, 1 / 10),  # nothing has to be moved for this task
    ],
)
def test_the_queue_factor(jobs: dict[str, float], workers: int, expected: float) -> None:
    at = world("S", jobs={k: [v] for k, v in jobs.items()}, workers=[workers])
    assert weights.queue_factor(at, need(), CLASSIC)[0] == pytest.approx(expected)


def test_waiting_for_input_counts_where_input_has_to_move() -> None:
    at = world("S", jobs={"running": [9], "assigned": [30], "activated": [9]})
    missing = need(input_of(10, GB))
    # (9+1) / (9+30+10) / clamp(31/10, 1, 2)
    assert weights.queue_factor(at, missing, CLASSIC)[0] == pytest.approx(10 / 49 / 2)


def test_jobs_made_in_the_same_cycle_count_as_defined() -> None:
    at = world("S")
    asked = replace(need(), made={"S": 15})
    assert weights.queue_factor(at, asked, CLASSIC)[0] == pytest.approx(1 / 25)


@pytest.mark.parametrize(
    ("asked", "classic", "current"),
    [
        ({}, 1, 1),
        ({"t1_weight": 7}, 7, 7),
        ({"t1_weight": -1}, 1, 1),
        ({"io_kb_s": 500.0}, 4, 1),
        ({"io_kb_s": 501.0}, 4, 4),
        ({"priority": 899}, 1, 1),
        ({"priority": 900}, 100, 100),
        ({"priority": 900, "t1_weight": 500}, 500, 500),
        ({"scout": True, "priority": 1}, 1, 100),
        ({"priority": 900, "event_service": True}, 100, 1),
        ({"priority": 899, "event_service": True}, 1, 1),
    ],
)
def test_t1_weight(asked: dict[str, Any], classic: float, current: float) -> None:
    assert weights.t1_weight(need(**asked), CLASSIC) == classic
    assert weights.t1_weight(need(**asked), CURRENT) == current


@pytest.mark.parametrize(("cloud", "weight"), [("US", 8), ("ND", 4), ("", 2)])
def test_each_cloud_has_its_t1_weight(cloud: str, weight: float) -> None:
    """ "If t1Weight=0 or unspecified and task.ioIntensity≥500, cloudconfig.weight is used."""
    knobs = Knobs({"broker.t1_cloud_weights": "US=8, WORLD=2"})
    assert weights.t1_weight(need(io_kb_s=500.0, cloud=cloud), knobs) == weight
    assert weights.t1_weight(need(io_kb_s=499.0, cloud=cloud), knobs) == 1
    assert weights.t1_weight(need(io_kb_s=500.0, cloud=cloud, t1_weight=3), knobs) == 3


def test_the_t1_weight_of_urgent_tasks_that_name_their_sites() -> None:
    asked = replace(need(priority=900), sites=("S",))
    assert weights.t1_weight(asked, CLASSIC) == 100
    assert weights.t1_weight(asked, CURRENT) == 1


def test_estimates_of_the_specification() -> None:
    """docs/reference/estimates.md#walltime: budget, walltime, memory."""
    figures = demand(
        cpu_time=250,
        cpu_efficiency=90,
        base_walltime=600,
        ram_count=2200,
        ram_unit="MBPerCore",
        base_ram_count=1000,
    )
    assert figures.budget(172_800, 8.0, 12.0) == pytest.approx(14_878_080)
    cores, power = np.array([8.0]), np.array([12.0])
    walltime = figures.walltime_s(InputSize(0.0, 2000.0), cores, power)
    assert walltime is not None
    assert round(float(walltime[0])) == 6387
    assert figures.memory_mb(np.array([8.0, 1.0]), 0.9).tolist() == [16_740, 2_880]
    flat = demand(cpu_time=250, cpu_efficiency=0).walltime_s(InputSize(0.0, 2000.0), cores, power)
    assert flat is not None
    assert flat[0] == 600
    disk = demand(
        work_disk_count=100, work_disk_unit="MB", out_disk_count=1, out_disk_unit="MBPerEvent"
    )
    assert disk.disk_mb(InputSize(100 * MB, 10.0), 2560.0) == 2560 + 100 + 100
    spare = disk.roomier(300.0)
    assert spare.disk_mb(InputSize(100 * MB, 10.0), 2560.0) == 2560 + 400 + 100
    assert spare.disk_mb(InputSize(100 * MB, 10.0), 2560.0, copied=False) == 2560 + 400
    assert spare.disk_mb(InputSize(100 * MB, 3000.0), 2560.0) == 3000 + 400 + 100
    assert demand().roomier(300.0).work_mb == 0


# ------------------------------------------------------------------- each filter at its border

URGENT = {"priority": 901}


@pytest.mark.parametrize(
    ("good", "bad", "asked", "code"),
    [
        ({"type": ["unified"]}, {"type": ["analysis"]}, {}, "not_for_production"),
        ({"cloud": ["US"]}, {"cloud": ["ND"]}, {"cloud": "US"}, "other_cloud"),
        (
            {"tier": ["T1"], "cloud": ["US"]},
            {"tier": ["T2"], "cloud": ["US"]},
            {"cloud": "US", **URGENT},
            "not_t1",
        ),
        ({"role": ["nucleus"]}, {"role": ["satellite"]}, URGENT, "not_t1"),
        ({"role": ["nucleus"]}, {"role": ["satellite"]}, {"scout": True}, "not_t1"),
        (
            {"start_age_s": [7200], "wait_age_s": [9000], **WAITS},
            {"start_age_s": [7201], "wait_age_s": [9000], **WAITS},
            {"priority": 801},
            "inactive",
        ),
        (
            {"start_age_s": [None], "wait_age_s": [7200], **WAITS},
            {"start_age_s": [None], "wait_age_s": [7201], **WAITS},
            {"merges": True},
            "inactive",
        ),
        (
            {"policy": ["type=simul:100%"]},
            {"policy": ["type=evgen:100%"]},
            {"processing_type": "simul"},
            "zero_share",
        ),
        (
            {"allowed": ["a,simul"]},
            {"excluded": ["a,simul"]},
            {"processing_type": "simul"},
            "other_processing",
        ),
        (
            {"disk_io_kb_s": [100], "max_disk_io_kb_s": [99]},
            {"disk_io_kb_s": [100], "max_disk_io_kb_s": [49]},
            {"disk_io_kb_s": 50.0},
            "disk_io",
        ),
        (
            {"cores": [1]},
            {"cores": [8]},
            {"max_cores": 7, "columns": {"core_count": 0}},
            "above_max_cores",
        ),
        ({"releases": ["A,B"]}, {"releases": ["A"]}, {"release": "B"}, "no_release"),
        (
            {"releases": ["AUTO"], "software": ["B"]},
            {"releases": ["AUTO"], "software": ["A"]},
            {"release": "B"},
            "no_release",
        ),
        (
            {"platforms": ["x86_64-*"]},
            {"platforms": ["aarch64-*"]},
            {"platform": "x86_64-centos7#avx"},
            "no_platform",
        ),
        ({"gpu": [1]}, {"gpu": [0]}, {"platform": "&nvidia"}, "no_gpu"),
        ({"gpu": [0]}, {"gpu": [1]}, {}, "gpu_only"),
        ({"max_wdir_mb": [2660]}, {"max_wdir_mb": [2659]}, {}, "little_scratch"),
        ({"always_direct": [1]}, {"direct_lan": [0]}, {"lan_input": "only"}, "no_direct_input"),
        ({"endpoint": ["D"]}, {"endpoint": [""]}, {}, "no_endpoint"),
        ({"usable_gb": [200.01]}, {"usable_gb": [200]}, {}, "little_storage"),
        ({"writes_lan": [1]}, {"writes_lan": [0]}, {}, "output_unwritable"),
        ({"reads_lan": [1]}, {"reads_lan": [0]}, {"data": data(1, 10)}, "input_unreadable"),
        ({"gets_wan": [1]}, {"gets_wan": [0]}, {"data": data(9, 90)}, "input_unwelcome"),
        ({"sends_wan": [1]}, {"sends_wan": [0]}, {"nucleus": "NUC"}, "output_stuck"),
        ({}, {}, {"data": InputAvailability(GB, 90, False, HELD)}, "no_source"),
        ({"max_time_s": [96_600]}, {"max_time_s": [95_000]}, {"scout": True}, "short_slots"),
        (
            {"connectivity": ["http#IPv4"]},
            {"connectivity": ["none"]},
            {"connectivity": "http"},
            "no_connectivity",
        ),
        (
            {"connectivity": ["full#IPv6"]},
            {"connectivity": ["full#IPv4"]},
            {"ip_stack": "IPv6"},
            "other_ip_stack",
        ),
        ({"job_seed": ["es"]}, {"job_seed": ["std"]}, {"event_service": True}, "no_event_service"),
        ({"job_seed": ["eshigh"]}, {"job_seed": ["es"]}, {}, "event_service_only"),
        ({"jumbo": ["yes"]}, {"jumbo": ["only"]}, {}, "jumbo_only"),
        ({"jumbo": ["yes"]}, {"jumbo": ["only"]}, {"jumbo": True}, "jumbo_only"),
        ({"jumbo_events": [10]}, {"jumbo_events": [11]}, {"jumbo": True}, "few_jumbo_events"),
        ({}, {"full_chain": ["only"]}, {"nucleus": "NUC"}, "full_chain_only"),
        ({"grid_site": ["NUC"]}, {}, {"nucleus": "NUC", "full_chain": True}, "full_chain_outside"),
        ({"grid_site": ["NUC"]}, {}, {"nucleus": "NUC", "t1_weight": -1}, "outside_nucleus"),
        ({"max_io_kb_s": [50]}, {"max_io_kb_s": [49]}, {"io_kb_s": 50.0}, "io_intensive"),
        ({"pilot_age_s": [10_800]}, {"pilot_age_s": [10_801]}, {}, "no_pilots"),
        (
            {"no_pilots_needed": [1], "pilot_age_s": [None]},
            {"pilot_age_s": [None]},
            {},
            "no_pilots",
        ),
        ({"local_only": [0]}, {"local_only": [1]}, {"data": data(1, 90)}, "local_data_only"),
        ({}, {}, {"included": ("X*",)}, "not_included"),
        ({}, {}, {"excluded": ("S*",)}, "excluded"),
    ],
)
def test_each_filter_at_its_border(
    good: dict[str, Any], bad: dict[str, Any], asked: dict[str, Any], code: str
) -> None:
    if good:
        assert codes(world("S", **good), need(**asked), LIMITED) == []
    assert codes(world("S", **bad), need(**asked), LIMITED) == [code]


def test_today_an_endpoint_may_have_just_200_gb() -> None:
    assert codes(world("S", usable_gb=[200]), need(), CURRENT) == []
    assert codes(world("S", usable_gb=[199]), need(), CURRENT) == ["little_storage"]


def test_names_that_say_test() -> None:
    assert codes(world("CERN_TeSt"), need()) == ["test_queue"]
    assert codes(world("CERN_TEST"), need(), CURRENT) == []
    assert codes(world("CERN_TEST"), replace(need(), sites=("CERN_TEST",))) == []


def test_priority_exactly_900_is_no_reason_for_t1s_only() -> None:
    satellite = world("S", role=["satellite"])
    assert codes(satellite, need(priority=900)) == []
    assert codes(satellite, need(priority=901), CURRENT) == []


def test_opportunistic_sites_do_not_get_urgent_jobs_today() -> None:
    at = world("S", pledged_cores=[-1])
    assert codes(at, need(priority=800)) == []
    assert codes(at, need(priority=800), CURRENT) == ["opportunistic"]
    assert codes(at, need(scout=True), CURRENT) == ["opportunistic"]


@pytest.mark.parametrize(
    ("ages", "jobs", "classic", "current"),
    [
        ({"start_age_s": [None]}, {}, [], []),  # it never ran, and was never tried
        ({"start_age_s": [99_960]}, {}, [], []),
        # a job has just come to a new site, or to one that had none to start
        ({"start_age_s": [None], "wait_age_s": [0]}, {"activated": [1], **RUN}, [], ["inactive"]),
        (
            {"start_age_s": [99_960], "wait_age_s": [7200]},
            {"starting": [1], **RUN},
            [],
            ["inactive"],
        ),
        (
            {"start_age_s": [None], "wait_age_s": [7260]},
            {"sent": [1], **RUN},
            ["inactive"],
            ["inactive"],
        ),
        # others wait, but one of them started in the last two hours
        ({"start_age_s": [7200], "wait_age_s": [99_960]}, {"activated": [1], **RUN}, [], []),
        (
            {"start_age_s": [7260], "wait_age_s": [99_960]},
            {"activated": [1], "running": [9]},
            ["inactive"],
            ["inactive"],
        ),
        ({"start_age_s": [7260]}, {"defined": [1], "assigned": [1], "running": [9]}, [], []),
    ],
)
def test_a_queue_is_inactive_if_nothing_starts_though_something_waits(
    ages: dict[str, Any], jobs: dict[str, Any], classic: list[str], current: list[str]
) -> None:
    """docs/reference/brokerage.md#inactive-queues, classic: no job started in the last 2 h
    "although a job has waited there (activated or starting) for all of them"; "one waiting job
    that has just come makes no new site inactive: the two hours count from when a job began to
    wait there".
    Current: … and activated + starting > 0."""
    at = world("S", jobs=jobs, **ages)
    assert codes(at, need(priority=801)) == classic
    assert codes(at, need(priority=801), CURRENT) == current


def test_running_jobs_are_no_start() -> None:
    busy = world("S", start_age_s=[99_999], jobs={"activated": [5], "running": [9]})
    assert codes(busy, need(priority=800), CURRENT) == ["inactive"]


def test_a_standby_site_takes_who_asks_for_it() -> None:
    at = world("S", status=["standby"], pilot_age_s=[None])
    assert codes(at, need()) == ["status_standby"]
    assert codes(at, replace(need(), sites=("S",))) == []


@pytest.mark.parametrize(
    ("queued", "classic", "current"),
    [(148, True, True), (150, True, False), (300, True, False), (301, False, False)],
)
def test_the_cap_of_a_link(queued: int, classic: bool, current: bool) -> None:
    at = world("S", "NUC", links={"production_queued": [queued, None]})
    for knobs, good in ((CLASSIC, classic), (CURRENT, current)):
        assert codes(at, need(nucleus="NUC"), knobs) == ([] if good else ["link_busy"])


def test_links_and_their_nucleus() -> None:
    asked = need(nucleus="NUC")
    assert codes(world("S", links={"closeness": [-1]}), asked) == ["link_closed"]
    assert codes(world("S", "NUC", takes_wan=[1, 0]), asked) == ["link_off"]
    assert codes(world("S", "NUC", queued_in=[0, 10_000]), asked, CURRENT) == ["nucleus_busy"]
    assert codes(world("S", "NUC", queued_in=[0, 9_999]), asked, CURRENT) == []
    # the nucleus itself, and who shares its storage, is at home
    home = world("NUC", takes_wan=[0], queued_in=[99_999], links={"closeness": [-1]})
    assert codes(home, asked) == []
    shared = world("S", "NUC", takes_wan=[1, 0], endpoint=["D", "D"])
    assert codes(shared, asked) == []


@pytest.mark.parametrize(
    ("size_gb", "n", "expected"),
    [
        (14.9, 149, []),  # 9.9 GB, 99 files
        (15, 149, ["much_to_move"]),
        (14, 150, ["many_to_move"]),
        (16, 200, ["much_to_move", "many_to_move"]),
    ],
)
def test_io_intensive_jobs_go_where_their_input_is(
    size_gb: float, n: int, expected: list[str]
) -> None:
    asked = replace(need(data(size_gb, n), HEAVY), atom=InputSize(GB, 1.0))
    assert codes(world("S"), asked) == expected
    assert codes(world("S"), replace(asked, atom=InputSize(MB, 1.0))) == []
    both = choose(world("S"), asked, CURRENT)
    assert names(both) == ["S"]  # not intensive: nobody measured it
    measured = replace(asked, request=replace(asked.request, io_kb_s=201.0))
    found = choose(world("S"), measured, CURRENT)
    assert names(found) == ["S"]  # void, since it leaves nobody
    assert names(choose(world("S"), asked)) == ([] if expected else ["S"])


def test_a_task_may_send_as_much_as_a_site_may() -> None:
    at = world("S", jobs={"transferring": [2001], "running": [1000]})
    assert codes(at, need(nucleus="NUC")) == ["much_transferring"]
    assert codes(world("S", jobs={"transferring": [2001], "running": [1001]}), need()) == []
    assert codes(world("S", transferring_limit=[3000], jobs={"transferring": [2001]}), need()) == []


def test_what_was_pledged_where_work_is_short() -> None:
    short = Knobs({"core.work_shortage": 1})
    at = world("S", pledged_cores=[10], jobs={"running": [11]})
    assert codes(at, need()) == []
    assert codes(at, need(), short) == ["over_pledge"]
    assert codes(world("S", pledged_cores=[None], jobs={"running": [11]}), need(), short) == []
    assert codes(world("S", pledged_cores=[-1]), need(), short) == ["over_pledge"]


# ------------------------------------------------------------------------------ zero shares


@pytest.mark.parametrize(
    ("policy", "asked", "classic", "current"),
    [
        ("", {}, True, True),
        ("type=evgensimul:100%", {"processing_type": "simul"}, True, True),
        ("type=evgensimul:100%", {"processing_type": "reco"}, False, True),
        ("type=evgensimul:100%,type=any:0%", {"processing_type": "reco"}, False, False),
        ("group=higgs:20%,group=any:0", {"working_group": "higgs"}, True, True),
        ("group=hig*:0", {"working_group": "higgs"}, False, False),
        ("gshare=simul:0", {}, False, False),
        ("priority>=500:0", {"priority": 500}, False, False),
        ("priority>=500:0", {"priority": 499}, True, True),
        ("priority>=500:0", {"priority": 500, "merging": True}, True, True),
        ("what is this,,", {}, True, True),
        ("group=(:0", {"working_group": "("}, False, False),
    ],
)
def test_zero_shares(policy: str, asked: dict[str, Any], classic: bool, current: bool) -> None:
    request = need(**asked).request
    assert accepts(policy, request, closed=True) == classic
    assert accepts(policy, request, closed=False) == current


# --------------------------------------------------------------------------- caps and choice


def test_caps_are_two_tests_and_the_best_three_go_on() -> None:
    n = 5
    at = world(
        *"ABCDE",
        jobs={
            "running": [10.0] * n,
            "activated": [21.0, 22, 23, 24, 5],
            "defined": [0.0, 0, 0, 0, 16],
        },
    )
    verdict = judge(ProductionBroker.filters, at, need(), CLASSIC)
    assert [[verdict.filters[i].code for i in verdict.reasons(s)] for s in range(n)] == [
        ["queue_cap", "waiting_cap"],
        ["queue_cap", "waiting_cap"],
        ["queue_cap", "waiting_cap"],
        ["queue_cap", "waiting_cap"],
        ["waiting_cap"],
    ]
    assert names(choose(at, need())) == ["A", "E", "B"]
    assert names(choose(at, need(resource_type="SCORE"), CURRENT)) == []
    assert codes(world("S", jobs={"activated": [20], "running": [10]}), need()) == []


def test_jobs_whose_results_are_being_added_do_not_run() -> None:
    """ "Skip site if activated + starting > 2 x running": 10 running and 10 holding jobs permit 20
    waiting ones, and weigh as 10."""
    over = world("S", jobs={"running": [10], "holding": [10], "activated": [40]})
    assert codes(over, need()) == ["queue_cap", "waiting_cap"]
    assert weights.queue_factor(over, need(), CLASSIC)[0] == pytest.approx(11 / 50)
    sending = world("S", jobs={"running": [1000], "holding": [1], "transferring": [2001]})
    assert codes(sending, need()) == ["much_transferring"]
    short = Knobs({"core.work_shortage": 1})
    at = world("S", pledged_cores=[10], jobs={"running": [10], "holding": [1]})
    assert codes(at, need(), short) == []
    few = world("S", workers=[20], jobs={"running": [5], "holding": [30], "activated": [41]})
    assert codes(few, need()) == ["queue_cap", "waiting_cap"]
    assert codes(few, need(), Knobs({"broker.cap_ratio": 2.05})) == []


def test_today_twenty_jobs_may_always_wait_and_urgent_ones_are_spared() -> None:
    at = world("S", jobs={"activated": [20]})
    asked = need(resource_type="SCORE")
    assert codes(at, asked) == ["queue_cap", "waiting_cap"]
    assert codes(at, asked, CURRENT) == []
    over = world("S", jobs={"activated": [21]})
    assert codes(over, asked, CURRENT) == ["queue_cap", "waiting_cap"]
    assert codes(over, need(resource_type="MCORE"), CURRENT) == ["queue_cap"]
    assert codes(over, need(processing_type="urgent"), CURRENT) == []


def test_the_best_ten() -> None:
    letters = "ABCDEFGHIJKL"
    at = world(*letters, jobs={"running": [float(i) for i in range(12)]})
    assert names(choose(at, need())) == list("LKJIHGFEDC")


def test_with_t1_weight_minus_one_today_one_queue_gets_all() -> None:
    at = world("A", "B", "NUC", grid_site=["NUC", "NUC", "NUC"], jobs={"running": [5, 9, 1]})
    asked = need(nucleus="NUC", t1_weight=-1)
    assert names(choose(at, asked)) == ["B", "A", "NUC"]
    assert names(choose(at, asked, CURRENT)) == ["B"]


def test_load_spreads_with_the_weights() -> None:
    at = world(*(f"S{i}" for i in range(10)), jobs={"running": [10.0 * (i + 1) for i in range(10)]})
    lottery = choose(at, need(), seed=3).lottery()
    drawn = Counter(lottery.draw() for _ in range(20_000))
    found = choose(at, need())
    total = sum(found.weights)
    for i, weight in enumerate(found.weights):
        assert drawn[i] / 20_000 == pytest.approx(weight / total, abs=0.015)


# ------------------------------------------------------------------------- what always holds

site_rows = st.lists(
    st.fixed_dictionaries(
        {
            "cores": st.sampled_from([1, 4, 8]),
            "max_rss_mb": st.sampled_from([None, 1000, 3000]),
            "usable_gb": st.sampled_from([None, 100, 300]),
            "start_age_s": st.sampled_from([0, 9999]),
            "pilot_age_s": st.sampled_from([0, None]),
            "role": st.sampled_from(["nucleus", "satellite"]),
            "max_time_s": st.sampled_from([None, 1000, 100_000]),
            "running": st.integers(0, 30),
            "activated": st.integers(0, 60),
            "queued": st.sampled_from([0, 200, 400]),
        }
    ),
    min_size=1,
    max_size=8,
)
asked_rows = st.builds(
    need,
    priority=st.sampled_from([0, 801, 901]),
    scout=st.booleans(),
    nucleus=st.sampled_from(["", "NUC"]),
    columns=st.fixed_dictionaries(
        {"core_count": st.sampled_from([0, 1, 8]), "ram_count": st.sampled_from([0, 2000])}
    ),
)


def built(rows: list[dict[str, Any]], labels: list[str]) -> Snapshot:
    columns = {k: [row[k] for row in rows] for k in rows[0]}
    running, activated = columns.pop("running"), columns.pop("activated")
    queued = columns.pop("queued")
    return world(
        *labels,
        jobs={"running": running, "activated": activated},
        links={"production_queued": queued},
        **columns,
    )


@settings(max_examples=60)
@given(site_rows, asked_rows, st.randoms())
def test_the_order_of_filters_and_sites_does_not_matter(
    rows: list[dict[str, Any]], asked: Requirements, random: Any
) -> None:
    labels = [f"S{i}" for i in range(len(rows))]

    def survivors(order: list[int], filters: list[Any]) -> set[str]:
        at = built([rows[i] for i in order], [labels[i] for i in order])
        passed = judge(filters, at, asked, CLASSIC).passed
        return {at.sites[i] for i in np.flatnonzero(passed)}

    order, filters = list(range(len(rows))), list(ProductionBroker.filters)
    first = survivors(order, filters)
    random.shuffle(order)
    random.shuffle(filters)
    assert survivors(order, filters) == first


@settings(max_examples=60)
@given(
    site_rows,
    asked_rows,
    st.sampled_from(
        [
            "broker.link_cap",
            "broker.nucleus_cap",
            "broker.active_s",
            "broker.pilot_fresh_s",
            "broker.cap_ratio",
            "broker.cap_jobs",
            "broker.transferring_ratio",
            "broker.move_gb",
            "broker.move_files",
            "broker.io_intensive_kb_s",
        ]
    ),
    st.floats(1.0, 10.0),
)
def test_raising_a_limit_never_removes_a_site(
    rows: list[dict[str, Any]], asked: Requirements, knob: str, factor: float
) -> None:
    at = built(rows, [f"S{i}" for i in range(len(rows))])
    before = judge(ProductionBroker.filters, at, asked, CLASSIC).passed
    raised = type(CLASSIC[knob])(CLASSIC[knob] * factor + 1)
    after = judge(ProductionBroker.filters, at, asked, Knobs({knob: raised})).passed
    assert (after | ~before).all()


@settings(max_examples=60)
@given(site_rows, asked_rows)
def test_a_weight_is_the_product_of_its_factors(
    rows: list[dict[str, Any]], asked: Requirements
) -> None:
    found = choose(built(rows, [f"S{i}" for i in range(len(rows))]), asked)
    product = np.prod(list(found.factors.values()), axis=0)
    assert found.weights == pytest.approx([product[i] for i in found.candidates])
    assert (product > 0).all()


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_the_weight_grows_as_the_formula_says(running: int, waiting: int) -> None:
    at = world("S", jobs={"running": [running], "activated": [waiting]})
    factor = weights.queue_factor(at, need(), CLASSIC)[0]
    assert factor == pytest.approx((running + 1) / (waiting + 10))
