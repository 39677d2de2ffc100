"""Backend Local beside other processes, in odd places and without room.

Source: docs/reference/ganga.md#local; docs/reference/ganga.md#files.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from jedi_client.errors import NotFound
from jedi_client.gpi.interfaces import OutputFile, Program
from jedi_client.gpi.local import helper
from jedi_client.gpi.local.backend import LocalBackend
from jedi_client.gpi.local.processes import born
from support.local_jobs import TAKES_S, ended, helper_of, sh, state, submission, text, wait


def running(local: LocalBackend, job: str) -> bool:
    """The unit runs and has written something."""
    return state(local, job).counts == {"running": 1} and text(local, job) != ""


def process_of(home: Path) -> int:
    """The number of the process that the registry's file has of the only run."""
    with sqlite3.connect(home / "registry.db") as db:
        [pid] = db.execute("SELECT pid FROM local_runs").fetchone()
    return int(pid)


def files_of(pid: int) -> set[str]:
    """The paths of the files that a process has open."""
    found = set()
    for one in Path("/proc", str(pid), "fd").iterdir():
        with suppress(FileNotFoundError):
            found.add(str(one.readlink()))
    return found


def test_arguments_that_no_process_can_have_stop_no_other_job(
    home: Path, local: LocalBackend
) -> None:
    """Expected: the unit fails with a reason, and the helper goes on. A plug-in may make such
    arguments: properties refuse them."""
    bad = submission(home, [Program("true", ("\ud800",)), sh("true")])
    job = local.submit(bad).backend_id
    assert ended(local, job).counts == {"failed": 1, "completed": 1}
    assert "surrogates not allowed" in (state(local, job).changed[0].reason or "")


def test_programs_are_no_builtins_of_the_shell(home: Path, local: LocalBackend) -> None:
    """Row 69: arguments "reach the node verbatim". The echo of dash reads backslashes."""
    job = local.submit(submission(home, [Program("echo", ("a\\tb\\n",))])).backend_id
    ended(local, job)
    assert text(local, job) == "a\\tb\\n\n"


def test_a_program_without_its_shell_ends_before_it_may_run_again(
    home: Path, local: LocalBackend
) -> None:
    """Expected: a unit never runs twice at once. If somebody kills the shell alone, the program
    does not go on beside its next attempt."""
    job = local.submit(submission(home, [sh("echo $$; sleep 60; true")])).backend_id
    wait(lambda: running(local, job))
    program = int(text(local, job))
    os.kill(process_of(home), signal.SIGKILL)
    assert ended(local, job).counts == {"failed": 1}
    wait(lambda: born(program) is None)


def test_the_kill_of_a_run_spares_later_processes_with_its_number(
    home: Path, local: LocalBackend
) -> None:
    """Expected: the machine went down with the run; its number is that of a stranger now, who
    leads a group, too."""
    job = local.submit(submission(home, [sh("echo here; sleep 60")])).backend_id
    wait(lambda: running(local, job))
    served = helper_of(home)
    assert served
    os.kill(served, signal.SIGKILL)
    os.killpg(process_of(home), signal.SIGKILL)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        with sqlite3.connect(home / "registry.db") as db:
            db.execute("UPDATE local_runs SET pid = ?", (stranger.pid,))
        local.kill(job, None)
        assert ended(local, job).counts == {"killed": 1}
        assert stranger.poll() is None
        stranger.kill()


def test_a_killed_program_has_time_to_clean_up(home: Path, local: LocalBackend) -> None:
    """docs/reference/ganga.md#local: "SIGTERM to all its processes, and SIGKILL after 2 s". A
    program that then ends with 0 was killed all the same."""
    script = 'trap "sleep 0.2; echo bye; exit 0" TERM; echo hi; while :; do sleep 0.02; done'
    job = local.submit(submission(home, [sh(script)])).backend_id
    wait(lambda: running(local, job))
    local.kill(job, None)
    assert ended(local, job).counts == {"killed": 1}
    assert text(local, job) == "hi\nbye\n"


def test_outputs_that_can_not_be_kept_are_not_lost(home: Path, local: LocalBackend) -> None:
    """Row 127: "output kept ..., nothing lost"."""
    script = "echo here; while ! test -e go; do sleep 0.02; done; echo gold >fit.root"
    job = local.submit(submission(home, [sh(script)], outputs=["fit.root"])).backend_id
    wait(lambda: running(local, job))
    (home / "jobs/0/0/output").write_text("in the way")
    work = home / "jobs/0/0/attempts/1/work"
    (work / "go").touch()
    [unit] = ended(local, job).changed
    assert unit.status == "failed"
    assert f"They are still in {work}." in (unit.reason or "")
    assert (work / "fit.root").read_text() == "gold\n"


def test_the_output_of_the_last_attempt_is_fetched(
    home: Path, local: LocalBackend, tmp_path: Path
) -> None:
    """Row 141: "getoutput idempotent"; it brings the present output."""
    script = f"echo x >>{tmp_path}/log; cat {tmp_path}/log >fit.root"
    job = local.submit(submission(home, [sh(script)], outputs=["fit.root"])).backend_id
    for lines in (1, 2):
        ended(local, job)
        for _ in range(2):
            [got] = local.fetch(job, local.outputs(job), tmp_path / "there")
            assert got.read_text() == "x\n" * lines
        local.resubmit(job, [0], {})
    ended(local, job)
    with pytest.raises(NotFound, match=r"no output other\.root"):
        local.fetch(job, [OutputFile(0, "other.root", None)], tmp_path / "there")


def test_files_of_the_session_are_no_modules_of_the_helper(
    home: Path, local: LocalBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: a physicist's select.py in the directory of the session stops no helper."""
    for name in ("select.py", "secrets.py"):
        (tmp_path / name).write_text("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    job = local.submit(submission(home, [sh("true")])).backend_id
    assert ended(local, job).counts == {"completed": 1}


def test_a_home_may_be_named_by_a_relative_path(
    home: Path, local: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    monkeypatch.chdir(home.parent)
    near = Path(home.name)
    job = LocalBackend(home=near).submit(submission(near, [sh("pwd")])).backend_id
    assert ended(local, job).counts == {"completed": 1}
    assert text(local, job) == f"{home}/jobs/0/0/attempts/1/work\n"


def test_a_session_that_looks_for_a_helper_stops_no_new_one(
    home: Path, local: LocalBackend
) -> None:
    """Expected: the queue is not left without a helper, if the lock is held for an instant when a
    helper starts."""
    job = local.submit(submission(home, [sh("true")])).backend_id
    ended(local, job)
    wait(lambda: helper_of(home) is None)
    with sqlite3.connect(home / "registry.db") as db:
        db.execute("UPDATE local_runs SET status = 'waiting'")
    with (home / "helper.lock").open("a") as looking:
        fcntl.flock(looking, fcntl.LOCK_EX)
        new = subprocess.Popen([sys.executable, "-m", helper.__name__, str(home)])
        wait(lambda: looking.name in files_of(new.pid))
    assert new.wait(TAKES_S) == 0
    assert [one.attempt for one in local.attempts(job, 0)] == [1, 2]


def test_a_helper_ends_when_its_file_is_broken(home: Path, local: LocalBackend) -> None:
    """Expected: it "ends by itself", and does not try for ever."""
    job = local.submit(submission(home, [sh("echo here; sleep 60")])).backend_id
    wait(lambda: running(local, job))
    pid = process_of(home)
    kept = {one: one.read_bytes() for one in home.glob("registry.db*")}

    def ended() -> bool:
        """The helper may have written in between: it is broken until that is noticed."""
        for one, content in kept.items():
            one.write_bytes(b"broken" * (len(content) // 6))
        helper.ring(home)
        return helper_of(home) is None

    wait(ended)
    os.killpg(pid, signal.SIGKILL)
