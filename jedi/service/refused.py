"""Refusals of sites by brokers' criteria, and the sites of a decision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from jedi.brokerage.vocabulary import FILTERS
from jedi.core.errors import NotFound
from jedi.taskbuffer.reports import refused, why_facts
from jedi.taskbuffer.reports.refused import ReadDecisions, RefusalsAtSite
from jedi.taskbuffer.sites import decisions

MOST_OF_ALL, MOST_OF_ONE = 100, 1_000
"""The newest decisions that are read for all sites, and for one."""


@dataclass(frozen=True, slots=True)
class CountedRefusals:
    """Decisions that refused a site for a reason; for `only` of them it was the only one. The
    sentence and the number are of the latest of them, if one site was asked for."""

    site: str
    code: str
    refusals: int
    only: int | None
    sentence: str
    remedy: str
    latest: datetime | None
    decision_id: int | None


@dataclass(frozen=True, slots=True)
class RefusalReport:
    """Refusals of sites in so many `decisions`, the newest ones, of which `since` is the first."""

    decisions: int
    since: datetime | None
    refusals: list[CountedRefusals]


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


def report(tx: Connection, site: str | None, hours: int) -> RefusalReport:
    """Return the refusals of the last hours by reason, of all sites or of one."""
    if site:
        most = MOST_OF_ONE
        return of_site(site, refused.read(tx, hours, most), refused.at_site(tx, site, hours, most))
    read = refused.read(tx, hours, MOST_OF_ALL)
    rows = [_counted(*one) for one in refused.BY_SITE.rows(tx, hours=hours, most=MOST_OF_ALL)]
    return RefusalReport(read.decisions, read.since, rows)


def of_site(site: str, read: ReadDecisions | None, rows: Sequence[RefusalsAtSite]) -> RefusalReport:
    """Return the refusals of a site in the decisions that were read."""
    refusals = [_at(site, one) for one in rows]
    return RefusalReport(read.decisions if read else 0, read.since if read else None, refusals)


def record(tx: Connection, decision_id: int) -> DecisionRecord:
    """Return a decision site by site, as it was recorded. NotFound."""
    row = decisions.GET.row(tx, id=decision_id)
    if row is None:
        raise NotFound(f"There is no decision {decision_id}.", decision_id=decision_id)
    against = {one.site: _reasons(one) for one in why_facts.refusals(tx, decision_id)}
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
            _shown(code, observed, limit),
            found.lasting if found else True,
        )
        for code, observed, limit in zip(one.codes, one.observed, one.limits, strict=True)
        for found in (FILTERS.get(code),)
    )


def _at(site: str, one: RefusalsAtSite) -> CountedRefusals:
    found = FILTERS.get(one.code)
    return CountedRefusals(
        site,
        one.code,
        one.refusals,
        one.only,
        _shown(one.code, one.observed, one.lim),
        found.remedy if found else "",
        one.latest,
        one.decision_id,
    )


def _counted(site: str, code: str, refusals: int) -> CountedRefusals:
    found = FILTERS.get(code)
    return CountedRefusals(
        site, code, refusals, None, "", found.remedy if found else "", None, None
    )


def _shown(code: str, observed: float | None, limit: float | None) -> str:
    found = FILTERS.get(code)
    return found.sentence(observed, limit) if found else ""
