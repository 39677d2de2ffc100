"""A broker's choice site by site, and how changes of the snapshot change it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jedi.brokerage.choice import SiteChoice
from jedi.brokerage.record import refusals
from jedi.brokerage.weights import product
from jedi.core.errors import BadInput, Problem
from jedi.core.knobs import KNOBS, Knobs
from jedi.core.suggest import suggest
from jedi.model.sites.snapshot import KINDS, Snapshot

SEED_NAMES = {
    "corecount": "cores",
    "corepower": "core_power",
    "maxtime": "max_time_s",
    "mintime": "min_time_s",
    "maxrss": "max_rss_mb",
    "minrss": "min_rss_mb",
    "maxwdir": "max_wdir_mb",
    "transferringlimit": "transferring_limit",
    "wnconnectivity": "connectivity",
    "jobseed": "job_seed",
    "fairsharepolicy": "policy",
    "pandasite": "grid_site",
}
"""Attributes of a site file that a snapshot has under other names."""


ChangeKind = Literal["gained", "lost", "weight", "kept", "refused", "reasons"]


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for which a site is refused: the observed figure and the limit (None: infinite, or
    no figure)."""

    code: str
    observed: float | None
    limit: float | None
    unit: str
    lasting: bool


@dataclass(frozen=True, slots=True)
class SiteView:
    """A site in the eyes of a broker. `kept`: nothing refuses it, or it was chosen all the same;
    the weight is the product of the factors (None: infinite)."""

    site: str
    kept: bool
    reasons: tuple[Reason, ...]
    weight: float | None
    factors: Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class SiteDifference:
    """The change at a site; `before` and `after` are its weights, None: it was not chosen."""

    site: str
    change: ChangeKind
    before: float | None
    after: float | None
    reasons: tuple[str, ...]


def views(choice: SiteChoice) -> list[SiteView]:
    """Every site of a choice with all reasons and factors."""
    filters = {one.code: one for one in choice.verdict.filters}
    why = {
        one.site: tuple(
            Reason(code, seen, limit, filters[code].unit, filters[code].lasting)
            for code, seen, limit in zip(one.codes, one.observed, one.limits, strict=True)
        )
        for one in refusals(choice.verdict)
    }
    worth = product(choice.factors).tolist()
    columns = {name: column.tolist() for name, column in choice.factors.items()}
    chosen = set(choice.candidates)
    return [
        SiteView(
            site=site,
            kept=site not in why or at in chosen,
            reasons=why.get(site, ()),
            weight=_finite(worth[at]),
            factors={name: _finite(column[at]) for name, column in columns.items()},
        )
        for at, site in enumerate(choice.sites.sites)
    ]


def differences(before: SiteChoice, after: SiteChoice) -> list[SiteDifference]:
    """The effects of another snapshot or other knobs: sites gained and lost, other weights, sites
    that are kept or refused now without being chosen, and sites refused for other reasons."""
    old, new = ({one.site: one for one in views(choice)} for choice in (before, after))
    was, now = (dict(chosen(choice)) for choice in (before, after))
    return [
        SiteDifference(
            site, change, was.get(site), now.get(site), tuple(r.code for r in seen.reasons)
        )
        for site, seen in new.items()
        if (change := _change(old[site], seen, was.get(site), now.get(site)))
    ]


def _change(
    old: SiteView, new: SiteView, was: float | None, now: float | None
) -> ChangeKind | None:
    if was != now:
        return "gained" if was is None else "lost" if now is None else "weight"
    if old.kept != new.kept:
        return "kept" if new.kept else "refused"
    codes = ({one.code for one in view.reasons} for view in (old, new))
    return "reasons" if len({frozenset(some) for some in codes}) > 1 else None


def chosen(choice: SiteChoice) -> list[tuple[str, float]]:
    """The sites chosen with their weights, best first."""
    names = [choice.sites.sites[at] for at in choice.candidates]
    return list(zip(names, choice.weights, strict=True))


def alternative(
    snapshot: Snapshot, sites: Sequence[str], knobs: Knobs, settings: Sequence[str]
) -> tuple[Snapshot, Knobs]:
    """A world where `NAME.attribute=value` holds of sites, and knobs with the values of
    `knob=value`; BadInput lists all mistakes. Attributes are the columns of a snapshot, or the
    words of a site file for them; a maximum of 0 is none."""
    problems: list[Problem] = []
    found = _other_sites(snapshot, sites, problems), _other_knobs(knobs, settings, problems)
    if problems:
        raise BadInput(problems)
    return found


def _other_knobs(knobs: Knobs, assumptions: Sequence[str], problems: list[Problem]) -> Knobs:
    found = dict(knobs)
    for one in assumptions:
        name, _, value = one.partition("=")
        if name not in KNOBS:
            remedy = suggest(name, KNOBS, "Look at the output of: jedi config list")
            problems.append(Problem("--set", one, "no such knob", remedy))
            continue
        try:
            found[name] = KNOBS[name].check(value)
        except BadInput as error:
            problems += error.problems
    return Knobs(found)


def _other_sites(
    snapshot: Snapshot, assumptions: Sequence[str], problems: list[Problem]
) -> Snapshot:
    if not assumptions:
        return snapshot
    plain = snapshot.plain()
    for one in assumptions:
        place, _, value = one.partition("=")
        site, _, word = place.rpartition(".")
        column = SEED_NAMES.get(word, word)
        at = snapshot.position(site)
        if not site:
            remedy = "Name the site, the attribute and the value"
            problems.append(Problem("--site", one, "it is not NAME.attribute=value", remedy))
        elif at is None:
            remedy = suggest(site, snapshot.sites, "Write NAME.attribute=value")
            problems.append(Problem("--site", one, f"no such site {site!r}", remedy))
        elif column not in KINDS or column == "sites":
            remedy = suggest(word, [*KINDS, *SEED_NAMES], "They are in docs/plan.md")
            problems.append(Problem("--site", one, f"no such attribute {word!r}", remedy))
        else:
            try:
                plain[column][at] = _read(column, value)
            except ValueError:
                remedy = "Write a number, or inf for no limit"
                problems.append(Problem("--site", one, f"{word} is a number", remedy))
    return Snapshot.read(plain)


def _read(column: str, value: str) -> Any:
    """A value as a snapshot says it in JSON; ValueError: it should be a number."""
    if KINDS[column] == "words":
        return value
    if KINDS[column] == "lists":
        return list(filter(None, value.split(",")))
    number = float(value)
    if math.isnan(number):
        raise ValueError(value)
    unlimited = math.isinf(number) or (column.startswith("max_") and number <= 0)
    return None if unlimited else number


def _finite(figure: float) -> float | None:
    return figure if math.isfinite(figure) else None
