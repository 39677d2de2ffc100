"""Brokers' decisions: list them, and explain one."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.core.errors import NotFound
from jedi.service import why
from jedi.service.why import BrokerOutcome
from jedi.taskbuffer.reports import why_facts
from jedi.taskbuffer.sites import decisions
from jedi.taskbuffer.sites.decisions import DecisionSummary


def newest(
    tx: Connection, jedi_task_id: int | None, before: int | None, limit: int
) -> list[DecisionSummary]:
    """Return decisions of all tasks or of one, the newest first."""
    return decisions.NEWEST.rows(tx, task=jedi_task_id, before=before, limit=limit)


def explain(tx: Connection, decision_id: int) -> BrokerOutcome:
    """Return a decision with the refusals by criterion, and the sites that lack one thing only.
    NotFound."""
    row = why_facts.DECISION.row(tx, id=decision_id)
    if row is None:
        raise NotFound(f"There is no decision {decision_id}.", decision_id=decision_id)
    return why.explain(row, why_facts.refusals(tx, decision_id))
