"""Jobs dealt to shares: none is ever more than a job off its allocation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jedi.model.scheduling.dealing import Dealing
from jedi.model.scheduling.shares import ShareNode, allot


def deal(dealing: Dealing, queues: list[int | None], n: int = 1) -> list[int | None]:
    """Whose jobs the next ones are."""
    found = dealing.deal(queues, n, 1)
    return [queues[i] for i, count in found for _ in range(count)]


def queue(number: int, share: int | None, inside: int | None = None, **more: bool) -> ShareNode:
    return ShareNode(
        number, inside, share, more.get("stretchable", False), more.get("active", True)
    )


@pytest.mark.parametrize("waiting", [[1, 2], [2, 1]])
def test_four_slots_of_an_idle_site(waiting: list[int | None]) -> None:
    """Shares 40 and 60, 4 slots: 1.6 and 2.4 jobs are allocated, so each gets 2, whoever's jobs
    came first. With 1 and 2 jobs the former, which is further behind, gets the next."""
    nodes = [queue(1, 40), queue(2, 60)]
    dealing = Dealing(nodes)
    assert [deal(dealing, waiting)[0] for _ in range(5)] == [2, 1, 2, 1, 2]
    assert sorted(deal(Dealing(nodes), waiting, 4), key=str) == [1, 1, 2, 2]
    dealing.charge(1, -1)
    dealing.charge(2, -1)
    assert deal(dealing, waiting) == [1]


def test_a_share_that_lags_catches_up() -> None:
    """8 cores run, all of the second: the next 8 of 16 bring both to their halves."""
    nodes = [queue(1, 50), ShareNode(2, None, 50, False, True, usage=8)]
    assert deal(Dealing(nodes), [1, 2], 8) == [1] * 8
    dealing = Dealing(nodes)
    assert [deal(dealing, [1, 2])[0] for _ in range(8)] == [1] * 8


def test_a_share_without_jobs_here_leaves_them_to_the_others() -> None:
    """A third queue has half of all but no job here: the others divide by 1 : 3."""
    nodes = [queue(1, 10), queue(2, 30), queue(3, 40)]
    assert deal(Dealing(nodes), [1, 2], 100).count(2) == 75


@pytest.mark.parametrize("n", [1, 3])
def test_queues_outside_the_shares_come_first(n: int) -> None:
    assert deal(Dealing([queue(1, 40), queue(2, None)]), [1, 2], n) == [2] * n
    assert deal(Dealing([queue(1, 40)]), [1, None], n) == [None] * n


@pytest.mark.parametrize("n", [1, 3])
def test_a_share_of_nothing_gets_what_nobody_else_wants(n: int) -> None:
    assert deal(Dealing([queue(1, 0), queue(2, 5)]), [1, 2], n) == [2] * n
    assert deal(Dealing([queue(1, 0), queue(2, 5)]), [1], n) == [1] * n


SHARES = st.one_of(st.sampled_from([1, 10, 97]), st.integers(1, 100))


@st.composite
def trees(draw: st.DrawFn) -> list[ShareNode]:
    """Queues, and partitions of queues, as the JEDI document has them."""
    nodes: list[ShareNode] = []
    for number in range(1, draw(st.integers(1, 5)) + 1):
        share, inside = draw(SHARES), draw(st.integers(0, 4))
        stretchable = draw(st.booleans())
        nodes.append(ShareNode(10 * number, -1 if inside else None, share, stretchable, not inside))
        nodes += [
            ShareNode(
                10 * number + i,
                10 * number,
                draw(SHARES),
                draw(st.booleans()),
                i == 1 or draw(st.booleans()),
            )
            for i in range(1, inside + 1)
        ]
    return nodes


@given(trees(), st.lists(st.integers(1, 3), min_size=1, max_size=60))
@settings(max_examples=300)
def test_no_queue_is_more_than_a_job_off_its_allocation(
    nodes: list[ShareNode], asked: list[int]
) -> None:
    """Idle slots, each active queue with jobs enough: after each request, of any size, what a queue
    or partition runs and its allocation of all that run differ by at most one job."""
    waiting: list[int | None] = [node.queue_id for node in nodes if node.active]
    dealing, running = Dealing(nodes), dict.fromkeys((node.queue_id for node in nodes), 0)
    inside = {node.queue_id: node.partition for node in nodes}
    for n in asked:
        for got in deal(dealing, waiting, n):
            assert got is not None
            running[got] += 1
            if (partition := inside[got]) in running:
                running[partition] += 1
        together = sum(running[node.queue_id] for node in nodes if node.active)
        for one in allot(nodes, together, by_demand=False):
            assert abs(running[one.queue_id] - (one.allocation or 0)) <= 1 + 1e-6
