"""`jedi replay`: a broker's decision made again from what it knew, and in other worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row

from jedi.brokerage.brokers import broker_of
from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.record import refusals
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.whatif import (
    SiteDifference,
    SiteView,
    alternative,
    chosen,
    differences,
    views,
)
from jedi.core.errors import NotFound
from jedi.core.knobs import Knobs
from jedi.spec.sites.decision import Refusal
from jedi.spec.sites.snapshot import Snapshot
from jedi.taskbuffer.reports import why_facts
from jedi.taskbuffer.sites import decisions

NUCLEUS = "nucleus"


@dataclass(frozen=True, slots=True)
class Replay:
    """A decision made again. `same`: the same sites with the same weights and reasons, to the bit;
    `departures` are the sites where it is not. `recorded` and `chosen` are sites with their
    weights, best first; `sites`, `chosen` and `differences` speak of the other world, if one was
    asked for."""

    decision_id: int
    jedi_task_id: int
    broker: str
    seed: int
    same: bool
    departures: tuple[str, ...]
    recorded: tuple[tuple[str, float], ...]
    chosen: tuple[tuple[str, float], ...]
    differences: tuple[SiteDifference, ...]
    sites: tuple[SiteView, ...]


def replay(
    tx: Connection, decision_id: int, knobs: Sequence[str] = (), sites: Sequence[str] = ()
) -> Replay:
    """Make a decision again, and once more where `knob=value` and `NAME.attribute=value` hold.

    NotFound: there is no such decision, or what its broker knew is not kept any more; BadInput
    tells what is wrong with the other world.
    """
    row = decisions.get(tx, decision_id)
    if row is None:
        raise NotFound(f"There is no decision {decision_id}.", decision_id=decision_id)
    if row.data is None:
        raise NotFound(
            f"What the broker knew when it made decision {decision_id} is not kept any more "
            "(knobs retention.snapshots_days, decisions.snapshot_max_mb, decisions.total_max_mb).",
            code="snapshot_gone",
            decision_id=decision_id,
        )
    snapshot, need = Snapshot.unpack(row.data), Requirements.read(row.need)
    settings = Knobs(row.knobs)
    again = choose(row, snapshot, need, settings)
    departures = _departures(row, why_facts.refusals(tx, decision_id), again)
    found = again
    if knobs or sites:
        other, changed = alternative(snapshot, sites, settings, knobs)
        found = choose(row, other, need, changed)
    return Replay(
        decision_id=decision_id,
        jedi_task_id=row.jeditaskid,
        broker=row.broker,
        seed=row.seed,
        same=not departures,
        departures=departures,
        recorded=tuple(zip(row.chosen, row.weights, strict=True)),
        chosen=tuple(chosen(found)),
        differences=tuple(differences(again, found)),
        sites=tuple(views(found)),
    )


def choose(row: Row[Any], snapshot: Snapshot, need: Requirements, knobs: Knobs) -> SiteChoice:
    """What the broker of a recorded decision chooses."""
    broker = broker_of(need.request.vo, need.request.label, knobs)
    if row.broker == NUCLEUS:
        return broker.nucleus.choose(snapshot, need, knobs, row.seed)
    return broker.choose(snapshot, need, knobs, row.used, row.seed)


def _departures(row: Row[Any], reasons: Sequence[Row[Any]], again: SiteChoice) -> tuple[str, ...]:
    """The sites whose place, weight or reasons are not as they were recorded."""
    before = _by_place(zip(row.chosen, row.weights, strict=True))
    after = _by_place(chosen(again))
    told = {one.site: Refusal(one.site, one.codes, one.observed, one.limits) for one in reasons}
    now = {one.site: one for one in refusals(again.verdict)}
    names = {*before, *after, *told, *now}
    return tuple(
        sorted(
            site
            for site in names
            if before.get(site) != after.get(site) or told.get(site) != now.get(site)
        )
    )


def _by_place(sites: Any) -> dict[str, tuple[int, float]]:
    return {site: (place, weight) for place, (site, weight) in enumerate(sites)}
