"""A database that recovers, starts or goes down is waited for: real servers, real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from jedi.core.errors import NotYet
from jedi.host import processes
from jedi.host.home import Home
from jedi.standalone.embedded import Embedded
from jedi.standalone.up import Database
from jedi.taskbuffer.db.engine import connect, reachable

pytestmark = pytest.mark.long

DEADLINE_S = 120.0


def wait_for(condition: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < end, f"it did not happen: {what}"
        time.sleep(0.002)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Embedded]:
    tmp_path.chmod(0o700)
    server = Embedded(Home(tmp_path / "home"), shared_buffers="32MB")
    server.start()
    yield server
    server.remove()


def session(server: Embedded) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True)


def recovery(server: Embedded) -> int | None:
    """The process that goes through the log."""
    pid = server.pid()
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if "startup" in Path(f"/proc/{child}/cmdline").read_text():
                return int(child)
    return None


def crash(server: Embedded) -> int:
    """Kill one session, as the kernel does when memory is short: the server ends all others and
    recovers, which stands still until the process that is returned gets SIGCONT."""
    with session(server) as victim:
        victim.execute("CREATE TABLE IF NOT EXISTS kept AS SELECT generate_series(1, 400000) n")
        row = victim.execute("SELECT pg_backend_pid()").fetchone()
        assert row is not None
        os.kill(int(str(row[0])), signal.SIGKILL)
        wait_for(lambda: recovery(server), "it recovers")
        found = recovery(server)
        assert found is not None
        os.kill(found, signal.SIGSTOP)
    return found


def test_a_server_in_recovery_mode_is_not_yet_there(server: Embedded) -> None:
    """ "In recovery mode" is no failure: not yet, with a sentence; and when it is over, the same
    server goes on."""
    first = server.pid()
    recovering = crash(server)
    with pytest.raises(NotYet, match=f"process {first}.* recovers"):
        server.start(0.2)
    with pytest.raises(NotYet, match="recovering"), reachable(connect(server.url())) as _:
        connect(server.url()).connect()
    threading.Timer(0.5, os.kill, (recovering, signal.SIGCONT)).start()
    server.start()
    assert server.pid() == first
    with session(server) as connection:
        assert connection.execute("SELECT count(*) FROM kept").fetchone() == (400_000,)


def test_a_smart_shutdown_is_hastened_and_healed(server: Embedded) -> None:
    """After SIGTERM the server waits for its sessions, agents that never leave: SIGINT follows,
    then a restart."""
    child = Database(server)
    child.launch()
    first = server.pid()
    with session(server):
        os.kill(first or 0, signal.SIGTERM)
        wait_for(server.stopping, "it goes down")
        assert "got SIGTERM" in str(child.dead())
        assert server.pid() is None
        child.launch()
        assert server.pid() not in (None, first)
        assert child.dead() is None
    with session(server):
        os.kill(server.pid() or 0, signal.SIGTERM)
        wait_for(server.stopping, "it goes down")
        server.start()  # whoever starts it, not only the supervisor
        assert not server.stopping()


def test_jedi_comes_up_over_a_recovering_database_and_outlives_its_smart_shutdown(
    server: Embedded,
) -> None:
    """The supervisor waits, within its back-off, and says for what."""
    recovering = crash(server)
    home = server.home.path
    command = [sys.executable, "-m", "jedi"]
    environment = {**os.environ, "JEDI_HOME": str(home)}
    up = subprocess.Popen(
        [*command, "up", "--detach"],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        log = server.home.supervisor_log
        wait_for(lambda: log.exists() and "waiting for the database" in log.read_text(), "it waits")
        os.kill(recovering, signal.SIGCONT)
        said = up.communicate(timeout=DEADLINE_S)[0]
        assert up.returncode == 0 and "JEDI is up" in said, said
        assert "recovers" in said.splitlines()[0]
        keeper, first = supervisor(home), server.pid()
        os.kill(first or 0, signal.SIGTERM)
        wait_for(lambda: server.pid() not in (None, first) and server.running(), "it is healed")
        assert keeper.alive()
    finally:
        done = subprocess.run(
            [*command, "down", "--drain", "0"],
            env=environment,
            check=False,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert not server.running()


def supervisor(home: Path) -> processes.Process:
    pid, start, _ = (home / "up.lock").read_text().split()
    return processes.Process(int(pid), int(start))
