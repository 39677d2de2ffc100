"""Brokers' decisions: list them, explain one, and show it site by site."""

from __future__ import annotations

from dataclasses import dataclass

from jedi.brokerage.vocabulary import FILTERS
from jedi.core.errors import NotFound
from jedi.model.queries import MostRows
from jedi.service.brokerage.refusals import sentence_of
from jedi.service.operations.arguments import TaskId
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.service.tasks import why
from jedi.service.tasks.why import BrokerOutcome
from jedi.taskbuffer.reports import why_facts
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites.decisions import DecisionSummary


@dataclass(frozen=True, slots=True)
class CriterionFigures:
    """A reason for which a decision refused a site: the observed figure and the limit (None:
    infinite, or none), and the same in words."""

    code: str
    observed: float | None
    limit: float | None
    unit: str
    sentence: str
    lasting: bool


@dataclass(frozen=True, slots=True)
class DecidedSite:
    """A site in a decision: its place among the chosen ones and its weight (None: it was not
    chosen), and every reason against it."""

    site: str
    place: int | None
    weight: float | None
    reasons: tuple[CriterionFigures, ...]


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """A decision as it was recorded: chosen sites, best first, then the refused ones. `replayable`:
    its snapshot is still kept."""

    decision_id: int
    jedi_task_id: int
    broker: str
    replayable: bool
    sites: list[DecidedSite]


@operation("decision.list", "GET", "/v1/decisions", ANYBODY)
def find(
    call: Call,
    jedi_task_id: TaskId | None = None,
    before: TaskId | None = None,
    limit: MostRows = 100,
) -> list[DecisionSummary]:
    """List brokers' decisions, the newest first; `before`: only older ones than this number."""
    return decisions.NEWEST.rows(call.tx, task=jedi_task_id, before=before, limit=limit)


@operation("decision.show", "GET", "/v1/decisions/{decision_id}", ANYBODY)
def show(call: Call, decision_id: TaskId) -> BrokerOutcome:
    """Show a decision: chosen sites, refusals by criterion, near misses."""
    row = why_facts.DECISION.row(call.tx, id=decision_id)
    if row is None:
        raise NotFound(f"There is no decision {decision_id}.", decision_id=decision_id)
    return why.explain(row, why_facts.REFUSALS.rows(call.tx, id=decision_id))


@operation("decision.sites", "GET", "/v1/decisions/{decision_id}/sites", ANYBODY)
def record(call: Call, decision_id: TaskId) -> DecisionRecord:
    """Show a decision site by site: weights of the chosen ones, every reason against the others."""
    row = decisions.GET.row(call.tx, id=decision_id)
    if row is None:
        raise NotFound(f"There is no decision {decision_id}.", decision_id=decision_id)
    against = {one.site: _reasons(one) for one in why_facts.REFUSALS.rows(call.tx, id=decision_id)}
    chosen = [
        DecidedSite(site, place, weight, against.pop(site, ()))
        for place, (site, weight) in enumerate(zip(row.chosen, row.weights, strict=True), 1)
    ]
    others = [DecidedSite(site, None, None, reasons) for site, reasons in against.items()]
    return DecisionRecord(
        decision_id, row.jedi_task_id, row.broker, row.data is not None, [*chosen, *others]
    )


def _reasons(one: why_facts.RefusedSite) -> tuple[CriterionFigures, ...]:
    return tuple(
        CriterionFigures(
            code,
            observed,
            limit,
            found.unit if found else "",
            sentence_of(code, observed, limit),
            found.lasting if found else True,
        )
        for code, observed, limit in zip(one.codes, one.observed, one.limits, strict=True)
        for found in (FILTERS.get(code),)
    )
