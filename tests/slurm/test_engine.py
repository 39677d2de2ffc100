"""Pilots in a real Slurm: sent, found again, ended, lost."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from slurm.cluster import Cluster
from sqlalchemy import Row
from support.situations import set_sites
from support.submitter import Field, at_end

from jedi.agent.base import World
from jedi.core import clock
from jedi.submitter import batch
from jedi.submitter.agent import Submitter
from jedi.taskbuffer.sites import pilots

pytestmark = pytest.mark.long


@pytest.fixture
def field(world: World, cluster: Cluster) -> Iterator[Field]:
    field = Field(world)
    set_sites(field.engine, "SITE_A", submitter="slurm", queue="main")
    field.knob("submitter.queue_s", 0.1)
    yield field
    clock.turn_to(None)
    if left := cluster.jobs():
        subprocess.run(["scancel", *left], check=True)
    field.until(lambda: cluster.jobs() == [])
    field.close()


def test_pilots_run_in_slurm_take_several_jobs_and_leave(field: Field, cluster: Cluster) -> None:
    field.serve()
    field.knob("pilot.idle_s", 0.5)
    field.jobs(5, "echo hello > $OUT")
    submitter = Submitter(field.world)
    field.until(lambda: len(field.pilots("batch_id IS NOT NULL")) == 2, submitter)
    field.until(at_end(field, 5), submitter)
    told = field.sql("SELECT delegation_kind, delegation_queue, delegation_id FROM jedi_jobs")
    sent = {pilot.batch_id for pilot in field.pilots()}
    assert {(row[0], row[1]) for row in told} == {("slurm", "main")}
    assert {row.delegation_id for row in told} <= sent
    field.until(lambda: not field.pilots("endtime IS NULL"), submitter)
    assert [pilot.status for pilot in field.pilots()] == ["ended", "ended"]
    assert field.sql("SELECT count(*) FROM jedi_tokens WHERE revoked_at IS NULL")[0][0] == 0
    assert field.sql("SELECT count(*) FROM jedi_site_metrics")[0][0] == 0
    place = field.home.path / "batch"
    code = next(place.glob("pilot.*"))
    left = [path for path in place.rglob("*") if path.is_file() and code not in path.parents]
    assert sorted(path.name for path in left) == ["launcher_lib.sh", "single_launch.sh"]


def running(field: Field, submitter: Submitter) -> Row[Any]:
    """A pilot that has a job."""
    field.serve()
    field.jobs(1, "sleep 1000")
    field.until(lambda: field.statuses() == ["running"], submitter)
    (pilot,) = field.pilots()
    return pilot


def test_a_killed_pilot_is_noticed_and_its_job_fails(field: Field, cluster: Cluster) -> None:
    submitter = Submitter(field.world)
    pilot = running(field, submitter)
    cluster.pilots()[pilot.pilot_id].signal(signal.SIGKILL)
    field.until(lambda: field.pilots("endtime IS NOT NULL"), submitter)
    (job,) = field.sql("SELECT * FROM jedi_jobs")
    assert (job.status, job.error_code, job.error_source) == ("failed", "lost_pilot", "pilot")
    how = f"(slurm job {pilot.batch_id}) ended with exit code 137"
    assert job.error_diag == f"Pilot {pilot.pilot_id} {how} while it had this job."
    assert [(p.status, p.endtime is None) for p in field.pilots()] == [("lost", False)]


def test_a_pilot_that_slurm_ends_says_so_itself(field: Field) -> None:
    submitter = Submitter(field.world)
    pilot = running(field, submitter)
    subprocess.run(["scancel", pilot.batch_id], check=True)
    field.until(lambda: field.pilots("endtime IS NOT NULL"), submitter)
    (job,) = field.sql("SELECT * FROM jedi_jobs")
    assert (job.pilot_result, job.error_code) == ("failed", "pilot_terminated")
    assert field.sql("SELECT count(*) FROM jedi_site_metrics")[0][0] == 0  # the site does run jobs


def test_a_submission_that_nobody_noted_is_found_by_name(field: Field, cluster: Cluster) -> None:
    field.jobs(1, ":")
    set_sites(field.engine, "SITE_A", queue=None, nslots=1)
    with field.engine.begin() as tx:
        (visit,) = Submitter(field.world).claim(tx, 10)
    (handle,) = Submitter(field.world).work(visit).found().values()
    (pilot,) = field.pilots()
    assert (pilot.status, pilot.batch_id) == ("submitted", None)
    Submitter(field.world).run_once()
    (pilot,) = field.pilots()
    assert pilot.batch_id == handle.batch_id


def test_what_was_never_submitted_makes_room(field: Field, cluster: Cluster) -> None:
    field.jobs(1, ":")
    with field.engine.begin() as tx:
        Submitter(field.world).claim(tx, 10)
    submitter = Submitter(field.world)
    submitter.run_once()
    assert [p.endtime for p in field.pilots()] == [None]
    clock.turn_to(clock.now() + timedelta(seconds=batch.START_S + 1))
    submitter._due.clear()
    submitter.run_once()
    field.until(lambda: len(field.pilots()) == 2, submitter)
    assert [(p.status, p.endtime is None) for p in field.pilots()] == [
        ("ended", False),
        ("submitted", True),
    ]


def test_a_pilot_that_goes_on_although_it_has_ended_is_cancelled(
    field: Field, cluster: Cluster
) -> None:
    field.jobs(2, ":")
    subprocess.run(["scontrol", "update", "PartitionName=main", "State=DOWN"], check=True)
    submitter = Submitter(field.world)
    submitter.run_once()
    first, second = cluster.jobs()
    with field.engine.begin() as tx:
        pilots.END_PILOTS.run(
            tx,
            status="lost",
            ids=[p.pilot_id for p in field.pilots() if p.batch_id == first],
            tidy=True,
        )
    field.until(lambda: first not in cluster.jobs(), submitter)
    subprocess.run(["scontrol", "update", "PartitionName=main", "State=UP"], check=True)
    assert second


def test_pilots_that_wait_for_nothing_are_cancelled(field: Field, cluster: Cluster) -> None:
    field.jobs(2, ":")
    field.knob("pilot.idle_s", 0.1)
    subprocess.run(["scontrol", "update", "PartitionName=main", "State=DOWN"], check=True)
    submitter = Submitter(field.world)
    submitter.run_once()
    assert len(cluster.jobs()) == 2
    field.sql("DELETE FROM jedi_job_ready")
    field.until(lambda: cluster.jobs() == [], submitter)
    field.until(lambda: not field.pilots("endtime IS NULL"), submitter)
    subprocess.run(["scontrol", "update", "PartitionName=main", "State=UP"], check=True)
    assert field.sql("SELECT count(*) FROM jedi_site_metrics")[0][0] == 0


def test_pilots_of_a_unified_site_ask_for_parts_of_its_slots(field: Field) -> None:
    set_sites(field.engine, "SITE_A", capability="ucore", corecount=4)
    field.serve()
    for cores in (1, 4):
        field.jobs(1, "sleep 1000", cores=cores)
    submitter = Submitter(field.world)
    field.until(lambda: field.statuses() == ["running"] * 2, submitter)
    said = subprocess.run(
        ["squeue", "--noheader", "--format=%j|%C"], check=True, capture_output=True, text=True
    ).stdout
    sizes = {"SCORE": 1, "MCORE": 4}
    assert sorted(said.split()) == sorted(
        f"{pilot.pilot_id}|{sizes[pilot.resource_type]}" for pilot in field.pilots()
    )
