"""The analysis broker: jobs go to data, data to jobs only where that fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.production import CLASSIC, CURRENT, SHARE, codes_of, names, need, world

from jedi.brokerage import weights
from jedi.brokerage.analysis import AnalysisBroker
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.requirements import Requirements
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import GB
from jedi.model.sites.request import InputAvailability, RecentJobs, SiteInput
from jedi.model.sites.snapshot import Snapshot

FULL = SiteInput(GB, 10, GB, 10)
TAPE = SiteInput(0.0, 0, GB, 10)
PART = SiteInput(GB / 2, 5, GB / 2, 5)
WARY = Knobs({"analysis.avoid_troubled": 1, "broker.unknown_time_h": 24})
"""Classic, but for rules of preset current."""


def user_task(held: dict[str, SiteInput], *, source: bool = True, **asked: Any) -> Requirements:
    """A user's task with 10 files of 1 GB in all."""
    return need(InputAvailability(GB, 10, source, held), label="user", **asked)


def choose(
    at: Snapshot, asked: Requirements, knobs: Knobs = CLASSIC, used: tuple[str, ...] = ()
) -> SiteChoice:
    return AnalysisBroker().choose(at, asked, knobs, used, 1)


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        ({"A": FULL, "B": TAPE, "C": PART}, ["A"]),  # all of it on disk, if anybody has that
        ({"B": TAPE, "C": PART}, ["B"]),  # else on tape
        ({"C": PART}, ["C"]),  # else some of it
        ({}, ["A", "B", "C"]),  # else it has to move
    ],
)
def test_jobs_go_to_data(held: dict[str, SiteInput], expected: list[str]) -> None:
    assert names(choose(world(*"ABC"), user_task(held))) == expected


def test_data_move_where_jobs_were_closed_at_all_sites_that_have_them() -> None:
    at, asked = world(*"ABCD"), user_task({"A": FULL, "B": FULL})
    some = replace(asked, past=RecentJobs(closed={"A": 1}))
    assert names(choose(at, some)) == ["B"]
    both = replace(asked, past=RecentJobs(closed={"A": 1, "B": 3}))
    assert names(choose(at, both)) == ["C", "D"]
    nobody_sends = replace(both, data=replace(both.data, wan_source=False))
    assert names(choose(at, nobody_sends)) == []


def test_data_do_not_move_since_a_site_is_down_but_today_they_do() -> None:
    at = world(*"ABC", status=["offline", "online", "online"])
    asked = user_task({"A": FULL, "B": PART})
    assert names(choose(at, asked)) == []
    found = choose(at, asked, CURRENT)
    assert names(found) == ["B", "C"]  # what is there already counts
    assert found.factors["data"].tolist() == pytest.approx([1.1, 1.05, 1.0])


def test_the_weight() -> None:
    """(nR+1)/(act+ass+def+start+1), nR bootstrapped without a limit on priority."""
    at = world(
        "S",
        jobs={"running": [30], "activated": [1], "assigned": [2], "defined": [3], "starting": [4]},
    )
    factors = weights.analysis(at, user_task({"S": FULL}, priority=1000), CLASSIC, moving=False)
    assert weights.product(factors)[0] == pytest.approx(31 / 11)
    empty = world("S", workers=[7])
    factors = weights.analysis(empty, user_task({"S": TAPE}, priority=1000), CLASSIC, moving=False)
    assert weights.product(factors)[0] == pytest.approx(8 * 0.001)


def test_sites_that_the_task_has_used_come_first_up_to_ten() -> None:
    letters = "ABCDEFGHIJKL"
    at = world(*letters, jobs={"running": [float(i) for i in range(12)]})
    asked = user_task(dict.fromkeys(letters, FULL))
    assert names(choose(at, asked, used=("B",))) == list("BLKJIHGFED")


@pytest.mark.parametrize(
    ("columns", "asked", "code"),
    [
        ({"type": ["production"]}, {}, "not_for_analysis"),
        ({"gpu": [1]}, {}, "gpu_only"),
        ({"status": ["brokeroff"]}, {}, "status_brokeroff"),
        ({"usable_gb": [199]}, {}, "little_storage"),
        ({"pilot_age_s": [None]}, {}, "no_pilots"),
        ({"max_time_s": [60]}, {"scout": True}, "short_slots"),
        ({}, {"included": ("X*", "Y")}, "not_included"),
        ({}, {"excluded": ("*",)}, "excluded"),
        ({"cloud": ["US"]}, {"cloud": "ND"}, "other_cloud"),
    ],
)
def test_filters(columns: dict[str, Any], asked: dict[str, Any], code: str) -> None:
    found = choose(world("S", **columns), user_task({"S": FULL}, **asked), WARY)
    assert code in codes_of(found)


def test_hospitals_and_included_sites_with_auto() -> None:
    at = world("X_HOSPITAL", "S")
    asked = user_task({"X_HOSPITAL": FULL, "S": FULL})
    assert names(choose(at, asked, WARY)) == ["S"]
    auto = user_task({"S": FULL}, included=("X", "AUTO"))
    assert names(choose(at, auto)) == ["S"]


def test_many_failures_and_long_queues() -> None:
    asked = user_task({"S": FULL, "T": FULL})
    bad = replace(asked, past=RecentJobs(failed={"S": 6}, finished={"S": 2}))
    assert codes_of(choose(world("S", "T"), bad, WARY)) == ["bad_jobs"]
    good = replace(asked, past=RecentJobs(failed={"S": 6}, finished={"S": 3}))
    assert codes_of(choose(world("S", "T"), good, WARY)) == []
    jobs: dict[str, list[float]] = {"running": [100, 1000], "activated": [150, 10]}
    assert codes_of(choose(world("S", "T", jobs=jobs), asked, WARY)) == ["overloaded"]


def test_a_share_sees_only_its_own_jobs() -> None:
    at = Snapshot.read(
        world("S").plain()
        | {"jobs": [[["other", "SCORE", "activated"], [500]], [[SHARE, "SCORE", "running"], [30]]]}
    )
    assert names(choose(at, user_task({"S": FULL}))) == ["S"]
    assert at.activated.tolist() == [500]


def test_twenty_jobs_of_a_type_may_always_wait() -> None:
    asked = user_task({"S": FULL, "T": FULL}, resource_type="SCORE")
    at = world("S", "T", jobs={"activated": [20, 20]})
    assert codes_of(choose(at, asked, WARY)) == []
    at = world("S", "T", jobs={"activated": [21, 21]})
    assert codes_of(choose(at, asked, WARY)) == ["waiting_cap", "overloaded"]
    other = replace(asked, request=replace(asked.request, resource_type="MCORE"))
    assert codes_of(choose(at, other, WARY)) == ["overloaded"]


def test_jobs_of_a_task_are_at_ten_sites_at_most() -> None:
    """JEDI document, "Workflow for analysis": "There would be an upper limit on the number of sites
    where jobs are assigned." Nine sites have jobs: of three others that have the data one gets
    jobs. Ten have jobs: none of them does. Preset current moves data to the ten."""
    busy = [f"S{n}" for n in range(10)]
    at = world(*busy, "X", "Y", "Z")
    asked = user_task(dict.fromkeys(("S1", "X", "Y", "Z"), FULL))

    def having(n: int) -> Requirements:
        return replace(asked, past=RecentJobs(live=dict.fromkeys(busy[:n], 5)))

    assert names(choose(at, having(0))) == ["S1", "X", "Y", "Z"]
    assert names(choose(at, having(9), used=("Y",))) == ["S1", "Y"]
    full = choose(at, having(10), used=("Y",))
    assert names(full) == ["S1"]
    [refused] = full.verdict.reasons(10)
    assert full.verdict.filters[refused].code == "many_sites"
    elsewhere = replace(having(10), data=replace(asked.data, at={"X": FULL}))
    assert names(choose(at, elsewhere)) == []
    assert names(choose(at, elsewhere, CURRENT)) == sorted(busy)
    named = replace(elsewhere, sites=("X", "Y"))
    assert names(choose(at, named)) == ["X"]
    merging = replace(elsewhere, request=replace(asked.request, merging=True))
    assert names(choose(at, merging)) == ["X"]
