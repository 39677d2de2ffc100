"""Jumbo jobs: the sites of the next ones of a task, and their ends, as a table like outcome.py.

Source: docs/reference/event-service.md#jumbo-jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from jedi.eventservice.outcome import ConsumerFacts, ConsumerVerdict, Outcome, verdict

JUMBO_OUTCOMES = (
    Outcome("ended !dispatched !early !cancelled", None, "es_unused", "",
            "It ended before a pilot took it."),
    Outcome("ended", None, None, "", "It had ended already."),
    Outcome("killed", "closed", "{kill_code}", "{kill_code}", "Its task needs it no longer."),
    Outcome("reassigned", "closed", None, "reassigned", "Its task was reassigned."),
    Outcome("cancelled", "cancelled", None, "{cancelled}", "{error_diag}"),
    Outcome("made", "finished", None, "es_jumbo", "Ranges processed: {made}."),
    Outcome("lost", "failed", "es_heartbeat", "es_heartbeat",
            "Its pilot fell silent before a range was processed: {error_diag}"),
    Outcome("failed", "failed", "pilot_failed", "pilot_failed", "{error_code}: {error_diag}"),
    Outcome("", "closed", "es_noevent", "es_noevent", "It processed no range."),
)  # fmt: skip
"""A jumbo job belongs to no job set, so it has no sub-status of merging; the ranges that it has
processed count whatever ended it."""


def judge_jumbo(facts: ConsumerFacts) -> ConsumerVerdict:
    """Return the row of the table that counts."""
    return verdict(JUMBO_OUTCOMES, facts)


def next_jumbos(
    sites: Sequence[str], living: Sequence[str], most: int, per_site: int
) -> list[str]:  # fmt: skip
    """The sites of the jumbo jobs that a task lacks: it may have so many, and so many per site;
    sites with fewer of them come first, in their order."""
    have = Counter(living)
    places = sorted((nth, at) for at, site in enumerate(sites)
                    for nth in range(have[site], per_site))  # fmt: skip
    return [sites[at] for _, at in places][: max(0, most - len(living))]
