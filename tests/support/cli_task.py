"""Builders that several tests share with tests of cli task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from jedi_client.cli import task

from jedi.agent.base import World
from support.helpers import Run, script

HELLO = Path(__file__).parents[2] / "examples" / "hello.yaml"


@pytest.fixture
def run(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Runs `jedi-task` in the world."""
    yield from script(task.main, "jedi-task", world, monkeypatch, capsys)
