"""Backend Local: real processes on this machine, whatever dies meanwhile.

Source: docs/reference/ganga.md#local; docs/reference/ganga.md#files.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jedi_client.errors import JediError, NotFound
from jedi_client.gpi.contents import Contents
from jedi_client.gpi.interfaces import OutputFile, Program, SandboxFile
from jedi_client.gpi.local import helper, runs
from jedi_client.gpi.local.backend import LocalBackend
from jedi_client.gpi.local.processes import born, lives
from jedi_client.gpi.store.database import RegistryFile
from support.local_jobs import TAKES_S, ended, helper_of, sh, state, submission, text, wait


def test_a_program_gets_its_arguments_files_and_environment_verbatim(
    home: Path, local: LocalBackend, tmp_path: Path
) -> None:
    """Row 69: arguments "reach the node verbatim (quotes, newlines, unicode)"; row 72: `/x` is
    file x in the working directory; row 75: an input is opened in place; row 73: an output is kept
    under its name."""
    (tmp_path / "cuts.json").write_text('{"pt": 20}')
    (tmp_path / "in put").write_text("data")
    script = 'cat cuts.json; printf "|%s|" "$@"; echo "$WHO"; cat "$JEDI_INPUTS" >fit.root'
    program = sh(script, "a 'b\"", "two\nlines", "ü $HOME", WHO="ana")
    sent = submission(
        home,
        [program],
        outputs=["*.root"],
        inputs=[str(tmp_path / "in put")],
        single=True,
        sandbox=[SandboxFile(str(tmp_path / "cuts.json"), "cuts.json")],
    )
    job = local.submit(sent).backend_id
    assert ended(local, job).counts == {"completed": 1}
    assert text(local, job) == '{"pt": 20}|a \'b"||two\nlines||ü $HOME|ana\n'
    assert local.outputs(job) == [OutputFile(0, "fit.root", 4)]
    kept = home / "jobs" / "0" / "output" / "fit.root"
    assert local.fetch(job, local.outputs(job), home / "jobs" / "0") == [kept]
    [there] = local.fetch(job, local.outputs(job), tmp_path / "elsewhere")
    assert there.read_text() == kept.read_text() == "data"
    assert local.fetch(job, local.outputs(job), tmp_path / "elsewhere") == [there]


def test_a_submission_takes_the_present_content(
    home: Path, local: LocalBackend, tmp_path: Path
) -> None:
    """Row 78: "submit, edit file, copy, submit -> second run sees the edited file", and the first
    one does not, however late it begins."""
    file = tmp_path / "fit.sh"
    file.write_text("echo old")
    sandbox = [SandboxFile(str(file), "fit.sh")]
    first = local.submit(submission(home, [sh("sleep 0.2; sh fit.sh")], sandbox=sandbox)).backend_id
    file.write_text("echo new")
    again = submission(home, [sh("sh fit.sh")], key="guid/1/1", sandbox=sandbox)
    second = local.submit(again).backend_id
    assert [ended(local, job).counts for job in (first, second)] == [{"completed": 1}] * 2
    assert (text(local, first), text(local, second)) == ("old\n", "new\n")


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (sh("exit 3"), "Its exit code is 3."),
        (sh("kill -SEGV $$"), "It was ended by SIGSEGV."),
        (sh("true"), "It made no fit.root."),
    ],
)
def test_failures_say_why(home: Path, local: LocalBackend, program: Program, reason: str) -> None:
    """Row 74: a declared output that was not produced fails the job "with that file named"."""
    job = local.submit(submission(home, [program], outputs=["fit.root"])).backend_id
    [unit] = ended(local, job).changed
    assert (unit.status, unit.reason) == ("failed", reason)


def test_a_pattern_that_is_none_fails_its_job_and_no_other(home: Path, local: LocalBackend) -> None:
    """A declared output that a job does not make fails it, and it harms no other job: the helper
    goes on."""
    bad = local.submit(submission(home, [sh("true")], outputs=["**.root"])).backend_id
    good = local.submit(submission(home, [sh("true")], key="guid/1/1")).backend_id
    [unit] = ended(local, bad).changed
    assert unit.status == "failed"
    assert unit.reason is not None
    assert unit.reason.startswith("Its outputs could not be kept: Invalid pattern")
    assert ended(local, good).counts == {"completed": 1}


def test_refused_units_are_new_and_can_run_later(
    home: Path, local: LocalBackend, tmp_path: Path
) -> None:
    """Seed 000, emulated bulk: "if keep_going is True then ... submission of all subjobs is
    attempted"; "not submitted subjobs or the ones which failed a submission are left in the new
    state"; they "may be attempted a resubmit"."""
    late = str(tmp_path / "late.sh")
    programs = [sh("true"), Program("sh", ("late.sh",), files=[SandboxFile(late, "late.sh")])]
    got = local.submit(submission(home, [*programs, sh("true")]))
    assert list(got.refused) == [1]
    assert "late.sh can't be read" in got.refused[1]
    assert ended(local, got.backend_id).counts == {"completed": 2, "new": 1}
    Path(late).write_text("echo here")
    assert local.resubmit(got.backend_id, [1], {}) == {}
    assert ended(local, got.backend_id).counts == {"completed": 3}
    assert text(local, got.backend_id, 1) == "here\n"


def test_the_first_refusal_stops_a_submission(home: Path, local: LocalBackend) -> None:
    """Seed 000: "if keep_going is False then submission is stopped at first subjob which fails"."""
    programs = [sh("true"), Program("no-such-program"), sh("true")]
    got = local.submit(submission(home, programs, keep_going=False))
    assert (list(got.refused), list(got.untried)) == ([1], [2])
    assert ended(local, got.backend_id).counts == {"completed": 1, "new": 2}
    assert local.settle(submission(home, programs)) == got


def test_nothing_is_left_of_a_submission_without_units(home: Path, local: LocalBackend) -> None:
    """Seed 000: "if all subjobs would be in new state ... the entire master job is rolled back"."""
    sent = submission(home, [Program("no-such-program")])
    assert local.submit(sent).refused == {0: "There is no program no-such-program on this machine."}
    assert local.settle(sent) is None


def test_a_key_makes_one_job(home: Path, local: LocalBackend) -> None:
    """Row 45: "never two submissions"."""
    sent = submission(home, [sh("echo x >>count; cat count")])
    first, second = local.submit(sent), LocalBackend(home=home).submit(sent)
    assert first == second == local.settle(sent)
    ended(local, first.backend_id)
    assert [one.attempt for one in local.attempts(first.backend_id, 0)] == [1]


def test_kills_end_whole_process_groups(home: Path, local: LocalBackend, tmp_path: Path) -> None:
    """Row 11: "Only that subjob becomes killed"; grandchildren that ignore SIGTERM go, too."""
    stubborn = sh('trap "" TERM; sh -c \'trap "" TERM; echo $$; sleep 60\' & wait; sleep 60')
    job = local.submit(submission(home, [stubborn, sh("sleep 60")], slots=1)).backend_id
    wait(lambda: state(local, job).counts.get("running") and text(local, job))
    grandchild = int(text(local, job))
    assert born(grandchild)
    assert local.kill(job, [1, 7]) == {7: "There is no such subjob."}
    assert state(local, job).counts == {"running": 1, "killed": 1}
    assert local.kill(job, None) == {}
    assert ended(local, job).counts == {"killed": 2}
    wait(lambda: born(grandchild) is None)
    assert local.kill(job, None) == {None: "No subjob of it is live."}
    assert local.kill(job, [0]) == {0: "It is killed already."}


def test_a_unit_runs_again_in_place(home: Path, local: LocalBackend, tmp_path: Path) -> None:
    """Row 12: "Same id, same parent, modified in place"; the logs of both attempts stay."""
    flag = tmp_path / "flag"
    job = local.submit(submission(home, [sh(f"echo hi; test -e {flag}")])).backend_id
    assert ended(local, job).counts == {"failed": 1}
    flag.touch()
    before = state(local, job).cursor
    assert local.resubmit(job, [0], {}) == {}
    assert ended(local, job).counts == {"completed": 1}
    [unit] = local.states({job: before})[0].changed
    assert (unit.k, unit.attempt, unit.exit_code) == (0, 2, 0)
    assert [(one.attempt, one.status) for one in local.attempts(job, 0)] == [
        (1, "failed"),
        (2, "completed"),
    ]
    assert b"".join(local.log(job, 0, 1, "stdout")) == b"hi\n"
    with pytest.raises(NotFound, match="no stdout yet"):
        list(local.log(job, 0, 3, "stdout"))


def test_ten_thousand_kills_cost_little(home: Path, local: LocalBackend) -> None:
    """10,000 subjobs cost "at most ten times" 1,000."""
    asked = submission(home, [sh("sleep 60")] * 10_000, slots=1)
    job = local.submit(asked).backend_id
    before = time.process_time()
    local.kill(job, range(10_000))
    assert time.process_time() - before < 0.5
    wait(lambda: state(local, job).counts == {"killed": 10_000})


def test_the_next_runs_are_found_by_their_index(tmp_path: Path) -> None:
    """10,000 subjobs cost "at most ten times" 1,000: a look at the queue costs the same, however
    many runs wait or have ended."""
    file = RegistryFile(tmp_path / "registry.db")

    def cost_of_a_look() -> int:
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        with file.reading() as db:
            db.set_progress_handler(count, 1)
            assert [one.k for one in runs.waiting(db, {}, 2, ())] == [over, over + 1]
            assert runs.to_kill(db) == []
            db.set_progress_handler(None, 1)
        return steps

    over = 0
    units = [(k, "waiting", "{}", None) for k in range(5_000)]
    with file.writing() as db:
        runs.add(
            db, "key", tmp_path, single=False, slots=None, outputs=(), environment={}, units=units
        )
    full = cost_of_a_look()
    over = 4_990
    with file.writing() as db:
        db.execute("UPDATE local_runs SET status = 'completed' WHERE k < ?", (over,))
    assert full < 500
    assert cost_of_a_look() < 500


def test_a_log_is_read_while_it_grows(home: Path, local: LocalBackend, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    script = f"echo begun; while ! test -e {flag}; do sleep 0.02; done; echo over"
    job = local.submit(submission(home, [sh(script)])).backend_id
    wait(lambda: state(local, job).counts == {"running": 1} and text(local, job) == "begun\n")
    assert local.attempts(job, 0)[0].status == "running"
    with pytest.raises(JediError, match="kill it first"):
        local.remove(job)
    flag.touch()
    ended(local, job)
    assert text(local, job) == "begun\nover\n"
    local.remove(job)
    assert local.states({job: None}) == []


def test_a_helper_that_is_killed_is_followed_by_another(
    home: Path, local: LocalBackend, tmp_path: Path
) -> None:
    """Expected: each of 30 units runs exactly once, though the helper is killed again and again;
    a run of a dead helper goes on, and its end is found."""
    script = f"echo x >>{tmp_path}/ran.$1; sleep 0.15"
    programs = [sh(script, str(k)) for k in range(30)]
    job = local.submit(submission(home, programs, slots=6)).backend_id
    killed = begun = 0
    while state(local, job).status != "ended":
        now = len(list(tmp_path.glob("ran.*")))
        if now > begun and (pid := helper_of(home)) is not None:
            os.kill(pid, signal.SIGKILL)
            killed, begun = killed + 1, now
        time.sleep(0.02)
    assert killed >= 3
    assert state(local, job).counts == {"completed": 30}
    assert {one.read_text() for one in tmp_path.glob("ran.*")} == {"x\n"}
    assert len(list(tmp_path.glob("ran.*"))) == 30


def test_a_home_has_one_helper(home: Path, local: LocalBackend, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    waits = sh(f"while [ ! -e '{go_on}' ]; do sleep 0.05; done")
    job = local.submit(submission(home, [waits])).backend_id
    wait(lambda: state(local, job).counts == {"running": 1})
    first = helper_of(home)
    more = [subprocess.Popen([sys.executable, "-m", helper.__name__, str(home)]) for _ in range(3)]
    assert [one.wait(TAKES_S) for one in more] == [0, 0, 0]
    assert helper_of(home) == first
    go_on.touch()
    assert ended(local, job).counts == {"completed": 1}


def test_a_process_with_the_number_of_another_is_another() -> None:
    """A number of a process is used again; its time of birth is not."""
    assert lives(os.getpid(), born(os.getpid()))
    assert not lives(os.getpid(), "1")
    assert not lives(None, None)


def test_a_run_whose_machine_went_down_has_failed(
    home: Path, local: LocalBackend, tmp_path: Path
) -> None:
    """Expected: the program began, and neither it nor its exit code is there: it is not run again
    by itself."""
    job = local.submit(submission(home, [sh("sleep 60")])).backend_id
    wait(lambda: state(local, job).counts == {"running": 1})
    with sqlite3.connect(home / "registry.db") as db:
        [pid] = db.execute("SELECT pid FROM local_runs").fetchone()
    wait((home / "jobs/0/0/attempts/1/began").exists)
    found = helper_of(home)
    assert found
    os.kill(found, signal.SIGKILL)
    os.killpg(pid, signal.SIGKILL)
    [unit] = ended(local, job).changed
    assert unit.status == "failed"
    assert "this machine went down" in (unit.reason or "")


def test_secrets_of_the_session_are_not_kept(
    home: Path, local: LocalBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hush")
    job = local.submit(submission(home, [sh('echo "${SOME_TOKEN-none} $HOME"')])).backend_id
    ended(local, job)
    assert text(local, job) == f"none {os.environ['HOME']}\n"
    assert b"hush" not in (home / "registry.db").read_bytes()
    assert (home / "registry.db").stat().st_mode & 0o077 == 0


def test_shared_copies_stay_as_their_first_use_made_them(tmp_path: Path) -> None:
    """Row 80: "first use copies ...; later edits of the original do not alter later runs"; row 81:
    `shared://a/b/c` is the same bytes; row 105: equal contents are kept once."""
    contents = Contents(tmp_path / "contents")
    file = tmp_path / "calib.db"
    file.write_text("one")
    digest = contents.share(file, "data/calib.db")
    file.write_text("two")
    assert contents.share(file, "data/calib.db") == digest == contents.shared("data/calib.db")
    assert contents.path(digest).read_text() == "one"
    other = contents.keep(file)
    assert contents.keep(file) == other != digest
    for old in (digest, other):
        os.utime(contents.path(old), (0, 0))
    assert contents.sweep([]) == 1
    assert contents.path(digest).exists()
    with pytest.raises(NotFound, match=r"shared://b"):
        contents.shared("b")
    with pytest.raises(JediError, match=r"Write shared://a/b"):
        contents.share(file, "../b")
