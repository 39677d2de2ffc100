"""Sites as queues of PanDA, and their endpoints as its storages."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from jedi.taskbuffer.db.rows import row_of, rows_of

_QUEUE = text("""
SELECT site, status, type, cloud, pandasite AS panda_site, corecount AS core_count,
  maxrss AS max_rss, maxtime AS max_time, maxwdir AS max_wdir, catchall,
  ARRAY(SELECT e.ddm_endpoint FROM jedi_site_endpoints e
    WHERE e.site = s.site AND e.roles LIKE '%write%'
    ORDER BY e.default_write DESC, e.order_write, e.ddm_endpoint) AS writes
FROM jedi_sites s WHERE site = :site
""")


class PandaQueue(NamedTuple):
    """A site as a queue; `writes`: the endpoints for outputs, the first one by default."""

    site: str
    status: str
    type: str
    cloud: str
    panda_site: str | None
    core_count: int
    max_rss: int
    max_time: int
    max_wdir: int
    catchall: dict[str, Any]
    writes: list[str]


def queue(tx: Connection, site: str) -> PandaQueue | None:
    """The site of this name as a queue; None: there is none."""
    return row_of(PandaQueue, tx.execute(_QUEUE, {"site": site}))


_STORAGES = text("""
SELECT ddm_endpoint AS endpoint, site, token, is_tape FROM jedi_ddm_endpoints
ORDER BY ddm_endpoint
""")


class PandaStorage(NamedTuple):
    """An endpoint as a storage."""

    endpoint: str
    site: str
    token: str | None
    is_tape: bool


def storages(tx: Connection) -> list[PandaStorage]:
    """All endpoints, by name."""
    return rows_of(PandaStorage, tx.execute(_STORAGES))
