"""Sites of merge jobs and of next consumers: pieces first, then the destination, the nucleus, and
the sites that the broker chose. Source: docs/reference/event-service.md#merging."""

from __future__ import annotations

import pytest
from support.event_sets import EventPilot, events_task, serve
from support.generating import rows
from support.situations import set_sites

from jedi.agent.base import World
from jedi.eventservice.near import merge_site, next_site
from jedi.taskbuffer.events.set_ends import NearSite


def sites(*ranked: tuple[int, str, int]) -> list[NearSite]:
    return [NearSite(1, *one) for one in ranked]


@pytest.mark.parametrize(
    ("ranked", "site"),
    [
        ([(1, "B", 2), (1, "A", 1), (4, "A", 1)], "B"),
        ([(1, "B", 2), (1, "A", 2)], "A"),
        ([(2, "C", 1), (3, "D", 1), (4, "A", 1)], "C"),
        ([(3, "D", 1), (4, "A", 1)], "D"),
        ([(5, "E", 9), (4, "A", 1)], "A"),
        ([], None),
    ],
)
def test_merges_run_where_most_pieces_are(
    ranked: list[tuple[int, str, int]], site: str | None
) -> None:
    """Expected: "site near the pieces (destination, object store or nucleus)"."""
    found = merge_site(sites(*ranked))
    assert (found and found[0]) == site


@pytest.mark.parametrize(
    ("last", "progress", "site"),
    [("A", True, "A"), ("A", False, "B"), ("B", True, "B"), (None, True, "A"), ("C", True, "A")],
)
def test_the_next_consumer_goes_where_the_broker_chose(
    last: str | None, progress: bool, site: str
) -> None:
    """After progress at the same site, else at another one; never where only pieces are."""
    assert next_site(sites((1, "Z", 9), (4, "A", 1), (5, "B", 1)), last, progress) == site


def test_without_another_site_the_same_one_is_tried_again() -> None:
    assert next_site(sites((4, "A", 1)), "A", False) == "A"
    assert next_site(sites((1, "Z", 9)), "Z", True) is None


def test_the_merge_job_moves_to_the_pieces_that_can_be_read(world: World) -> None:
    """Pieces lie at SITE_A, which is offline, and SITE_B reads its endpoint: the merge job starts
    at SITE_B, and the statistics of jobs follow."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    with world.engine.begin() as tx:
        tx.exec_driver_sql("INSERT INTO jedi_site_endpoints (site, ddm_endpoint, is_local) "
                           "VALUES ('SITE_B', 'SITE_A_DATADISK', false)")  # fmt: skip
    set_sites(world, "SITE_A", status="offline")
    serve(world)
    [merge] = rows(world, "SELECT site, status FROM jedi_jobs WHERE jeditaskid = :t "
                   "AND kind = 'es_merge'", t=task)  # fmt: skip
    assert tuple(merge) == ("SITE_B", "activated")
