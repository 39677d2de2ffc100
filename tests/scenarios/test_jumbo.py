"""The jumbo example end to end, while jumbo pilots die: a large queue processes events of all files
of a task, and each event is merged exactly once. See docs/reference/event-service.md#jumbo-jobs."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from copy import deepcopy

import pytest
import yaml
from scenarios.real_system import SITES, System, until
from sqlalchemy import text
from support.calls import call

from jedi.core.settings import caller
from jedi.demo.__main__ import still_running
from jedi.service.events import task_events
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.tasks import task_details
from jedi.standalone.installation import packaged

pytestmark = pytest.mark.long

FILES, EVENTS = 4, 60
KILLS = 3


@pytest.fixture(scope="module")
def system(home: System) -> System:
    """SITE_A has one slot, so that jumbo jobs have time; LARGE, of the example, shares its
    storage."""
    large = yaml.safe_load((packaged("examples") / "events" / "large.yaml").read_text())
    large[0]["endpoints"] = deepcopy(SITES[0]["endpoints"])
    home.site_file.write_text(yaml.safe_dump([{**SITES[0], "nslots": 1}, *large]))
    home.up()
    for name, value in {
        "watchdog.jumbo_jobs_period_s": 0.5,
        "watchdog.co_jumbo_period_s": 1,
        "eventservice.retry_s": 1,
        "pilot.zip_ranges": 2,
    }.items():
        home.put(name, value)
    home.seeds(FILES, EVENTS)
    return home


def submit(system: System) -> int:
    examples = packaged("examples")
    document = (examples / "jumbo.yaml").read_text()
    with system.engine.begin() as tx:
        ddm = system.ddm(tx)
        return storing.submit(
            tx, ddm, examined(Document(document, "yaml", examples), caller())
        ).jedi_task_id


def jumbo_pilots(system: System) -> list[int]:
    """The processes of pilots of the large queue, which has jumbo jobs alone."""
    return [
        pid
        for pid, command in still_running(system.home).items()
        if "--pilot-id" in command and "--site LARGE" in command
    ]


def reported(system: System) -> int:
    """Ranges that jumbo jobs have processed."""
    with system.engine.begin() as tx:
        query = "SELECT count(*) FROM jedi_events WHERE is_jumbo = 1 AND status IN (3, 6, 9)"
        return int(tx.scalar(text(query)) or 0)


def processed(system: System) -> bool:
    """Whether jobs have processed all ranges."""
    with system.engine.begin() as tx:
        query = "SELECT bool_and(status IN (3, 6, 9)) FROM jedi_events"
        return bool(tx.scalar(text(query)))


def until_more(system: System, before: int) -> None:
    """Wait for more reports of jumbo jobs, or for the ordinary ones to have taken all the rest."""
    until(lambda: reported(system) > before or processed(system), "jumbo jobs process ranges")


def merged(system: System, task: int) -> int:
    """Events of merged ranges: the EventService notes them after the end of the merge job."""
    with system.engine.begin() as tx:
        found = task_events.show(call(tx), task, None, status=None, limit=1)
    return {one.status: one.n_events for one in found.statuses}.get("merged", 0)


@pytest.mark.timeout(300)
def test_jumbo_pilots_die(system: System) -> None:
    """SIGKILL for jumbo pilots at work, three times, each after some ranges were reported. Their
    lost ranges go to others; what they reported stays."""
    task = submit(system)
    killed = 0
    for _ in range(KILLS):
        until_more(system, reported(system))
        for pid in jumbo_pilots(system)[:1]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert killed >= 2
    assert system.settle(task) == ["done"]

    written = [
        [int(line.split()[0]) for line in path.read_text().splitlines()]
        for path in system.outputs(task)
    ]
    assert sorted(n for one in written for n in one) == list(range(1, FILES * EVENTS + 1))
    assert all(one == sorted(one) for one in written)
    until(lambda: merged(system, task) == FILES * EVENTS, "all ranges are merged")
    assert reported(system) > 0
    with system.engine.begin() as tx:
        jobs = task_details.jobs(tx, task)
    assert {job.site for job in jobs if job.kind == "jumbo"} == {"LARGE"}
    assert {job.site for job in jobs if job.kind in ("consumer", "co_jumbo")} == {"SITE_A"}
    assert ("jumbo", "lost_pilot") in {(job.kind, job.error_code) for job in jobs}
    system.check()
