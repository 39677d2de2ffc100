"""Job sets at several sites: places of files, merges where all pieces can be read, waits for such a
site. Source: docs/reference/event-service.md#merging.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.commanding import files, sound
from support.dogs import run as run_dog
from support.event_sets import EventPilot, copies_task, events_task, range_counts, serve, set_jobs
from support.generating import rows
from support.situations import pilots_ask, set_sites

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.service.why import why

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


def read_afar(world: World, site: str, endpoint: str) -> None:
    with world.engine.begin() as tx:
        tx.exec_driver_sql(
            "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, is_local, roles) "
            "VALUES (%s, %s, false, 'read')", (site, endpoint),
        )  # fmt: skip


def two_pieces(world: World, **keys: Any) -> int:
    """A task whose consumers at SITE_A and SITE_B have each left pieces at their own site."""
    task = events_task(world, **BOTH, **keys)
    serve(world)  # the Mover brings the input to SITE_B
    for site, n in (("SITE_A", 2), ("SITE_B", 1)):
        pilot = EventPilot(world, site)
        [job] = pilot.take()
        pilot.process(job, pilot.ask(job, n))
        pilot.end(job)
    serve(world)
    return task


def test_consumers_have_their_files_at_their_own_sites(world: World) -> None:
    """Expected: nSitesPerJob: the first consumer at the brokered site, the second at the other
    one; each reads its input there and stores its log there, for the log has no destination."""
    task = events_task(world, **BOTH)
    assert places(world, task, "consumer") == [
        own("SITE_A", "input", "log"), own("SITE_B", "input", "log")]  # fmt: skip


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
        own(site, *everything) for site in ("SITE_A", "SITE_B", "SITE_B")]  # fmt: skip
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
    """Two zips at SITE_A and one at SITE_B, and no site reads both: the merge waits, with the
    reason. It is looked at after eventservice.retry_s (30 s), not before. SITE_B comes to read
    SITE_A's endpoint: it merges, with the input in its own storage."""
    at(0)
    pilots_ask(world)
    task = two_pieces(world)
    assert set_jobs(world, task, "es_merge") == [("es_merge", "waiting", None)]
    with world.engine.begin() as tx:
        hold = why(tx, task)
    assert hold.facts["jobset_waits"] == "es_no_merge_site"
    assert "No site that is online reads its pieces at SITE_A_DATADISK, SITE_B_DATADISK." in (
        hold.detail)  # fmt: skip
    read_afar(world, "SITE_B", "SITE_A_DATADISK")
    at(29)
    assert serve(world) == 0
    at(31)
    assert serve(world) == 1
    assert set_jobs(world, task, "es_merge") == [("es_merge", "activated", None)]
    assert places(world, task, "es_merge") == [
        ("SITE_B", {"input": "SITE_B_DATADISK", "log": "SITE_A_DATADISK",
                    "output": "SITE_A_DATADISK"})]  # fmt: skip
    with world.engine.begin() as tx:
        assert "jobset_waits" not in why(tx, task).facts
    sound(world)


def test_of_sites_that_read_all_pieces_the_one_with_most_merges(world: World) -> None:
    """SITE_A has two ranges in its storage, SITE_B one; each reads the other's: SITE_A merges."""
    for site, other in (("SITE_A", "SITE_B"), ("SITE_B", "SITE_A")):
        read_afar(world, site, f"{other}_DATADISK")
    task = two_pieces(world)
    assert places(world, task, "es_merge") == [own("SITE_A", "input", "log", "output")]


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
        ("es_merge", "closed", None), ("consumer", "failed", "es_merge_failed")]  # fmt: skip
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
