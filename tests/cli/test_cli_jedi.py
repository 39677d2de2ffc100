"""`jedi` as people type it."""

# Raw UPDATEs: a command that the job builder does not take.

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from jedi_client.cli.common import table
from sqlalchemy import Engine, text
from support.cli_jedi import Shell
from support.job_rows import make_jobs

from jedi.cli.jedi import app
from jedi.core import clock
from jedi.core.knobs import KNOBS
from jedi.host import processes
from jedi.host.home import Home
from jedi.host.processes import Process
from jedi.standalone.installation import Installation
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import connect, wake
from jedi.taskbuffer.sites import pilots

DEADLINE_S = 60.0


@pytest.fixture
def shell(engine: Engine, home: Path, operators: None) -> Shell:
    """On a migrated database with nothing in it but that we are an operator."""
    url = engine.url.render_as_string(hide_password=False)
    return Shell(JEDI_HOME=str(home), JEDI_DATABASE_URL=url)


def commands(group: typer.Typer) -> Iterator[tuple[str, str]]:
    for command in group.registered_commands:
        assert command.callback is not None
        yield command.name or command.callback.__name__, command.callback.__doc__ or ""
    for inner in group.registered_groups:
        assert inner.typer_instance is not None
        yield from commands(inner.typer_instance)


def test_every_verb_has_an_example() -> None:
    assert [name for name, about in commands(app) if "Example: `" not in about] == []


def test_help_and_completion(shell: Shell) -> None:
    assert "site import" in shell.run("site", "import", "--help")
    assert shell.run("agent", "run", "--help").count("leashed") == 0
    shell.environment |= {"_JEDI_COMPLETE": "source_bash"}
    assert "complete -o default -F _jedi_completion jedi" in shell.run()
    assert shell.complete("site", "i") == ["import"]
    assert shell.complete("agent", "run", "Task") == ["TaskRefiner", "TaskBroker", "TaskCommando"]
    assert shell.complete("config", "get", "pilot.id") == ["pilot.idle_s"]


def test_wrong_use_is_exit_code_2(shell: Shell) -> None:
    assert "No such command" in shell.run("sites", code=2)
    assert "Missing" in shell.run("site", "set", "LOCAL", "nslots=3", code=2)


@pytest.mark.usefixtures("bare_service")
def test_a_file_that_cannot_be_written_is_named(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    for verb, place, reason in (
        (["snapshot", "export"], "none", "No such file"),
        (["db", "backup"], "taken", "Not a directory"),  # a directory that is missing is made
    ):
        said = shell.run(*verb, str(tmp_path / place / "file"), code=1)
        assert f"{tmp_path}/{place}/file" in said and reason in said
        assert "Traceback" not in said


def test_without_a_database_nothing_answers(tmp_path: Path) -> None:
    shell = Shell(JEDI_HOME=str(tmp_path / "empty"))
    assert "jedi up" in shell.run("status", code=3)
    found = shell.json("site", "list", code=3)
    assert found["error"] == "unreachable" and "Start it with `jedi up`" in found["sentence"]
    assert shell.run("down") == "JEDI was not up.\n"


ADMINISTRATION = [
    ["site", "attributes"],
    ["site", "set", "ALPHA", "nslots=3", "--comment", "more"],
    ["endpoint", "list"],
    ["network", "list"],
    ["queue", "test"],
    ["config", "set", "pilot.idle_s", "30"],
    ["dataset", "create", "me:run7", "--open"],
    ["dataset", "add", "me:run7", __file__],
    ["user", "set", "alice", "--role", "production"],
    ["user", "list"],
    ["user", "notify"],
    ["retry-rule", "list"],
    ["watchdog", "run", "caps", "--once"],
    ["replay", "1"],
    ["snapshot", "export"],
    ["audit", "list"],
]


@pytest.mark.parametrize("words", ADMINISTRATION, ids=" ".join)
def test_verbs_with_an_operation_ask_the_service_alone(shell: Shell, words: list[str]) -> None:
    """Design of the door: those verbs of `jedi` that are operations speak HTTP only. With the
    database there and the service away they say how to start it: exit code 3."""
    assert "Start it with `jedi up`" in shell.run(*words, code=3)


def test_a_knob_that_stops_the_service_is_unset_here(shell: Shell, engine: Engine) -> None:
    """`api.listen` may name an address that is not ours: then no service takes `config unset`."""
    with engine.begin() as tx:
        knobs.put(tx, "api.listen", "192.0.2.1:8765", "me")
    unset = ("config", "unset", "api.listen")
    assert "does not answer" in shell.run(*unset, code=3)
    elsewhere = shell.run("--server", "https://jedi.example.org", *unset, "--here", code=2)
    assert "JEDI_HOME" in elsewhere
    assert shell.run(*unset, "--here") == "api.listen = \n"
    with engine.begin() as tx:
        assert knobs.load(tx).api.listen == ""


def test_a_question_to_the_service_loads_no_database(tmp_path: Path) -> None:
    """Design of the door: such verbs import neither SQLAlchemy nor numpy nor jedi.taskbuffer."""
    program = (
        "import sys; from jedi_client.cli.common import exit_code; from jedi.cli.jedi import app\n"
        "try:\n    app(['queue', 'list'], standalone_mode=False)\n"
        "except Exception as error:\n    print(exit_code(error))\n"
        "print([m for m in ('sqlalchemy', 'numpy', 'jedi.taskbuffer') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "JEDI_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["3", "[]"]


def test_the_supervisor_loads_what_it_needs(tmp_path: Path) -> None:
    """A start takes as long as its imports: migrations, the service, the timetable and the reader
    of cron's lines, which starts a process, are loaded where they are needed."""
    program = (
        "import sys; import jedi.standalone.up\n"
        "from jedi.agent import registry\n"
        "for name in registry.AGENTS.keys() - registry.AWAKE: registry.load(name)\n"
        "print([m for m in ('alembic', 'uvicorn', 'apscheduler', 'joserfc', 'croniter')"
        " if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).split() == ["[]"]


def test_verbs_of_this_machine_need_no_service(shell: Shell) -> None:
    """The rule of the command line: `jedi status`, `jedi check` and `jedi db` work without it."""
    assert shell.json("check")["healthy"]
    assert shell.json("db", "check")["differences"] == []
    assert not shell.json("status", code=1)["healthy"]


@pytest.mark.usefixtures("bare_service")
def test_the_service_is_chosen_by_an_option(shell: Shell, tmp_path: Path) -> None:
    """--server names another service than that of JEDI_HOME. Verbs about processes, files and the
    database of this machine refuse it instead of answering for another system."""
    there = f"unix:{Home(Path(shell.environment['JEDI_HOME'])).api_socket}"
    shell.environment["JEDI_HOME"] = str(tmp_path / "elsewhere")
    assert "jedi up" in shell.run("queue", "list", code=3)
    assert shell.json("--server", there, "queue", "list") == []
    for words in (["status"], ["db", "check"], ["up"], ["watchdog", "run", "caps"]):
        assert "JEDI_HOME" in shell.run("--server", there, *words, code=2)


def test_the_completion_library_of_our_name_is_refused(shell: Shell, tmp_path: Path) -> None:
    info = tmp_path / "jedi-0.19.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jedi\nVersion: 0.19.2\n")
    shell.environment["PYTHONPATH"] += os.pathsep + str(tmp_path)
    assert "0.19.2, the completion library" in shell.spawn("status", code=1)


@pytest.mark.usefixtures("bare_service")
def test_sites_are_imported_set_and_shown(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "sites.yaml"
    file.write_text("- {site: ALPHA, endpoints: [{ddm_endpoint: A_DISK, path: a}]}\n")
    assert "memory of a slot in MB" in shell.run("site", "attributes")
    shell.run("site", "import", str(file))
    assert shell.run("site", "import", str(file)) == "Nothing changed.\n"
    shell.run("site", "set", "ALPHA", "nslots=8", "status=test", "--comment", "new nodes")
    [site] = shell.json("site", "list")
    assert (site["site"], site["nslots"], site["status"]) == ("ALPHA", 8, "test")
    shown = shell.run("site", "show", "ALPHA")
    assert "new nodes" in shown and "A_DISK" in shown
    told = shell.run("config", "set", "hold.sites", "ALPHA, BETA")
    assert "Warning: there is no site 'BETA'" in told and "'ALPHA'" not in told
    assert "Warning" not in shell.run("config", "set", "hold.sites", "ALPHA")
    [endpoint] = shell.json("endpoint", "list")
    assert endpoint["path"] == f"{shell.environment['JEDI_HOME']}/a"


@pytest.mark.usefixtures("bare_service")
def test_sentences_fold_at_100_columns_in_a_pipe(shell: Shell, tmp_path: Path) -> None:
    """Changes of sites, refused files, invariants: no line is wider, and no word is lost."""
    file, path = tmp_path / "sites.yaml", "deep/" * 30
    file.write_text(f"- {{site: ALPHA, endpoints: [{{ddm_endpoint: A_DISK, path: {path}}}]}}\n")
    shell = Shell(**shell.environment | {"COLUMNS": "100"})
    changes = shell.run("site", "import", str(file))
    assert "".join(changes.split()).count("deep") == 30
    file.write_text(f"- {{site: ALPHA, status: {'up' * 60}, nslot: 3, nslots: -1}}\n")
    refused = shell.run("site", "import", str(file), code=2)
    assert "Did you mean nslots?" in " ".join(refused.split())
    invariants = shell.run("check")
    for said in (changes, refused, invariants):
        assert max(map(len, said.splitlines())) <= 100
        assert not any(line.endswith(" ") for line in said.splitlines())
    known = [one["invariant"] for one in shell.json("check")["invariants"]]
    found = "".join(line.split()[0] for line in invariants.splitlines() if line[:1].strip())
    assert all(one in found for one in known)


@pytest.mark.usefixtures("bare_service")
def test_all_mistakes_are_told_and_nothing_is_stored(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "sites.yaml"
    file.write_text(
        "- {site: ALPHA, nslot: 3}\n- {site: BETA, status: up}\n- {site: GAMMA, nslots: -1}\n"
    )
    said = shell.run("site", "import", str(file), code=2)
    assert "Did you mean nslots?" in said and "BETA.status" in said
    assert "GAMMA.nslots " in said and "literal" not in said
    problems = shell.json("site", "import", str(file), code=2)["facts"]["problems"]
    assert [p["path"] for p in problems] == ["ALPHA.nslot", "BETA.status", "GAMMA.nslots"]
    assert shell.json("site", "list") == []
    assert "Did you mean" not in shell.run("site", "show", "ALPHA", code=1)


@pytest.mark.usefixtures("bare_service")
def test_queues_knobs_and_users(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "queues.yaml"
    file.write_text("- {queue_id: 4, queue_name: user, queue_type: user, vo: local}\n")
    shell.run("queue", "import", str(file))
    assert [queue["queue_id"] for queue in shell.json("queue", "list")] == [4]
    shell.run("config", "set", "pilot.idle_s", "30")
    got = shell.json("config", "get", "pilot.idle_s")
    assert (got["setting"]["value"], len(got["history"])) == (30.0, 1)
    assert "preset 5.0" in shell.run("config", "get", "pilot.idle_s")
    assert "preset ''" in shell.run("config", "get", "hold.sites")
    shell.run("config", "set", "jumbo_dog.max_events", "-1")  # its preset
    shell.run("config", "set", "pilot.idle_s", "31", "--drry-run", code=2)
    tried = shell.run("config", "set", "pilot.idle_s", "31", "--dry-run")
    assert tried == "pilot.idle_s = 31.0\nDry run: nothing changed.\n"
    assert "pilot.idle_s = 31" not in shell.run("config", "get", "pilot.idle_s")
    shell.run("config", "preset", "current")
    assert shell.json("config", "unset", "pilot.idle_s")["value"] == 5.0
    assert "Did you mean" in shell.run("config", "set", "pilot.idles", "3", code=2)
    shell.run("config", "preset", "modern", code=2)
    shell.run("user", "set", "alice", "--role", "production")
    shell.run("user", "set", "alice", "--role", "king", code=2)
    assert {"user": "alice", "role": "production", "gridpref": "", "running_jobs": None} in (
        shell.json("user", "list")
    )


@pytest.mark.usefixtures("bare_service")
def test_local_files_become_a_dataset(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "sites.yaml"
    file.write_text("- {site: ALPHA, endpoints: [{ddm_endpoint: A_DISK, path: a}]}\n")
    shell.run("site", "import", str(file))
    (tmp_path / "one.txt").write_text("one")
    tried = shell.json("dataset", "add", "user.me:texts", str(tmp_path / "one.txt"), "--dry-run")
    assert tried == [{"lfn": "one.txt", "status": "wanted", "received": 0}]
    shell.run("dataset", "list", "user.me:texts", code=1)
    added = shell.run("dataset", "add", "user.me:texts", str(tmp_path / "one.txt"))
    assert added == "Files put into user.me:texts: 1.\n"
    again = shell.run("dataset", "add", "user.me:texts", str(tmp_path / "one.txt"))
    assert again == "Files put into user.me:texts: 0, 1 were there before.\n"
    listed = shell.json("dataset", "list", "user.me:texts")
    assert [(f["lfn"], f["size"]) for f in listed["files"]] == [("one.txt", 3)]
    shell.run("dataset", "list", "user.me:text", code=1)
    assert shell.json("dataset", "list") == [{"name": "user.me:texts", "state": "closed"}]
    assert shell.json("dataset", "list", "user.*xt*") == shell.json("dataset", "list")
    assert shell.json("dataset", "list", "other*") == []
    assert shell.complete("site", "show", "AL") == ["ALPHA"]
    shell.run("dataset", "add", "user.me:te xts", str(tmp_path / "one.txt"), code=2)
    odd = [tmp_path / "b ad.txt", tmp_path / "twice" / "one.txt", tmp_path, Path("/proc/self/mem")]
    odd[1].parent.mkdir()
    for one in odd[:2]:
        one.write_text("odd")
    told = shell.run(
        "dataset", "add", "user.me:odd", str(tmp_path / "one.txt"), *map(str, odd), code=2
    )
    for mistake in ("'b ad.txt'", "has the same name", "is not a file", "can't be read"):
        assert mistake in " ".join(told.split())  # cells are as narrow as paths are long


@pytest.mark.usefixtures("bare_service")
def test_a_row_is_a_line_in_a_pipe(shell: Shell) -> None:
    """Never folded, so that grep works: the words before and after are on the same line."""
    lines = shell.run("config", "list").splitlines()
    assert len(lines) == 1 + len(KNOBS) + 1  # headers, and a blank line between tables
    for line, knob in zip(lines[1:], KNOBS.values(), strict=False):
        assert line.startswith(f"{knob.name} ") and line.endswith(knob.meaning)


def test_the_service_needs_no_home_made_before(shell: Shell, tmp_path: Path) -> None:
    """As systemd has it, where nobody says `jedi up`."""
    home = Home(tmp_path / "fresh" / "home")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.settimeout(DEADLINE_S)
        heard.bind(str(tmp_path / "notify"))
        told = {"JEDI_HOME": str(home.path), "NOTIFY_SOCKET": str(tmp_path / "notify")}
        service = subprocess.Popen(
            [sys.executable, "-m", "jedi", "api"], env=shell.environment | told
        )
        assert heard.recv(100).startswith(b"READY=1")
    service.terminate()
    assert service.wait(DEADLINE_S) == 0
    home.discard()


def test_schema_goes_up_and_down(empty_url: str, home: Path) -> None:
    shell = Shell(JEDI_HOME=str(home), JEDI_DATABASE_URL=empty_url)
    for verb, code in (("status", 5), ("check", 5), ("api", 5)):
        assert "jedi db upgrade" in shell.run(verb, code=code)
    shell.run("db", "check", code=1)
    head = shell.json("db", "upgrade")["after"]
    assert shell.json("db", "check") == {"current": head, "head": head, "differences": []}
    assert shell.json("db", "downgrade", "base") == {"before": head, "after": None}
    assert shell.run("db", "url").startswith("postgresql://")


def test_an_agent_runs_once(shell: Shell) -> None:
    shell.spawn("agent", "run", "Adder", "--once")
    assert "Did you mean Adder?" in shell.run("agent", "run", "Ader", "--once", code=1)
    assert "TaskRefiner" in shell.run("agent", "list")
    status = shell.json("status", code=1)
    assert not status["healthy"] and status["supervisor"] is None


# ------------------------------------------------------------------------- the system as a whole


class System(Shell):
    """A system in a scratch home."""

    def __init__(self, home: Path, **environment: str) -> None:
        super().__init__(JEDI_HOME=str(home), **environment)
        self.home = home

    @property
    def place(self) -> Installation:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JEDI_HOME", str(self.home))
            patch.delenv("JEDI_DATABASE_URL", raising=False)
            return Installation.current()

    def processes(self) -> dict[str, Process]:
        """Those that the supervisor has noted, and itself."""
        rows = self.place.read_record() or []
        found = {r["name"]: Process(r["pid"], r["start"]) for r in rows if r["pid"]}
        if supervisor := self.place.supervisor():
            found["supervisor"] = supervisor
        return found

    def ready(self, name: str, lives: int) -> bool:
        rows = {row["name"]: row for row in self.place.read_record() or []}
        return bool(rows[name]["ready"] and rows[name]["lives"] == lives)

    def lives(self, name: str) -> int:
        """How often a process was started."""
        return next(int(r["lives"]) for r in self.place.read_record() or [] if r["name"] == name)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = clock.monotonic() + DEADLINE_S
    while not condition():
        assert clock.monotonic() < deadline, "it does not come to pass"
        select.select([], [], [], 0.05)


@pytest.mark.long
def test_somebody_elses_database_is_used_and_left(empty_url: str, tmp_path: Path) -> None:
    system = System(tmp_path / "home", JEDI_DATABASE_URL=empty_url)
    try:
        system.spawn("up", "--detach")
        status = system.json("status")
        assert status["healthy"] and status["database"] == empty_url
        assert "PostgreSQL" not in system.processes()
        assert not system.place.home.pg.exists()
    finally:
        system.run("down", "--drain", "0")
    assert system.json("db", "check")["differences"] == []
    system.place.home.discard()


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    found = System(tmp_path_factory.mktemp("system") / "home")
    yield found
    found.run("down", "--drain", "0")
    found.place.home.discard()


def test_everything_starts_and_says_where_it_is(system: System) -> None:
    said = system.spawn("up", "--detach")
    assert re.search(r"JEDI is up after \d+\.\d s", said)
    assert str(system.home) in said and "LOCAL" in said
    status = system.json("status")
    assert status["healthy"] and not status["draining"]
    assert all(row["ready"] for row in status["processes"])
    assert [site["site"] for site in status["system"]["sites"]] == ["LOCAL"]
    assert "supervisor  up, process" in system.run("status")
    assert system.json("config", "get", "broker.min_free_gb")["setting"]["value"] == 0.0


TASK = """
taskName: rest
noInput: true
nFiles: 1
jobParameters: [{type: constant, value: "true"}]
"""


@pytest.mark.long
def test_agents_rest_until_there_is_work(system: System, tmp_path: Path) -> None:
    """An agent without work has no process, and is healthy; a task wakes those that it needs, and
    they rest again."""

    def all_asleep() -> bool:
        agents = system.json("status")["system"]["agents"]
        return {one["agent"] for one in agents if not one["asleep"]} == {"Submitter", "WatchDog"}

    system.json("config", "set", "agent.rest_s", "1")
    wait_until(all_asleep)
    (tmp_path / "task.yaml").write_text(TASK)
    jedi_task = str(Path(sys.executable).with_name("jedi-task"))
    for words in (["submit", str(tmp_path / "task.yaml")], ["wait", "1"]):
        subprocess.run(
            [jedi_task, *words],
            check=True,
            env=system.environment,
            capture_output=True,
            timeout=DEADLINE_S,
        )
    assert min(system.lives(name) for name in ("TaskRefiner", "JobGenerator", "Adder")) > 0
    wait_until(all_asleep)
    assert system.json("status")["healthy"]
    system.json("config", "unset", "agent.rest_s")


def test_a_second_start_is_refused_politely(system: System) -> None:
    pid = system.processes()["supervisor"].pid
    assert f"already up in {system.home} (process {pid})" in system.spawn("up", code=1)
    assert f"process {pid}" in system.spawn("up", "--detach", code=1)


@pytest.mark.long
@pytest.mark.parametrize("name", ["Submitter", "api", "PostgreSQL"])
def test_what_is_killed_comes_back(system: System, name: str) -> None:
    victim = system.processes()[name]
    victim.signal(signal.SIGKILL)
    wait_until(lambda: system.ready(name, 2))
    assert system.processes()[name] != victim
    wait_until(lambda: system.json("status")["healthy"])


def test_processes_are_shown_while_the_database_is_away(system: System) -> None:
    before, lives = system.processes(), system.lives("PostgreSQL")
    before["supervisor"].signal(signal.SIGSTOP)
    try:
        before["PostgreSQL"].signal(signal.SIGKILL)
        wait_until(lambda: not before["PostgreSQL"].alive())
        assert "supervisor  up, process" in system.run("status", code=3)
        facts = system.json("status", code=3)["facts"]
        assert [row["pid"] for row in facts["processes"] if row["name"] == "WatchDog"] == [
            before["WatchDog"].pid
        ]
    finally:
        before["supervisor"].signal(signal.SIGCONT)
    wait_until(lambda: system.ready("PostgreSQL", lives + 1) and system.json("status")["healthy"])


def test_the_log_of_the_supervisor_is_cut_while_it_lives(system: System) -> None:
    log = system.place.home.supervisor_log
    with log.open("ab") as file:
        file.write(b"x\n" * 5_500_000)
    system.processes()["WatchDog"].signal(signal.SIGKILL)
    wait_until(lambda: log.stat().st_size < 1_000_000)
    assert log.with_name("supervisor.log.1").stat().st_size > 10_000_000
    wait_until(lambda: system.ready("WatchDog", 2))


@pytest.mark.long
def test_a_killed_supervisor_leaves_a_field_that_can_be_used_again(system: System) -> None:
    before = system.processes()
    before.pop("PostgreSQL")
    before["supervisor"].signal(signal.SIGKILL)
    system.spawn("up", "--detach")
    assert [name for name, process in before.items() if process.alive()] == []
    assert system.json("status")["healthy"]


def test_down_ends_everything_and_may_be_repeated(system: System) -> None:
    before = system.processes()
    assert "is down" in system.run("down", "--drain", "0")
    assert [name for name, process in before.items() if process.alive()] == []
    assert system.run("down") == "JEDI was not up.\n"
    system.run("status", code=3)


@pytest.mark.long
def test_down_tidies_up_after_a_killed_supervisor(system: System) -> None:
    system.spawn("up", "--detach", "--copies", "2")
    before = system.processes()
    assert {"WatchDog", "WatchDog-2"} <= before.keys()
    before["supervisor"].signal(signal.SIGKILL)
    before["PostgreSQL"].signal(signal.SIGKILL)
    assert "is down" in system.run("down")
    assert [name for name, process in before.items() if process.alive()] == []
    assert system.processes() == {}


@pytest.mark.long
def test_who_deletes_the_home_ends_everything(system: System) -> None:
    system.spawn("up", "--detach")
    before = system.processes()
    shutil.rmtree(system.place.home.path)
    wait_until(lambda: not [name for name, process in before.items() if process.alive()])
    assert system.run("down") == "JEDI was not up.\n"
    if os.geteuid() == 0:  # an ordinary user's database was in the home
        assert "was once at this path" in system.spawn("up", "--detach", code=1)
        assert system.run("destroy", "--yes").startswith("Deleted: ")
        assert not system.place.home.root.exists()


def put_job(engine: Engine, command: str) -> int:
    """A job that a pilot at LOCAL will take."""
    with engine.begin() as tx:
        [panda_id] = make_jobs(tx, 1, files=0, site="LOCAL").jobs
        change = "UPDATE jedi_job_params SET jobparameters = :command WHERE pandaid = :id"
        tx.execute(text(change), {"command": command, "id": panda_id})
        wake(tx, "job:activated")
    return panda_id


def job(engine: Engine, panda_id: int) -> Any:
    with engine.begin() as tx:
        return tx.execute(
            text("SELECT * FROM jedi_jobs WHERE pandaid = :id"), {"id": panda_id}
        ).one()


@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "drain", "status", "reported"),
    [("sleep 600", "0", "closed", None), ("sleep 2", "60", "failed", "failed")],
    ids=["not waited for", "waited for"],
)
def test_down_waits_for_jobs_and_closes_the_others(
    system: System, command: str, drain: str, status: str, reported: str | None
) -> None:
    """The job that ends in time fails, because it makes no output: that is its own end."""
    system.spawn("up", "--detach")
    engine = connect(system.place.url)
    panda_id = put_job(engine, command)
    wait_until(lambda: job(engine, panda_id).status == "running")
    with engine.begin() as tx:
        [pilot] = pilots.LIVE_PILOTS.rows(tx, host=socket.gethostname())
    told = system.run("down", "--drain", drain)
    assert ("running jobs: 1, results to add: 0 (at most" in told) == (drain != "0")
    assert pilot.pid and pilot.process_start
    assert not Process(pilot.pid, pilot.process_start).alive()
    engine.dispose()
    embedded = system.place.embedded
    assert embedded is not None
    embedded.start()
    found = job(engine, panda_id)
    with engine.begin() as tx:
        assert pilots.LIVE_PILOTS.rows(tx, host=socket.gethostname()) == []
    engine.dispose()
    embedded.stop()
    assert (found.pilot_result, found.status) == (reported, status)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_the_foreground_ends_in_order(system: System, number: signal.Signals) -> None:
    foreground = subprocess.Popen(
        [sys.executable, "-m", "jedi", "up"],
        env=system.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert foreground.stdout is not None
    assert "JEDI is up" in foreground.stdout.readline()
    before = system.processes()
    foreground.send_signal(number)
    foreground.communicate(timeout=DEADLINE_S)
    assert foreground.returncode == 0
    assert [name for name, process in before.items() if process.alive()] == []
    assert processes.started(foreground.pid) is None


def test_a_bad_site_file_starts_nothing(system: System, tmp_path: Path) -> None:
    file = tmp_path / "sites.yaml"
    file.write_text("- {site: ALPHA, nslot: 3}\n")
    assert "Did you mean nslots?" in system.spawn("up", "--sites", str(file), code=2)
    assert "Did you mean nslots?" in system.spawn("up", "--detach", "--sites", str(file), code=2)
    assert system.processes() == {}


def test_what_a_line_is_about_is_not_broken(capsys: pytest.CaptureFixture[str]) -> None:
    table(["attribute", "value"], [("transferringlimit", clock.now()), ("endpoints", "x" * 99)])
    assert "\ntransferringlimit  " in capsys.readouterr().out
