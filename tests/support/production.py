"""Builders that several tests share with tests of production."""

from __future__ import annotations

from typing import Any

from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.production import ProductionBroker
from jedi.brokerage.requirements import Requirements
from jedi.brokerage.verdict import judge
from jedi.core.knobs import Knobs
from jedi.model.jobs.demand import GB, MB, InputSize
from jedi.model.sites.request import InputAvailability, Request, SiteInput
from jedi.model.sites.snapshot import Snapshot
from support.split import demand, sites

CLASSIC, CURRENT = Knobs(), Knobs({"core.preset": "current"})
SHARE = "simul"


def need(
    data: InputAvailability | None = None, columns: dict[str, Any] | None = None, **asked: Any
) -> Requirements:
    """A production task with 10 events of 1000 HS06 s a job that asks for this besides."""
    request = Request(**{"vo": "atlas", "label": "managed", "gshare": SHARE, **asked})
    figures = demand(**{"cpu_time": 1000, **(columns or {})})
    return Requirements(
        figures, InputSize(100 * MB, 10.0), request=request, data=data or InputAvailability()
    )


def world(
    *names: str,
    jobs: dict[str, list[float]] | None = None,
    links: dict[str, list[float | None]] | None = None,
    **columns: Any,
) -> Snapshot:
    """Sites with jobs of the share by status, and links to NUC."""
    plain = sites(*names)
    said = plain.plain() | columns
    said["jobs"] = [[[SHARE, "SCORE", status], counts] for status, counts in (jobs or {}).items()]
    said["links"] = [[["NUC", what], figures] for what, figures in (links or {}).items()]
    return Snapshot.read(said)


def codes(at: Snapshot, asked: Requirements, knobs: Knobs = CLASSIC) -> list[str]:
    """Why the first site is refused."""
    verdict = judge(ProductionBroker.filters, at, asked, knobs)
    return [verdict.filters[i].code for i in verdict.reasons(0)]


def choose(at: Snapshot, asked: Requirements, knobs: Knobs = CLASSIC, seed: int = 1) -> SiteChoice:
    return ProductionBroker().choose(at, asked, knobs, (), seed)


def codes_of(found: SiteChoice) -> list[str]:
    """Why the first site was refused."""
    return [found.verdict.filters[i].code for i in found.verdict.reasons(0)]


def names(found: SiteChoice) -> list[str]:
    return [found.sites.sites[i] for i in found.candidates]


HELD = {"S": SiteInput(5 * GB, 50, 8 * GB, 80)}
HEAVY = {"cpu_time": 1}  # 100 MB in 600 s are 174 kB/s; 1 GB is much more


def data(size_gb: float, n: int) -> InputAvailability:
    return InputAvailability(size_gb * GB, n, True, HELD)
