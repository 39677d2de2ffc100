"""The JumboWatchDog: event-service tasks with many events left get jumbo jobs, with few lose
them."""

from __future__ import annotations

from jedi.agent.base import World
from jedi.brokerage.filters.software import offers
from jedi.eventservice.jumbo import (
    JumboCandidate,
    JumboDecision,
    decide,
    limits_of,
    positions_fit,
)
from jedi.taskbuffer.events import jumbo
from jedi.taskbuffer.events.jumbo import EventTask, JumboRecord, JumboSite
from jedi.watchdog.dog import Counts, Dog

MOST = 10_000
"""Tasks that a run looks at."""


def run(world: World) -> Counts:
    """Source: JEDI document, "Jumbo job switcher";
    docs/reference/event-service.md#jumbo-switcher."""
    limits = limits_of(world.knobs.jumbo_dog)
    with world.engine.begin() as tx:
        tasks = jumbo.EVENT_TASKS.rows(tx, limit=MOST)
        if not tasks:
            return Counts()
        sites = jumbo.JUMBO_SITES.rows(tx)
        last = {task.jedi_task_id: task.code for task in tasks}
        decisions = decide([_candidate(task, sites) for task in tasks], limits)
        on = [one.task.jedi_task_id for one in decisions if one.code == "jumbo_enabled"]
        off = [one.task.jedi_task_id for one in decisions if one.task.jumbo and not one.jumbo]
        done = jumbo.switch(tx, on, limits.per_task, limits.per_site)
        done |= jumbo.switch(tx, off, None, None)
        lost = {*on, *off} - done  # somebody holds them: the next run decides again
        news = [
            _record(one)
            for one in decisions
            if one.task.jedi_task_id not in lost
            and _settled(one.code) != _settled(last[one.task.jedi_task_id])
        ]
        jumbo.record(tx, news, limits._asdict())
    return Counts(enabled=len({*on} & done), disabled=len({*off} & done))


def _candidate(task: EventTask, sites: list[JumboSite]) -> JumboCandidate:
    fitting = [one for one in sites if offers(one.releases, one.software, task.release)]
    online = (one.site for one in fitting if one.status == "online")
    lack = "jumbo_offline" if fitting else "jumbo_no_release" if sites else "jumbo_no_site"
    return JumboCandidate(
        task.jedi_task_id,
        task.events,
        task.priority,
        task.jumbo,
        bool(task.site),
        (*online,),
        positions_fit(task.rules or {}),
        lack,
    )


def _settled(code: str | None) -> str | None:
    """The code, without the difference between a task that gets jumbo jobs and one that has."""
    return "jumbo_enabled" if code == "jumbo_goes_on" else code


def _record(one: JumboDecision) -> JumboRecord:
    need = {"code": one.code, "sentence": one.sentence, **one.facts}
    sites = one.task.sites if one.jumbo else ()
    return JumboRecord(one.task.jedi_task_id, one.jumbo, sites, need)


DOG = Dog("jumbo", "watchdog.jumbo_period_s", "tasks with many events get jumbo jobs", run)
