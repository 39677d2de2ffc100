"""Sites, work queues and knobs of a new database, and the site file that a person gives."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.core import strictyaml
from jedi.core.settings import caller
from jedi.service.operations.table import Call, KnownCaller
from jedi.service.queues.work_queues import import_queues
from jedi.service.sites.changes import import_sites
from jedi.service.system import knobs
from jedi.standalone.installation import Installation, packaged
from jedi.taskbuffer.scheduling import queues
from jedi.taskbuffer.sites import sites
from jedi.taskbuffer.sites.sites import AttributeChange


def fill(
    tx: Connection, installation: Installation, site_file: str | None
) -> list[AttributeChange]:
    """Import the site file, if there is one; else our own sites and knobs into a database without
    sites. Import our own queues into one without queues. The changes of sites."""
    defaults, creator = packaged("config"), installation.creator
    changes: list[AttributeChange] = []

    def call_of(who: str) -> Call:
        return Call(tx, KnownCaller(who, "socket"), installation.home)

    if site_file is not None:
        changes = import_sites(call_of(caller()), site_file)
    elif not sites.ALL_SITES.rows(tx):
        ours = (defaults / "sites.yaml").read_text()
        changes = import_sites(call_of(creator), ours)
        for name, value in strictyaml.load((defaults / "knobs.yaml").read_text()).items():
            knobs.put(call_of(creator), name, str(value))
    if not queues.ALL_QUEUES.rows(tx):
        import_queues(call_of(creator), (defaults / "queues.yaml").read_text())
    return changes
