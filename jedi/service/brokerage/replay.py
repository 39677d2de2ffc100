"""Replays: repeat a broker's decision from its snapshot, also under other assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

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
from jedi.model.sites.decision import Refusal
from jedi.model.sites.snapshot import Snapshot
from jedi.service.foreign import asking
from jedi.service.operations.arguments import SettingText, TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.reports import why_facts
from jedi.taskbuffer.reports.why_facts import RefusedSite
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites.decisions import RecordedDecision

NUCLEUS = "nucleus"
Assumptions = Annotated[list[SettingText], Field(max_length=1_000)] | None


@dataclass(frozen=True, slots=True)
class Replay:
    """A repeated decision. `same`: the same sites with the same weights and reasons, to the bit;
    `departures`: the sites that differ. `recorded` and `chosen` are sites with their weights, best
    first. With assumptions, `sites`, `chosen` and `differences` are those of the changed world."""

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


@operation("decision.replay", "GET", "/v1/decisions/{decision_id}/replay", ANYBODY, heavy=True)
def replay(
    call: Call, decision_id: TaskId, knobs: Assumptions = None, sites: Assumptions = None
) -> Replay:
    """Repeat a decision from its snapshot, and once more under other `knobs` (KNOB=VALUE) and
    `sites` (NAME.ATTRIBUTE=VALUE).

    NotFound: there is no such decision, or JEDI has removed its snapshot; BadInput lists mistakes
    in the assumptions.
    """
    if theirs := asking.of_decision(call, decision_id):
        given = {"decision_id": decision_id, "knobs": knobs, "sites": sites}
        elsewhere: Replay = asking.answer(call, theirs, "decision.replay", **given)
        return elsewhere
    row = decisions.GET.row(call.tx, id=decision_id)
    if row is None:
        raise NotFound(f"There is no decision {decision_id}.", decision_id=decision_id)
    if row.data is None:
        raise NotFound(
            f"JEDI has removed the snapshot of decision {decision_id} (knobs "
            "retention.snapshots_days, decisions.snapshot_max_mb, decisions.total_max_mb).",
            code="snapshot_gone",
            decision_id=decision_id,
        )
    snapshot, need = Snapshot.unpack(row.data), Requirements.read(row.need)
    settings = Knobs(row.knobs)
    again = choose(row, snapshot, need, settings)
    departures = _departures(row, why_facts.REFUSALS.rows(call.tx, id=decision_id), again)
    found = again
    if knobs or sites:
        other, changed = alternative(snapshot, sites or (), settings, knobs or ())
        found = choose(row, other, need, changed)
    return Replay(
        decision_id=decision_id,
        jedi_task_id=row.jedi_task_id,
        broker=row.broker,
        seed=row.seed,
        same=not departures,
        departures=departures,
        recorded=tuple(zip(row.chosen, row.weights, strict=True)),
        chosen=tuple(chosen(found)),
        differences=tuple(differences(again, found)),
        sites=tuple(views(found)),
    )


def choose(
    row: RecordedDecision, snapshot: Snapshot, need: Requirements, knobs: Knobs
) -> SiteChoice:
    """Return the choice of a recorded decision's broker."""
    broker = broker_of(need.request.vo, need.request.label, knobs)
    if row.broker == NUCLEUS:
        return broker.nucleus.choose(snapshot, need, knobs, row.seed)
    return broker.choose(snapshot, need, knobs, row.used, row.seed)


def _departures(
    row: RecordedDecision, reasons: Sequence[RefusedSite], again: SiteChoice
) -> tuple[str, ...]:
    """Return the sites whose rank, weight or reasons differ from the record."""
    before = _by_place(zip(row.chosen, row.weights, strict=True))
    after = _by_place(chosen(again))
    stored = {one.site: Refusal(one.site, one.codes, one.observed, one.limits) for one in reasons}
    now = {one.site: one for one in refusals(again.verdict)}
    names = {*before, *after, *stored, *now}
    return tuple(
        sorted(
            site
            for site in names
            if before.get(site) != after.get(site) or stored.get(site) != now.get(site)
        )
    )


def _by_place(sites: Any) -> dict[str, tuple[int, float]]:
    return {site: (place, weight) for place, (site, weight) in enumerate(sites)}
