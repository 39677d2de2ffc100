"""Servers for a while: nothing is left of them, however those who made them end."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from support.embedded import wait_for

from jedi.host import processes
from jedi.host.home import Home
from jedi.standalone import scratch
from jedi.standalone.embedded import Embedded

SERVE = """
import signal
from jedi.standalone import scratch
with scratch.server(shared_buffers="32MB"):
    signal.pause()
"""
TINY = """
days: 300
tick_s: 60
sites: [{site: GREEN, slots: 3, endpoints: [DISK]}]
tasks: [{name: some, files: 6, every_h: 1, run_s: 3600}]
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files of this test lie."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def running(place: Path, *words: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A process that has a server of its own, and that server's directory."""
    before = {*place.glob(f"{scratch.PREFIX}*")}
    with subprocess.Popen([sys.executable, *words]) as process:
        try:
            wait_for(lambda: any(Embedded(Home(one)).pid() for one in new(place, before)))
            [directory] = new(place, before)
            yield process, directory
        finally:
            process.kill()


def new(place: Path, before: set[Path]) -> set[Path]:
    return {*place.glob(f"{scratch.PREFIX}*")} - before


def parts(directory: Path) -> tuple[Callable[[], bool], ...]:
    """What tells whether there still is a server's home, its data and its process."""
    home = Home(directory)
    process = processes.note(Embedded(home).pid() or 0)
    assert process
    return directory.exists, home.root.exists, process.alive


def left(parts: tuple[Callable[[], bool], ...]) -> list[bool]:
    """Which parts of a server there still are."""
    return [is_there() for is_there in parts]


@pytest.mark.long
def test_what_one_that_was_killed_has_left_goes_and_what_others_use_stays(place: Path) -> None:
    with running(place, "-c", SERVE) as (killed, first), running(place, "-c", SERVE) as (_, second):
        abandoned, used = parts(first), parts(second)
        killed.kill()
        killed.wait()
        assert left(abandoned) == [True, True, True]
        with scratch.server(shared_buffers="32MB") as url:
            assert left(abandoned) == [False, False, False]
            assert left(used) == [True, True, True]
            with psycopg.connect(url.replace("+psycopg", "")) as connection:
                assert connection.execute("SHOW shared_buffers").fetchone() == ("32MB",)
    with scratch.server(shared_buffers="32MB"):
        assert left(used) == [False, False, False]
    assert [*place.iterdir()] == []


@pytest.mark.long
def test_nothing_is_left_of_a_simulation_that_is_ended(place: Path) -> None:
    """A second signal does not disturb it."""
    scenario = place / "tiny.yaml"
    scenario.write_text(TINY)
    with running(place, "-m", "jedi", "simulate", str(scenario)) as (process, directory):
        made = parts(directory)
        process.terminate()
        while process.poll() is None:
            process.terminate()
        assert process.returncode == 128 + signal.SIGTERM
        assert left(made) == [False, False, False]
    assert [*place.iterdir()] == [scenario]
