"""Refusals of sites by brokers' criteria, in the newest decisions of some hours. The number of
decisions that are read has a bound, however many there are."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import returns

_DECISIONS = """
SELECT decision_id, creationtime FROM jedi_broker_decisions
WHERE creationtime > jedi_now() - make_interval(hours => :hours)
ORDER BY creationtime DESC LIMIT :most
"""
# A look at each decision: else all reasons of all decisions are read.
_REASONS = """
LATERAL (SELECT site, codes, observed, limits FROM jedi_broker_reasons r
  WHERE r.decision_id = d.decision_id OFFSET 0) r
"""


class ReadDecisions(NamedTuple):
    """The number of decisions, and the time of the first of them."""

    decisions: int
    since: datetime | None


READ = returns(ReadDecisions)(f"""
SELECT count(*) AS decisions, min(creationtime) AS since FROM ({_DECISIONS}) d
""")


def read(tx: Connection, hours: int, most: int) -> ReadDecisions:
    """The decisions that counts of refusals come from."""
    found = READ.row(tx, hours=hours, most=most)
    return found or ReadDecisions(0, None)


class SiteRefusals(NamedTuple):
    """Decisions that refused a site for a reason."""

    site: str
    code: str
    refusals: int


BY_SITE = returns(SiteRefusals)(f"""
-- Refusals of all sites by reason, the most frequent first.
SELECT site, code, CAST(sum(n) AS bigint) AS refusals FROM (
  SELECT r.site, r.codes, count(*) AS n FROM ({_DECISIONS}) d, {_REASONS}
  GROUP BY r.site, r.codes) g, unnest(codes) code
GROUP BY site, code ORDER BY site, refusals DESC, code
""")


class RefusalsAtSite(NamedTuple):
    """Decisions that refused a site for a reason, and for how many of them it is the only one;
    the figures of the latest of them (NULL: infinite, or none)."""

    code: str
    refusals: int
    only: int
    latest: datetime
    observed: float | None
    lim: float | None
    decision_id: int


AT_SITE = returns(RefusalsAtSite)(f"""
-- Refusals of a site by reason, the most frequent first.
SELECT code, count(*) AS refusals, count(*) FILTER (WHERE cardinality(r.codes) = 1) AS only,
  max(d.creationtime) AS latest, (array_agg(x.observed ORDER BY d.decision_id DESC))[1] AS observed,
  (array_agg(x.lim ORDER BY d.decision_id DESC))[1] AS lim, max(d.decision_id) AS decision_id
FROM ({_DECISIONS}) d JOIN LATERAL (
    SELECT site, codes, observed, limits FROM jedi_broker_reasons r
    WHERE r.decision_id = d.decision_id AND r.site = :site OFFSET 0) r ON true,
  unnest(r.codes, r.observed, r.limits) x(code, observed, lim)
GROUP BY code ORDER BY refusals DESC, code
""")
