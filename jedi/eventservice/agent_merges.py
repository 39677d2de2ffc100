"""The broker's choices of sites for merge jobs of events: it chooses without a transaction."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, Engine

from jedi.core.knobs import Knobs
from jedi.eventservice.merge_places import PieceChoice, choose
from jedi.taskbuffer.events import set_ends
from jedi.taskbuffer.jobs import orders
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites import snapshot as snapshots


def brokered(engine: Engine, knobs: Knobs, tasks: Mapping[int, int]) -> dict[int, PieceChoice]:
    """The choice for each job set, of `tasks` by job set, among the sites that read its pieces."""
    with engine.begin() as tx:
        readers: dict[int, set[str]] = {one: set() for one in tasks}
        for site in set_ends.MERGE_SITES.rows(tx, ids=list(tasks)):
            readers[site.jobset_id].add(site.site)
        rows = {row.jedi_task_id: row for row in orders.read_tasks(tx, list(tasks.values()))}
        sites = snapshots.load(tx, {row.nucleus for row in rows.values() if row.nucleus})
    _ = sites.hash  # packed here, without locks
    return {
        one: choose(rows[task], one, readers[one], sites, knobs)
        for one, task in tasks.items()
        if task in rows
    }


def record(tx: Connection, knobs: Knobs, choices: Mapping[int, PieceChoice]) -> None:
    """Keep the last decision about each task, all of one snapshot."""
    for one in [*choices.values()][:1]:
        sites = one.choice.sites
        decisions.put_snapshot(tx, sites.hash, sites.packed, knobs.decisions.snapshot_max_mb)
    last = {choice.decision.jedi_task_id: choice.decision for choice in choices.values()}
    decisions.record(tx, [*last.values()])
