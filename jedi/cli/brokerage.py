"""How a broker's choice and what another world changes in it are shown to people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from jedi.cli.common import cell, console, table

if TYPE_CHECKING:
    from jedi.brokerage.whatif import SiteDifference, SiteView

OtherKnobs = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KNOB=VALUE", help="What if this knob were so; repeatable."),
]
OtherSites = Annotated[
    list[str] | None,
    typer.Option(
        "--site", metavar="NAME.ATTRIBUTE=VALUE", help="What if this site were so; repeatable."
    ),
]
MOST = 50
"""Sites that are shown to people; programs see all."""


def show_sites(sites: Sequence[SiteView], chosen: Sequence[str]) -> None:
    """Sites with weights and factors, or with what refuses them; those chosen first."""
    place = {site: number for number, site in enumerate(chosen)}
    order = sorted(sites, key=lambda one: (place.get(one.site, len(place)), one.site))
    table(
        ["site", "chosen", "weight", "factors, or what refuses it"],
        [
            [one.site, place[one.site] + 1 if one.site in place else None, one.weight, _why(one)]
            for one in order[:MOST]
        ],
    )
    if len(order) > MOST:
        console().print(f"These are the first {MOST} of {len(order)} sites; --json tells all.")


def _why(one: SiteView) -> str:
    if not one.reasons:
        return ", ".join(f"{name} {cell(figure)}" for name, figure in one.factors.items())
    return ", ".join(
        r.code if r.observed is None or not r.unit
        else f"{r.code} ({cell(r.observed)} {r.unit}, limit {cell(r.limit) or 'none'})"
        for r in one.reasons
    )  # fmt: skip


def show_differences(found: Sequence[SiteDifference]) -> None:
    """What another world changes."""
    if not found:
        console().print("In that world nothing changes.")
        return
    table(
        ["site", "change", "weight before", "weight then", "reasons then"],
        [[one.site, one.change, one.before, one.after, one.reasons] for one in found],
    )
