"""How many pilots a site gets, and of which shapes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jedi.model.scheduling.resource_types import ResourceType
from jedi.submitter.plan import SlotDemand, deal, idle, ramp
from jedi.submitter.shapes import Shape, shapes


@pytest.mark.parametrize(
    ("waiting", "pilots", "busy", "n_slots", "wanted"),
    [
        (0, 0, 0, 4, 0),
        (1, 0, 0, 4, 1),
        (9, 0, 0, 4, 4),
        (1, 1, 0, 4, 0),  # an idle pilot will take it
        (1, 1, 1, 4, 1),
        (3, 3, 2, 4, 1),
        (9, 4, 4, 4, 0),
        (9, 6, 6, 4, 0),  # the site has lost slots
        (2, 1, 3, 4, 2),  # jobs of pilots that came by themselves
    ],
)
def test_how_many(waiting: int, pilots: int, busy: int, n_slots: int, wanted: int) -> None:
    wants = [SlotDemand(1, waiting, pilots, 0, 99)]
    assert deal(wants, idle(wants, busy), n_slots - pilots) == [wanted]


def test_how_many_are_idle() -> None:
    small, large = SlotDemand(1, 0, 5, 2, 0), SlotDemand(8, 0, 4, 1, 0)
    assert idle([small, large], 6) == [2, 1]  # those that have not begun
    assert idle([small, large], 5) == [3, 2]  # and one more of either
    assert idle([small, large], 9) == [0, 0]
    assert idle([small, large], 0) == [5, 4]


@pytest.mark.parametrize(
    ("small", "large", "room", "wanted"),
    [
        (
            SlotDemand(1, 9, 0, 0, 9),
            SlotDemand(8, 9, 0, 0, 9),
            24,
            [8, 2],
        ),  # cores are shared alike
        (SlotDemand(1, 3, 0, 0, 9), SlotDemand(8, 9, 0, 0, 9), 24, [3, 2]),
        (SlotDemand(1, 9, 0, 0, 9), SlotDemand(8, 0, 0, 0, 9), 24, [9, 0]),
        (SlotDemand(1, 9, 9, 0, 9), SlotDemand(8, 1, 0, 0, 9), 7, [0, 0]),  # the large one is next
        (SlotDemand(1, 9, 9, 0, 9), SlotDemand(8, 1, 0, 0, 0), 7, [7, 0]),  # but not while it fails
        (SlotDemand(1, 9, 7, 0, 9), SlotDemand(8, 1, 1, 0, 9), 7, [1, 0]),
    ],
)
def test_shapes_share_the_cores(
    small: SlotDemand, large: SlotDemand, room: int, wanted: list[int]
) -> None:
    assert deal([small, large], [0, 0], room) == wanted


TYPES = [
    ResourceType("SCORE", 1, 1, None, 2000),
    ResourceType("MCORE", 2, None, None, 2000),
    ResourceType("SCORE_HIMEM", 1, 1, 2000, None),
    ResourceType("MCORE_HIMEM", 2, None, 2000, None),
]


def shaped(factor: float = 0.9, **site: Any) -> list[Shape]:
    given = {"capability": "ucore", "core_count": 8, "max_rss": 32000, "max_wdir": 800, **site}
    return shapes(SimpleNamespace(**given), TYPES, factor)


def test_the_shapes_of_a_site() -> None:
    assert shaped(capability=None) == [Shape("", 8, 32000, 800)]
    assert shaped() == [
        Shape("SCORE", 1, 2000, 100, 1, 0),
        Shape("MCORE", 8, 16000, 800, 2, 0),
        Shape("SCORE_HIMEM", 1, 4000, 100, 1, 2001),
        Shape("MCORE_HIMEM", 8, 32000, 800, 2, 16001),
    ]
    # who insists on all that is asked for has jobs of 2222 MB of which 0.9 are below the border
    assert shaped(1.0)[:1] == [Shape("SCORE", 1, 2223, 100, 1, 0)]
    assert [shape.name for shape in shaped(max_rss=16000)] == ["SCORE", "MCORE"]
    assert [shape.name for shape in shaped(core_count=1)] == ["SCORE", "SCORE_HIMEM"]
    assert [shape.memory_mb for shape in shaped(max_rss=0)] == [2000, 16000, 0, 0]


@pytest.mark.parametrize(
    ("pilots", "queued", "failing", "most"),
    [
        (0, 0, False, 10),
        (10, 10, False, 0),
        (10, 4, False, 6),
        (50, 0, False, 50),  # as many again as run
        (60, 20, False, 20),
        (3, 3, True, 0),
        (3, 0, True, 1),  # one tries
    ],
)
def test_ramp(pilots: int, queued: int, failing: bool, most: int) -> None:
    assert ramp(pilots, queued, 10, failing) == most
