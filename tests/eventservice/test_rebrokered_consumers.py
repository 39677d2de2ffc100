"""Consumers that no pilot took in time: others take their place, at another site.

Expected values: JEDI document, "Job rebrokerage": old jobs that do not get CPUs at their site are
killed, "That is essentially reattempt"; "they go to the closed state"; "killed before being
dispatched to WN (jobsubstatus=es_unused)".
"""

from __future__ import annotations

from collections.abc import Callable

from support.commanding import sound
from support.dogs import run as run_dog
from support.event_sets import EventPilot, events_task, serve, set_jobs
from support.generating import rows
from support.situations import pilots_ask, read_afar

from jedi.agent.base import World

_HISTORY = """
SELECT h.relationtype AS relation, o.site AS old, n.site AS new, n.priority - o.priority AS more
FROM jedi_job_retry_history h JOIN jedi_jobs o ON o.pandaid = h.oldpandaid
  JOIN jedi_jobs n ON n.pandaid = h.newpandaid
WHERE h.jeditaskid = :t
"""


def test_an_unused_consumer_is_rebrokered(world: World, at: Callable[[float], None]) -> None:
    """A consumer waits too long at SITE_A: closed, es_unused; the next one waits at
    SITE_B, one step earlier in the queue, and is its rebrokerage in the history."""
    at(0)
    pilots_ask(world)
    read_afar(world, "SITE_B", "SITE_A_DATADISK")
    task = events_task(world, site="SITE_A,SITE_B", maxAttemptEsJob=0)
    [first] = rows(world, "SELECT site FROM jedi_jobs WHERE kind = 'consumer'")
    at(30 * 86400)
    run_dog(world, "timeouts")
    serve(world)
    assert set_jobs(world, task, "consumer") == [
        ("consumer", "closed", "es_unused"),
        ("consumer", "activated", None),
    ]
    [step] = rows(world, _HISTORY, t=task)
    other = {"SITE_A": "SITE_B", "SITE_B": "SITE_A"}[first.site]
    assert (step.relation, step.old, step.new, step.more) == ("rebrokerage", first.site, other, 1)
    pilot = EventPilot(world, other)
    [job] = pilot.take()
    assert pilot.ask(job, 9) == [1, 3, 5]
    sound(world)


def test_a_consumer_that_left_ranges_is_retried(world: World) -> None:
    """A reattempt that no time-out caused stays a retry."""
    task = events_task(world)
    pilot = EventPilot(world)
    [job] = pilot.take()
    pilot.process(job, pilot.ask(job, 1))
    pilot.end(job)
    serve(world)
    assert [step.relation for step in rows(world, _HISTORY, t=task)] == ["retry"]
