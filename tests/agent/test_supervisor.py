"""Processes that are kept alive, that say when they are ready, and that leave with their keeper."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import text
from support.job_rows import make_jobs
from support.supervisor import ENVIRONMENT, House

import jedi
from jedi.agent import registry
from jedi.agent.base import World
from jedi.agent.supervisor import Program, Sleeper, Supervised, Supervisor
from jedi.cli.jedi import _tell_where
from jedi.core import clock, log
from jedi.core.backoff import Backoff
from jedi.core.errors import NotFound, NotYet, Refused
from jedi.core.settings import Settings
from jedi.host import logfiles, processes
from jedi.host.home import Home
from jedi.host.processes import Process
from jedi.model.jobs.wire import Resources
from jedi.standalone import down
from jedi.standalone.installation import Installation, packaged
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.sites import pilots
from jedi.taskbuffer.sites.pilots import PilotSighting
from jedi.watchdog.all_dogs import DOGS

DEADLINE_S = 30.0

READY = "from jedi.agent import child; child.announce()\n"
FOR_EVER = "import signal\nwhile True: signal.pause()\n"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"


def eventually(condition: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, failing after a while."""
    deadline = clock.monotonic() + DEADLINE_S

    def met() -> bool:
        assert clock.monotonic() < deadline, "it does not come to pass"
        return condition()

    return met


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def pid_of(child: Supervised) -> int:
    process = child.process()
    assert process is not None
    return process.pid


def test_pauses_grow_to_half_a_minute() -> None:
    backoff, waits = Backoff(30.0), []
    for _ in range(7):
        backoff.failed(100.0)
        waits.append(backoff.wait_s)
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert backoff.until == 130.0


def test_what_dies_is_started_again(house: House) -> None:
    program = house.program("one", READY + FOR_EVER)
    with house.supervise(program) as supervisor:
        supervisor.run(eventually(supervisor.ready))
        first = pid_of(program)
        os.kill(first, signal.SIGKILL)
        supervisor.run(eventually(lambda: program.lives == 2 and program.ready))
        assert pid_of(program) != first
    assert house.log.died == [{"name": "one", "how": "killed by SIGKILL", "again_in_s": 1.0}]
    ups_and_downs = [record["one"] for record in house.recorded]
    assert ups_and_downs == [False, True, False, False, True]
    assert program.process() is None


def test_what_rests_starts_when_it_is_called(house: House) -> None:
    """It is neither dead nor late without a process, and no life ends by itself in a pause."""
    sleeper = house.program("one", READY, Sleeper)
    assert isinstance(sleeper, Sleeper)
    with house.supervise(sleeper) as supervisor:
        supervisor.run(eventually(supervisor.ready))
        assert (sleeper.lives, sleeper.process()) == (0, None)
        for lives in (1, 2):
            sleeper.call()
            supervisor.wake()
            supervisor.run(eventually(lambda: sleeper.lives == lives and sleeper.asleep))  # noqa: B023
        assert supervisor.ready()
    assert house.log.died == []


def test_what_dies_at_work_is_started_again_uncalled(house: House) -> None:
    sleeper = house.program("one", READY + FOR_EVER, Sleeper)
    assert isinstance(sleeper, Sleeper)
    with house.supervise(sleeper) as supervisor:
        sleeper.call()
        supervisor.run(eventually(lambda: sleeper.process() is not None))
        os.kill(pid_of(sleeper), signal.SIGKILL)
        supervisor.run(eventually(lambda: sleeper.lives == 2 and sleeper.ready))
    assert [died["how"] for died in house.log.died] == ["killed by SIGKILL"]


def test_what_cannot_start_harms_nobody(house: House) -> None:
    good, bad = house.program("good", READY + FOR_EVER), house.program("bad", "raise SystemExit(3)")
    absent = Program("absent", ["/nowhere/to/be/found"], house.directory / "absent.log", {})
    with house.supervise(absent, bad, good) as supervisor:
        supervisor.run(eventually(lambda: bad.lives == 2 and absent.lives == 2))
        assert good.ready and good.lives == 1
        assert not supervisor.ready()
    how = {str(facts["name"]): str(facts["how"]) for facts in house.log.died}
    assert how["bad"] == "exit code 3"
    assert "/nowhere/to/be/found" in how["absent"]


def test_a_slow_start_does_not_hide_how_the_last_life_ended(house: House) -> None:
    """`last end` shows the end of the former process, not what the new one is doing."""

    class Slow(Program):
        def launch(self) -> None:
            raise NotYet("it is starting")

    slow = Slow("slow", [], house.directory / "slow.log", {})
    slow.tend(house.log)
    assert (slow.lives, slow.last_end) == (0, "it is starting")
    slow.lives, slow.last_end, slow._backoff = 1, "killed by SIGKILL", Backoff(30.0)
    slow.tend(house.log)
    assert (slow.lives, slow.last_end) == (1, "killed by SIGKILL")


def test_halt_ends_some_or_all_and_kills_the_stubborn(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jedi.agent.supervisor.GRACE_S", 0.2)
    meek = house.program("meek", READY + FOR_EVER)
    stubborn = house.program("stubborn", STUBBORN + READY + FOR_EVER)
    with house.supervise(meek, stubborn) as supervisor:
        supervisor.run(eventually(supervisor.ready))
        supervisor.halt("meek")
        supervisor.run(eventually(lambda: not meek.ready))
        assert meek.lives == 1
        assert stubborn.process() is not None
    assert stubborn.process() is None
    assert "killed" in str(stubborn.dead())
    assert house.log.died == []


def test_a_log_that_grew_too_large_is_cut(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JEDI_LOG_MB", "0.001")
    monkeypatch.setenv("JEDI_LOG_FILES", "2")
    talk = "import time\nfor i in range(10**6): print('word', i, flush=True); time.sleep(0.001)\n"
    program = house.program("talker", talk)
    kept, older = (house.directory / f"talker.log.{number}" for number in (1, 2))
    with house.supervise(program) as supervisor:
        supervisor.run(eventually(lambda: kept.exists() and older.exists()))
        assert kept.stat().st_size > 1000
        length = (house.directory / "talker.log").stat().st_size
        supervisor.run(
            eventually(lambda: 0 < (house.directory / "talker.log").stat().st_size != length)
        )
        assert b"\0" not in (house.directory / "talker.log").read_bytes()
    words = [path.read_text().splitlines() for path in (older, kept)]
    numbers = [int(line.split()[1]) for line in [*words[0], *words[1]]]
    assert numbers == sorted(numbers)
    assert {*house.directory.glob("talker.log.*")} == {kept, older}


FULL = Path("/dev/full")


on_linux = pytest.mark.skipif(not FULL.exists(), reason="there is no full disk to write to")


@on_linux
def test_a_record_that_cannot_be_written_is_written_later(house: House) -> None:
    program, recorded = house.program("one", READY + FOR_EVER), list[bool]()

    def record(children: Sequence[Supervised]) -> None:
        recorded.append(children[0].ready)
        if len(recorded) < 4:
            FULL.write_text("no room")

    with Supervisor([program], house.notify, record, house.log) as supervisor:
        supervisor.run(eventually(lambda: len(recorded) > 3))
    assert house.log.died == [{"error": "[Errno 28] No space left on device"}]
    assert recorded == [False, True, True, True]


@on_linux
def test_a_log_is_turned_over_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JEDI_LOG_MB", "0.001")
    full, older = tmp_path / "a.log", tmp_path / "a.log.1"
    full.write_text("word" * 1000)
    older.write_text("older")
    (tmp_path / "a.log.new").symlink_to(FULL)
    logfiles.rotate(full)
    assert (full.stat().st_size, older.read_text()) == (4000, "older")
    logfiles.rotate(full)
    assert (full.stat().st_size, older.stat().st_size) == (0, 4000)
    assert {path.name for path in tmp_path.iterdir()} == {"a.log", "a.log.1", "a.log.2"}


@on_linux
def test_a_log_that_cannot_be_written_ends_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    full = FULL.open("w", buffering=1)
    monkeypatch.setattr(sys, "stderr", full)
    log.setup("supervisor").warning("died")
    with pytest.raises(OSError, match="No space"):
        full.close()


KEEPER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from support.supervisor import House
house = House(Path({directory!r}))
charge = house.program("child", {child!r})
with house.supervise(charge) as supervisor:
    supervisor.run(supervisor.ready)
    print(charge.process().pid, flush=True)
    supervisor.run(lambda: False)
"""
LEASHED = "from jedi.agent import child; child.follow()\n" + READY + FOR_EVER
DEAF = "from jedi.agent import child; child.GRACE_S = 0.2; child.follow()\n" + STUBBORN + READY


@pytest.mark.parametrize("child", [LEASHED, DEAF + FOR_EVER], ids=["meek", "deaf"])
def test_children_end_when_their_supervisor_is_killed(tmp_path: Path, child: str) -> None:
    source = KEEPER.format(
        tests=str(Path(__file__).parents[1]), directory=str(tmp_path), child=child
    )
    keeper = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, env=ENVIRONMENT, text=True
    )
    assert keeper.stdout is not None
    orphan = processes.note(int(keeper.stdout.readline()))
    keeper.kill()
    keeper.communicate()
    assert orphan is not None
    met = eventually(lambda: not orphan.alive())
    while not met():
        select.select([], [], [], 0.02)


def test_a_recycled_process_id_is_a_stranger() -> None:
    present = processes.note(os.getpid())
    assert present is not None and present.alive()
    stranger = Process(present.pid, present.start - 1)
    assert not stranger.alive()
    stranger.signal(signal.SIGKILL)  # or this was the last line


def test_a_zombie_is_no_living_process() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert processes.started(child.pid) is None
        assert processes.note(2**22 + 1) is None


def test_start_time_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("ps"):
        pytest.skip("there is no ps")
    found = processes._started_by_ps(os.getpid())
    assert found is not None and abs(found - clock.now().timestamp()) < 10_000
    assert processes._started_by_ps(2**22 + 1) is None


@pytest.fixture
def installation(home: Path) -> Iterator[Installation]:
    settings = Settings(home, "postgresql://nowhere")
    found = Installation(Home(home), None, settings)
    yield found
    found.home.discard()


def test_a_second_start_says_what_differs_and_a_first_one_is_starting(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the request until all is up the status is "starting". A start by another release names
    both, and the way to change."""

    def refusal() -> str:
        with pytest.raises(Refused) as caught, installation.sole("up"):
            pass
        return caught.value.sentence

    with installation.sole("up"):
        assert "There runs an earlier release; this is release" in refusal()
        installation.note_release(up=False)
        assert installation.starting
        installation.note_release(up=True)
        assert not installation.starting
        assert refusal().endswith("`jedi down` ends it.")
        here = jedi.__version__
        monkeypatch.setattr(jedi, "__version__", "9.9.9")
        assert f"There runs release {here}, schema" in refusal()
        assert "this is release 9.9.9, schema" in refusal() and "`jedi down`, then" in refusal()
    installation.clear_record()
    assert not installation.starting


def test_only_one_is_in_charge(installation: Installation) -> None:
    assert installation.supervisor() is None
    with installation.sole("up"):
        assert installation.supervisor() == processes.note(os.getpid())
        with (
            pytest.raises(Refused, match=f"process {os.getpid()}") as caught,
            installation.sole("up"),
        ):
            pass
        assert caught.value.code == "already_up"
    with installation.sole("down"):
        assert installation.supervisor() is None  # nobody would tell this process to end
        with pytest.raises(Refused, match="going down"), installation.sole("down", patience_s=0.1):
            pass


def test_left_overs_of_a_killed_supervisor_are_ended(
    installation: Installation, house: House
) -> None:
    """Those that were noted, and only if they are still the same processes."""
    ours = house.program("ours", STUBBORN + READY + FOR_EVER)
    stranger = house.program("stranger", READY + FOR_EVER)
    with house.supervise(ours, stranger) as supervisor:
        supervisor.run(eventually(supervisor.ready))
        os.kill(pid_of(ours), signal.SIGSTOP)
        installation.write_record([ours, stranger])
        record = installation.home.path / "processes.json"
        rows = json.loads(record.read_text())
        rows[1]["start"] -= 1
        record.write_text(json.dumps(rows))
        installation.end_recorded()
        assert ours.process() is None
        assert stranger.process() is not None
    installation.clear_record()
    assert installation.read_record() is None


def test_pilots_end_and_their_jobs_are_closed(world: World, house: House) -> None:
    """Closed first, so that what the pilot reports when it is told to end comes too late."""
    engine, host = world.engine, socket.gethostname()
    pilot = house.program("pilot", STUBBORN.replace("SIGTERM", "SIGHUP") + READY + FOR_EVER)
    with house.supervise(pilot) as supervisor:
        supervisor.run(eventually(supervisor.ready))
        process = pilot.process()
        assert process is not None
        with engine.begin() as tx:
            made = make_jobs(tx, 3)
            pilots.insert_pilots(tx, host, "SITE_A", "local", {"here": "-"}, 60.0)
            pilots.insert_pilots(tx, "elsewhere", "SITE_A", "local", {"there": "+"}, 60.0)
            pilots.note_found(tx, {"here": PilotSighting(process, None, running=True)})
            for name in ("here", "there"):
                dispatch.acquire(tx, "SITE_A", 1, Resources(cores=1), name, name)
        assert down.remaining_work(engine) == "running jobs: 1, results to add: 0"
        down.end_pilots(engine, Home(world.settings.home))
        assert down.remaining_work(engine) == ""
        assert not process.alive()
    with engine.begin() as tx:
        jobs = tx.execute(text("SELECT pilot_id, status FROM jedi_jobs ORDER BY pandaid")).all()
        assert [*map(tuple, jobs)] == [("here", "closed"), ("there", "sent"), (None, "activated")]
        returned = "SELECT status FROM jedi_dataset_contents WHERE pandaid = :id AND type = 'input'"
        assert set(tx.scalars(text(returned), {"id": made.jobs[0]})) == {"ready"}
        assert pilots.LIVE_PILOTS.rows(tx, host=host) == []
        assert len(pilots.LIVE_PILOTS.rows(tx, host="elsewhere")) == 1


def test_a_lost_database_is_not_waited_for(tmp_path: Path) -> None:
    assert not down.remaining_work(connect(f"postgresql://postgres@/jedi?host={tmp_path}"))


def test_agents_are_found_by_name() -> None:
    for name in registry.AGENTS:
        assert registry.load(name).name == name
    with pytest.raises(NotFound, match="Did you mean JobGenerator"):
        registry.load("JobGenrator")


def test_systemd_units_name_every_agent_and_are_sound(tmp_path: Path) -> None:
    units = packaged("config") / "systemd"
    target = (units / "jedi-agents.target").read_text()
    wanted = [line for line in target.splitlines() if "@" in line]
    assert wanted == [f"Wants=jedi-agent@{name}.service" for name in registry.AGENTS]
    for name in ("jedi-api", "jedi-agent@", "jedi-dog-loop@"):  # no loop of restarts of a misfit
        assert "RestartPreventExitStatus=5\n" in (units / f"{name}.service").read_text()
    if not shutil.which("systemd-analyze"):
        pytest.skip("there is no systemd-analyze")
    for unit in units.glob("jedi*"):
        text = unit.read_text().replace("/opt/jedi/bin/jedi", "/bin/true")
        (tmp_path / unit.name).write_text(text.replace("User=jedi", "User=root"))
    named = ["jedi.service", "jedi-agents.target", "jedi-api.service"]
    named += ["jedi-agent@Mover.service", "jedi-agent-once@WatchDog.timer"]
    named += ["jedi-dogs.target", "jedi-dog-loop@caps.service", "jedi-dog@caps.service"]
    named += [f"jedi-dog@{name}.timer" for name in DOGS]
    done = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / name) for name in named)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_garbage_is_not_sought_in_what_a_process_has_loaded() -> None:
    source = (
        "import gc; from pathlib import Path; from jedi.agent.world import make_world; "
        "from jedi.core.settings import Settings; "
        "make_world(Settings(Path(), 'postgresql://nowhere/none'), 'Adder'); "
        "print(gc.get_freeze_count(), len(gc.get_objects()))"
    )
    told = subprocess.check_output([sys.executable, "-c", source], env=ENVIRONMENT, text=True)
    frozen, sought = map(int, told.split())
    assert frozen > 10 * sought


def test_what_does_not_come_up_is_told_with_its_last_words(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JEDI_DATABASE_URL", world.settings.database_url or "")
    monkeypatch.setenv("JEDI_HOME", str(world.settings.home))
    installation = Installation.current()
    installation.home.prepare()
    died, slow = (Program(name, [], installation.home.logs / name, {}) for name in ("api", "Adder"))
    died.last_end = "exit code 2"
    installation.write_record([died, slow])
    for name in ("api", "Adder"):
        (installation.home.logs / f"{name}.log").write_text(f"it begins\n{name} lacks [bold]\n")
    _tell_where(installation, 30.0)
    said = capsys.readouterr().out
    assert "after 30.0 s these are not ready: api, Adder." in said
    assert "api lacks [bold]" in said and "Adder lacks" not in said
