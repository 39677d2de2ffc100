"""Brokers' decisions: the list, and a decision site by site with replay and other assumptions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from jedi.core.errors import BadInput, NotFound
from jedi.monitor.filters import number, query, site_page
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.brokerage.decision_reports import CriterionFigures, DecidedSite, DecisionRecord
from jedi.service.brokerage.replay import Replay
from jedi.service.operations.arguments import TaskId

PAGE = 100
_ALL = ("/decisions", "Decisions")
"""The crumb of the list."""

AssumptionLines = Annotated[str, Field(max_length=10_000)] | None
"""Assumptions, one a line."""

_DECISIONS = (
    Column("decision_id", "Decision", "id", link=lambda row: f"/decisions/{row.decision_id}"),
    Column("time", "Time", "time"),
    Column("jedi_task_id", "Task", "id", link=lambda row: f"/tasks/{row.jedi_task_id}"),
    Column("broker", "Broker"),
    Column("chosen", "Chosen sites"),
    Column("refused", "Refused sites", "number"),
)
_SITES = (
    Column("site", "Site", "id", link=lambda row: site_page(row["site"])),
    Column("place", "Place", "number"),
    Column("weight", "Weight", "number"),
    Column("reasons", "Reasons against it"),
)
_FUNNEL = (
    Column("code", "Criterion", "code"),
    Column("sites", "Refused", "number"),
    Column("first", "First reason", "number", wide=True),
    Column("only", "Only reason", "number"),
    Column("nearest", "Nearest site"),
    Column("remedy", "Remedy", wide=True),
    Column("passes", "By itself", wide=True),
)
_DIFFERENCES = (
    Column("site", "Site", "id"),
    Column("change", "Change", "status"),
    Column("before", "Weight before", "number"),
    Column("after", "Weight after", "number"),
    Column("reasons", "Reasons against it now"),
)
_WEIGHTS = (
    Column("site", "Site", "id"),
    Column("weight", "Weight", "number"),
    Column("factors", "Factors"),
)


@page("decisions", "/decisions", menu="Decisions", topics=("decisions",))
def decisions(ask: Ask, jedi_task_id: TaskId | None = None, before: TaskId | None = None) -> View:
    """Decisions of all tasks or of one, the newest first."""
    found = ask("decision.list", jedi_task_id=jedi_task_id, before=before, limit=PAGE + 1)
    given = {"jedi_task_id": jedi_task_id}
    more = query(given, before=found[PAGE - 1].decision_id) if len(found) > PAGE else None
    sheet = Sheet(
        "decisions",
        "Brokers' decisions",
        _DECISIONS,
        found[:PAGE],
        "decision_id",
        more,
        empty="No broker has decided yet.",
    )
    title = f"Decisions on task {jedi_task_id}" if jedi_task_id else "Decisions"
    facts = {"given": given, "crumbs": [_ALL] if jedi_task_id else []}
    return View(title, facts, (sheet,))


@page("decision", "/decisions/{decision_id}")
def decision(
    ask: Ask,
    decision_id: TaskId,
    knobs: AssumptionLines = None,
    sites: AssumptionLines = None,
    replay: bool = False,
) -> View:
    """A decision: sites by criteria, near misses, weights; its replay, also under assumptions."""
    outcome = ask("decision.show", decision_id=decision_id)
    record: DecisionRecord = ask("decision.sites", decision_id=decision_id)
    repeated: Replay | None = None
    problems: list[Any] = []
    if replay or knobs or sites:
        try:
            repeated = ask(
                "decision.replay", decision_id=decision_id, knobs=_lines(knobs), sites=_lines(sites)
            )
        except BadInput as error:
            problems = [*error.problems]
        except NotFound as error:
            problems = [error.sentence]
    ordered = sorted(record.sites, key=_rank)
    facts = {
        "outcome": outcome,
        "record": record,
        "sites": ordered,
        "codes": _codes(ordered),
        "cells": {one.site: {reason.code: reason for reason in one.reasons} for one in ordered},
        "repeated": repeated,
        "problems": problems,
        "assumed": bool(knobs or sites),
        "asked": {"knobs": knobs or "", "sites": sites or ""},
        "crumbs": [
            _ALL,
            (f"{_ALL[0]}?jedi_task_id={record.jedi_task_id}", f"Task {record.jedi_task_id}"),
        ],
    }
    return View(f"Decision {decision_id}", facts, _sheets(outcome, ordered, repeated))


def _sheets(
    outcome: Any, ordered: Sequence[DecidedSite], repeated: Replay | None
) -> tuple[Sheet, ...]:
    found = [
        Sheet(
            "funnel",
            "Criteria that refused sites",
            _FUNNEL,
            [_criterion(one) for one in outcome.funnel],
            "code",
            empty="No site was refused.",
        ),
        Sheet("sites", "Sites", _SITES, [_site(one) for one in ordered], "site"),
    ]
    if repeated:
        found += [
            Sheet(
                "differences",
                "Differences",
                _DIFFERENCES,
                repeated.differences,
                "site",
                empty="The assumptions change nothing.",
            ),
            Sheet(
                "weights",
                "Weights of the sites that pass",
                _WEIGHTS,
                _weights(repeated),
                "site",
                empty="No site passes.",
            ),
        ]
    return tuple(found)


def _lines(given: str | None) -> list[str] | None:
    return [one.strip() for one in (given or "").splitlines() if one.strip()] or None


def _rank(one: DecidedSite) -> tuple[int, int, str]:
    """Chosen sites by their place; then those that lack least."""
    return (one.place or 1_000_000, len(one.reasons), one.site)


def _codes(sites: Sequence[DecidedSite]) -> list[str]:
    """The criteria that refused a site, the most frequent first."""
    found = Counter(reason.code for one in sites for reason in one.reasons)
    return sorted(found, key=lambda code: (-found[code], code))


def _site(one: DecidedSite) -> dict[str, Any]:
    reasons = "; ".join(f"{reason.code}: {_figures(reason)}" for reason in one.reasons)
    return {"site": one.site, "place": one.place, "weight": one.weight, "reasons": reasons}


def _figures(one: CriterionFigures) -> str:
    return one.sentence or f"{number(one.observed)} against {number(one.limit)} {one.unit}".strip()


def _criterion(one: Any) -> dict[str, Any]:
    names = [column.key for column in _FUNNEL if column.key != "passes"]
    passes = "no: somebody has to act" if one.lasting else "yes, with time"
    return {**{name: getattr(one, name) for name in names}, "passes": passes}


def _weights(repeated: Replay) -> list[dict[str, Any]]:
    rows = [
        {
            "site": one.site,
            "weight": one.weight,
            "factors": ", ".join(f"{name} {number(value)}" for name, value in one.factors.items()),
        }
        for one in repeated.sites
        if one.kept
    ]
    return sorted(rows, key=lambda row: (-(row["weight"] or 0), row["site"]))
