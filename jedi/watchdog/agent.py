"""The WatchDog: runs the dogs by their timetable."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, timedelta

from apscheduler.events import EVENT_JOB_ERROR, JobExecutionEvent  # type: ignore[import-untyped]
from apscheduler.schedulers.background import BackgroundScheduler  # type: ignore[import-untyped]
from apscheduler.triggers.interval import IntervalTrigger  # type: ignore[import-untyped]
from sqlalchemy import Connection

from jedi.agent.base import Agent, World
from jedi.core import clock
from jedi.taskbuffer.db.engine import notifying
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import Counts, Dog, walk

_APART = timedelta(seconds=0.05)
"""Dogs of the same period follow each other: at the same instant each would open a session."""


class WatchDog(Agent[Dog, Counts]):
    """Looks after jobs, leases, tasks on hold, statistics and left-overs.

    The first cycle runs every dog once. From then on the timetable runs them, each in a thread of
    its own, so that a slow one keeps neither the others nor the agent's heartbeat waiting.
    """

    name = "WatchDog"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        logging.getLogger("apscheduler").addHandler(logging.NullHandler())  # we tell ourselves
        self.timetable = BackgroundScheduler(
            executors={"default": {"type": "threadpool", "max_workers": len(DOGS)}},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
            timezone=UTC,
        )
        self.timetable.add_listener(self._failed, EVENT_JOB_ERROR)

    @property
    def poll_s(self) -> float:
        """A cycle only reads knobs and endpoints for the dogs, which nobody waits for: knobs that
        change wake us."""
        least = float(self.world.knobs.agent.heartbeat_s) if notifying() else 0.0
        return max(super().poll_s, least)

    def claim(self, tx: Connection, limit: int) -> list[Dog]:
        """The dogs that are not on the timetable yet, which are put there; the others get their
        present periods."""
        fresh = []
        for place, dog in enumerate(DOGS.values()):
            period = IntervalTrigger(seconds=self.world.knobs[dog.period], timezone=UTC)
            period.start_date += place * _APART
            job = self.timetable.get_job(dog.name)
            if job is None:
                self.timetable.add_job(self._run, period, [dog], id=dog.name)
                fresh.append(dog)
            elif job.trigger.interval != period.interval:
                job.modify(trigger=period)  # after its next turn, which has come: knobs_changed
        if not (fresh or self.timetable.running):
            self.timetable.start()
        return fresh

    def knobs_changed(self) -> None:
        """Every dog goes by the new knobs now, and then in its period. No job of its own: one that
        ends with its only turn can't be removed once the timetable stops."""
        for place, job in enumerate(self.timetable.get_jobs()):
            job.modify(next_run_time=clock.now() + place * _APART)

    def work(self, dog: Dog) -> Counts:
        return walk(self.world, dog)

    def apply(self, tx: Connection, results: Sequence[tuple[Dog, Counts]]) -> None:
        """Log the dogs' actions: they write their results themselves."""
        for dog, counts in results:
            self._tell(dog, counts)

    def trouble(self, tx: Connection, dog: Dog, error: Exception) -> None:
        """The log has it; the dog's next turn comes."""

    def _run(self, dog: Dog) -> None:
        self._tell(dog, self.work(dog))

    def _tell(self, dog: Dog, counts: Counts) -> None:
        if counts.total():
            self.log.info("dog", dog=dog.name, **counts)

    def _failed(self, event: JobExecutionEvent) -> None:
        self.log.error("dog failed", dog=event.job_id, error=str(event.exception)[:2000])
