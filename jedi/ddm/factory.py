"""Data management as the database configures it: the endpoints that have a root directory, the ones
on tape, and the place of the catalogue."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sqlalchemy import Connection, Engine

from jedi.core.knobs import Knobs
from jedi.ddm.filesystem import FileSystemDDM
from jedi.ddm.interface import DDM
from jedi.ddm.sqlcatalogue import SqlCatalogueDDM
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.sites.sites import StoragePlace


def load(tx: Connection, knobs: Knobs) -> DDM:
    """Data management over all endpoints; the same object as long as nothing was changed."""
    engine = tx.engine if knobs.ddm.catalogue == "sql" else None
    return _made(tuple(sites.PLACES.rows(tx)), knobs.ddm.event_count_command, engine)


@lru_cache(maxsize=4)
def _made(
    endpoints: tuple[StoragePlace, ...],
    event_count_command: str,
    catalogue: Engine | None,
) -> DDM:
    places = {one.ddm_endpoint: Path(one.path) for one in endpoints}
    tapes = {one.ddm_endpoint: one.buffer for one in endpoints if one.buffer is not None}
    if catalogue is None:
        return FileSystemDDM(places, event_count_command, tapes=tapes)
    return SqlCatalogueDDM(catalogue, places, event_count_command, tapes=tapes)
