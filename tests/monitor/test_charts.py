"""Charts by the server: sound SVG, escaped texts, the same numbers as a table."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from jedi.monitor.charts import (
    Bar,
    Lane,
    LaneSpan,
    Part,
    bars,
    by_status,
    figure,
    spark,
    stacked,
    timeline,
)
from jedi.monitor.curves import DrawnCurve, curves
from jedi.monitor.flows import MOST, OTHERS, FlowPath, flow

NASTY = '<script>alert(1)</script>"\u202eevil' + "x" * 10_000
T0 = datetime(2026, 11, 26, tzinfo=UTC)
HOURS = [T0 + timedelta(hours=one) for one in range(3)]

CHARTS: list[Callable[[str], Markup]] = [
    lambda said: stacked("a", said, [Part(said, 3, "bad", f"/x?{said}"), Part("b", 0, "s1")], said),
    lambda said: bars("b", said, [Bar(said, [Part(said, 3, "slow")], 7, said)], said),
    lambda said: timeline(
        "c", said, [Lane(said, [LaneSpan(said, T0, None, "idle")])], T0, HOURS[2]
    ),
    lambda said: curves("d", said, HOURS, [DrawnCurve(said, [1, None, 3])], said),
    lambda said: flow("e", said, (said, said), [FlowPath((said, "b"), 2.5)], said),
    lambda said: spark([1, 2], said),
]


def parsed(chart: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(str(chart).replace(" hidden>", ">").replace(" hx-morph-skip", ""))


@pytest.mark.parametrize("chart", CHARTS)
def test_texts_are_harmless(chart: Callable[[str], Markup]) -> None:
    written = chart(NASTY)
    assert "<script" not in written
    assert "\u202e" not in written
    assert "style=" not in written
    assert len(parsed(written).findall(".//title")) >= 1


@pytest.mark.parametrize(
    "chart",
    [
        stacked("a", "none", [], "jobs"),
        bars("b", "none", [], "jobs"),
        timeline("c", "none", [], T0, T0),
        curves("d", "none", [], [], "jobs"),
        flow("e", "none", ("a", "b"), [], "jobs"),
        stacked("a", "zero", [Part("x", 0, "good")], "jobs"),
        spark([], "none"),
    ],
)
def test_charts_of_nothing_are_sound(chart: Markup) -> None:
    parsed(chart)
    assert "nan" not in chart


def test_parts_fill_the_bar() -> None:
    found = by_status([("running", 30), ("failed", 10), ("closed", 0)], "/jobs?status=")
    drawn = stacked("a", "Jobs", found, "jobs")
    assert [one.look for one in found] == ["busy", "bad"]
    assert re.findall(r'x="([\d.]+)%" y="0" width="([\d.]+)%"', drawn)[0] == ("0.00", "75.00")
    assert 'fill="url(#a-cross)"' in drawn
    assert 'href="/jobs?status=failed"' in drawn


def test_a_figure_needs_an_id() -> None:
    with pytest.raises(ValueError, match="no id"):
        figure("a b", "Caption", Markup(""), (), [])


def test_small_places_of_a_flow_become_one() -> None:
    drawn = flow(
        "e", "Flow", ("Queue", "Site"), [FlowPath((f"q{n}", "s"), n) for n in range(1, 31)], "cores"
    )
    assert drawn.count('class="node"') == MOST + 1
    assert OTHERS in drawn
    assert "q30" in drawn
    assert "q1 " not in drawn
