"""Data management as the database configures it: the endpoints that have a root directory."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection

from jedi.core.knobs import Knobs
from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import DDM
from jedi.taskbuffer import sites


def load(tx: Connection, knobs: Knobs) -> DDM:
    """Data management over all endpoints; the same object as long as nothing was changed."""
    return _made(tuple(sites.roots(tx).items()), knobs["ddm.event_count_command"])


@lru_cache(maxsize=4)
def _made(roots: tuple[tuple[str, str], ...], event_count_command: str) -> DDM:
    return FileSystemDDM({name: Path(root) for name, root in roots}, event_count_command)
