"""The list of sites, and the page of a site."""

from __future__ import annotations

from collections import Counter
from typing import Any

from jedi.core import states
from jedi.monitor.charts import Bar, Part, bars, by_status, stacked
from jedi.monitor.filters import site_page
from jedi.monitor.pages.overview import rates, site_bars
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.brokerage.refusals import RefusalReport
from jedi.service.operations.arguments import NameText
from jedi.service.sites.loads import SiteFigures, SiteLoad

CODES = 3
"""Codes of refusals in a row of the list."""

_SITES = (
    Column("site", "Site", "id", link=lambda row: site_page(row["site"])),
    Column("status", "Status", "status"),
    Column("n_slots", "Slots", "number"),
    Column("load", "Load", "bar"),
    Column("n_running", "Running", "number"),
    Column("n_waiting", "Waiting", "number"),
    Column("pilots", "Pilots", "number"),
    Column("last_pilot", "Last pilot", "time"),
    Column("finished", "Finished 24 h", "number", wide=True),
    Column("failed", "Failed 24 h", "number", wide=True),
    Column("refusals", "Refused for (decisions)", wide=True),
    Column("why", "Remark", "reason", wide=True),
)
_REFUSALS = (
    Column("code", "Code", "code"),
    Column("refusals", "Decisions", "number"),
    Column("only", "The only reason", "number"),
    Column("sentence", "Latest"),
    Column("remedy", "Remedy", wide=True),
    Column("latest", "Time", "time"),
    Column(
        "decision_id", "Decision", "id", link=lambda row: f"/decisions/{row.decision_id}", wide=True
    ),
)
_PILOTS = (
    Column("pilot_id", "Pilot", "id"),
    Column("status", "Status", "status"),
    Column("engine", "Engine"),
    Column("batch_id", "Batch id", "id"),
    Column("resource_type", "Slot", wide=True),
    Column("host", "Sent by", wide=True),
    Column("pid", "Process", "id", wide=True),
    Column("creation_time", "Since", "time"),
)
_ATTRIBUTES = (
    Column("name", "Attribute", "id"),
    Column("value", "Value"),
    Column("meaning", "Meaning", "reason", wide=True),
)
_HISTORY = (
    Column("modificationtime", "Time", "time"),
    Column("attribute", "Attribute"),
    Column("oldvalue", "Before"),
    Column("newvalue", "After"),
    Column("username", "By"),
    Column("comment", "Comment"),
)
_ENDPOINTS = (
    Column("ddm_endpoint", "Endpoint", "id"),
    Column("type", "Type"),
    Column("free", "Free", "bytes"),
    Column("total", "Total", "bytes"),
    Column("used", "Used", "bar"),
    Column("space_timestamp", "Measured", "time", wide=True),
    Column("path", "Path", wide=True),
)
_LINKS = (
    Column("src", "From", "id"),
    Column("dst", "To", "id"),
    Column("key", "Figure"),
    Column("value", "Value", "number"),
    Column("unit", "Unit"),
    Column("ts", "Measured", "time"),
)
_UNITS = {"closeness": "", "production_queued": "files", "express_queued": "files"}


@page("sites", "/sites", menu="Sites", topics=("jobs", "decisions"))
def sites(ask: Ask) -> View:
    """All sites: load, slots, pilots, jobs, and why brokers refuse them."""
    loads: list[SiteLoad] = ask("site.loads")
    refused: RefusalReport = ask("site.refusals")
    codes: dict[str, list[str]] = {}
    for one in refused.refusals:
        codes.setdefault(one.site, []).append(f"{one.code} {one.refusals}")
    rows = [_row(one, codes.get(one.site, [])) for one in loads]
    sheet = Sheet(
        "sites", "Sites", _SITES, rows, "site", empty="There are no sites: jedi site import FILE."
    )
    facts = {"bars": site_bars(loads), "refused": refused, "codes": _codes(refused)}
    return View("Sites", facts, (sheet,))


def _row(one: SiteLoad, codes: list[str]) -> dict[str, Any]:
    return {
        **{
            name: getattr(one, name)
            for name in ("site", "status", "n_slots", "n_running", "n_waiting", "last_pilot")
        },
        "load": 100 * one.n_running / one.n_slots if one.n_slots else None,
        "pilots": one.pilots_running + one.pilots_submitted,
        "finished": one.reached.get("finished", 0),
        "failed": one.reached.get("failed", 0),
        "refusals": ", ".join(codes[:CODES]),
        "why": one.trouble or one.comment,
    }


def _codes(refused: RefusalReport) -> Any:
    """Refusals of all sites by code, as bars of the most frequent ones."""
    counts: Counter[str] = Counter()
    for one in refused.refusals:
        counts[one.code] += one.refusals
    rows = [Bar(code, [Part("refusals", n, "slow")]) for code, n in counts.most_common(12)]
    return bars("refusals", "Refusals by criterion, the last 24 h", rows, "refusals")


@page("site", "/sites/{site}", topics=("jobs", "decisions"))
def site(ask: Ask, site: NameText) -> View:
    """A site: attributes with history, pilots, jobs, refusals, endpoints, links, rates."""
    report = ask("site.show", site=site)
    figures: SiteFigures = ask("site.figures", site=site)
    load, refused = figures.load, figures.refused
    live = [(one, load.jobs[one]) for one in states.JOB_LIVE if load.jobs.get(one)]
    facts = {
        "site": site,
        "load": load,
        "report": report,
        "refused": refused,
        "jobs": stacked("site-jobs", "Live jobs", by_status(live), "jobs"),
        "rates": rates("site-rates", "Jobs per hour, 24 h to this hour so far", figures.rates),
    }
    return View(f"Site {site}", facts, _sheets(ask, site, report, figures))


def _sheets(ask: Ask, site: str, report: Any, figures: SiteFigures) -> tuple[Sheet, ...]:
    refused = figures.refused
    meanings = {one.name: one.meaning for one in ask("site.attributes")}
    return (
        Sheet(
            "refusals",
            "Refused by brokers in 24 h",
            _REFUSALS,
            refused.refusals,
            "code",
            empty=f"None of the newest {refused.decisions} decisions refused it.",
        ),
        Sheet(
            "pilots",
            "Pilots that have not ended",
            _PILOTS,
            figures.pilots,
            "pilot_id",
            empty="It has no pilots of a submitter of JEDI.",
        ),
        Sheet(
            "endpoints",
            "Endpoints",
            _ENDPOINTS,
            [_space(one) for one in report.endpoints],
            "ddm_endpoint",
            empty="It has no endpoint.",
        ),
        Sheet(
            "attributes",
            "Attributes",
            _ATTRIBUTES,
            [
                {"name": name, "value": one, "meaning": meanings.get(name, "")}
                for name, one in report.attributes.items()
            ],
            "name",
        ),
        Sheet(
            "history",
            "Last changes",
            _HISTORY,
            _numbered(report.history),
            "number",
            empty="It has not been changed.",
        ),
        Sheet(
            "links",
            "Links",
            _LINKS,
            [_link(one) for one in ask("link.list", place=site)],
            "key_of",
            empty="No figures of links from or to it.",
        ),
    )


def _space(one: Any) -> dict[str, Any]:
    used = None
    if one.space_total and one.space_free is not None:
        used = 100 * (1 - one.space_free / one.space_total)
    return {
        "ddm_endpoint": one.ddm_endpoint,
        "type": "tape" if one.is_tape else one.type,
        "free": _bytes(one.space_free),
        "total": _bytes(one.space_total),
        "used": used,
        "space_timestamp": one.space_timestamp,
        "path": one.path,
    }


def _bytes(gigabytes: float | None) -> float | None:
    return None if gigabytes is None else gigabytes * 1e9


def _numbered(rows: Any) -> list[dict[str, Any]]:
    names = [one.key for one in _HISTORY]
    return [
        {"number": len(rows) - at, **{name: getattr(one, name) for name in names}}
        for at, one in enumerate(rows)
    ]


def _link(one: Any) -> dict[str, Any]:
    return {
        "key_of": f"{one.src}-{one.dst}-{one.key}",
        "src": one.src,
        "dst": one.dst,
        "key": one.key,
        "value": one.value,
        "unit": _UNITS.get(one.key, "MB/s"),
        "ts": one.ts,
    }
