"""Sites as queues of PanDA, and their endpoints as its storages."""

from __future__ import annotations

from typing import Any, NamedTuple

from jedi.taskbuffer.db.statement import returns


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


QUEUE = returns(PandaQueue)("""
-- The site of this name as a queue; None: there is none.
SELECT site, status, type, cloud, pandasite, corecount,
  maxrss, maxtime, maxwdir, catchall,
  ARRAY(SELECT e.ddm_endpoint FROM jedi_site_endpoints e
    WHERE e.site = s.site AND e.roles LIKE '%write%'
    ORDER BY e.default_write DESC, e.order_write, e.ddm_endpoint) AS writes
FROM jedi_sites s WHERE site = :site
""")


class PandaStorage(NamedTuple):
    """An endpoint as a storage."""

    endpoint: str
    site: str
    token: str | None
    is_tape: bool


STORAGES = returns(PandaStorage)("""
-- All endpoints, by name.
SELECT ddm_endpoint AS endpoint, site, token, is_tape FROM jedi_ddm_endpoints
ORDER BY ddm_endpoint
""")
