"""The broker's choices of sites for merge jobs of events, in the transaction that starts them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from jedi.core.knobs import Knobs
from jedi.eventservice.merge_places import choose
from jedi.taskbuffer.events.set_ends import NearSite
from jedi.taskbuffer.jobs import orders
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites import snapshot as snapshots


def brokered(
    tx: Connection, knobs: Knobs, tasks: Mapping[int, int], found: Mapping[int, Sequence[NearSite]]
) -> dict[int, dict[str, float]]:
    """The weights of the sites that the broker takes, by job set, of those that were `found` for
    it; `tasks` by job set. The last decision about each task is kept."""
    near = {one: {site.site for site in found[one]} for one in tasks if found[one]}
    if not near:
        return {}
    rows = {row.jedi_task_id: row for row in orders.read_tasks(tx, [tasks[one] for one in near])}
    sites = snapshots.load(tx, {row.nucleus for row in rows.values() if row.nucleus})
    made = {one: choose(rows[tasks[one]], one, names, sites, knobs) for one, names in near.items()}
    last = {tasks[one]: choice.decision for one, choice in made.items()}
    decisions.put_snapshot(tx, sites.hash, sites.packed, knobs.decisions.snapshot_max_mb)
    decisions.record(tx, [*last.values()])
    return {one: choice.weights for one, choice in made.items()}
