"""Builders that several tests share with tests of cli task."""

from __future__ import annotations

from pathlib import Path

import pytest

from jedi.agent.base import World
from jedi.cli import task
from support.helpers import Run, script

HELLO = Path(__file__).parents[2] / "examples" / "hello.yaml"


@pytest.fixture
def run(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `jedi-task` in the world."""
    return script(task.main, "jedi-task", world, monkeypatch, capsys)
