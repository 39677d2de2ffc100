"""Sites and endpoints as the documents of queues and storages that PanDA's pilots read.
Source: docs/reference/panda.md#queues."""

from __future__ import annotations

from typing import Any

from jedi.taskbuffer.sites.panda_queues import PandaQueue, PandaStorage

ACTIVITIES = ("pr", "pw", "pl", "r", "w", "read_lan", "write_lan", "es_events", "es_pretransfers")
_COPY_TOOL = "mv"
_TIMEFLOOR = "timefloor"
"""The key of catchall with the minutes in which a pilot takes further jobs; 0: it takes one."""


def queue_document(queue: PandaQueue) -> dict[str, Any]:
    """Return the document of one queue. The queue bears the site's name, on every level."""
    floor = queue.catchall.get(_TIMEFLOOR, 0)
    return {
        "nickname": queue.site,
        "name": queue.site,
        "siteid": queue.site,
        "panda_resource": queue.site,
        "resource": queue.site,
        "site": queue.panda_site or queue.site,
        "atlas_site": queue.panda_site or queue.site,
        "gstat": queue.panda_site or queue.site,
        "cloud": queue.cloud,
        "type": queue.type,
        "status": queue.status,
        "state": "ACTIVE",
        "corecount": max(queue.core_count, 1),
        "maxrss": queue.max_rss,
        "maxtime": queue.max_time,
        "maxwdir": queue.max_wdir,
        "maxinputsize": -1,
        "timefloor": floor if isinstance(floor, int) and floor >= 0 else 0,
        "appdir": "",
        "catchall": "mv_final_destination",
        "environ": "",
        "container_options": "",
        "container_type": "",
        "cmtconfig": "",
        "platform": "",
        "is_cvmfs": False,
        "allow_lan": True,
        "allow_wan": False,
        "direct_access_lan": False,
        "direct_access_wan": False,
        "use_pcache": False,
        "pledgedcpu": 0,
        "copytools": {_COPY_TOOL: {"setup": ""}},
        "acopytools": {activity: [_COPY_TOOL] for activity in ACTIVITIES},
        "astorages": {activity: list(queue.writes) for activity in ACTIVITIES},
        "params": {},
    }


def storage_document(storage: PandaStorage, exchange: str) -> dict[str, Any]:
    """Return the document of one storage; `exchange`: the directory for pilots of PanDA."""
    protocol = {
        "endpoint": "file://localhost",
        "path": f"{exchange.rstrip('/')}/",
        "flavour": "",
        "id": 0,
    }
    return {
        "name": storage.endpoint,
        "id": 0,
        "site": storage.site or "",
        "state": "ACTIVE",
        "token": storage.token or "",
        "type": "TAPE" if storage.is_tape else "DATADISK",
        "is_tape": storage.is_tape,
        "is_deterministic": True,
        "arprotocols": {activity: [protocol] for activity in ACTIVITIES},
        "rprotocols": {},
        "resource": {},
    }
