"""Placeholders: co-jumbo jobs at WAITING_CO_JUMBO, while jumbo jobs process their events.

Expected values: JEDI document, "Jumbo jobs and co-jumbo jobs": "Jumbo jobs can be generated when
the PQ sets useJumbo and is lack of jumbo jobs, even if other PQs are full and cannot accept more
co-jumbo jobs. In this case, fake co-jumbo jobs are generated with computingSite=WAITING_CO_JUMBO
and they are in waiting state until real co-jumbo jobs are generated or all events in corresponding
jobsets are processed"; "The JEDI_Datasets table": NFILESWAITING, "the number of files waiting for
real co-jumbo jobs"; IS_WAITING, "set Y if waiting for real co-jumbo jobs".
"""

from __future__ import annotations

from typing import Any

from support.calls import call
from support.commanding import files, sound
from support.dogs import run as run_dog
from support.event_sets import EventPilot, jumbo_jobs_task, range_counts, serve, set_jobs
from support.generating import generate, rows
from support.situations import set_sites

from jedi.agent.base import World
from jedi.jobdispatcher.agent import Adder
from jedi.service.jobs import job_details
from jedi.service.tasks.why import why
from jedi.taskbuffer.db import knobs

FAKE = ("co_jumbo", "waiting", None)


def waiting_task(world: World, files: int = 2, **keys: Any) -> int:
    """A task of job sets of three ranges, whose co-jumbo jobs no site takes now."""
    return jumbo_jobs_task(world, "offline", files=files, **keys)


def waiting(world: World, task: int) -> tuple[int, int]:
    """Files of a task that wait for real co-jumbo jobs: by the dataset, by themselves."""
    [(counted, flagged)] = rows(
        world,
        "SELECT sum(nfileswaiting), (SELECT count(*) FROM jedi_dataset_contents c "
        "WHERE c.jeditaskid = :t AND c.is_waiting = 'Y') FROM jedi_datasets d "
        "WHERE d.jeditaskid = :t",
        t=task,
    )
    return counted, flagged


def merged(world: World) -> None:
    """JEDI merges what is to be merged, at any site."""
    for site in ("SITE_A", "SITE_B"):
        due = rows(
            world,
            "SELECT pandaid FROM jedi_jobs WHERE kind = 'es_merge' "
            "AND status = 'activated' AND site = :s",
            s=site,
        )
        pilot = EventPilot(world, site)
        for job in pilot.take(len(due)) if due else ():
            pilot.end(job)
    while Adder(world).run_once():
        pass
    serve(world)


def test_job_sets_without_a_site_have_placeholders(world: World) -> None:
    """Each job set waits with a fake co-jumbo job in waiting at WAITING_CO_JUMBO; its file is
    running, and flagged; `why` says so, with the brokerage that found no site."""
    task = waiting_task(world)
    assert set_jobs(world, task) == [("es_merge", "waiting", None)] * 2 + [FAKE] * 2
    sites = rows(world, "SELECT DISTINCT site FROM jedi_jobs WHERE jeditaskid = :t", t=task)
    assert [site for (site,) in sites] == ["WAITING_CO_JUMBO"]
    assert range_counts(world, task) == {"ready": 6}
    assert files(world, task) == {"running": 2}
    assert waiting(world, task) == (2, 2)
    run_dog(world, "timeouts")
    assert serve(world) == 0
    assert set_jobs(world, task, "co_jumbo") == [FAKE] * 2
    with world.engine.begin() as tx:
        found = why(call(tx), task)
    assert found.facts["files_waiting_co_jumbo"] == 2
    assert "Input files that wait for a site: 2;" in found.detail
    assert found.brokerage is not None and found.brokerage.chosen == ()
    sound(world)


def test_jumbo_jobs_process_events_of_placeholders(world: World) -> None:
    """All events of a job set are processed by a jumbo job: the hourly sweep ends its placeholder,
    and the merge follows."""
    task = waiting_task(world)
    assert run_dog(world, "jumbo_jobs") == {"added": 1}
    serve(world)
    jumbo = EventPilot(world, "SITE_B")
    [big] = jumbo.take()
    jumbo.process(big, jumbo.ask(big, 3))
    assert run_dog(world, "co_jumbo") == {"closed": 1}
    serve(world)
    assert waiting(world, task) == (1, 1)
    assert set_jobs(world, task, "co_jumbo") == [("co_jumbo", "closed", "es_unused"), FAKE]
    merged(world)
    assert range_counts(world, task) == {"merged": 3, "ready": 3}
    assert files(world, task) == {"finished": 1, "running": 1}
    jumbo.process(big, jumbo.ask(big, 3))
    jumbo.end(big)
    serve(world)
    assert run_dog(world, "co_jumbo") == {"closed": 1}
    serve(world)
    merged(world)
    assert files(world, task) == {"finished": 2}
    assert waiting(world, task) == (0, 0)
    sound(world)


def test_real_co_jumbo_jobs_take_the_places_of_placeholders(world: World) -> None:
    """SITE_A takes jobs again: each placeholder is closed, and a real co-jumbo job processes the
    rest of its job set, which a jumbo job has begun."""
    task = waiting_task(world)
    assert run_dog(world, "waiting_co_jumbo") == {}
    run_dog(world, "jumbo_jobs")
    serve(world)
    jumbo = EventPilot(world, "SITE_B")
    [big] = jumbo.take()
    jumbo.process(big, jumbo.ask(big, 2))
    set_sites(world, "SITE_A", status="online")
    assert run_dog(world, "waiting_co_jumbo") == {"placed": 2}
    serve(world)
    assert waiting(world, task) == (0, 0)
    assert (
        set_jobs(world, task, "co_jumbo")
        == [("co_jumbo", "closed", "es_unused")] * 2 + [("co_jumbo", "activated", None)] * 2
    )
    small = EventPilot(world)
    for one, n in zip(small.take(2), (1, 3), strict=True):
        small.process(one, found := small.ask(one, 9))
        assert len(found) == n
        small.end(one)
    serve(world)
    jumbo.end(big)
    serve(world)
    merged(world)
    assert range_counts(world, task) == {"merged": 6}
    assert files(world, task) == {"finished": 2}
    assert run_dog(world, "waiting_co_jumbo") == {}
    sound(world)


def test_placeholders_stay_where_pieces_could_not_be_merged(world: World) -> None:
    """SITE_A takes jobs again, but reads no pieces of SITE_B, where a jumbo job has left one of the
    first job set. Expected: none while the jumbo job may leave pieces of both; when it has ended,
    one for the second job set alone, though the first comes before it on a page of one job set."""
    task = waiting_task(world)
    run_dog(world, "jumbo_jobs")
    serve(world)
    jumbo = EventPilot(world, "SITE_B")
    [big] = jumbo.take()
    jumbo.process(big, jumbo.ask(big, 1))
    with world.engine.begin() as tx:
        knobs.put(tx, "jobgen.n_files", 1, "test")
        tx.exec_driver_sql(
            "DELETE FROM jedi_site_endpoints WHERE site = 'SITE_A' "
            "AND ddm_endpoint = 'SITE_B_DATADISK'"
        )
    world.refresh()
    set_sites(world, "SITE_A", status="online")
    assert run_dog(world, "waiting_co_jumbo") == {}
    jumbo.end(big)
    serve(world)
    assert run_dog(world, "waiting_co_jumbo") == {"placed": 1}
    serve(world)
    assert waiting(world, task) == (1, 1)
    assert sorted(set_jobs(world, task, "co_jumbo")) == [
        ("co_jumbo", "activated", None),
        ("co_jumbo", "closed", "es_unused"),
        FAKE,
    ]
    assert run_dog(world, "waiting_co_jumbo") == {}
    sound(world)


def test_killed_placeholders_leave_no_file_that_waits(world: World) -> None:
    """Its user kills all jobs of a task: the inputs come back, and new job sets wait in their
    turn."""
    task = waiting_task(world)
    ids = [one.pandaid for one in rows(world, "SELECT pandaid FROM jedi_jobs")]
    with world.engine.begin() as tx:
        job_details.cancel(tx, "anna", ids, None)
    assert generate(world) == 1  # before the ends are booked
    assert waiting(world, task) == (2, 2)
    serve(world)
    assert waiting(world, task) == (2, 2)
    assert set_jobs(world, task, "co_jumbo")[2:] == [FAKE] * 2
    sound(world)


def test_no_placeholders_without_a_site_for_jumbo_jobs(world: World) -> None:
    """Nobody would process their events: the task is pending, as others are."""
    task = waiting_task(world, nJumboJobs=None)
    assert set_jobs(world, task) == []
    assert waiting(world, task) == (0, 0)


def test_the_sweep_ends_co_jumbo_jobs_whose_events_others_have_processed(world: World) -> None:
    """Expected: "finishes them if all events in corresponding jobsets are done", whoever processed
    them: one co-jumbo job has, and its pilot is still there; the other one waits in vain."""
    task = jumbo_jobs_task(world, "online", nEsConsumers=2)
    assert run_dog(world, "jumbo_jobs") == {"added": 1}
    small = EventPilot(world)
    [one] = small.take()
    small.process(one, small.ask(one, 3))
    assert run_dog(world, "co_jumbo") == {"closed": 1}
    small.end(one)
    serve(world)
    assert range_counts(world, task) == {"done": 3}
    sound(world)
