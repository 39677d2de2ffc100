"""How what there is divides among work queues."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jedi.model.scheduling.shares import ShareNode, allot, distribute

A, B, C, D, D1, D2, D3 = range(1, 8)


def worked(stretch: bool = True, **changes: ShareNode) -> list[ShareNode]:
    """The queues of the worked example of docs/reference/throttler-and-shares.md#shares."""
    return [
        ShareNode(A, None, 40, False, True),
        ShareNode(B, None, 20, False, False),
        ShareNode(C, None, 10, stretch, True),
        ShareNode(D, -1, 30, stretch, False),
        ShareNode(D1, D, 60, False, True),
        ShareNode(D2, D, 30, False, False),
        ShareNode(D3, D, 10, stretch, True),
    ]


def allocations(
    nodes: list[ShareNode], total: float = 10_000, by_demand: bool = False
) -> list[float]:
    found = allot(nodes, total, by_demand=by_demand)
    return [round(one.allocation or 0, 1) for one in found]


def test_the_worked_example() -> None:
    assert allocations(worked()) == [4000, 0, 1500, 4500, 2700, 0, 1800]
    entitled = [one.entitlement for one in allot(worked(), 10_000, by_demand=False)]
    assert entitled == [4000, 2000, 1000, 3000, 2700, 1350, 450]


def test_the_worked_example_if_nobody_is_stretchable() -> None:
    assert allocations(worked(stretch=False)) == [5000, 0, 1250, 3750, 3214.3, 0, 535.7]


def test_partitions_stand_in_partitions() -> None:
    nodes = [
        ShareNode(1, -1, 50, False, False),
        ShareNode(2, 1, 50, False, False),
        ShareNode(3, 2, 1, False, True),
        ShareNode(4, 2, 3, False, True),
        ShareNode(5, 1, 50, False, True),
        ShareNode(6, None, 50, False, True),
    ]
    assert allocations(nodes, 800) == [400, 200, 50, 150, 200, 400]


def test_demand_caps_what_a_queue_gets() -> None:
    nodes = [
        ShareNode(1, None, 40, False, True, demand=3),
        ShareNode(2, None, 40, False, True, demand=1000),
        ShareNode(3, None, 20, True, True, demand=30),
    ]
    assert allocations(nodes, 100, by_demand=True) == [3, 67, 30]
    assert allocations(nodes, 100) == [40, 40, 20]


@pytest.mark.parametrize(
    ("share", "active", "stretchable", "expected"),
    [
        ([0, 10], [True, True], [False, False], [0, 100]),
        ([0, 10], [True, False], [False, False], [100, 0]),
        ([0, 10, 10], [True, True, False], [True, False, False], [0, 100, 0]),
        ([0, 0], [True, True], [False, False], [50, 50]),
        ([5, 5], [False, False], [True, False], [0, 0]),
        ([5, 5, 10], [True, False, False], [False, False, True], [100, 0, 0]),
    ],
    ids=[
        "share 0 gets nothing",
        "unless nobody else works",
        "even stretched",
        "all of share 0",
        "nobody works",
        "who is stretchable does not work",
    ],
)
def test_shares_of_nothing(
    share: list[float], active: list[bool], stretchable: list[bool], expected: list[float]
) -> None:
    _, given_ = distribute(100, np.array(share, float), np.array(active), np.array(stretchable))
    assert given_.tolist() == expected


def test_who_used_least_of_its_share_is_served_first() -> None:
    nodes = [
        ShareNode(1, None, 50, False, True, usage=50),
        ShareNode(2, -1, 50, False, False),
        ShareNode(3, 2, 50, False, True, usage=10),
        ShareNode(4, 2, 50, False, True, usage=0),
        ShareNode(5, None, None, False, True, usage=40),
        ShareNode(6, None, 0, False, True, usage=0),
    ]
    found = {one.queue_id: one for one in allot(nodes, 100, by_demand=False)}
    order = sorted((one for one in found if one != 2), key=lambda q: found[q].place)
    assert order == [5, 4, 3, 1, 6]
    assert found[3].turn == found[4].turn == found[2].turn < found[1].turn
    assert found[5].ratio is None and found[1].ratio == 1.0 and found[6].ratio == float("inf")


_QUEUES = st.lists(
    st.tuples(st.integers(0, 100), st.booleans(), st.booleans(), st.floats(0, 1e5)),
    min_size=1,
    max_size=12,
)


@given(_QUEUES, st.floats(0.1, 1e6))
def test_nothing_idles_while_there_is_demand(
    queues: list[tuple[int, bool, bool, float]], total: float
) -> None:
    share, active, stretchable, demand = (np.array(one) for one in zip(*queues, strict=True))
    entitled, got = distribute(
        total, share.astype(float), active.astype(bool), stretchable.astype(bool), demand
    )
    wanted = np.where(active, demand, 0.0)
    assert (got >= np.minimum(entitled, wanted) - 1e-6).all()
    assert (got <= wanted + 1e-6).all()
    assert got.sum() == pytest.approx(min(total, wanted.sum()), rel=1e-6, abs=1e-6)
