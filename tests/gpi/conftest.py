"""A home of the client for each test, with fresh registries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jedi_client.gpi.local.backend import LocalBackend
from jedi_client.gpi.session import SESSION
from support.bench import RUNNERS, BenchRunner
from support.local_jobs import helper_of, wait


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """JEDI_CLIENT_HOME of the test; the session's registries are there, and empty."""
    place = tmp_path / "home"
    monkeypatch.setenv("JEDI_CLIENT_HOME", str(place))
    monkeypatch.delenv("JEDI_CLIENT_BACKEND", raising=False)
    SESSION.close()
    yield place
    SESSION.close()


@pytest.fixture
def local(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBackend]:
    """Backend Local, whose helpers end soon; the test waits for their ends."""
    monkeypatch.setenv("JEDI_HELPER_IDLE_S", "0.3")
    yield LocalBackend(home=home)
    wait(lambda: helper_of(home) is None)


@pytest.fixture
def runner(home: Path) -> Iterator[BenchRunner]:
    """A backend of the tests' own with real bulk: Bench()."""
    RUNNERS[""] = BenchRunner()
    yield RUNNERS[""]
    RUNNERS.clear()


@pytest.fixture
def emulated(runner: BenchRunner) -> BenchRunner:
    """The same backend with an emulated bulk."""
    runner.bulk = False
    return runner
