"""Job sets at several sites: places of files, merges where all pieces can be read, waits for such a
site. Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import files, sound
from support.dogs import run as run_dog
from support.event_sets import (
    EventPilot,
    copies_task,
    events_task,
    range_counts,
    ranges,
    serve,
    set_jobs,
)
from support.generating import rows
from support.situations import pilots_ask, read_afar, set_sites

from jedi.agent.base import World
from jedi.eventservice import agent_merges, merge_places
from jedi.jobdispatcher.agent import Adder
from jedi.service.jobs import job_details
from jedi.service.tasks.why import why

BOTH: dict[str, Any] = {"site": "SITE_A,SITE_B", "nSitesPerJob": 2, "nEsConsumers": 2}


def places(world: World, task: int, kind: str) -> list[tuple[str, dict[str, str]]]:
    """Site, and endpoints of files by type, of the jobs of a kind, in their order."""
    query = """
SELECT j.site, jsonb_object_agg(f.type, f.endpoint) AS at FROM jedi_jobs j
JOIN jedi_job_files f USING (pandaid) WHERE j.jeditaskid = :t AND j.kind = :k
GROUP BY j.pandaid, j.site ORDER BY j.pandaid
"""
    return [(row.site, row.at) for row in rows(world, query, t=task, k=kind)]


def own(site: str, *types: str) -> tuple[str, dict[str, str]]:
    return site, dict.fromkeys(types, f"{site}_DATADISK")


def two_pieces(world: World, *, lost: bool = False, start: bool = True, **keys: Any) -> int:
    """A task whose consumers at SITE_A and SITE_B have each left pieces at their own site, two and
    one. SITE_B reads those of SITE_A, or, lost, no longer. `start`: the merge starts, if it can."""
    read_afar(world, "SITE_B", "SITE_A_DATADISK")
    task = events_task(world, **BOTH, **keys)
    serve(world)  # the Mover brings the input to SITE_B
    for site, n in (("SITE_A", 2), ("SITE_B", 1)):
        pilot = EventPilot(world, site)
        [job] = pilot.take()
        pilot.process(job, pilot.ask(job, n))
        pilot.end(job)
    if lost:
        with world.engine.begin() as tx:
            tx.exec_driver_sql("DELETE FROM jedi_site_endpoints WHERE NOT is_local")
    if start:
        serve(world)
    return task


def test_consumers_have_their_files_at_their_own_sites(world: World) -> None:
    """Expected: nSitesPerJob: the first consumer at the brokered site, the second at the other
    one; each reads its input there and stores its log there, for the log has no destination."""
    read_afar(world, "SITE_B", "SITE_A_DATADISK")
    task = events_task(world, **BOTH)
    assert places(world, task, "consumer") == [
        own("SITE_A", "input", "log"),
        own("SITE_B", "input", "log"),
    ]


@pytest.mark.parametrize(
    ("reader", "disk", "sites"),
    [
        (None, "", ["SITE_A", "SITE_A"]),
        ("SITE_A", "SITE_B_DATADISK", ["SITE_A", "SITE_B"]),
        ("SITE_B", "SITE_A_DATADISK", ["SITE_A", "SITE_B"]),
    ],
)
def test_first_consumers_are_where_their_pieces_can_be_merged(
    world: World, reader: str | None, disk: str, sites: list[str]
) -> None:
    """Two consumers, two sites of a job. Expected: no pieces that no single site reads. Where no
    site reads the storage of both, both consumers are at the brokered site."""
    if reader:
        read_afar(world, reader, disk)
    task = events_task(world, **BOTH)
    assert [site for site, _ in places(world, task, "consumer")] == sites


def test_copies_are_at_two_sites_in_any_case(world: World) -> None:
    """Copies of a job leave no pieces."""
    copies = copies_task(world, "storeonce", 2, site="SITE_A,SITE_B", nSitesPerJob=2)
    assert [site for site, _ in places(world, copies, "clone")] == ["SITE_A", "SITE_B"]


@pytest.mark.parametrize(
    ("status", "roles", "second"),
    [
        ("online", "read,write", "SITE_B"),
        ("offline", "read,write", "SITE_A"),
        ("online", "read", "SITE_A"),
    ],
)
def test_a_third_site_joins_two(world: World, status: str, roles: str, second: str) -> None:
    """SITE_C alone reads the storage of SITE_A and SITE_B: consumers are at both if it is online
    and has a storage for the inputs of its merge jobs."""
    set_sites(world, "SITE_C", status=status)
    for disk in ("SITE_A_DATADISK", "SITE_B_DATADISK"):
        read_afar(world, "SITE_C", disk, roles)
    task = events_task(world, **BOTH)
    assert [site for site, _ in places(world, task, "consumer")] == ["SITE_A", second]


def test_a_follower_has_its_files_at_its_own_site(world: World) -> None:
    """Expected: "after no progress at another site": the next one at SITE_B, with its log and
    outputs (a copy) there; its input is brought there."""
    task = copies_task(world, "storeonce", 2, site="SITE_A,SITE_B", nSitesPerJob=2)
    serve(world)
    for site in ("SITE_B", "SITE_A"):
        pilot = EventPilot(world, site)
        [job] = pilot.take()
        pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
        serve(world)
    everything = ("input", "log", "output")
    assert places(world, task, "clone") == [
        own(site, *everything) for site in ("SITE_A", "SITE_B", "SITE_B")
    ]
    pilot = EventPilot(world, "SITE_B")
    [job] = pilot.take()
    pilot.end(job)
    serve(world)
    assert set_jobs(world, task, "clone")[-1] == ("clone", "finished", None)
    assert files(world, task) == {"finished": 1}
    sound(world)


def test_next_consumers_go_where_pieces_can_be_merged(world: World) -> None:
    """No site reads the storage of both. Two consumers at SITE_A make pieces, then one fails there:
    the next one stays at SITE_A, though it has a failure and SITE_B has none. Before there are
    pieces, and where SITE_B reads SITE_A's storage, the failure decides: SITE_B."""
    task = events_task(world, site="SITE_A,SITE_B", nSitesPerJob=2)
    pilot = EventPilot(world, "SITE_A")
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 1))
    pilot.end(job)
    serve(world)
    [job] = pilot.take()
    pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
    serve(world)
    sites = [site for site, _ in places(world, task, "consumer")]
    assert sites == ["SITE_A", "SITE_A", "SITE_A"]
    read_afar(world, "SITE_B", "SITE_A_DATADISK")
    [job] = pilot.take()
    pilot.end(job, "failed", error_code="payload_exit", error_diag="It crashed.")
    serve(world)
    assert [site for site, _ in places(world, task, "consumer")][-1] == "SITE_B"


def test_a_merge_starts_only_where_all_pieces_can_be_read(
    world: World, at: Callable[[float], None]
) -> None:
    """Two zips at SITE_A and one at SITE_B, and no site reads both any more: the merge waits, with
    the reason. It is looked at after eventservice.retry_s (30 s), not before. SITE_B comes to read
    SITE_A's endpoint: it merges, with the input in its own storage."""
    at(0)
    pilots_ask(world)
    task = two_pieces(world, lost=True)
    assert set_jobs(world, task, "es_merge") == [("es_merge", "waiting", None)]
    with world.engine.begin() as tx:
        hold = why(call(tx), task)
    assert hold.facts["jobset_waits"] == "es_no_merge_site"
    assert "No site that is online reads its pieces at SITE_A_DATADISK, SITE_B_DATADISK." in (
        hold.detail
    )
    read_afar(world, "SITE_B", "SITE_A_DATADISK")
    at(29)
    assert serve(world) == 0
    at(31)
    assert serve(world) == 1
    assert set_jobs(world, task, "es_merge") == [("es_merge", "activated", None)]
    assert places(world, task, "es_merge") == [
        (
            "SITE_B",
            {"input": "SITE_B_DATADISK", "log": "SITE_A_DATADISK", "output": "SITE_A_DATADISK"},
        )
    ]
    with world.engine.begin() as tx:
        assert "jobset_waits" not in why(call(tx), task).facts
    sound(world)


def test_of_sites_that_read_all_pieces_the_one_with_most_merges(world: World) -> None:
    """SITE_A has two ranges in its storage, SITE_B one; each reads the other's: SITE_A merges."""
    read_afar(world, "SITE_A", "SITE_B_DATADISK")
    task = two_pieces(world)
    assert places(world, task, "es_merge") == [own("SITE_A", "input", "log", "output")]


def test_pieces_that_no_merge_can_read_are_processed_again(
    world: World, at: Callable[[float], None]
) -> None:
    """Two ranges at SITE_A, one at SITE_B; SITE_A goes offline for good, and SITE_B reads its own
    storage alone. Expected: "processed again (only these ranges), with reason and count": after
    15 min (eventservice.lost_pieces_s) the two ranges of SITE_A are corrupted, and ready with an
    attempt less; a consumer at SITE_B processes them, and SITE_B merges all three."""
    at(0)
    pilots_ask(world)
    task = two_pieces(world, lost=True)
    set_sites(world, "SITE_A", status="offline")
    at(899)
    serve(world)
    assert range_counts(world, task) == {"done": 3}
    at(931)
    serve(world)
    assert ranges(world, task) == {
        1: [("corrupted", 10), ("ready", 9)],
        5: [("done", 10)],
        3: [("corrupted", 10), ("ready", 9)],
    }
    [said] = rows(world, "SELECT wait_code, wait_reason FROM jedi_jobsets")
    assert tuple(said) == (
        "es_pieces_lost",
        "Ranges processed again: 2, with pieces at SITE_A_DATADISK.",
    )
    assert [site for site, _ in places(world, task, "consumer")] == ["SITE_A", "SITE_B", "SITE_B"]
    pilot = EventPilot(world, "SITE_B")
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    [merge] = pilot.take()
    pilot.end(merge)
    while Adder(world).run_once():
        pass
    serve(world)
    assert range_counts(world, task) == {"corrupted": 2, "merged": 3}
    assert files(world, task) == {"finished": 1}
    sound(world)


def test_a_merge_is_tried_at_another_site(world: World) -> None:
    """Both sites read all pieces, and SITE_A has most: it merges, and fails. Expected: the next
    merge job is not where the last one failed, if there is another site: SITE_B; the third one at
    SITE_A again."""
    read_afar(world, "SITE_A", "SITE_B_DATADISK")
    task = two_pieces(world)
    for site in ("SITE_A", "SITE_B"):
        pilot = EventPilot(world, site)
        [merge] = pilot.take()
        pilot.end(merge, "failed", error_code="payload_exit", error_diag="It crashed.")
        while Adder(world).run_once():
            pass
        serve(world)
    assert [site for site, _ in places(world, task, "es_merge")] == ["SITE_A", "SITE_B", "SITE_A"]
    sound(world)


def test_a_merge_starts_only_where_the_broker_sends_it(
    world: World, at: Callable[[float], None]
) -> None:
    """SITE_B alone reads all pieces, and has no pilot for long: the merge waits, with the reason
    and the broker's decision, until pilots come (docs/reference/event-service.md#merging)."""
    at(0)
    pilots_ask(world)
    task = two_pieces(world, start=False)
    set_sites(world, "SITE_B", lastpilot="2020-01-01")
    serve(world)
    assert set_jobs(world, task, "es_merge") == [("es_merge", "waiting", None)]
    with world.engine.begin() as tx:
        hold = why(call(tx), task)
    assert hold.facts["jobset_waits"] == "es_merge_refused"
    assert "No site that reads its pieces takes its merge job: SITE_B." in hold.detail
    assert hold.brokerage is not None
    assert {one.code for one in hold.brokerage.funnel} == {"no_pilots", "merge_elsewhere"}
    pilots_ask(world)
    at(31)
    serve(world)
    assert [site for site, _ in places(world, task, "es_merge")] == ["SITE_B"]
    sound(world)


@pytest.mark.parametrize("change", ["", "offline", "killed"])
def test_a_merge_is_brokered_without_locks(
    world: World, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """While the broker chooses, another transaction locks the job set, its jobs and their datasets
    at once (house rule: no row lock is held across a choice), and may change what the choice is
    about: the merge starts only as the rows are then."""
    task, brokers = two_pieces(world, start=False), []

    def choose(*given: Any) -> Any:
        brokers.append(given[1])
        with world.engine.begin() as other:
            for table in ("jedi_jobsets", "jedi_jobs", "jedi_datasets"):
                query = f"SELECT FROM {table} WHERE jeditaskid = :t FOR UPDATE NOWAIT"
                assert other.execute(text(query), {"t": task}).all()
        if change == "offline":
            set_sites(world, "SITE_B", status="offline")
        if change == "killed":
            [merge] = rows(world, "SELECT merge_pandaid AS id FROM jedi_jobsets")
            with world.engine.begin() as other:
                job_details.cancel(other, "anna", [merge.id], None)
        return merge_places.choose(*given)

    monkeypatch.setattr(agent_merges, "choose", choose)
    serve(world)
    assert len(brokers) == 1
    assert (
        set_jobs(world, task, "es_merge")[0][1]
        == {
            "": "activated",
            "offline": "waiting",
            "killed": "cancelled",
        }[change]
    )
    sound(world)


def test_a_site_that_goes_offline_gives_its_merge_back(world: World) -> None:
    """Both sites read all pieces, and SITE_A has most; it goes offline: SITE_B merges."""
    read_afar(world, "SITE_A", "SITE_B_DATADISK")
    task = two_pieces(world)
    set_sites(world, "SITE_A", status="offline")
    assert run_dog(world, "timeouts") == {"given_back": 1}
    serve(world)
    assert [job[:2] for job in set_jobs(world, task, "es_merge")] == [
        ("es_merge", "closed"),
        ("es_merge", "activated"),
    ]
    assert [site for site, _ in places(world, task, "es_merge")] == ["SITE_A", "SITE_B"]
    sound(world)


def test_a_waiting_merge_times_out_after_its_last_consumer(
    world: World, at: Callable[[float], None]
) -> None:
    """Time-out of waiting merges, 0.5 h: the set is as old as 1 h when its consumer ends, and its
    merge finds no site. It is closed 0.5 h after that end, not at once. Expected: "status=finished
    or failed (jobsubstatus=es_merge_failed) once corresponding ES-merge jobs are finished or
    failed"; the input is tried again."""
    at(0)
    pilots_ask(world)
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    at(3600)
    pilot.end(job)
    set_sites(world, status="offline")
    serve(world)
    at(3600 + 1700)
    run_dog(world, "timeouts")
    assert set_jobs(world, task, "es_merge") == [("es_merge", "waiting", None)]
    at(3600 + 1900)
    run_dog(world, "timeouts")
    serve(world)
    assert set_jobs(world, task) == [
        ("es_merge", "closed", None),
        ("consumer", "failed", "es_merge_failed"),
    ]
    assert files(world, task) == {"ready": 1}
    assert range_counts(world, task) == {"discarded": 3}
    [left] = rows(world, "SELECT wait_code FROM jedi_jobsets")
    assert left.wait_code == "es_no_merge_site"
    sound(world)


def test_an_ended_merge_is_archived_after_its_set_has_ended(
    world: World, at: Callable[[float], None]
) -> None:
    """A merge that finished while no EventService ran for days: its set is merged, not aborted,
    when one runs again."""
    at(0)
    pilots_ask(world)
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 9))
    pilot.end(job)
    serve(world)
    [merge] = pilot.take()
    pilot.end(merge)
    while Adder(world).run_once():
        pass
    at(30 * 86400)
    run_dog(world, "archive")
    serve(world)
    assert set_jobs(world, task, "consumer") == [("consumer", "finished", None)]
    assert range_counts(world, task) == {"merged": 3}
    at(60 * 86400)
    run_dog(world, "archive")
    assert set_jobs(world, task) == []
    sound(world)
