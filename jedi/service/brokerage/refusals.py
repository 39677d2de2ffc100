"""Refusals of sites by brokers' criteria in the newest decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from jedi.brokerage.vocabulary import FILTERS
from jedi.service.operations.arguments import Hours, NameText
from jedi.service.operations.table import ANYBODY, Call, operation
from jedi.taskbuffer.reports import refused
from jedi.taskbuffer.reports.refused import ReadDecisions, RefusalsAtSite

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


@operation("site.refusals", "GET", "/v1/refusals", ANYBODY)
def count(call: Call, site: NameText | None = None, hours: Hours = 24) -> RefusalReport:
    """Count the refusals of sites by brokers' criteria in the newest decisions of some hours;
    `site`: of one site, with figures of the latest."""
    tx = call.tx
    if site:
        most = MOST_OF_ONE
        rows = refused.AT_SITE.rows(tx, site=site, hours=hours, most=most)
        return of_site(site, refused.read(tx, hours, most), rows)
    read = refused.read(tx, hours, MOST_OF_ALL)
    found = refused.BY_SITE.rows(tx, hours=hours, most=MOST_OF_ALL)
    return RefusalReport(read.decisions, read.since, [_counted(*one) for one in found])


def of_site(site: str, read: ReadDecisions | None, rows: Sequence[RefusalsAtSite]) -> RefusalReport:
    """Return the refusals of a site in the decisions that were read."""
    refusals = [_at(site, one) for one in rows]
    return RefusalReport(read.decisions if read else 0, read.since if read else None, refusals)


def _at(site: str, one: RefusalsAtSite) -> CountedRefusals:
    found = FILTERS.get(one.code)
    return CountedRefusals(
        site,
        one.code,
        one.refusals,
        one.only,
        sentence_of(one.code, one.observed, one.lim),
        found.remedy if found else "",
        one.latest,
        one.decision_id,
    )


def _counted(site: str, code: str, refusals: int) -> CountedRefusals:
    found = FILTERS.get(code)
    return CountedRefusals(
        site, code, refusals, None, "", found.remedy if found else "", None, None
    )


def sentence_of(code: str, observed: float | None, limit: float | None) -> str:
    """A refusal in words."""
    found = FILTERS.get(code)
    return found.sentence(observed, limit) if found else ""
