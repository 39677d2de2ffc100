"""The pilot's contract: a real pilot process against a service played over a real socket."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from support.pilot_world import (
    DEADLINE_S,
    PAYLOAD_UID,
    PILOT,
    ROOT,
    Handler,
    Service,
    TcpService,
    World,
    end,
    tar_gz,
    wait_until,
)


@pytest.fixture
def world() -> Iterator[World]:
    with World() as place:
        yield place


def output(lfn: str, source_name: str | None = None, allow_missing: bool = False) -> dict[str, Any]:
    return {"lfn": lfn, "source_name": source_name, "allow_missing": allow_missing}


def adler(content: bytes) -> str:
    return f"{zlib.adler32(content):08x}"


# ---------------------------------------------------------------- the good life


def test_a_job_from_acquire_to_report(world: World) -> None:
    text = b"one two three\n"
    sandbox = world.sandbox(tar_gz(("./lib/count.sh", b"wc -w < in.txt")))
    world.order(
        "sh lib/count.sh > out.txt; echo said; echo warned >&2; cp out.txt other; sleep 1",
        sandbox=sandbox,
        inputs=[world.file("in.txt", text, adler32=adler(text))],
        outputs=[output("count.txt", "out.txt"), output("other"), output("no", None, True)],
    )
    assert world.start().wait(DEADLINE_S) == 0

    reports = world.service.reports()
    assert [r["status"] for r in reports][-2:] == ["running", "finished"]
    running, last = reports[-2:]
    assert (last["exit_code"], last["error_code"], last["error_diag"]) == (0, None, None)
    assert running["started_at"] == last["started_at"] <= last["ended_at"]
    assert last["stderr_tail"] == "warned\n"
    staged = world.staged()
    assert staged["count.txt"].strip() == b"3"
    assert [o["lfn"] for o in last["outputs"]] == ["count.txt", "other", "job.log.tgz"]
    for made in last["outputs"]:
        content = staged.pop(made["lfn"])
        assert (made["size"], made["adler32"]) == (len(content), adler(content))
        assert len(made["guid"]) == 36
    assert staged == {}
    assert world.log().keys() == {"payload.stdout", "payload.stderr", "pilot.log"}
    assert world.log()["payload.stdout"] == b"said\n"
    assert last["measures"]["input_bytes"] == len(text)
    assert last["measures"]["output_bytes"] == sum(o["size"] for o in last["outputs"][:2])
    assert list(world.work.iterdir()) == []
    acquire = world.service.wait_for("acquire")
    assert acquire["site"] == "HERE" and acquire["n"] == 1
    least = {"min_cores": 0, "min_memory_mb": 0}
    size = {"cores": 1, "memory_mb": 0, "walltime_s": 0, "disk_mb": 0}
    assert acquire["resources"] == size | least


@pytest.mark.skipif(not ROOT, reason="needs root")
def test_a_payload_does_not_inherit_roots_path(world: World) -> None:
    """Payloads of another account have /usr/local/bin:/usr/bin:/bin, preceded by what the site
    says, without directories that this account can't enter."""
    closed, opened = world.home / "closed", world.home / "opened"
    for directory, mode in ((closed, 0o700), (opened, 0o755)):
        (directory / "bin").mkdir(parents=True)
        directory.chmod(mode)
    world.order('echo "$PATH"')
    pilot = world.start(
        *("--path", f"{closed}/bin:{opened}/bin"), PATH=f"/root/bin:{os.environ['PATH']}"
    )
    assert pilot.wait(DEADLINE_S) == 0
    path = world.log()["payload.stdout"].decode().strip()
    assert path == f"{opened}/bin:/usr/local/bin:/usr/bin:/bin"


def test_what_a_payload_finds(world: World) -> None:
    last = world.run(
        "id -u; id -G; pwd; ls -A; stat -c '%a %u' in.txt; env; cat /proc/self/status",
        inputs=[world.file("in.txt")],
        cores=4,
    )
    assert last["status"] == "finished"
    lines = world.log()["payload.stdout"].decode().splitlines()
    uid = str(PAYLOAD_UID if ROOT else os.getuid())
    cwd = f"{world.work}/{last['pandaid']}.7/run"
    assert lines[0] == uid and lines[2:5] == [cwd, "in.txt", f"444 {uid}"]
    if ROOT:
        assert lines[1] == uid  # no group of root's is left
    environment = dict(line.split("=", 1) for line in lines[5:] if "=" in line)
    for shells_own in ("PWD", "OLDPWD", "SHLVL", "_"):
        environment.pop(shells_own, None)
    assert environment.pop("PATH") and environment.pop("USER")
    assert environment == {
        "HOME": cwd,
        "TMPDIR": cwd[:-3] + "tmp",
        "LANG": "C.UTF-8",
        "JEDITASKID": "5",
        "PANDAID": str(last["pandaid"]),
        "ATTEMPTNR": "2",
        "SITE": "HERE",
        "CORECOUNT": "4",
    }
    assert "SigBlk:\t0000000000000000" in lines


def test_it_measures(world: World) -> None:
    last = world.run(
        """python3 -c '
import os, time
block = bytearray(os.urandom(1 << 20) * 60)
open("big", "wb").write(block)
end = time.process_time() + 0.5
while time.process_time() < end: pass
time.sleep(0.3)
'; cat big > /dev/null; rm big""",
    )
    measures = last["measures"]
    assert last["status"] == "finished", last
    assert 0.5 <= measures["cpu_s"] <= measures["wall_s"] + 0.2
    assert 60_000 <= measures["max_rss_kb"] < 300_000
    assert 60_000 <= measures["max_pss_kb"] < 300_000
    assert 60 << 20 <= measures["read_bytes"] < 90 << 20
    assert 120 << 20 <= measures["write_bytes"] < 130 << 20  # /dev/null is written to as well
    assert measures["workdir_kb"] >= 60 << 10
    assert 0.8 <= measures["wall_s"] < 10


def test_it_takes_jobs_one_at_a_time_until_there_are_none(world: World) -> None:
    for _ in range(3):
        world.order("true", log_lfn=None)
    assert world.start("--max-jobs", "0", "--idle-s", "0.2").wait(DEADLINE_S) == 0
    done = [r for r in world.service.reports() if r["status"] == "finished"]
    assert len(done) == 3
    requests = [body["request_id"] for verb, body in world.service.calls if verb == "acquire"]
    assert len(requests) >= 5 and len(set(requests)) == len(requests)
    assert world.staged() == {}


def test_over_tcp(world: World) -> None:
    world.service.shutdown()
    world.service.server_close()
    world.service = service = TcpService(("127.0.0.1", 0), Handler)
    service.prepare()
    world.url = f"http://127.0.0.1:{service.server_address[1]}"
    assert world.run("true")["status"] == "finished"


@pytest.mark.parametrize(
    "arguments, environment",
    [
        (["--payload-user", "no-such-user"], {}),
        (["--payload-user", "0:0"], {}),
        (["--payload-user", "63999:63999"], {}),  # the database's
        (["--payload-user", "64001:63999"], {}),
        (["--payload-user", "postgres"], {}),
        ([], {"JEDI_PILOT_URL": "ftp://x"}),
        ([], {"JEDI_PILOT_TOKEN": ""}),
    ],
)
def test_wrong_arguments(world: World, arguments: list[str], environment: dict[str, str]) -> None:
    base = {"JEDI_PILOT_URL": world.url, "JEDI_PILOT_TOKEN": "t", **environment}
    command = [sys.executable, "-I", str(PILOT), "--site", "S", "--work", str(world.work)]
    if not ROOT and "--payload-user" in arguments:
        arguments = ["--payload-user", "root"]
    result = subprocess.run(
        [*command, *arguments], env=base, capture_output=True, text=True, check=False
    )
    assert result.returncode == 2 and "error: " in result.stderr


def test_its_own_time_ends(world: World) -> None:
    assert world.start("--walltime-s", "1", "--idle-s", "600").wait(DEADLINE_S) == 0
    asked = [b["resources"]["walltime_s"] for verb, b in world.service.calls if verb == "acquire"]
    assert set(asked) == {1}


def test_an_unknown_token_ends_the_pilot(world: World) -> None:
    assert world.start(JEDI_PILOT_TOKEN="wrong").wait(DEADLINE_S) == 1


@pytest.mark.skipif(not ROOT, reason="otherwise every test here is run by an ordinary user")
def test_as_an_ordinary_user_whose_token_its_payload_cannot_read(world: World) -> None:
    python = next(
        (p for p in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(p).exists()), None
    )
    if python is None:
        pytest.skip("no Python that an ordinary user can reach")
    shutil.copytree(PILOT, world.home / "pilot")
    for directory in (world.storage, world.work):
        directory.mkdir(exist_ok=True)
        directory.chmod(0o777)
    Path(world.url.removeprefix("unix:")).chmod(0o666)
    world.order(
        "id -u > who; chmod 500 .; mkdir -p $TMPDIR/deep; chmod 0 $TMPDIR/deep; "
        "pilot=$(awk '/^PPid/ {print $2}' /proc/$PPID/status); cat /proc/$pilot/environ",
        outputs=[output("who")],
    )
    pilot = subprocess.Popen(
        [python, "-I", "pilot", "--site", "HERE", "--work", str(world.work), "--max-jobs", "1"],
        cwd=world.home,
        env={"JEDI_PILOT_URL": world.url, "JEDI_PILOT_TOKEN": Service.TOKEN},
        user=PAYLOAD_UID,
        group=PAYLOAD_UID,
        extra_groups=[],
    )
    world.pilots.append(pilot)
    assert pilot.wait(DEADLINE_S) == 0
    last = world.service.reports()[-1]
    assert last["error_code"] == "payload_exit" and "ermission denied" in last["stderr_tail"]
    assert list(world.work.iterdir()) == []


# ---------------------------------------------------------------- the payload's failures


@pytest.mark.parametrize(
    "command, exit_code, words",
    [
        ("exit 3", 3, "exit code 3."),
        ("kill -SEGV $$", -11, "signal 11 (SIGSEGV)"),
        ("sh -c 'kill -9 $$'; exit $?", 137, "exit code 137 (as after signal 9, SIGKILL)"),
        ("no-such-command", 127, "exit code 127"),
    ],
)
def test_how_a_payload_ends(world: World, command: str, exit_code: int, words: str) -> None:
    last = world.run(command, outputs=[output("never.txt")])
    assert (last["status"], last["error_code"]) == ("failed", "payload_exit")
    assert last["exit_code"] == exit_code and words in last["error_diag"]
    assert set(world.staged()) == {"job.log.tgz"}
    assert [o["lfn"] for o in last["outputs"]] == ["job.log.tgz"]


@pytest.mark.parametrize(
    ("last_words", "exit_code"), [("exit 0", 0), ("exit 7", 7), ("sh -c 'kill -9 $$'", 137)]
)
def test_a_command_longer_than_an_argument_may_be(
    world: World, last_words: str, exit_code: int
) -> None:
    """1,000 files of 184 characters in one job: the shell reads the command from a file. Exit code,
    directory and environment are as ever; a shell adds 128 to the signal of its child."""
    names = " ".join(f"{i:06d}".ljust(184, "x") for i in range(1000))
    command = f"set -- {names}; ls -A; echo $# $PWD $SITE $JEDITASKID > out; {last_words}"
    last = world.run(command, outputs=[output("out")])
    assert (last["exit_code"], last["status"]) == (exit_code, "failed" if exit_code else "finished")
    if not exit_code:
        run = f"{world.work}/{last['pandaid']}.7/run"
        said = world.staged()["out"].decode().split()
        assert said[:2] == ["1000", run] and len(said) == 4
        assert world.log()["payload.stdout"] == b""  # the directory was empty


def test_too_long_an_argument_is_the_payloads_with_a_remedy(world: World) -> None:
    """The kernel takes 128 KiB an argument: no pilot is to blame, and the error has the remedy."""
    last = world.run(f"/bin/echo {'x' * 200_000}")
    assert (last["exit_code"], last["error_code"]) == (126, "payload_exit")
    assert "131071 bytes each" in last["error_diag"] and "${IN/F}" in last["error_diag"]


def test_missing_outputs_are_named(world: World) -> None:
    last = world.run("touch a", outputs=[output("a"), output("b"), output("c", "x")])
    assert last["error_code"] == "output_missing"
    assert last["error_diag"] == "Not produced by the payload: b, c (from x)."
    assert set(world.staged()) == {"job.log.tgz"}


@pytest.mark.parametrize(
    "command",
    [
        "ln -s /etc/passwd out",
        "touch real; ln -s real out",
        "ln -s /nowhere out",
        "mkdir out",
        "mkfifo out",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind(\"out\")'",
    ],
)
def test_an_output_is_a_plain_file_or_nothing(world: World, command: str) -> None:
    last = world.run(f"echo fine > good; {command}", outputs=[output("good"), output("out")])
    assert (last["status"], last["error_code"]) == ("failed", "output_not_file")
    assert "Output out is not a regular file" in last["error_diag"]
    assert set(world.staged()) == {"job.log.tgz"}


@pytest.mark.parametrize(
    "changes, code",
    [
        ({"path": "/nowhere/x"}, "stagein_missing"),
        ({"size": 4}, "stagein_size"),
        ({"adler32": "00000001"}, "stagein_checksum"),
        ({"path": "/etc"}, "stagein_failed"),
        ({"path": "/proc/self/exe"}, "stagein_failed"),  # a symlink
        ({"lfn": "../escaped"}, "stagein_failed"),
        ({"lfn": "/tmp/escaped"}, "stagein_failed"),
    ],
)
def test_stage_in_refuses(world: World, changes: dict[str, Any], code: str) -> None:
    last = world.run("touch out", inputs=[world.file("in.txt", b"text\n", **changes)])
    assert (last["status"], last["error_code"]) == ("failed", code)
    assert last["started_at"] is None and last["exit_code"] is None
    assert "running" not in {r["status"] for r in world.service.reports()}
    assert set(world.staged()) == {"job.log.tgz"}


def test_what_the_task_names_itself_is_read_with_the_rights_of_the_payload(world: World) -> None:
    """Links are followed, sizes unknown; the pilot's own files, and what is no file, stay shut."""
    open_to_all = world.file("open.txt", b"text\n")
    link = world.storage / "link"
    link.symlink_to("open.txt")
    order = {
        "outputs": [output("out")],
        "inputs": [{**open_to_all, "path": str(link), "size": None}],
    }
    last = world.run("cp open.txt out", **order)
    assert (last["status"], last["measures"]["input_bytes"]) == ("finished", 5)
    assert world.staged()["out"] == b"text\n"
    shut = world.file("shut.txt", b"secret")
    Path(shut["path"]).chmod(0)
    told = [{**shut, "path": path, "size": None} for path in (shut["path"], "/dev/zero", "/etc")]
    for input_, code in zip(told, ["stagein_failed", *["stagein_missing"] * 2], strict=True):
        last = world.run("cat shut.txt", inputs=[input_])
        assert (last["status"], last["error_code"]) == ("failed", code)
    assert "Permission denied" in str(world.service.reports()[-3]["error_diag"])


def test_every_bad_input_is_named(world: World) -> None:
    inputs = [
        world.file("good.txt", b"good"),
        world.file("damaged.txt", b"text", adler32="00000001"),
        world.file("gone.txt", b"text", path="/nowhere/gone"),
    ]
    last = world.run("true", inputs=inputs)
    assert (last["status"], last["error_code"]) == ("failed", "stagein_missing")
    assert last["bad_inputs"] == [
        {"lfn": "damaged.txt", "problem": "broken"},
        {"lfn": "gone.txt", "problem": "missing"},
    ]
    assert "damaged.txt" in last["error_diag"] and "gone.txt" in last["error_diag"]
    assert world.run("true")["bad_inputs"] == []


def test_an_input_can_not_be_lost_to_an_output(world: World) -> None:
    """The payload's directory holds inputs and outputs side by side: an output of the name of an
    input would be that input, truncated. Whatever the job was told, its inputs can only be read."""
    file = world.file("o.000001.txt", b"text\n")
    for out in (output("o.000001.txt"), output("result", "o.000001.txt")):
        last = world.run("cat o.000001.txt > o.000001.txt", inputs=[file], outputs=[out])
        assert (last["status"], last["error_code"]) == ("failed", "output_is_input")
        assert last["started_at"] is None and out["lfn"] in last["error_diag"]
    told = {**file, "lfn": "told.txt", "size": None}
    last = world.run("stat -c %a *.txt", inputs=[file, told])
    assert last["status"] == "finished"
    assert world.log()["payload.stdout"].split() == [b"444", b"444"]
    assert Path(file["path"]).read_bytes() == b"text\n"


def test_a_bad_sandbox(world: World) -> None:
    last = world.run("true", sandbox=world.sandbox(tar_gz(("../escaped", b"x"))))
    assert last["error_code"] == "sandbox_bad" and "leads out" in last["error_diag"]
    last = world.run("true", sandbox="0" * 64)
    assert last["error_code"] == "stagein_sandbox"
    world.service.sandboxes["1" * 64] = tar_gz(("a", b"x"))
    last = world.run("true", sandbox="1" * 64)
    assert last["error_code"] == "sandbox_bad" and "sha256" in last["error_diag"]


def test_what_the_pilot_itself_cannot_do_is_reported(world: World) -> None:
    last = world.run("true", stage_out=str(world.storage))
    assert last["error_code"] == "pilot_error" and "not a directory for" in last["error_diag"]
    assert world.storage.exists()
    last = world.run("true", outputs=[output("x", "../../x")])
    assert last["error_code"] == "pilot_error" and "not a plain file name" in last["error_diag"]
    (world.storage / "full").write_text("a file where a directory is wanted")
    last = world.run("echo \0")
    assert last["error_code"] == "pilot_error" and "embedded null byte" in last["error_diag"]
    last = world.run("touch x", outputs=[output("x")], stage_out=str(world.storage / "full/104.7"))
    assert last["error_code"] == "stageout_failed" and last["outputs"] == []
    last = world.run("true", inputs=[{}])
    assert last["error_code"] == "pilot_error" and "KeyError" in last["error_diag"]


# ---------------------------------------------------------------- the service's word


def test_a_kill_comes_with_the_heartbeat(world: World) -> None:
    order = world.order("echo on my way; sleep 600")
    world.service.kills[order["pandaid"]] = "The owner killed task 5."
    assert world.start().wait(DEADLINE_S) == 0
    last = world.service.reports()[-1]
    assert (last["status"], last["error_code"]) == ("cancelled", "killed")
    assert last["error_diag"] == "The owner killed task 5."
    assert set(world.staged()) == {"job.log.tgz"}


def states(world: World) -> set[str]:
    """Of all processes of payloads; those that end meanwhile count as gone."""
    found = set()
    for pid in world.leftovers():
        with suppress(FileNotFoundError, ProcessLookupError):
            stat = Path(f"/proc/{pid}/stat").read_text()
            found.add(stat.rpartition(")")[2].split()[0])
    return found


def test_a_held_payload_stands_still(world: World) -> None:
    """Every process of it; the pilot goes on telling that it lives, and the time does not count."""
    tick = "while [ ! -e $S/go ]; do echo x >> $S/NAME; sleep 0.02; done"
    order = world.order(
        f"S={world.scratch}; ({tick.replace('NAME', 'a')}) & {tick.replace('NAME', 'b')}; wait"
    )
    pilot = world.start()
    for name in "ab":
        world.trace(name)
    world.service.held.add(order["pandaid"])
    wait_until(lambda: states(world) == {"T"}, "the payload goes on")
    sizes, since = [(world.scratch / name).stat().st_size for name in "ab"], time.monotonic()
    seen = len(world.service.calls)
    wait_until(
        lambda: [verb for verb, _ in world.service.calls[seen:]].count("heartbeat") >= 6,
        "no heartbeats",
    )
    assert [(world.scratch / name).stat().st_size for name in "ab"] == sizes
    held_s = time.monotonic() - since
    world.service.held.clear()
    wait_until(lambda: (world.scratch / "a").stat().st_size > sizes[0], "it stands still")
    (world.scratch / "go").touch()
    assert pilot.wait(DEADLINE_S) == 0
    last = world.service.reports()[-1]
    assert last["status"] == "finished"
    begin, finish = (datetime.fromisoformat(last[f"{word}ed_at"]) for word in ("start", "end"))
    assert (finish - begin).total_seconds() - last["measures"]["wall_s"] > 0.9 * held_s


def test_a_held_payload_can_be_killed(world: World) -> None:
    order = world.order("touch $TMPDIR/x; sleep 600")
    world.service.held.add(order["pandaid"])
    pilot = world.start()
    wait_until(lambda: states(world) == {"T"}, "the payload goes on")
    world.service.kills[order["pandaid"]] = "It was held for too long."
    assert pilot.wait(DEADLINE_S) == 0
    assert world.service.reports()[-1]["status"] == "cancelled"


def test_heartbeats_carry_figures_and_the_last_lines(world: World) -> None:
    world.order("for i in $(seq 30); do echo line $i; done; echo oh >&2; sleep 600")
    pilot = world.start()
    log = world.service.wait_for("log", lambda b: "oh" in b["entries"][0]["stderr_tail"])
    assert log["entries"][0]["stdout_tail"].splitlines() == [f"line {i}" for i in range(11, 31)]
    world.service.wait_for("heartbeat", lambda b: b["beats"][0]["measures"].get("wall_s", 0) > 0.4)
    assert end(pilot) == 0


@pytest.mark.parametrize("status", ["starting", "running", "finished"])
def test_a_stale_attempt_is_thrown_away(world: World, status: str) -> None:
    world.service.verdicts[status] = "stale"
    waits = status == "starting"  # for pieces of events, until it has reported
    world.service.pages = [[]]
    world.service.refuse = lambda verb, body: (
        503 if verb == "event_pieces" and not world.service.reports() else None
    )
    world.order(
        "echo x > out; sleep 600" if status != "finished" else "echo x > out",
        outputs=[output("out")],
        pieces=waits,
    )
    assert world.start().wait(DEADLINE_S) == 0
    assert world.service.reports()[-1]["status"] == status
    assert world.staged() == {}
    assert list(world.work.iterdir()) == []


def test_a_service_that_is_away_costs_nothing(world: World) -> None:
    """Each first try of a verb fails, and the final report a few times more."""
    seen: list[str] = []

    def refuse(verb: str, body: dict[str, Any]) -> int | None:
        what = body["reports"][0]["status"] if verb == "report" else verb
        seen.append(what)
        return 503 if seen.count(what) < (4 if what == "finished" else 2) else None

    world.service.refuse = refuse
    world.order("echo x > out; sleep 1", outputs=[output("out")])
    assert world.start().wait(DEADLINE_S) == 0
    assert set(world.staged()) == {"out", "job.log.tgz"}
    assert seen.count("finished") == 4 and "heartbeat" in seen
    requests = [body["request_id"] for verb, body in world.service.calls if verb == "acquire"]
    assert len(requests) == 2 and requests[0] == requests[1]


def test_a_service_that_stays_away(world: World) -> None:
    world.service.refuse = lambda verb, body: 503 if verb != "acquire" else None
    world.order("echo x > out", outputs=[output("out")])
    assert world.start("--retry-s", "0.5").wait(DEADLINE_S) == 1
    assert "out" in world.staged()  # the service may have taken it: it's not ours to delete


def test_a_refused_report(world: World) -> None:
    world.service.refuse = lambda verb, body: 422 if verb == "report" else None
    world.order("echo x > out", outputs=[output("out")])
    assert world.start().wait(DEADLINE_S) == 1
    assert world.staged() == {}


def test_sigterm_ends_the_job_and_says_so(world: World) -> None:
    world.order(f"echo $$ > {world.scratch}/pid; sleep 600")
    pilot = world.start()
    world.trace("pid")
    assert end(pilot) == 0
    last = world.service.reports()[-1]
    assert (last["status"], last["error_code"]) == ("failed", "pilot_terminated")
    assert "SIGTERM" in last["error_diag"]


def test_sigterm_ends_an_idle_pilot(world: World) -> None:
    pilot = world.start("--idle-s", "600")
    world.service.wait_for("acquire")
    started = time.monotonic()
    assert end(pilot, signal.SIGINT) == 0
    assert time.monotonic() - started < 5
    world.service.refuse = lambda verb, body: 503
    pilot = world.start()
    count = len(world.service.calls)
    world.service.wait_for("acquire", lambda body: len(world.service.calls) > count)
    assert end(pilot) == 1
