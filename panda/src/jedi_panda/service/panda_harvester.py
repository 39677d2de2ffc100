"""Questions of harvester, which sends pilots to a site. `who` is the holder of a pilot's token."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from jedi.core import clock
from jedi.service.pilots.pilot_requests import pilot_site
from jedi.taskbuffer.sites import panda_statistics
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskbuffer.users.users import Identity

WorkerFacts = dict[str, Any]


def resource_types(tx: Connection, who: Identity) -> list[WorkerFacts]:
    """Return the resource types by PanDA's names of their columns."""
    pilot_site(who)
    return [
        {
            "resource_name": one.name,
            "mincore": one.min_core,
            "maxcore": one.max_core,
            "minrampercore": one.min_ram_per_core,
            "maxrampercore": one.max_ram_per_core,
        }
        for one in new_tasks.RESOURCE_TYPES.rows(tx)
    ]


def live_jobs(tx: Connection, who: Identity, *, detailed: bool) -> WorkerFacts:
    """Return the numbers of live jobs of the token's site, by status; `detailed`: by resource type
    and status."""
    site, found = pilot_site(who), WorkerFacts()
    for one in panda_statistics.LIVE_AT.rows(tx, site=site):
        part = found.setdefault(one.resource_type, {}) if detailed else found
        part[one.status] = part.get(one.status, 0) + one.jobs
    return {site: found}


def first_worker_id(who: Identity) -> int:
    """Return a number that no earlier worker has: JEDI keeps none, and harvester counts on from
    it."""
    pilot_site(who)
    return int(clock.now().timestamp())
