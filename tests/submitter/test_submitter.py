"""The local submitter: real pilots, a real service, real deaths."""

# Raw UPDATEs: sites change in every way.

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row
from support.situations import set_sites
from support.submitter import Field, at_end

from jedi.core import clock
from jedi.host import processes
from jedi.host.home import SystemAccount
from jedi.host.processes import Process
from jedi.submitter import local
from jedi.submitter.agent import Submitter
from jedi.submitter.interface import KnownPilot, Slot
from jedi.submitter.local import LocalEngine
from jedi.submitter.shapes import Shape

# --------------------------------------------------------------------------------------- pure


def test_the_name_of_a_pilot_ends_its_command_line() -> None:
    slot = Slot("HERE", Shape("", 2, 0, 0), 5, 1.0, 30.0, Path("/w"), "unix:/s", sys.executable)
    line = local.command(slot, "HERE.1", None)
    assert line[-2:] == ["--pilot-id", "HERE.1"]
    assert "--payload-user" not in line
    line = local.command(slot, "HERE.1", SystemAccount(64001, 64001))
    assert line[line.index("--payload-user") + 1] == "64001:64001"
    line = local.command(replace(slot, path="/opt/bin"), "HERE.1", None)
    assert line[line.index("--path") + 1] == "/opt/bin"


# ------------------------------------------------------------------------------- with a world


def alive(pid: int) -> bool:
    return processes.started(pid) is not None


def test_pilots_are_sent_up_to_the_slots_and_do_the_work(field: Field) -> None:
    field.serve()
    field.jobs(5, "echo hello > $OUT; sleep 0.2")
    submitter = Submitter(field.world)
    assert submitter.run_once() == 1
    assert [p.status for p in field.pilots()] == ["running"] * 2
    assert all(p.pid and p.token_hash for p in field.pilots())
    assert submitter.run_once() == 0
    field.until(at_end(field, 5), submitter)
    assert len(field.pilots()) == 2
    results = field.sql("SELECT DISTINCT pilot_result, error_diag FROM jedi_jobs")
    assert [tuple(row) for row in results] == [("finished", None)]
    field.until(lambda: not list(field.home.work.iterdir()))  # right after the last report


def test_a_warm_pilot_takes_the_next_job(field: Field) -> None:
    field.serve()
    submitter = Submitter(field.world)
    field.jobs(1, ": > $OUT")
    field.until(at_end(field, 1), submitter)
    field.jobs(1, ": > $OUT")
    assert submitter.run_once() == 0
    field.until(at_end(field, 2), submitter)
    assert len(field.pilots()) == 1


def test_a_pilot_without_work_ends_in_order(field: Field) -> None:
    field.serve()
    field.knob("pilot.idle_s", 0.1)
    field.jobs(1, ": > $OUT")
    submitter = Submitter(field.world)
    field.until(lambda: field.pilots("endtime IS NOT NULL"), submitter)
    assert field.statuses() == ["holding"]
    assert [p.status for p in field.pilots()] == ["ended"]
    assert field.sql("SELECT count(*) FROM jedi_tokens WHERE revoked_at IS NULL")[0][0] == 0
    said = (field.home.logs / "pilots" / f"{field.pilots()[0].pilot_id}.log").read_text()
    assert said == ""


def test_only_jobs_that_fit_into_a_slot_count(field: Field) -> None:
    set_sites(field.engine, "SITE_A", maxrss=2000)
    field.jobs(1, ":", cores=8)
    field.jobs(1, ":", memory_mb=4000)
    field.jobs(1, ":", site="SITE_B")
    submitter = Submitter(field.world)
    assert submitter.run_once() == 0
    set_sites(field.engine, lastpilot=None)
    submitter.run_once()
    seen = field.sql("SELECT site FROM jedi_sites WHERE lastpilot IS NOT NULL")
    assert [row.site for row in seen] == ["SITE_A"]  # it has a submitter, so pilots will come


@pytest.mark.parametrize("change", ["status = 'offline'", "submitter = 'none'", "nslots = 0"])
def test_no_pilots_where_none_are_wanted(field: Field, change: str) -> None:
    field.jobs(1, ":")
    field.sql(f"UPDATE jedi_sites SET {change}")
    assert Submitter(field.world).run_once() == 0


def test_a_unified_site_gets_pilots_of_the_shapes_that_its_jobs_need(field: Field) -> None:
    field.serve()
    field.knob("pilot.idle_s", 0.5)
    set_sites(field.engine, capability="ucore", corecount=2, maxrss=8000)
    made = [
        field.jobs(3, "sleep 0.2; : > $OUT", cores=1, memory_mb=1500),
        field.jobs(2, "sleep 0.2; : > $OUT", cores=2, memory_mb=3000),
        field.jobs(1, "sleep 0.2; : > $OUT", cores=1, memory_mb=3000),
        field.jobs(1, ":", cores=1, memory_mb=5000),  # more than the part of a core
    ]
    submitter = Submitter(field.world)
    submitter.run_once()
    taken = [pilot.resource_type for pilot in field.pilots()]
    assert sorted(taken) == ["MCORE", "SCORE", "SCORE_HIMEM"]  # of four cores
    ran = [job for some in made[:3] for job in some.jobs]
    field.until(lambda: field.statuses().count("holding") == len(ran), submitter)
    who = "SELECT pandaid, resource_type FROM jedi_jobs j JOIN jedi_pilots p USING (pilot_id)"
    found = dict(tuple(row) for row in field.sql(who.replace("resource_type", "p.resource_type")))
    assert [found.get(job) for job in ran] == ["SCORE"] * 3 + ["MCORE"] * 2 + ["SCORE_HIMEM"]
    assert found.keys() == {*ran}


def test_a_shape_that_is_refused_leaves_the_others_alone(field: Field) -> None:
    set_sites(field.engine, capability="ucore", corecount=8, nslots=1)
    field.jobs(1, ":", cores=8)
    submitter = Submitter(field.world)
    submitter._starting["SITE_A", "MCORE"].failed(clock.monotonic() + 1000)
    field.jobs(1, ":", cores=1)
    submitter.run_once()
    assert [pilot.resource_type for pilot in field.pilots()] == ["SCORE"]


# -------------------------------------------------------------------------------------- deaths


def start_one(field: Field, submitter: Submitter, command: str) -> tuple[Row[Any], Process]:
    """A job that runs in a pilot: the pilot's row and process."""
    field.serve()
    field.jobs(1, command)
    field.until(lambda: field.statuses() == ["running"], submitter)
    (pilot,) = field.pilots()
    return pilot, Process(pilot.pid, pilot.process_start)


def check_loss(field: Field, pilot: Row[Any]) -> None:
    """The job has failed at once, and nothing is left of the attempt."""
    (job,) = field.sql("SELECT * FROM jedi_jobs")
    assert (job.status, job.error_source, job.error_code) == ("failed", "pilot", "lost_pilot")
    assert f"Pilot {pilot.pilot_id} " in job.error_diag
    assert [(p.status, p.endtime is None) for p in field.pilots()] == [("lost", False)]
    (token,) = field.sql("SELECT * FROM jedi_tokens")
    assert token.revoked_at is not None
    assert list(field.home.work.iterdir()) == []
    staging = field.world.ddm.staging_dir("SITE_A_DATADISK", job.pandaid, job.lock_seq)
    assert not staging.exists()


@pytest.mark.parametrize("restarted", [False, True])
def test_the_job_of_a_killed_pilot_fails_at_once(field: Field, restarted: bool) -> None:
    submitter = Submitter(field.world)
    pilot, process = start_one(field, submitter, "sleep 1000")
    (job,) = field.sql("SELECT pandaid, lock_seq FROM jedi_jobs")
    staging = field.world.ddm.staging_dir("SITE_A_DATADISK", job.pandaid, job.lock_seq)
    staging.mkdir(parents=True)
    process.signal(signal.SIGKILL)
    if restarted:
        submitter = Submitter(field.world)
    field.until(lambda: field.pilots("endtime IS NOT NULL"), submitter)
    check_loss(field, pilot)
    how = "is gone" if restarted else "was killed by signal 9"
    diag = f"Pilot {pilot.pilot_id} {how} while it had this job."
    assert field.sql("SELECT error_diag FROM jedi_jobs")[0].error_diag == diag
    assert field.sql("SELECT count(*) FROM jedi_site_metrics")[0][0] == 0


def test_a_pilot_that_its_machine_took_along(field: Field) -> None:
    """The machine has come up since the pilot was started: "a lost node"."""
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    gone = Process(2**22 + 1, 1)  # no machine has that many
    old, young = (KnownPilot("p", age_s, True, gone) for age_s in (up_s + 3600, 1.0))
    engine = LocalEngine(field.home.pilot_logs)
    assert [engine.look([one]).gone["p"].code for one in (old, young)] == [
        "lost_node",
        "lost_pilot",
    ]


def test_storage_where_nothing_can_be_removed_holds_up_no_site(field: Field) -> None:
    submitter = Submitter(field.world)
    _, process = start_one(field, submitter, "sleep 1000")
    (job,) = field.sql("SELECT pandaid, lock_seq FROM jedi_jobs")
    stuck = field.world.ddm.staging_dir("SITE_B_DATADISK", job.pandaid, job.lock_seq)
    stuck.parent.mkdir(parents=True)
    stuck.touch()  # not even root can remove it as a directory
    process.signal(signal.SIGKILL)
    field.until(lambda: field.pilots("endtime IS NOT NULL"), submitter)
    assert field.sql("SELECT count(*) FROM jedi_site_metrics")[0][0] == 0


def test_a_site_that_runs_jobs_does_not_wait_for_pilots_that_died_between_them(
    field: Field,
) -> None:
    submitter = Submitter(field.world)
    pilot, process = start_one(field, submitter, "sleep 1; : > $OUT")
    field.until(lambda: field.statuses() == ["holding"])
    process.signal(signal.SIGKILL)
    field.until(lambda: field.pilots("endtime IS NOT NULL"), submitter)
    assert field.pilots()[0].pilot_id == pilot.pilot_id
    assert field.sql("SELECT count(*) FROM jedi_site_metrics")[0][0] == 0


def test_what_a_payload_hid_from_a_killed_payload_monitor_is_found(field: Field) -> None:
    marks = field.home.work / "pids"
    marks.touch(0o666)
    marks.chmod(0o666)
    submitter = Submitter(field.world)
    escape = f"setsid sh -c 'echo $$ > {marks}; cd /; sleep 1000' & sleep 1000"
    pilot, process = start_one(field, submitter, escape)
    field.until(lambda: marks.read_text().endswith("\n"))
    escaped = int(marks.read_text())
    marks.unlink()
    (monitor,) = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _parent(int(entry.name)) == pilot.pid
    ]
    for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped, neither can help the other
        for pid in (pilot.pid, monitor):
            os.kill(pid, number)
    field.until(lambda: not process.alive() and not alive(monitor))
    assert alive(escaped)
    field.until(lambda: field.pilots("endtime IS NOT NULL"), submitter)
    assert not alive(escaped)
    check_loss(field, pilot)


def _parent(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def test_a_job_that_was_reported_is_not_lost(field: Field) -> None:
    field.serve()
    submitter = Submitter(field.world)
    field.jobs(1, ": > $OUT")
    field.until(at_end(field, 1), submitter)
    field.processes()[0].signal(signal.SIGKILL)
    field.until(lambda: field.pilots("endtime IS NOT NULL"), submitter)
    assert field.statuses() == ["holding"]
    assert field.pilots()[0].status == "ended"
    job = field.sql("SELECT * FROM jedi_jobs")[0]
    assert field.world.ddm.staging_dir("SITE_A_DATADISK", job.pandaid, job.lock_seq).exists()


def test_a_recycled_process_id_is_not_the_pilot(field: Field) -> None:
    field.sql(
        "INSERT INTO jedi_pilots (pilot_id, site, host, pid, process_start, status) "
        "VALUES ('old', 'SITE_A', :host, :pid, 1, 'running')",
        host=socket.gethostname(),
        pid=os.getpid(),
    )
    Submitter(field.world).run_once()
    assert [p.status for p in field.pilots()] == ["ended"]


def test_pilots_of_other_machines_are_left_alone(field: Field) -> None:
    field.sql(
        "INSERT INTO jedi_pilots (pilot_id, site, host, pid, process_start, status) "
        "VALUES ('far', 'SITE_A', 'elsewhere', 1, 1, 'running')"
    )
    assert Submitter(field.world).run_once() == 0


# ------------------------------------------------------------------- two submitters and crashes


def test_two_submitters_send_no_more_than_one(field: Field) -> None:
    field.serve()
    field.jobs(4, "sleep 1000")
    first, second = Submitter(field.world), Submitter(field.world)
    with field.engine.begin() as tx:
        visits = first.claim(tx, 10)
        assert second.run_once() == 0  # the site is locked
    assert second.run_once() == 0  # the slots are taken, although nothing is started yet
    first._apply_all([(visit, first.work(visit)) for visit in visits])
    assert [p.status for p in field.pilots()] == ["running"] * 2
    field.until(lambda: field.statuses().count("running") == 2, first, second)
    assert len(field.pilots()) == 2


def test_a_submitter_that_died_before_it_started_anything(field: Field) -> None:
    field.jobs(1, ":")
    with field.engine.begin() as tx:
        Submitter(field.world).claim(tx, 10)
    submitter = Submitter(field.world)
    assert submitter.run_once() == 0
    clock.turn_to(clock.now() + timedelta(seconds=local.START_S + 1))
    field.until(lambda: len(field.pilots()) == 2, submitter)
    ended, fresh = field.pilots()
    assert (ended.status, fresh.status) == ("ended", "running")


def test_a_submitter_that_died_before_it_noted_the_process(field: Field) -> None:
    field.serve()
    field.jobs(1, ": > $OUT")
    with field.engine.begin() as tx:
        (visit,) = Submitter(field.world).claim(tx, 10)
    (handle,) = Submitter(field.world).work(visit).found().values()
    process = handle.process
    assert process
    clock.turn_to(clock.now() + timedelta(seconds=local.START_S + 1))
    field.until(at_end(field, 1), Submitter(field.world))
    (pilot,) = field.pilots()
    assert (pilot.status, pilot.pid, pilot.process_start) == ("running", process.pid, process.start)


@pytest.mark.parametrize("point", ["claimed", "before_commit", "after_commit"])
def test_crash_points(field: Field, point: str, tmp_path: Path) -> None:
    field.serve()
    field.jobs(3, ": > $OUT")
    code = (
        "from jedi.agent.world import make_world; from jedi.core.settings import Settings; "
        "from jedi.submitter.agent import Submitter; "
        "Submitter(make_world(Settings.from_environment(), 'Submitter')).run_once()"
    )
    died = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "JEDI_DATABASE_URL": field.world.settings.database_url or "",
            "JEDI_CRASH": f"submitter:{point}",
            "JEDI_CRASH_MARK": str(tmp_path),
        },
        check=False,
        stderr=subprocess.DEVNULL,
    )
    assert died.returncode == 137
    assert (tmp_path / f"submitter:{point}").exists()
    clock.turn_to(clock.now() + timedelta(seconds=local.START_S + 1))
    field.until(at_end(field, 3), Submitter(field.world))
    assert len(field.pilots("pid IS NOT NULL")) == 2


# ------------------------------------------------------------------------------------ back-off


def test_pilots_that_die_at_once_are_sent_less_and_less_often(
    field: Field, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; sys.exit('no such luck')")
    with monkeypatch.context() as patch:
        patch.setattr(local, "PILOT", broken)
        field.jobs(1, ": > $OUT")
        submitter = Submitter(field.world)
        field.until(lambda: len(field.pilots("endtime IS NOT NULL")) == 2, submitter)
        first, second = (p.endtime for p in field.pilots())
    assert second - first >= timedelta(seconds=1)
    (metric,) = field.sql("SELECT * FROM jedi_site_metrics")
    assert (metric.site, metric.metric) == ("SITE_A", "submitter")
    assert metric.value["reason"].endswith("ended with exit code 1: no such luck")
    assert metric.value["wait_s"] == 2.0
    field.serve()
    field.knob("pilot.idle_s", 0.1)
    field.until(lambda: field.statuses() == ["holding"], submitter)
    field.until(lambda: not field.sql("SELECT * FROM jedi_site_metrics"), submitter)


def test_a_site_with_trouble_waits(field: Field) -> None:
    field.jobs(1, ":")
    submitter = Submitter(field.world)
    (field.home.logs / "pilots").write_text("in the way")
    assert submitter.run_once() == 1
    assert submitter.run_once() == 0
    (metric,) = field.sql("SELECT value FROM jedi_site_metrics")
    assert "pilots" in metric.value["reason"]


def test_only_the_newest_logs_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "LOGS_KEPT", 2)
    for age, name in enumerate(("new", "older", "oldest")):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, ns=(0, 10**18 - age))
    local.prune(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "older"]
