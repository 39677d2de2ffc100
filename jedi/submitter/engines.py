"""The list of engines."""

from __future__ import annotations

from jedi.host.home import Home
from jedi.submitter.batch import BatchEngine
from jedi.submitter.interface import Engine
from jedi.submitter.local import LocalEngine

LOCAL = "local"


def make(name: str, home: Home, command_s: float) -> Engine:
    """An engine by its name; EngineError: its software is not installed. A batch system's command
    is given up after `command_s`."""
    if name == LOCAL:
        return LocalEngine(home.pilot_logs)
    return BatchEngine(name, home.path / "batch", home.pilot_logs, command_s)
