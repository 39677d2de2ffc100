"""Payloads, archives and ends of the pilot that misbehave: nobody else is harmed."""

from __future__ import annotations

import hashlib
import os
import signal
import tarfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from support.pilot_world import DEADLINE_S, PAYLOAD_UID, ROOT, World, alive, end, tar_gz, wait_until

from jedi.pilot import payload_monitor, procs, sandbox, stage, verdict
from jedi.pilot.base import PayloadFailure, last_lines

KEPT = 10_000_000
# leaves its session and its parents: a daemon by the book, which ignores what it can
ESCAPE = """python3 -c '
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
open("{trace}", "w").write(str(os.getpid()) + chr(10))
time.sleep(600)
' """
# a process whose first thread has ended looks like a zombie, but its other thread goes on
FIRST_THREAD_GONE = """python3 -c '
import ctypes, os, threading, time
if os.fork(): os._exit(0)
os.setsid()
open("{trace}", "w").write(str(os.getpid()) + chr(10))
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).pthread_exit(None)
' """
# does not give up when the kernel's bound is met
FORK_BOMB = """python3 -c '
import os, time
while True:
    try: os.fork()
    except OSError: time.sleep(0.001)
' """


@pytest.fixture
def world() -> Iterator[World]:
    with World() as place:
        yield place


def output(lfn: str) -> dict[str, Any]:
    return {"lfn": lfn, "source_name": None, "allow_missing": False}


# ---------------------------------------------------------------- nobody outlives the job


@pytest.mark.parametrize("daemon", [ESCAPE, FIRST_THREAD_GONE])
def test_no_descendant_outlives_the_job(world: World, daemon: str) -> None:
    trace = world.scratch / "daemon"
    command = daemon.format(trace=trace) + f"; while [ ! -s {trace} ]; do sleep 0.01; done"
    assert world.run(command)["status"] == "finished"
    assert not Path(f"/proc/{world.trace('daemon')}").exists()


def test_a_killed_pilot_takes_its_payload_along(world: World) -> None:
    world.order(ESCAPE.format(trace=world.scratch / "daemon") + "; sleep 600")
    pilot = world.start()
    daemon = int(world.trace("daemon"))
    world.service.wait_for("report", lambda b: b["reports"][0]["status"] == "running")
    end(pilot, signal.SIGKILL)
    wait_until(lambda: not world.leftovers() and not alive(daemon), "it lives on")
    wait_until(lambda: not list(world.work.iterdir()), "its directory was left")


@pytest.mark.parametrize("last", ["pilot", "payload"])
def test_a_signal_to_all_processes_of_a_pilot_ends_the_pilot(world: World, last: str) -> None:
    """A batch system sends its signal to every process, in any order: the end is the pilot's, and
    the output is there."""
    world.order(f"echo hello; echo $PPID $$ > {world.scratch}/pids; exec sleep 600")
    pilot = world.start()
    below = [int(pid) for pid in world.trace("pids").split()]
    order = [*below, pilot.pid] if last == "pilot" else [pilot.pid, *below]
    for pid in order:
        with suppress(ProcessLookupError):  # the pilot may have ended it by now
            os.kill(pid, signal.SIGTERM)
        time.sleep(0.2)
    assert pilot.wait(DEADLINE_S) == 0
    report = world.service.reports()[-1]
    assert (report["status"], report["error_code"]) == ("failed", "pilot_terminated")
    assert world.log()["payload.stdout"] == b"hello\n"


def test_a_killed_payload_monitor_leaves_no_orphans(world: World) -> None:
    world.order(
        f"echo $PPID > {world.scratch}/ppid; "
        + ESCAPE.format(trace=world.scratch / "daemon")
        + "; sleep 600"
    )
    pilot = world.start()
    daemon = int(world.trace("daemon"))
    os.kill(int(world.trace("ppid")), signal.SIGKILL)
    assert pilot.wait(DEADLINE_S) == 0
    assert not alive(daemon)
    last = world.service.reports()[-1]
    assert (last["status"], last["error_code"]) == ("failed", "pilot_error")
    assert last["error_diag"] == "A signal ended the payload monitor (SIGKILL)."


def test_a_payload_leaves_nothing_to_the_next_one(world: World) -> None:
    """One monitor serves many payloads. Expected: the small one after a large one has its own
    processor time, memory and bytes, and the monitor opens no more files."""
    eat = "python3 -c 'b = bytearray(300 << 20); sum(range(20_000_000))'"
    world.order(f"{eat}; head -c 50000000 /dev/zero > big; dd if=big of=/dev/null 2> x")
    for _ in range(3):
        world.order("true")
    sleeps = [f"echo $PPID > {world.scratch}/{name}; sleep 600" for name in ("first", "second")]
    world.order(sleeps[0], limits={"wall_s": 1})
    for _ in range(20):
        world.order("true")
    world.order(sleeps[1])
    pilot = world.start("--max-jobs", "26")
    first = int(world.trace("first"))
    before = len([*Path(f"/proc/{first}/fd").iterdir()])
    second = int(world.trace("second"))
    assert (second, len([*Path(f"/proc/{second}/fd").iterdir()])) == (first, before)
    assert end(pilot) == 0
    large, *small = [r["measures"] for r in world.service.reports() if r["status"] == "finished"]
    assert large["max_rss_kb"] > 300_000 and large["cpu_s"] > 0.2
    assert large["read_bytes"] > 50_000_000
    assert len(small) == 23
    assert max(one["max_rss_kb"] for one in small) < 100_000
    assert max(one["cpu_s"] for one in small) < 0.2
    assert max(one["read_bytes"] for one in small) < 1_000_000


def test_output_of_a_payload_is_no_memory_of_the_next_one(world: World) -> None:
    """The kernel counts the size of the monitor as the least that a payload used. Expected: after
    two payloads that print 60 MB each, of which 20 MB are kept, `true` has less than 30 MB, about a
    Python."""
    for _ in range(2):
        world.order("head -c 30000000 /dev/zero; head -c 30000000 /dev/zero >&2")
    for _ in range(2):
        world.order("true")
    assert world.start("--max-jobs", "4").wait(DEADLINE_S) == 0
    ends = [r for r in world.service.reports() if r["status"] == "finished"]
    assert len(ends) == 4
    assert max(r["measures"]["max_rss_kb"] for r in ends[2:]) < 30_000


def test_a_monitor_that_dies_between_two_payloads_is_replaced(world: World) -> None:
    world.order(f"echo $PPID > {world.scratch}/first")
    pilot = world.start("--max-jobs", "2", "--idle-s", "60")
    world.service.wait_for("report", lambda b: b["reports"][0]["status"] == "finished")
    os.kill(int(world.trace("first")), signal.SIGKILL)
    wait_until(lambda: not alive(int(world.trace("first"))), "it lives on")
    world.order("true")
    assert pilot.wait(DEADLINE_S) == 0
    assert [r["status"] for r in world.service.reports()][-2:] == ["finished"] * 2


@pytest.mark.skipif(not ROOT, reason="an ordinary user's payload may kill the user's pilot")
def test_a_payload_cannot_hurt_pilot_or_payload_monitor(world: World) -> None:
    world.order("kill -9 $PPID; kill -9 -1; echo still here > out", outputs=[output("out")])
    assert world.start("--payload-user", f"{PAYLOAD_UID + 1}:{PAYLOAD_UID}").wait(DEADLINE_S) == 0
    assert world.service.reports()[-1]["status"] == "finished"


@pytest.mark.parametrize("point", ["acquire", "stage_in", "payload", "stage_out", "report"])
def test_crash_points(world: World, point: str) -> None:
    world.order("echo x > out", inputs=[world.file("in.txt")], outputs=[output("out")])
    assert world.start(JEDI_CRASH=f"pilot:{point}").wait(DEADLINE_S) == 137
    said = [r["status"] for r in world.service.reports()]
    assert ("finished" in said) == (point == "report")
    assert ("out" in world.staged()) == (point in ("stage_out", "report"))
    assert not world.leftovers()


def test_the_directory_goes_before_the_service_knows_of_the_end(world: World) -> None:
    """A pilot may be killed at any instant; the Submitter tidies up after jobs that have not ended.
    Expected: when the report of the end comes, there is nothing to tidy."""
    seen = []

    def look(verb: str, body: dict[str, Any]) -> None:
        if verb == "report" and body["reports"][0]["status"] == "finished":
            seen.append([*world.work.iterdir()])

    world.service.refuse = look
    world.run("echo x > out", outputs=[output("out")])
    assert seen == [[]]


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize(
    "command, limits, code",
    [
        ("sleep 600", {"wall_s": 1}, "wall_limit"),
        ("while :; do :; done", {"cpu_s": 1}, "cpu_limit"),
        ("(while :; do :; done) & (while :; do :; done) & wait", {"cpu_s": 1}, "cpu_limit"),
        ("python3 -c 'b = bytearray(1 << 30)'", {"memory_mb": 200}, "memory_limit"),
        (
            "for i in 1 2 3; do python3 -c 'import time; b = bytearray(120 << 20); time.sleep(60)'"
            " & done; wait",
            {"memory_mb": 200},
            "memory_limit",
        ),
        ("dd if=/dev/zero of=big bs=1M count=50", {"workdir_mb": 20}, "workdir_limit"),
        (
            "for i in $(seq 6); do dd if=/dev/zero of=$TMPDIR/$i bs=1M count=5; done; sleep 60",
            {"workdir_mb": 20},
            "workdir_limit",
        ),
        ("seq 3000 | xargs touch; sleep 60", {"workdir_mb": 2}, "workdir_limit"),
        (
            "python3 -c '\nimport os, time\nfor i in range(60):\n os.mkdir(100 * chr(97))\n"
            " os.chdir(100 * chr(97))\ntime.sleep(60)'",
            {"workdir_mb": 100},
            "workdir_limit",
        ),
        (
            "for i in $(seq 20); do sleep 60 & done; wait",
            {"max_processes": 10},
            "process_limit",
        ),
        # the command ends before the pilot counts its processes, as a shell without any more does
        ("for i in $(seq 20); do sleep 60 & done; exit 2", {"max_processes": 10}, "process_limit"),
    ],
)
def test_limits(world: World, command: str, limits: dict[str, int], code: str) -> None:
    last = world.run(command, limits={"wall_s": 0, "cpu_s": None, **limits})
    assert (last["status"], last["error_code"]) == ("failed", code), last
    assert last["measures"]["wall_s"] < 10
    assert str(next(iter(limits.values()))) in last["error_diag"]
    assert set(world.staged()) == {"job.log.tgz"}


@pytest.mark.skipif(not ROOT, reason="needs a user of its own to be bounded safely")
def test_a_fork_bomb(world: World) -> None:
    last = world.run(FORK_BOMB, limits={"max_processes": 64, "wall_s": 15})
    assert last["error_code"] == "process_limit"
    assert last["measures"]["wall_s"] < 10


def test_within_the_limits(world: World) -> None:
    last = world.run(
        "sleep 0.1 & dd if=/dev/zero of=out bs=1M count=5 2>/dev/null; wait; ulimit -c",
        outputs=[output("out")],
        limits={
            "wall_s": 60,
            "cpu_s": 60,
            "memory_mb": 500,
            "workdir_mb": 20,
            "max_processes": 256,
        },
    )
    assert last["status"] == "finished"
    assert len(world.staged()["out"]) == 5 << 20
    assert world.log()["payload.stdout"] == b"0\n"


# ---------------------------------------------------------------- output without end


def test_a_payload_that_prints_100_megabytes(world: World) -> None:
    last = world.run("yes 0123456789abcde | head -c 100000000; seq 100 >&2; echo >&2")
    assert last["status"] == "finished"
    assert last["stderr_tail"].splitlines() == [*map(str, range(82, 101)), ""]
    log = world.log()
    note, _, kept = log["payload.stdout"].partition(b"\n")
    assert note == b"[the first 90000000 bytes were not kept]"
    assert kept == (b"0123456789abcde\n" * 6_250_000)[-KEPT:]


def test_a_payload_that_prints_garbage_for_ever(world: World) -> None:
    last = world.run("cat /dev/urandom >&2", limits={"wall_s": 1})
    assert last["error_code"] == "wall_limit"
    assert len(last["stderr_tail"]) <= 4000
    assert all(c.isprintable() or c in "\n\t" for c in last["stderr_tail"])
    assert len(world.log()["payload.stderr"]) < KEPT + 100


@pytest.mark.parametrize("seconds", [0, 2], ids=["ends at once", "is measured first"])
def test_whatever_a_payload_leaves_is_removed(world: World, seconds: int) -> None:
    """A tree too deep to be measured counts as infinite, which no limit forbids here."""
    last = world.run(
        f"""python3 -c '
import os
os.symlink("/", "root"); os.mkfifo("fifo"); open("-rf", "w"); open(b"\\xff\\n", "w")
for i in range(600):
    os.mkdir(50 * "d"); os.chdir(50 * "d")
'; mkdir closed; touch closed/x; chmod 0 closed; sleep {seconds}"""
    )
    assert last["status"] == "finished", last  # and `run` has seen that nothing is left


# ---------------------------------------------------------------- archives and links


def member(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644, link: str = "") -> Any:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, link
    return info


BAD_MEMBERS = [
    member("/etc/evil"),
    member("../evil"),
    member("a/../../evil"),
    member("link", tarfile.SYMTYPE, link="/etc/passwd"),
    member("link", tarfile.LNKTYPE, link="good"),
    member("null", tarfile.CHRTYPE),
    member("disk", tarfile.BLKTYPE),
    member("fifo", tarfile.FIFOTYPE),
    member("suid", mode=0o4755),
    member("sgid", mode=0o2755),
    member("good"),  # a second one of this name
    member("good/below"),  # a file where a directory is wanted
    member("x" * 300),
]


def unpack(archive: bytes, place: Path) -> Path:
    target = place / "target"
    target.mkdir()
    sandbox.unpack(archive, hashlib.sha256(archive).hexdigest(), target, None, lambda: None)
    return target


@pytest.mark.parametrize("bad", BAD_MEMBERS, ids=lambda m: m.name[:20])
def test_tar_tricks(tmp_path: Path, bad: tarfile.TarInfo) -> None:
    with pytest.raises(PayloadFailure) as caught:
        unpack(tar_gz(("good", b"x"), bad), tmp_path)
    assert caught.value.code == "sandbox_bad"
    assert [p.name for p in tmp_path.iterdir()] == ["target"]


def test_archives_that_are_none(tmp_path: Path) -> None:
    whole = tar_gz(("good", os.urandom(100_000)))
    for number, broken in enumerate((b"", b"no gzip", whole[:50_000], whole[:-20])):
        place = tmp_path / str(number)
        place.mkdir()
        with pytest.raises(PayloadFailure, match="can't be unpacked"):
            unpack(broken, place)


def test_an_archive_that_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_UNPACKED", 1 << 20)
    with pytest.raises(PayloadFailure, match="unpacks to more than"):
        unpack(tar_gz(("zeros", bytes(2 << 20))), tmp_path)


def test_a_good_archive(tmp_path: Path) -> None:
    folder = member("./bin", tarfile.DIRTYPE, 0o700)
    target = unpack(tar_gz(folder, ("bin/run", b"hello"), member("bin/x", mode=0o700)), tmp_path)
    assert (target / "bin/run").read_bytes() == b"hello"
    assert [(target / f"bin/{n}").stat().st_mode & 0o7777 for n in ("run", "x")] == [0o644, 0o755]


def test_somebody_elses_file_is_not_published(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("not the payload's: a hard link, say")
    stranger = procs.PayloadAccount(os.getuid() + 1, 0, "other")
    with pytest.raises(PayloadFailure) as caught:
        stage.stage_file(tmp_path / "out", "out", tmp_path / "to", stranger, lambda: None)
    assert caught.value.code == "output_not_file"
    assert not (tmp_path / "to" / "out").exists()


# ---------------------------------------------------------------- pure parts


def test_verdicts() -> None:
    def code(exit_code: int, tail: str = "", **limits: int) -> str:
        failure = verdict.judge(exit_code, tail, limits)
        return failure.code if failure else "fine"

    assert code(0, "MemoryError", memory_mb=1) == "fine"
    assert code(1, "MemoryError") == "payload_exit"
    assert code(1, "MemoryError", memory_mb=1) == "memory_limit"
    assert code(-signal.SIGXCPU, cpu_s=1) == code(128 + signal.SIGXCPU, cpu_s=1) == "cpu_limit"
    assert code(128 + signal.SIGXFSZ, workdir_mb=1) == "workdir_limit"
    assert code(-signal.SIGXCPU) == code(255) == "payload_exit"


def test_last_lines() -> None:
    assert last_lines(b"") == ""
    assert last_lines(b"a\nb\n") == "a\nb\n"
    assert last_lines(b"".join(b"%d\n" % i for i in range(100))).splitlines()[0] == "80"
    assert last_lines(b"x\x00\x1b[2J\xff\tz") == "x\ufffd\ufffd[2J\ufffd\tz"
    assert len(last_lines(b"y" * 50_000)) == 4000


def test_the_meter_takes_its_time(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "file").write_bytes(bytes(10_000))
    meter = payload_monitor.DirectoryMeter([str(tmp_path)])
    sizes = [meter.step(0.0) for _ in range(60)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[-1]
    assert meter.peak_kb >= 500


def test_half_a_file_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads for the payload is killed; nobody knows how large the file is."""
    cat = tmp_path / "cat"
    cat.write_text("#!/bin/sh\nprintf half\nkill -KILL $$\n")
    cat.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    told = {"lfn": "in", "path": str(cat), "size": None, "adler32": None}
    with pytest.raises(PayloadFailure, match="cat ended with code -9") as failed:
        stage.stage_in([told], tmp_path, None, lambda: None)
    assert failed.value.code == "stagein_failed"
