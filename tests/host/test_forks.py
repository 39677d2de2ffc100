"""Processes forked from this one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jedi.host import forks
from jedi.host.forks import Daemon, Fork

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are for Linux")


def forked(main: Callable[[], object], output: Path) -> Fork:
    """A fork with `MARK` in its environment."""
    with output.open("wb") as file:
        fork = forks.start(main, "a part", file, {**os.environ, "MARK": "x"})
    assert fork is not None
    return fork


def test_a_fork_has_its_own_files_session_and_title(tmp_path: Path) -> None:
    """Expected: its output is the file, its input ends with its parent's end of the pipe, no other
    file of the parent is open, `ps` shows its title, and SystemExit is its exit code."""
    ours = (tmp_path / "ours").open("wb")

    def main() -> None:
        still_open = [n for n in range(100) if Path(f"/proc/self/fd/{n}").is_symlink()]
        print(still_open, os.getsid(0) == os.getpid(), os.environ["MARK"], flush=True)
        print(Path("/proc/self/cmdline").read_text().rstrip("\0"), flush=True)
        os.read(0, 1)
        raise SystemExit(3)

    fork = forked(main, tmp_path / "out")
    with pytest.raises(subprocess.TimeoutExpired):
        fork.wait(0.2)
    assert fork.poll() is None
    fork.stdin.close()
    assert fork.wait(10) == 3
    assert (tmp_path / "out").read_text().splitlines() == ["[0, 1, 2] True x", "a part"]
    ours.close()


def test_a_fork_is_killed_and_shows_its_error(tmp_path: Path) -> None:
    asleep = forked(lambda: time.sleep(60), tmp_path / "asleep")
    asleep.kill()
    assert asleep.wait(10) == -9
    broken = forked(lambda: os.environ["NO SUCH NAME"], tmp_path / "broken")
    assert broken.wait(10) == 1
    assert "KeyError" in (tmp_path / "broken").read_text()


def test_a_daemon_outlives_its_parent(tmp_path: Path) -> None:
    """Expected: a session of its own, no input, the file as output; its exit code is reported."""
    out, later = tmp_path / "out", tmp_path / "later"

    def main(pause_s: float) -> None:
        time.sleep(pause_s)
        print(os.getsid(0) == os.getpid(), os.read(0, 1), os.environ["MARK"])
        raise SystemExit(5)

    def begin(path: Path, pause_s: float) -> Daemon:
        with path.open("wb") as file:
            daemon = forks.outlive(lambda: main(pause_s), "a daemon", file, {"MARK": "x"})
        assert daemon is not None
        return daemon

    daemon = begin(out, 0)
    while daemon.poll() is None:
        time.sleep(0.01)
    assert daemon.poll() == 5
    assert forked(lambda: begin(later, 0.3), tmp_path / "parent").wait(10) == 0
    assert not later.read_text()
    while not later.read_text():
        time.sleep(0.01)
    assert out.read_text() == later.read_text() == "True b'' x\n"


def test_nothing_is_forked_between_the_work_of_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: a copied lock would never be given back, so there is no fork."""
    monkeypatch.setattr(forks, "PATIENCE_S", 0.01)
    with forks.QUIET, (tmp_path / "out").open("wb") as file:
        assert forks.start(lambda: None, "a part", file, {}) is None
