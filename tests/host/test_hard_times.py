"""Hosts whose clocks are wrong, disks that are full: nothing is lost, nothing changes hands."""

# Raw UPDATEs: leases end while clocks differ.

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import make_url, text
from structlog.testing import capture_logs
from support.databases import drop_database, new_database
from support.helpers import make_world, put_file_dataset
from support.task_rows import good, put, row_of

from jedi.agent.base import World
from jedi.agent.loop import Loop
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core import clock
from jedi.taskbuffer.db import knobs, locks
from jedi.taskbuffer.db.engine import connect
from jedi.taskbuffer.housekeeping import agents
from jedi.taskbuffer.tasks import tasks
from jedi.taskrefiner.agent import TaskRefiner
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, walk

HOUR = timedelta(hours=1)


@pytest.mark.parametrize("wrong", [HOUR, -HOUR], ids=["fast", "slow"])
def test_no_lease_changes_hands_by_a_wrong_clock(world: World, wrong: timedelta) -> None:
    """Leases run by the database's clock, which all share."""
    with world.engine.begin() as tx:
        tx.execute(text("INSERT INTO jedi_tasks (status, reqid) VALUES ('ready', 1)"))
        (held,) = tasks.claim(tx, ["ready"], "right", 60, 1)
        assert locks.take(tx, "dog caps", "right", 60)
    clock.turn_to(datetime.now(UTC) + wrong)
    try:
        with world.engine.begin() as tx:
            assert tasks.claim(tx, ["ready"], "wrong", 60, 1) == []
            assert not locks.take(tx, "dog caps", "wrong", 60)
        assert walk(world, DOGS["leases"]) == Counts()
        with world.engine.begin() as tx:
            assert tasks.fence(tx, [(held.jedi_task_id, held.lock_seq)]) == {held.jedi_task_id}
            tx.execute(text("UPDATE jedi_tasks SET lease_until = NULL, lockedby = NULL"))
            (other,) = tasks.claim(tx, ["ready"], "wrong", 60, 1)
            assert locks.take(tx, "dog archive", "wrong", 60)
    finally:
        clock.turn_to(None)
    with world.engine.begin() as tx:
        assert tasks.claim(tx, ["ready"], "right", 60, 1) == []
        assert not locks.take(tx, "dog archive", "right", 60)
        tx.execute(text("UPDATE jedi_tasks SET lease_until = lease_until - interval '61 s'"))
        (again,) = tasks.claim(tx, ["ready"], "right", 60, 1)
        assert again.lock_seq > other.lock_seq


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MB that the database may write to."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    place = Path(tempfile.mkdtemp(dir="/tmp", prefix="jedi-small-"))  # the database may go there
    place.chmod(0o755)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        place.rmdir()
        pytest.skip(f"no file system can be mounted: {mounted.stderr}")
    yield place
    subprocess.run(["umount", str(place)], check=True)
    place.rmdir()


@pytest.fixture
def cramped(server: str, template: str, small_disk: Path, home: Path) -> Iterator[World]:
    """A world whose database lies on the small disk."""
    data = small_disk / "data"
    data.mkdir()
    owner = connect(server)
    with owner.connect() as tx:
        cluster = Path(tx.scalar(text("SHOW data_directory")) or "")
    if not cluster.exists():
        pytest.skip("the server is not on this machine")
    os.chown(data, cluster.stat().st_uid, cluster.stat().st_gid)
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
        tx.execute(text(f"CREATE TABLESPACE small LOCATION '{data}'"))
    url = new_database(server, template)
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
        tx.execute(text(f"ALTER DATABASE {make_url(url).database} SET TABLESPACE small"))
    engine = connect(url)
    yield make_world(engine, home)
    engine.dispose()
    drop_database(server, url)
    with owner.connect().execution_options(isolation_level="AUTOCOMMIT") as tx:
        tx.execute(text("DROP TABLESPACE small"))
    owner.dispose()


class Stubborn(ContentsFeeder):
    """Fails but in its third cycle."""

    turns = 0
    breath_s = 0.0

    def run_once(self) -> int:
        self.turns += 1
        if self.turns != 3:
            raise ValueError("No.")
        return 1


def test_an_agent_that_fails_again_and_again_takes_its_time(world: World) -> None:
    """Its log is to be read, and the database has others to serve."""
    loop, pauses = Loop(Stubborn(world)), list[float]()

    class Stopping(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            if len(pauses) == 10:
                self.set()
            return self.is_set()

    loop.stopping = Stopping()
    with capture_logs():
        loop.run()
    assert pauses == [0.25, 0.5, 0.25, 0.5, 1, 2, 4, 8, 16, 30]
    when, _, said = (loop.last_error or "").partition(" ")
    assert said == "No."
    assert abs(clock.now() - datetime.fromisoformat(when)) < HOUR


class Once(ContentsFeeder):
    """Fails in its first cycle only."""

    turns = 0

    def run_once(self) -> int:
        self.turns += 1
        if self.turns == 1:
            raise ValueError("No.")
        return 1


def test_an_error_is_shown_until_the_agent_has_worked_well_for_a_while(world: World) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "agent.heartbeat_s", 0.1, "op")
        knobs.put(tx, "agent.lease_s", 1.0, "op")
    world.refresh()
    loop, shown = Loop(Once(world)), list[str | None]()
    with capture_logs():
        thread = threading.Thread(target=loop.run)
        thread.start()
        try:
            until = clock.monotonic() + 60
            while None not in shown and clock.monotonic() < until:
                thread.join(0.05)
                with world.engine.begin() as tx:
                    shown += [beat.last_error for beat in agents.ALL_AGENTS.rows(tx)]
        finally:
            loop.stopping.set()
            thread.join()
    assert (shown[0] or "").endswith(" No.")
    assert shown[-1] is None and loop.last_error is None


def fill(disk: Path) -> None:
    with suppress(OSError), (disk / "ballast").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_full_disk_is_waited_for(cramped: World, small_disk: Path) -> None:
    put_file_dataset(cramped, "demo:in", {f"f{n}": b"x" for n in range(2000)}, "SITE_A_DATADISK")
    (task,) = put(cramped, good())
    TaskRefiner(cramped).run_once()
    fill(small_disk)
    loop = Loop(ContentsFeeder(cramped))
    with capture_logs() as said:
        thread = threading.Thread(target=loop.run)
        thread.start()
        try:
            until = clock.monotonic() + 60
            while loop.last_error is None and clock.monotonic() < until:
                thread.join(0.05)
            assert "No space left on device" in (loop.last_error or "")
            assert row_of(cramped, task).status == "defined"
            (small_disk / "ballast").unlink()
            while row_of(cramped, task).status == "defined" and clock.monotonic() < until:
                thread.join(0.05)
        finally:
            loop.stopping.set()
            thread.join()
    assert "cycle failed" in {one["event"] for one in said}
    assert row_of(cramped, task).status == "ready"
    with cramped.engine.begin() as tx:
        found = text("SELECT count(*) FROM jedi_dataset_contents WHERE type = 'input'")
        assert tx.scalar(found) == 2000
