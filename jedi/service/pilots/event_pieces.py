"""Pieces of merge jobs for their pilots. Source: docs/reference/event-service.md#wire."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from jedi.ddm.interface import DDM
from jedi.model.jobs.event_wire import PieceAsk
from jedi.model.jobs.events import RangeId
from jedi.service.pilots.pilot_requests import Answer, pilot_site
from jedi.taskbuffer.events import pieces
from jedi.taskbuffer.users.users import Identity


def some(tx: Connection, who: Identity, ask: PieceAsk, ddm: DDM) -> Answer:
    """Return some pieces of a merge job, in the order of events. `next`: the range after which to
    ask for others; null: these are the last. JediError if the place of a piece is unknown."""
    after = RangeId.parse(ask.after) if ask.after else None
    page = pieces.page(tx, pilot_site(who), ask.panda_id, ask.lock_seq, after)
    if page is None:
        return {"status": "stale", "pieces": [], "next": None}
    found = [_placed(page.jedi_task_id, one, ddm) for one in page.pieces]
    return {"status": "ok", "pieces": found, "next": page.next}


def _placed(jedi_task_id: int, given: dict[str, Any], ddm: DDM) -> dict[str, Any]:
    """A piece with its path: the number before the first dot of its name is its job set."""
    number = given["lfn"].partition(".")[0]
    jobset_id = int(number) if number.isdigit() else None
    place = ddm.pieces_where(given["endpoint"], jedi_task_id, jobset_id or None)
    return {**given, "path": f"{place}/{given['lfn']}"}
