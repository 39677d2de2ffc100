"""Tables of a broker's choice and of its changes under other knobs and sites."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from jedi_client.cli.common import cell, console, table

if TYPE_CHECKING:
    from jedi_client.models import SiteDifference, SiteView

OtherKnobs = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KNOB=VALUE", help="Assume this value of a knob; repeatable."),
]
OtherSites = Annotated[
    list[str] | None,
    typer.Option(
        "--site",
        metavar="NAME.ATTRIBUTE=VALUE",
        help="Assume this attribute of a site; repeatable.",
    ),
]
MOST = 50
"""Sites that are shown to people; programs see all."""


def show_sites(sites: Sequence[SiteView], chosen: Sequence[str]) -> None:
    """Print sites with weights and factors, or with reasons of refusal; chosen sites first."""
    place = {site: number for number, site in enumerate(chosen)}
    order = sorted(sites, key=lambda one: (place.get(one.site, len(place)), one.site))
    table(
        ["site", "chosen", "weight", "factors, or reasons of refusal"],
        [
            [one.site, place[one.site] + 1 if one.site in place else None, one.weight, _why(one)]
            for one in order[:MOST]
        ],
    )
    if len(order) > MOST:
        console().print(f"These are the first {MOST} of {len(order)} sites; --json has all.")


def _why(one: SiteView) -> str:
    if not one.reasons:
        return ", ".join(f"{name} {cell(figure)}" for name, figure in one.factors.items())
    return ", ".join(
        r.code
        if r.observed is None or not r.unit
        else f"{r.code} ({cell(r.observed)} {r.unit}, limit {cell(r.limit) or 'none'})"
        for r in one.reasons
    )


def show_differences(found: Sequence[SiteDifference]) -> None:
    """Print the changes under other knobs and sites."""
    if not found:
        console().print("Nothing changes under these assumptions.")
        return
    table(
        ["site", "change", "weight before", "weight then", "reasons then"],
        [[one.site, one.change, one.before, one.after, one.reasons] for one in found],
    )
