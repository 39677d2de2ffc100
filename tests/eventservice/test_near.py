"""Sites of merge jobs and of next consumers: pieces first, then the destination, the nucleus, and
the sites that the broker chose. Source: docs/reference/event-service.md#merging."""

from __future__ import annotations

import pytest
from support.event_sets import EventPilot, events_task, serve
from support.generating import rows
from support.situations import set_sites

from jedi.agent.base import World
from jedi.eventservice.set_sites import merge_site, next_site
from jedi.taskbuffer.events.set_ends import ConsumerSite, NearSite

FOUND = [ConsumerSite(1, site, at, 0, f"{site}_DISK") for at, site in enumerate("ABC", 1)]
SITES = "SELECT site FROM jedi_jobs WHERE jeditaskid = :t AND kind = 'consumer' ORDER BY pandaid"


def sites(*ranked: tuple[int, str, int]) -> list[NearSite]:
    return [NearSite(1, *one, False) for one in ranked]


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
    found = merge_site(sites(*ranked), dict.fromkeys("ABCDE", 1.0))
    assert (found and found[0]) == site


@pytest.mark.parametrize(("other", "site"), [(6, "B"), (7, "A")])
def test_a_merge_that_failed_is_tried_elsewhere(other: int, site: str) -> None:
    """Not where the last one failed, if there is another site; a queue of jumbo jobs alone, where
    merges find no slot, is none."""
    near = [NearSite(1, 1, "A", 9, True), NearSite(1, other, "B", 1, False)]
    found = merge_site(near, {"A": 1.0, "B": 1.0})
    assert (found and found[0]) == site


@pytest.mark.parametrize(
    ("weights", "site"), [({"A": 1.0, "B": 2.0}, "B"), ({"A": 1.0}, "A"), ({}, None)]
)
def test_of_equally_near_sites_the_broker_decides(
    weights: dict[str, float], site: str | None
) -> None:
    """Those that its filters pass, by weight, not by name."""
    found = merge_site(sites((1, "A", 2), (1, "B", 2)), weights)
    assert (found and found[0]) == site


@pytest.mark.parametrize(
    ("last", "progress", "site"),
    [("A", True, "A"), ("A", False, "B"), ("B", True, "B"), (None, True, "A"), ("D", True, "A")],
)
def test_the_next_consumer_goes_where_the_broker_chose(
    last: str | None, progress: bool, site: str
) -> None:
    """After progress at the same site, else at another one; never where only pieces are."""
    assert next_site(FOUND, last, progress, [last or ""] * (not progress)) == site


def test_without_another_site_the_same_one_is_tried_again() -> None:
    assert next_site(FOUND[:1], "A", False, ["A"]) == "A"
    assert next_site([], "Z", True) is None


@pytest.mark.parametrize(
    ("failures", "failing", "site"),
    [
        ((0, 0, 0), ["A"], "B"),
        ((0, 0, 0), ["A", "B"], "C"),
        ((1, 0, 0), ["B"], "C"),
        ((1, 1, 1), [], "B"),
        ((2, 1, 1), ["C"], "B"),
    ],
)
def test_a_failing_site_is_avoided(
    failures: tuple[int, int, int], failing: list[str], site: str
) -> None:
    """Expected: where fewest consumers of the job set failed; of these another site than the last
    one, and the one that the broker ranked first."""
    found = [one._replace(failures=n) for one, n in zip(FOUND, failures, strict=True)]
    assert next_site(found, "A", False, failing) == site


def test_the_next_consumer_goes_to_a_site_that_the_broker_also_found(world: World) -> None:
    """One consumer at a time, at SITE_A; both SITE_A and SITE_B can do the task. It fails at
    SITE_A: the next one is at SITE_B, where its input is brought. That one makes progress: the
    third one stays there."""
    set_sites(world, "SITE_B", corecount=1)
    task = events_task(world, site="SITE_A,SITE_B")
    [first] = rows(world, SITES, t=task)
    other = {"SITE_A": "SITE_B", "SITE_B": "SITE_A"}[first.site]
    pilot = EventPilot(world, first.site)
    [job] = pilot.take()
    pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
    serve(world)
    assert [one.site for one in rows(world, SITES, t=task)] == [first.site, other]
    pilot = EventPilot(world, other)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 1))
    pilot.end(job)
    serve(world)
    assert [one.site for one in rows(world, SITES, t=task)] == [first.site, other, other]


def test_the_merge_job_moves_to_the_pieces_that_can_be_read(world: World) -> None:
    """Pieces lie at SITE_A, which is offline, and SITE_B reads its endpoint: the merge job starts
    at SITE_B, and the statistics of jobs follow."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    with world.engine.begin() as tx:
        tx.exec_driver_sql(
            "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, is_local) "
            "VALUES ('SITE_B', 'SITE_A_DATADISK', false)"
        )
    set_sites(world, "SITE_A", status="offline")
    serve(world)
    [merge] = rows(
        world,
        "SELECT site, status FROM jedi_jobs WHERE jeditaskid = :t AND kind = 'es_merge'",
        t=task,
    )
    assert tuple(merge) == ("SITE_B", "activated")
