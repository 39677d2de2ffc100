"""A home of the client for each test, with fresh registries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jedi_client.gpi.session import SESSION
from support.bench import RUNNERS, BenchRunner


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
