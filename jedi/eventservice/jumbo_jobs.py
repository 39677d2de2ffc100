"""Jumbo jobs: the sites of the next ones of a task, and their ends, as a table like outcome.py.

Source: docs/reference/event-service.md#jumbo-jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import ceil
from typing import NamedTuple

from jedi.brokerage.filters.software import offers
from jedi.eventservice.outcome import ConsumerFacts, ConsumerVerdict, Outcome, verdict

REFUSALS: Mapping[str, str] = {
    "jumbo_offline": "{site} is {status}.",
    "jumbo_release": "{site} has not its release.",
    "jumbo_merge": "No site can merge pieces at {site} with those of its job sets.",
    "jumbo_memory": "A jumbo job at {site} needs {need_mb} MB, its slots have {memory_mb} MB.",
    "jumbo_min_events": "{site} takes jumbo jobs for {min_events} events or more "
    "(minEventsForJumbo), {events} are ready.",
    "jumbo_refused": "The broker refuses {site}: {trouble}.",
}
"""The closed list of reasons why a site gets no jumbo job of a task: code and sentence."""


class JumboPlace(NamedTuple):
    """A site that takes jumbo jobs, with its releases and its published software, the cores and the
    memory of its slots (0: no limit), the least number of events, and its status. `joins`: its
    pieces can be merged with those of the task's job sets; `trouble`: the broker's reason against
    the site."""

    site: str
    releases: str
    software: str
    cores: int
    memory_mb: int
    min_events: int
    status: str
    joins: bool
    trouble: str = ""


class JumboNeed(NamedTuple):
    """A task's release, its events that are ready, and the needs of its consumers."""

    release: str
    events: int
    cores: int
    memory_mb: int


class JumboSize(NamedTuple):
    """Cores and memory of a jumbo job: a whole slot of its site."""

    cores: int
    memory_mb: int


def size_at(place: JumboPlace, need: JumboNeed) -> JumboSize:
    """A jumbo job takes the whole slot; where its memory has no limit, as much a core as consumers
    ask."""
    return JumboSize(place.cores, place.memory_mb or _memory(place, need))


def refusal(place: JumboPlace, need: JumboNeed) -> tuple[str, str] | None:
    """The first reason why a site gets no jumbo job of a task, as code and sentence."""
    code = next(
        (
            code
            for code, holds in (
                ("jumbo_offline", place.status != "online"),
                ("jumbo_release", not offers(place.releases, place.software, need.release)),
                ("jumbo_merge", not place.joins),
                ("jumbo_memory", 0 < place.memory_mb < _memory(place, need)),
                ("jumbo_min_events", need.events < place.min_events),
                ("jumbo_refused", bool(place.trouble)),
            )
            if holds
        ),
        None,
    )
    if code is None:
        return None
    facts = {**place._asdict(), "events": need.events, "need_mb": _memory(place, need)}
    return code, REFUSALS[code].format(**facts)


def _memory(place: JumboPlace, need: JumboNeed) -> int:
    return ceil(need.memory_mb * place.cores / max(1, need.cores))


JUMBO_OUTCOMES = (
    Outcome(
        "ended !dispatched !early !cancelled",
        None,
        "es_unused",
        "",
        "It ended before a pilot took it.",
    ),
    Outcome("ended", None, None, "", "It had ended already."),
    Outcome("killed", "closed", "{kill_code}", "{kill_code}", "Its task needs it no longer."),
    Outcome("reassigned", "closed", None, "reassigned", "Its task was reassigned."),
    Outcome("cancelled", "cancelled", None, "{cancelled}", "{error_diag}"),
    Outcome("made", "finished", None, "es_jumbo", "Ranges processed: {made}."),
    Outcome(
        "lost",
        "failed",
        "es_heartbeat",
        "es_heartbeat",
        "Its pilot fell silent before a range was processed: {error_diag}",
    ),
    Outcome("failed", "failed", "pilot_failed", "pilot_failed", "{error_code}: {error_diag}"),
    Outcome("", "closed", "es_noevent", "es_noevent", "It processed no range."),
)
"""A jumbo job belongs to no job set, so it has no sub-status of merging; the ranges that it has
processed count whatever ended it."""


def judge_jumbo(facts: ConsumerFacts) -> ConsumerVerdict:
    """Return the row of the table that counts."""
    return verdict(JUMBO_OUTCOMES, facts)


def next_jumbos(sites: Sequence[str], living: Sequence[str], most: int, per_site: int) -> list[str]:
    """The sites of the jumbo jobs that a task lacks: it may have so many, and so many per site;
    sites with fewer of them come first, in their order."""
    have = Counter(living)
    places = sorted(
        (nth, at) for at, site in enumerate(sites) for nth in range(have[site], per_site)
    )
    return [sites[at] for _, at in places][: max(0, most - len(living))]
