"""`jedi-task` as people and programs use it: what it prints, and its exit codes."""

# Raw UPDATEs: long and odd texts are the point; counts of jobs that do not run here.

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import termios
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import typer
from jedi_client.cli import task
from jedi_client.cli.task_common import statuses, task_ids
from sqlalchemy import Connection, Engine, text
from support.cli_task import HELLO
from support.event_rows import make_job_set
from support.helpers import Run, put_file_dataset, script, unguard
from support.job_rows import Made, make_jobs

from jedi.agent.base import World
from jedi.core.settings import caller
from jedi.taskbuffer.ends.job_ends import JobEnd, end_jobs
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.tasks import commands
from jedi.taskbuffer.tasks.tasks import Move, move_tasks

COMMAND = Path(sys.executable).with_name("jedi-task")


@pytest.fixture
def run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs `jedi-task` in the world."""
    yield from script(task.main, "jedi-task", world, monkeypatch, capsys)


@pytest.fixture
def made(world: World) -> Made:
    """A task of the caller: of three jobs one finished, one failed, one runs."""
    with world.engine.begin() as tx:
        made = make_jobs(tx, 3)
        tx.execute(
            text("UPDATE jedi_tasks SET username = :me, taskname = 'words'"), {"me": caller()}
        )
        moves = [JobMove(job, "sent", "test", "test") for job in made.jobs]
        move_jobs(tx, moves, "test", ["activated"])
        first, second, _ = made.jobs
        tx.execute(text("UPDATE jedi_jobs SET exit_code = 7 WHERE pandaid = :j"), {"j": second})
        moves = [JobMove(job, "holding", "test", "test") for job in (first, second)]
        move_jobs(tx, moves, "test", ["sent"])
        end_jobs(tx, [JobEnd(first, "finished", "test", "test")], "test")
        end_jobs(tx, [JobEnd(second, "failed", "payload_exit", "It exited with 7.")], "test")
        stderr = "\n".join(f"line {i}" for i in range(30))
        tx.execute(
            text(
                "INSERT INTO jedi_job_tail (pandaid, stdout_tail, stderr_tail) "
                "VALUES (:j, 'half [way]\n', :err)"
            ),
            {"j": second, "err": stderr},
        )
    return made


def to(tx: Connection, task_id: int, *path: str) -> None:
    for status in path:
        move_tasks(tx, [Move(task_id, None, status, "test", f"Now {status}.")], "test")


# -------------------------------------------------------------------------------- submission


def test_submit_prints_the_id_and_a_repeat_finds_the_task(run: Run) -> None:
    first = run("submit", HELLO, "--key", "monday", "--json")
    assert (first.code, first.value.keys()) == (
        0,
        {"jedi_task_id", "status", "attempt_nr", "warnings"},
    )
    assert first.value["status"] == "registered"
    assert run("submit", HELLO, "--key", "monday", "--json").value == first.value
    assert f"Task {first.value['jedi_task_id']} " in run("submit", HELLO, "--key", "monday").out


def test_json_is_submitted_byte_for_byte(run: Run, engine: Engine, tmp_path: Path) -> None:
    output = {"type": "template", "param_type": "output", "value": "> o.${SN}", "dataset": "a:o"}
    items = [{"type": "constant", "value": "é"}, output]
    task = {"taskName": "t", "noInput": True, "transPath": "date", "jobParameters": items}
    written = json.dumps(task, indent=1, ensure_ascii=False).replace("\n", "\r\n")
    file = tmp_path / "task.json"
    file.write_bytes(written.encode())
    assert run("submit", file).code == 0
    with engine.begin() as tx:
        stored = tx.execute(text("SELECT source_text, source_format FROM jedi_taskparams")).one()
    assert tuple(stored) == (written, "json")


BAD = """
taskName: bad
jobParameter: []
nFilesPerJob: many
prodSourceLabel: usr
"""


def test_all_mistakes_are_told_and_nothing_is_stored(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    for options in ([], ["--validate"]):
        answer = run("submit", file, *options)
        assert answer.code == 2
        for words in ("jobParameter", "Did you mean jobParameters?", "nFilesPerJob"):
            assert words in answer.err
        assert max(map(len, answer.err.splitlines())) <= 100
    problems = json.loads(run("submit", file, "--json").err)["facts"]["problems"]
    assert {"path", "value", "rule", "remedy"} == problems[0].keys()
    assert run("list", "--json").value == []


WITH_FILES = """
taskName: one
noInput: true
nFiles: 1
parentTaskName: nope
sandbox: [nothere.txt, here.txt, neither.txt]
jobParameters:
  - {type: template, param_type: output, value: "> o.${SN}", dataset: "user.me:one"}
"""


def problem_rows(answer: Any) -> list[tuple[str, object]]:
    problems = json.loads(answer.err)["facts"]["problems"]
    return [(one["path"], one["value"]) for one in problems]


def test_missing_local_files_hide_no_other_mistakes(run: Run, tmp_path: Path) -> None:
    """README: "It reports all mistakes at once"."""
    file, other, jdl = (tmp_path / name for name in ("one.yaml", "two.yaml", "three.jdl"))
    (tmp_path / "here.txt").write_text("here")
    file.write_text(WITH_FILES)
    other.write_text(WITH_FILES.replace("[nothere.txt, here.txt, neither.txt]", "[here.txt]"))
    jdl.write_text(
        'Executable = "here.txt";\nInputSandbox = { "no.txt", "here.txt" };\n'
        'InputData = "user.me:none";\n'
    )
    parent = ("parentTaskName", "nope")
    lost = [("sandbox[0]", "nothere.txt"), ("sandbox[2]", "neither.txt")]
    for words in (["submit"], ["submit", "--validate"], ["plan"]):
        answer = run(*words, file, "--json")
        assert (answer.code, problem_rows(answer)) == (2, [parent, *lost])
    assert problem_rows(run("submit", file, other, "--json")) == [
        (f"{file}: {path}", value) for path, value in (parent, *lost)
    ] + [(f"{other}: {parent[0]}", parent[1])]
    assert problem_rows(run("submit", jdl, "--json")) == [
        ("line 2, column 1: InputSandbox[0]", "no.txt"),
        ("line 3, column 1: InputData", "user.me:none"),
    ]
    answer = run(
        "exec", "--file", "no.sh", "--input", "user.me:none", "--json", "--", "sh", "no.sh"
    )
    paths = [path for path, _ in problem_rows(answer)]
    assert len(paths) == 2 and "sandbox[0]" in paths
    file.write_text(WITH_FILES.replace("parentTaskName: nope\n", ""))
    assert problem_rows(run("submit", file, "--json")) == lost
    assert run("list", "--json").value == []


def test_a_task_comes_from_standard_input(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    two = {
        "taskName": "two",
        "noInput": True,
        "nFiles": 1,
        "transPath": "true",
        "jobParameters": [],
    }
    for said in (HELLO.read_text(), json.dumps(two)):
        monkeypatch.setattr("sys.stdin", io.StringIO(said))
        assert run("submit", "-").code == 0
    assert [one["task_name"] for one in run("list", "--json").value] == ["two", "hello"]


def test_a_command_becomes_a_task(run: Run, engine: Engine) -> None:
    answer = run("exec", "--json", "--", "grep", "-c", "x y", "file")
    with engine.begin() as tx:
        stored = tx.execute(text("SELECT * FROM jedi_taskparams")).one()
    assert (answer.code, answer.value["jedi_task_id"]) == (0, stored.jeditaskid)
    assert stored.taskparams["jobParameters"][0]["value"] == "grep -c 'x y' file"
    assert run("exec").code == 2


def test_the_version_is_told(run: Run) -> None:
    assert re.fullmatch(r"JEDI \d+\.\d+\.\d+\n", run("--version").out)


def test_validation_stores_nothing(run: Run) -> None:
    assert run("submit", HELLO, "--validate", "--json").value == {"valid": True, "warnings": []}
    assert run("list", "--json").value == []


@pytest.mark.parametrize("content", [b"\xff\xfe", b"- [", b"taskName: [", b"42", b""])
def test_files_that_are_no_tasks_are_bad_input(run: Run, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(content)
    assert run("submit", file).code == 2


def test_wrong_use_is_told_apart(run: Run) -> None:
    assert run("submit", "/no/such/file.yaml").code == 2
    assert run("show", "x").code == 2
    assert run("frobnicate").code == 2
    assert run("list", "--status", "runing").code == 2
    assert "Did you mean running?" in run("list", "--status", "runing").err


@pytest.mark.parametrize(
    ("words", "row"),
    [
        (("kill", "abc"), ("ID", "abc", "is no integer of 1 or more", "Write one, such as 1")),
        (("show", "it's"), ("ID", "it's", "is no integer of 1 or more", "Write one, such as 1")),
        (("show", 0), ("ID", 0, "is no integer of 1 or more", "Write one, such as 1")),
        (("set", 12, "priority", "abc"), ("VALUE", "abc", "is no integer", "Write one, such as 1")),
        (
            ("set", 12, "foo", 3),
            ("ATTRIBUTE", "foo", "is not among the choices", "Choices: priority"),
        ),
        (
            ("list", "--limit", "x"),
            ("--limit", "x", "is no integer of 1 or more", "Write one, such as 1"),
        ),
        (
            ("clean", 1, "--after", "1e9"),
            ("--after", 1e9, "is no number from 0 to 36500", "Write one, such as 1"),
        ),
        (
            ("token", "create", "--days", "x"),
            ("--days", "x", "is no number", "Write one, such as 1"),
        ),
    ],
)
def test_wrong_numbers_and_choices_are_mistakes_like_others(
    run: Run, words: Sequence[object], row: Sequence[object]
) -> None:
    """Field, value, rule and remedy, for people and for programs."""
    answer = run(*words, "--json")
    [found] = json.loads(answer.err)["facts"]["problems"]
    assert (answer.code, found) == (
        2,
        dict(zip(("path", "value", "rule", "remedy"), row, strict=True)),
    )
    shown = run(*words).err.splitlines()
    assert shown[0].split() == ["where", "value", "rule", "remedy"]
    assert shown[1].startswith(str(row[0])) and str(row[3]) in " ".join(shown)


@pytest.mark.parametrize(
    ("words", "path", "rule"),
    [
        (("list", "--lmit", 3), "--lmit", "no such option: --lmit"),
        (("show",), "ID", "missing argument 'ID'"),
        (("submit", "/no/such.yaml"), "FILE...", "/no/such.yaml is not a file"),
        (("plan", "/no/such.yaml"), "file", "file '/no/such.yaml' does not exist"),
        (("frobnicate",), "jedi-task", "no such command 'frobnicate'"),
    ],
)
def test_programs_read_wrong_use_as_json(
    run: Run, words: Sequence[object], path: str, rule: str
) -> None:
    answer = run(*words, "--json")
    [found] = json.loads(answer.err)["facts"]["problems"]
    assert (answer.code, found["path"]) == (2, path)
    assert rule in found["rule"] and found["remedy"]


def test_an_unreachable_service_is_exit_code_3(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEDI_HOME", str(tmp_path))
    for words in (["list"], ["show", 1], ["kill", 1], ["submit", HELLO]):
        assert run(*words).code == 3


def test_wait_and_watch_outlast_a_service_that_is_away(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spec: "`wait`, `watch` go on while the service is away, until their own time-out; they say so
    once on stderr". The time-out is exit code 4; without one, ten minutes end them with 3. A socket
    that somebody may not open is not away."""
    monkeypatch.setenv("JEDI_HOME", str(tmp_path))
    monkeypatch.setattr("jedi_client.watching.NOTICE_S", 0.1)
    answer = run("wait", 1, "--timeout", 1)
    assert answer.code == 4
    assert answer.err.count("does not answer") == 2 and answer.err.count("Waiting for it.") == 1
    assert "Tasks not ended after 1 s: 1. JEDI does not answer" in answer.err
    monkeypatch.setattr("jedi_client.watching.PATIENCE_S", 0.5)
    for words in (["wait", 1], ["watch"], ["watch", 1]):
        answer = run(*words)
        assert (answer.code, answer.err.count("Waiting for it.")) == (3, 1)
    monkeypatch.setattr("jedi_client.watching.PATIENCE_S", 600.0)
    monkeypatch.setattr("jedi_client.watching.LASTING", ("unreachable",))
    assert run("watch", 1).code == 3


# ------------------------------------------------------------------------------ looking at it


def test_list_filters_and_shows_the_newest_first(run: Run, made: Made) -> None:
    newest = run("submit", HELLO, "--json").value["jedi_task_id"]
    found = run("list", "--json").value
    assert [one["jedi_task_id"] for one in found] == [newest, made.task]
    assert [t["task_name"] for t in run("list", "--name", "wor*", "--json").value] == ["words"]
    assert [t["status"] for t in run("list", "--status", "running", "--json").value] == ["running"]
    assert len(run("list", "--limit", 1, "--json").value) == 1
    assert run("list", "--user", "nobody-else", "--json").value == []
    assert "hello" in run("list").out


@pytest.mark.parametrize("columns", [80, 160])
def test_tables_fit_the_terminal_and_pipes_have_all(
    run: Run, made: Made, engine: Engine, columns: int
) -> None:
    """On a terminal a list has its whole width, a line a row, the status in a colour; in a pipe a
    row is a line with everything in it."""
    with engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET taskname = 'name' || repeat('long', 60)"))
        tx.execute(text("UPDATE jedi_datasets SET datasetname = 'a:' || repeat('long', 60)"))
        tx.execute(text("UPDATE jedi_dataset_contents SET lfn = repeat('long', 60)"))
        tx.execute(text("UPDATE jedi_jobs SET error_diag = repeat('long ', 60)"))
    for words in (["list"], ["show"], ["jobs"], ["files"], ["jobs", "--failed"], ["log"]):
        told = [words[0], *([] if words == ["list"] else [str(made.task)]), *words[1:]]
        assert max(map(len, plainly(on_terminal(columns, *told)).splitlines())) <= columns
    header, row = run("list").out.splitlines()[:2]
    for name in ("task", "%", "running", "changed", "reason"):
        assert name in header.split()
    assert "name" + "long" * 60 in row and row.split()[3:5] == ["running", "33"]
    drawn = on_terminal(columns, "list")
    header, row, *rest = plainly(drawn).splitlines()
    assert not "".join(rest).strip() and "…" in row
    assert ("user" in header, "running" in header) == (columns > 80, True)
    assert "\x1b[36mrunning" in drawn


def on_terminal(columns: int, *words: str) -> str:
    """What `jedi-task` draws on a terminal so wide."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    hidden = ("COLUMNS", "LINES", "NO_COLOR")
    known = {name: value for name, value in os.environ.items() if name not in hidden}
    drawn: list[bytes] = []
    with os.fdopen(slave, "w") as terminal:
        process = subprocess.Popen(
            [COMMAND, *words],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=terminal,
            env=known | {"TERM": "xterm"},
        )
    with suppress(OSError):  # nobody holds the other end any more
        while part := os.read(master, 100_000):
            drawn.append(part)
    os.close(master)
    process.wait(60)
    return b"".join(drawn).decode()


def plainly(drawn: str) -> str:
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", drawn).replace("\r\n", "\n")


def test_show_counts_failures_by_cause(run: Run, made: Made) -> None:
    value = run("show", made.task, "--json").value
    assert value["jobs"] == {"failed": 1, "finished": 1, "sent": 1}
    failure = value["failures"][0]
    assert (failure["error_code"], failure["exit_code"], failure["jobs"]) == (
        "payload_exit",
        7,
        1,
    )
    shown = run("show", made.task).out
    for words in ("payload_exit", "words", "failed 1, finished 1, sent 1"):
        assert words in shown


def test_show_tells_how_a_long_diagnosis_begins(run: Run, made: Made, engine: Engine) -> None:
    with engine.begin() as tx:
        tx.execute(
            text("UPDATE jedi_jobs SET error_diag = repeat('word ', 400) WHERE status = 'failed'")
        )
    assert 10 < run("show", made.task).out.count("word ") < 60
    (failure,) = run("show", made.task, "--json").value["failures"]
    assert failure["error_diag"].count("word") == 400


def test_show_says_why_a_task_is_where_it_is(run: Run, made: Made, engine: Engine) -> None:
    with engine.begin() as tx:
        move_tasks(
            tx, [Move(made.task, None, "pending", "no_site_now", "All 2 sites are off.")], "x"
        )
    assert "All 2 sites are off." in run("show", made.task).out
    log = run("log", made.task)
    assert "All 2 sites are off." in log.out
    assert [s["status"] for s in run("log", made.task, "--json").value] == ["pending"]


def test_failed_jobs_come_with_the_end_of_stderr(run: Run, made: Made) -> None:
    answer = run("jobs", made.task, "--failed")
    assert f"job {made.jobs[1]}" in answer.out
    assert "exit code 7, payload_exit" in answer.out
    assert "It exited with 7." in answer.out
    lines = [line.strip("| ") for line in answer.out.splitlines() if "| " in line]
    assert lines == [f"line {i}" for i in range(10, 30)]
    assert len(run("jobs", made.task, "--json").value) == 3
    assert len(run("jobs", made.task, "--failed", "--json").value) == 1
    told = run("jobs", made.task, "--status", "sent", "--status", "finished", "--json").value
    assert [one["panda_id"] for one in told] == [made.jobs[0], made.jobs[2]]
    assert "Did you mean finished?" in run("jobs", made.task, "--status", "finishd").err


def test_files_are_listed_by_kind_and_status(run: Run, made: Made) -> None:
    everything = run("files", made.task, "--json").value
    assert len(everything) == 3 * (2 + 1 + 1 + 1)
    behind = run("files", made.task, "--after", everything[4]["file_id"], "--json").value
    assert behind == everything[5:]
    found = run("files", made.task, "--type", "output", "--status", "finished", "--json").value
    assert [one["panda_id"] for one in found] == [made.jobs[0]]


def test_parts_of_files_are_listed_with_their_events(world: World, run: Run, made: Made) -> None:
    with world.engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_dataset_contents SET startevent = 100, endevent = 149 "
                "WHERE type = 'input'"
            )
        )
    assert ", 100-149 " in run("files", made.task, "--type", "input").out
    assert "100-149" not in run("files", made.task, "--type", "output").out


@pytest.mark.parametrize("verb", ["show", "jobs", "files", "log", "wait", "watch", "get"])
def test_unknown_tasks_are_named(run: Run, verb: str) -> None:
    answer = run(verb, 4711)
    assert (answer.code, "no task 4711" in answer.err) == (1, True)


# -------------------------------------------------------------------- what jobs printed, outputs


def test_live_output_of_a_job_is_shown(run: Run, made: Made) -> None:
    answer = run("log", made.task, "--job", made.jobs[1])
    assert (answer.code, answer.out) == (0, "half [way]\n")
    assert "line 29" in answer.err
    nothing = run("log", made.task, "--job", made.jobs[2])
    assert (nothing.code, "has sent no output" in nothing.err) == (1, True)
    assert run("log", made.task, "--job", 4711).code == 1


def test_log_file_of_a_job_is_unpacked(run: Run, made: Made, world: World) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in (("payload.stdout", b"all \xff\n"), ("pilot.log", b"x")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    put_file_dataset(
        world, f"test:{made.task}.log", {log_name(made): packed.getvalue()}, "SITE_A_DATADISK"
    )
    value = run("log", made.task, "--job", made.jobs[1], "--json").value
    path = world.ddm.path("SITE_A_DATADISK", f"test:{made.task}.log", log_name(made))
    path.chmod(0o644)
    path.write_bytes(packed.getvalue()[:50])
    assert "not a readable log" in run("log", made.task, "--job", made.jobs[1]).err
    assert (value["stdout"], value["stderr"]) == ("all �\n", "")
    assert value["source"] == log_name(made)


def log_name(made: Made) -> str:
    return f"log.{made.jobs[1]}.1"


@pytest.fixture
def stored(world: World, made: Made) -> dict[str, bytes]:
    """The outputs of the task's three jobs are finished and stored."""
    data = {f"output.{job}.1": f"result of {job}".encode() * 1000 for job in made.jobs}
    put_file_dataset(world, f"test:{made.task}.output", data, "SITE_A_DATADISK")
    with world.engine.begin() as tx:
        unguard(tx)
        for lfn, content in data.items():
            tx.execute(
                text(
                    "UPDATE jedi_dataset_contents SET status = 'finished', fsize = :size, "
                    "checksum = :sum WHERE lfn = :lfn"
                ),
                {"lfn": lfn, "size": len(content), "sum": f"{zlib.adler32(content):08x}"},
            )
    return data


def test_outputs_are_copied_and_verified(
    run: Run, made: Made, stored: dict[str, bytes], tmp_path: Path
) -> None:
    target = tmp_path / "deep" / "results"
    value = run("get", made.task, target, "--json").value
    assert (value["copied"], len(value["files"])) == (3, 3)
    assert {f.name: f.read_bytes() for f in target.iterdir()} == stored
    again = run("get", made.task, target)
    assert (again.code, "3 were there already" in again.out) == (0, True)


def test_damaged_outputs_and_strangers_in_the_way_are_refused(
    run: Run, made: Made, stored: dict[str, bytes], world: World, tmp_path: Path
) -> None:
    lfn = next(iter(stored))
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / lfn).write_text("mine")
    assert run("get", made.task, tmp_path / "a").code == 1
    assert (tmp_path / "a" / lfn).read_text() == "mine"
    path = world.ddm.path("SITE_A_DATADISK", f"test:{made.task}.output", lfn)
    path.chmod(0o644)
    path.write_text("damaged")
    answer = run("get", made.task, tmp_path / "b")
    assert (answer.code, "adler32" in answer.err) == (1, True)
    assert not (tmp_path / "b" / lfn).exists()
    (tmp_path / "file").touch()
    answer = run("get", made.task, tmp_path / "file" / "c")
    assert (answer.code, "can't be written" in answer.err) == (1, True)


def test_a_task_without_outputs_says_so(run: Run, tmp_path: Path) -> None:
    task_id = run("submit", HELLO, "--json").value["jedi_task_id"]
    answer = run("get", task_id, tmp_path / "x")
    assert (answer.code, "no finished output yet" in answer.out) == (1, True)


def test_an_ended_task_without_outputs_gets_none_later(world: World, run: Run) -> None:
    """ "Yet" promises outputs. A task in a final status makes none."""
    task_id = run("submit", HELLO, "--json").value["jedi_task_id"]
    with world.engine.begin() as tx:
        unguard(tx)
        move_tasks(tx, [Move(task_id, None, "aborted", "killed", "It is killed.")], "test")
    answer = run("get", task_id)
    assert (answer.code, answer.out.strip()) == (1, f"Task {task_id} has no finished output.")


# ---------------------------------------------------------------------- waiting and commanding


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (["prepared", "done"], 0),
        (["prepared", "finished"], 1),
        (["prepared", "failed"], 1),
        (["aborting", "toabort", "aborted"], 1),
        (["prepared", "exhausted"], 1),
    ],
)
def test_outcome_is_the_exit_code(
    run: Run, made: Made, engine: Engine, path: Sequence[str], code: int
) -> None:
    with engine.begin() as tx:
        to(tx, made.task, *path)
    assert (run("wait", made.task, "--timeout", 0).code, run("watch", made.task).code) == (
        code,
        code,
    )
    assert run("wait", made.task, "--json").value[0]["status"] == path[-1]


def test_time_out_is_exit_code_4(run: Run, made: Made) -> None:
    answer = run("wait", made.task, "--timeout", 0.1)
    assert (answer.code, str(made.task) in answer.err) == (4, True)


@pytest.mark.parametrize("way", ["stream", "poll"])
def test_watch_tells_each_change_until_the_end(
    run: Run, made: Made, engine: Engine, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Each line that is printed is followed by the next change."""
    path = iter(["pending", "running", "prepared", "done"])
    echo = typer.echo

    def step(*arguments: Any, **options: Any) -> None:
        echo(*arguments, **options)
        with engine.begin() as tx:
            to(tx, made.task, *islice(path, 1))

    monkeypatch.setenv("JEDI_WATCH", way)
    monkeypatch.setattr("typer.echo", step)
    answer = run("watch")  # all that are at work
    told = [line.split(": ")[1].split(",")[0] for line in answer.out.splitlines()]
    assert (answer.code, told) == (0, ["running", "pending", "running", "prepared", "done"])
    assert "No task is active." in run("watch").out


def test_watch_tells_why_a_task_waits_and_how_long_it_takes(
    run: Run, made: Made, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While scouting the total is that of all files, not of those that scouts take: 6, of which
    2 are through (the rate of a task: tests/cli/test_layout.py)."""
    monkeypatch.setenv("JEDI_WATCH", "poll")  # it sleeps, and that is when things happen
    with engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_datasets SET nfilestobeused = nfilesused "
                "WHERE type = 'input' AND masterid IS NULL"
            )
        )

    def more(tx: Connection) -> None:
        tx.execute(
            text(
                "UPDATE jedi_datasets SET nfilesfinished = nfilesfinished + 2 "
                "WHERE type = 'input' AND masterid IS NULL"
            )
        )

    def wait(tx: Connection) -> None:
        why = "No site has the room."
        move_tasks(tx, [Move(made.task, None, "pending", "no_site_now", why)], "x")

    def end(tx: Connection) -> None:
        to(tx, made.task, "running", "prepared", "done")

    path = iter([more, wait, end])

    def step(_seconds: float) -> None:
        with engine.begin() as tx:
            next(path)(tx)

    monkeypatch.setattr("time.sleep", step)
    first, second, third, last = run("watch").out.splitlines()
    assert "2 of 6 files" in first and "left" not in first
    assert "4 of 6 files" in second and re.search(r"; [\d.]+ files/\w+, \d+ s left$", second)
    assert "pending, 4 of 6 files" in third and third.endswith("; No site has the room.")
    assert ": done, " in last


def test_wait_says_what_holds_a_task(
    run: Run, made: Made, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that rests for two hours does not look like one that works."""
    monkeypatch.setenv("JEDI_WATCH", "poll")
    why = "No site has the room."

    def hold(tx: Connection) -> None:
        move_tasks(tx, [Move(made.task, None, "pending", "no_site_now", why)], "x")

    def end(tx: Connection) -> None:
        to(tx, made.task, "running", "prepared", "done")

    path = iter([hold, end])

    def step(_seconds: float) -> None:
        with engine.begin() as tx:
            next(path)(tx)

    monkeypatch.setattr("time.sleep", step)
    answer = run("wait", made.task)
    assert (answer.code, answer.err) == (0, f"Task {made.task} is pending: {why}\n")
    assert "done" in answer.out and why not in answer.out


def test_ranges_of_events_are_not_called_files(
    run: Run, made: Made, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/reference/event-ranges.md: a task by events has a row for each range of a file; the
    counts of its datasets are those of rows."""
    assert (run("list", "--json").value[0]["unit"], "ranges" in run("list").out) == ("files", False)
    with engine.begin() as tx:
        tx.execute(text("UPDATE jedi_tasks SET rules = '{\"n_events_per_job\": 5}'"))
    assert re.search(r" 6 ranges +2 ", run("list").out)
    assert "ranges    2 of 6 finished" in run("show", made.task).out
    with engine.begin() as tx:
        to(tx, made.task, "prepared", "finished")
    assert "finished, 2 of 6 ranges" in run("watch", made.task).out


def test_watch_draws_bars_on_a_terminal(run: Run, made: Made, engine: Engine) -> None:
    with engine.begin() as tx:
        to(tx, made.task, "prepared", "finished")
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        ended = subprocess.run(
            [COMMAND, "watch", str(made.task)],
            stdout=terminal,
            env={**os.environ, "TERM": "xterm"},
            timeout=60,
            check=False,
        )
    drawn = os.read(master, 10_000).decode()
    os.close(master)
    assert (ended.returncode, "words" in drawn, "2 of 6 files" in drawn) == (1, True, True)


def test_a_task_just_told_to_retry_is_waited_for(run: Run, made: Made, engine: Engine) -> None:
    with engine.begin() as tx:
        to(tx, made.task, "prepared", "finished")
    assert run("retry", made.task).code == 0
    assert run("wait", made.task, "--timeout", 0).code == 4
    with engine.begin() as tx:
        asked = commands.next_commands(tx, [made.task])[made.task]
        commands.acknowledge(tx, [(asked.command_id, "accepted", "")])
        to(tx, made.task, "toretry", "ready", "running", "prepared", "done")
    assert run("wait", made.task).code == 0


def test_commands_are_noted_and_refusals_told_one_by_one(
    run: Run, made: Made, engine: Engine
) -> None:
    tried = run("kill", 4711, made.task, "--dry-run")
    assert (tried.code, f"Task {made.task}: kill is possible." in tried.out) == (1, True)
    assert tried.err == "Dry run: nothing changed.\n"
    with engine.begin() as tx:
        assert commands.next_commands(tx, [made.task]) == {}
    answer = run("kill", 4711, made.task, "--comment", "wrong input", "--json")
    assert (answer.code, [one["accepted"] for one in answer.value]) == (1, [False, True])
    with engine.begin() as tx:
        asked = commands.next_commands(tx, [made.task])[made.task]
    assert (asked.command, asked.user_name, asked.comment) == ("kill", caller(), "wrong input")
    refused = run("retry", made.task)
    assert (refused.code, "aborting" in refused.out) == (1, True)


def test_a_repeated_key_begins_one_attempt(run: Run, made: Made, engine: Engine) -> None:
    with engine.begin() as tx:
        to(tx, made.task, "prepared", "finished")
    first, second = (run("retry", made.task, "--key", "k", "--json") for _ in range(2))
    assert (first.code, first.out) == (second.code, second.out) and first.code == 0
    assert first.value[0]["attempt_nr"] == 2
    assert first.value[0]["sentence"] == "retry is asked for, as attempt 2."
    with engine.begin() as tx:
        assert len(commands.WAITING.rows(tx, task=made.task)) == 1


def test_a_repeated_key_runs_a_command_once(run: Run) -> None:
    first, second = (run("exec", "--key", "k", "--json", "--", "date") for _ in range(2))
    assert first.code == 0 and first.out == second.out


def test_commands_carry_what_was_said_with_them(run: Run, made: Made, engine: Engine) -> None:
    assert run("finish", made.task, "--soft").code == 0
    with engine.begin() as tx:
        asked = commands.next_commands(tx, [made.task])[made.task]
    assert (asked.command, asked.arguments) == ("finish", {"soft": True})
    refused = run("resume", made.task)
    assert refused.code == 1
    assert refused.out.endswith("Possible now: kill, finish. Before it comes: finish.\n")


def test_parameters_are_changed_as_they_are_written(run: Run, engine: Engine) -> None:
    task_id = run("submit", HELLO, "--json").value["jedi_task_id"]
    with engine.begin() as tx:
        to(tx, task_id, "aborting", "toabort", "aborted")
    for wrong in ("nFilesPerJob", "nFilesPerJob=[", "nFilesPerJob=two", "nFilePerJob=2"):
        answer = run("incexec", task_id, "--set", wrong)
        assert (answer.code, wrong.partition("=")[0] in answer.err) == (2, True)
    wrongs = ("nFilesPerJob=0", "nFiles=-1", "site=NOPE", "foo=3", "maxAttempt=[", "maxFailure")
    answer = run("incexec", task_id, *(word for wrong in wrongs for word in ("--set", wrong)))
    assert answer.code == 2
    told = answer.err.splitlines()
    for begin in ("nFilesPerJob ", "nFiles ", "site ", "foo ", "--set maxAttempt ", "--set  "):
        assert any(line.startswith(begin) for line in told), begin
    twice = run("incexec", task_id, "--set", "nFiles=1", "--set", "nFiles=2")
    assert (twice.code, "nFiles is given several times" in twice.err) == (2, True)
    for unclosed in ("excludedSite=[", 'excludedSite="a'):
        assert "--set excludedSite " in run("incexec", task_id, "--set", unclosed).err
    rights = ("nFilesPerJob=2", "maxFailure=null", "excludedSite= *_B", "includedSite=SITE_*")
    words = [word for right in rights for word in ("--set", right)]
    assert run("incexec", task_id, *words).code == 0
    with engine.begin() as tx:
        asked = commands.next_commands(tx, [task_id])[task_id]
    sites = {"excludedSite": "*_B", "includedSite": "SITE_*"}
    assert asked.arguments == {"parameters": {"nFilesPerJob": 2, "maxFailure": None, **sites}}


def test_places_are_checked_and_passed_on(run: Run, made: Made, engine: Engine) -> None:
    assert run("reassign", made.task).code == 2
    assert run("reassign", made.task, "--site", "SITE_C").code == 2
    assert run("reassign", made.task, "--site", "SITE_B", "--nokill").code == 0
    with engine.begin() as tx:
        asked = commands.next_commands(tx, [made.task])[made.task]
    assert asked.arguments == {"site": "SITE_B", "nokill": True}


# ------------------------------------------------------------------------------------- manners


def test_every_verb_has_an_example_and_json() -> None:
    for command in task.app.registered_commands:
        about = (command.callback.__doc__ if command.callback else "") or ""
        assert "Example: `jedi-task " in about
        assert "as_json" in (command.callback.__annotations__ if command.callback else {})


def test_listing_imports_nothing_that_it_does_not_need(run: Run) -> None:
    """It is to feel instant: half a second for the interpreter, SQLAlchemy, psycopg and Typer."""
    listed = (
        "import sys; from jedi_client.cli import task; sys.argv = ['', 'list']\n"
        "try: task.main()\nfinally: print(*sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", listed], capture_output=True, text=True, timeout=60, check=True
    )
    heavy = {
        "jedi.model.tasks.params",
        "jedi.taskbuffer.schema.tables",
        "jedi.ddm.filesystem",
        "starlette",
        "numpy",
        "httpx2",
        "alembic",
        "structlog",
        "apscheduler",
    }
    assert heavy & set(told.stdout.split()) == set()


def test_people_get_a_page_and_programs_all(
    run: Run, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task, "PAGE", 2)
    cut = run("jobs", made.task)
    assert (cut.out.count("SITE_A"), "--limit shows more" in cut.err) == (2, True)
    assert "--limit" not in run("jobs", made.task, "--limit", 2).err
    assert len(run("jobs", made.task, "--json").value) == 3


def test_tasks_and_statuses_are_completed(
    run: Run, made: Made, monkeypatch: pytest.MonkeyPatch, world: World
) -> None:
    assert [name for name, _ in statuses("scout")] == ["scouting", "scouted"]
    env = {
        **os.environ,
        "_JEDI_TASK_COMPLETE": "complete_bash",
        "COMP_WORDS": "jedi-task show ",
        "COMP_CWORD": "2",
    }
    told = subprocess.run(
        [COMMAND],
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert str(made.task) in told.stdout.split()
    assert task_ids("") == [(str(made.task), "words, running")] == task_ids(str(made.task))
    assert task_ids("99") == []


# -------------------------------------------------------------------------------- events


def test_events(world: World, run: Run) -> None:
    """`events` shows the numbers of ranges; a status adds the ranges themselves."""
    with world.engine.begin() as tx:
        built = make_job_set(tx, 4, 1, each=5)
    said = run("events", built.task).out
    assert "0 of 20 events processed\n" in said
    assert "in." in said and "ready" in said
    one = run("events", built.task, "--status", "ready", "--json").value
    assert [r["status"] for r in one["ranges"]] == ["ready"] * 4
    listed = run("events", built.task, "--status", "ready").out
    assert "processed" not in listed.splitlines()[0]  # of the ranges of one status it says nothing
    assert run("events", built.task, "--status", "red").code == 2
    assert "no such ranges" in run("events", built.task, "--job", 999_999).out
    assert {"consumer", "es_merge"} <= set(run("jobs", built.task).out.split())


def test_events_that_failed_for_good_are_counted(world: World, run: Run) -> None:
    """A fatal range is neither processed nor left."""
    with world.engine.begin() as tx:
        built = make_job_set(tx, 4, 1, each=5)
        unguard(tx)
        tx.execute(text("UPDATE jedi_events SET status = 8 WHERE job_processid = 1"))
    said = run("events", built.task).out
    assert said.startswith("0 of 20 events processed; 5 failed for good\n")
