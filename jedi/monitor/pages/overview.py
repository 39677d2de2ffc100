"""The first page: the whole system at a glance."""

from __future__ import annotations

from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page


@page("overview", "/", menu="Overview", topics=("tasks", "jobs"))
def overview(ask: Ask) -> View:
    """Tasks and jobs by status, sites with their load, agents."""
    found = ask("system.status")
    sites = Sheet(
        "sites", "Sites", (
            Column("site", "Site", "id", link=lambda row: f"/sites/{row.site}"),
            Column("status", "Status", "status"),
            Column("n_slots", "Slots", "number"),
        ), found.sites, "site", empty="There are no sites: jedi site import FILE.",
    )  # fmt: skip
    return View("Overview", {"system": found}, (sites,))
