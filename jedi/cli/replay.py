"""`jedi replay`: repeats a broker's decision."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from jedi_client.cli.brokerage import OtherKnobs, OtherSites, show_differences, show_sites
from jedi_client.cli.common import NO, Json, console, service, show

if TYPE_CHECKING:
    from jedi_client.models import Replay


def replay(
    decision: Annotated[
        int, typer.Argument(min=1, help="Number of the decision, from `jedi-task why`.")
    ],
    knobs: OtherKnobs = None,
    sites: OtherSites = None,
    as_json: Json = False,
) -> None:
    """Repeat a broker's decision from its snapshot: the same sites, to the bit.

    With --set or --site, show also the changes under these assumptions. Exit code 1: the decision
    differs today.

    Example: `jedi replay 12 --set broker.memory_factor=0.9`
    """
    with service() as jedi:
        result = jedi.decision_replay(decision, knobs=knobs, sites=sites)
    show(result, as_json, lambda: _tell(result, other=bool(knobs or sites)))
    if not result.same:
        raise typer.Exit(NO)


def _tell(found: Replay, *, other: bool) -> None:
    print_line = console().print
    chosen = [site for site, _ in found.recorded]
    print_line(
        f"decision  {found.decision_id} of broker {found.broker}, for task "
        f"{found.jedi_task_id}, seed {found.seed}"
    )
    print_line(f"chosen    {', '.join(chosen) or 'no site'}")
    if found.same:
        print_line("replay    the same sites, weights and reasons, to the bit")
    else:
        print_line(f"replay    differs at {', '.join(found.departures)}")
    if other:
        print_line(f"then      {', '.join(site for site, _ in found.chosen) or 'no site'}")
        show_differences(found.differences)
    show_sites(found.sites, [site for site, _ in found.chosen])
