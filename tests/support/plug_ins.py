"""Distributions with plug-ins that nobody trusts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jedi.agent import plugins
from jedi.agent.base import World
from jedi.taskbuffer.db import knobs

KINDS = {
    "refiner": ("jedi.taskrefiner.refine", "Refiner", "refine"),
    "generator": ("jedi.jobgenerator.strategies", "FileStrategy", "caps"),
    "broker": ("jedi.brokerage.generic", "GenericBroker", "choose"),
    "postprocessor": ("jedi.postprocessor.outcome", "PostProcessing", "settle"),
}
"""Rooms with the class of JEDI's own plug-in, and a method that a task needs."""


@contextmanager
def installed(tmp_path: Path, room: str, source: str) -> Iterator[None]:
    """A distribution with a plug-in `Bad` for label managed."""
    information = tmp_path / "strange_plugins-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: strange\nVersion: 1\n")
    point = f"[jedi.{room}]\nlocal:managed = strange_plugins:Bad\n"
    (information / "entry_points.txt").write_text(point)
    (tmp_path / "strange_plugins.py").write_text(source)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        patch.delitem(sys.modules, "strange_plugins", raising=False)
        plugins.find.cache_clear()
        plugins._installed.cache_clear()
        yield
        assert "strange_plugins" not in sys.modules  # no agent imports it
    plugins.find.cache_clear()
    plugins._installed.cache_clear()


def source_of(room: str, act: str) -> str:
    module, base, method = KINDS[room]
    return (
        f"import os, time\nfrom {module} import {base}\nclass Strange: pass\n"
        f"class Bad({base}):\n    def {method}(self, *some, **more):\n        {act}\n"
    )


def set_limit(world: World, seconds: float) -> None:
    with world.engine.begin() as tx:
        knobs.put(tx, "agent.plugin_s", seconds, "test")
