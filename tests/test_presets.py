"""Where the two presets of brokers differ: the classic ones know the seed's criteria and no more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from test_nucleus import choose as choose_nucleus
from test_nucleus import held, large_input
from test_production import CLASSIC, CURRENT, HEAVY, codes, data, names, need, world

from jedi.brokerage.need import Need
from jedi.spec.demand import GB, Load
from jedi.spec.request import Data


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
    """The seed's "Job brokerage explained" 3 has neither max_io_intensity nor maxdiskio;
    brokerage.md §3.2 #7 and #19 have them."""
    assert codes(world("S", **columns), need(**asked)) == []
    assert codes(world("S", **columns), need(**asked), CURRENT) == [code]


def test_how_much_waits_for_a_nucleus_stops_jobs_today() -> None:
    """Seed: satellites "with over max_queued (currently 300) files queued to the nucleus" are
    skipped; all links together (brokerage.md §3.2 #2: 10,000) do not count there."""
    at = world("S", "NUC", queued_in=[0, 10_000])
    assert codes(at, need(nucleus="NUC")) == []
    assert codes(at, need(nucleus="NUC"), CURRENT) == ["nucleus_busy"]


def intensive(event_service: bool) -> Need:
    asked = need(data(16, 90), HEAVY, io_kb_s=300.0, event_service=event_service)
    return replace(asked, atom=Load(GB, 1.0))


def test_event_service_must_not_move_much_either() -> None:
    """Seed: "If IO Intensity of the task is larger than 200 kB/s: the total size of missing files
    must be less than 10GB", with no word of event service, which PanDA of today spares."""
    assert codes(world("S"), intensive(event_service=False)) == ["much_to_move"]
    assert codes(world("S"), intensive(event_service=True)) == ["much_to_move"]
    assert codes(world("S"), intensive(event_service=True), CURRENT) == []


def test_a_nucleus_whose_endpoint_is_closed_stands_today_alone_aside() -> None:
    """The seed's six criteria of nuclei do not look at the status of endpoints."""
    closed = world("S", takes_wan=[0], free_gb=[500_000], total_gb=[500_000])
    assert names(choose_nucleus(closed, need())) == ["S"]
    found = choose_nucleus(closed, need(), CURRENT)
    assert [found.verdict.filters[i].code for i in found.verdict.reasons(0)] == ["endpoint_off"]


def test_classic_nuclei_keep_locality_however_long_it_takes() -> None:
    """Seed: "nuclei not fulfilling any of the criteria is skipped"; "If the total input size is
    larger than 1GB, totalInputSize×10% must be available in the nucleus"."""
    nowhere = replace(need(large_input(), priority=900), waits_days=30.0)
    at = world("S", free_gb=[500_000], total_gb=[500_000])
    assert names(choose_nucleus(at, nowhere, CLASSIC)) == []
    assert names(choose_nucleus(at, nowhere, CURRENT)) == ["S"]


def test_where_the_input_lies_counts_no_more_once_it_may_be_brought() -> None:
    """brokerage.md §2.3: available/total and the tape factor apply "only if locality is in
    force"; after 7 days in assigning the check is dropped, so all nuclei weigh the same."""
    at = world("A", "B", "C", free_gb=[204_800] * 3, total_gb=[409_600] * 3)
    lies = large_input(A=held(100 * GB, 1000), B=held(50 * GB, 500, disk=False))
    fresh, old = (replace(need(lies), waits_days=days) for days in (0.0, 7.0))
    assert {"data", "tape"} <= set(choose_nucleus(at, fresh, CURRENT).factors)
    found = choose_nucleus(at, old, CURRENT)
    assert not {"data", "tape"} & set(found.factors)
    # nobody has a tenth: the input may be brought, and what little lies at B does not count
    little = Data(100 * GB, 1000, True, {"B": held(GB, 10, disk=False)})
    assert not {"data", "tape"} & set(choose_nucleus(at, need(little), CURRENT).factors)
