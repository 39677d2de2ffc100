"""Random histories of consumers and ranges: whatever ends and how, each event is merged once or its
input is tried again, and all records agree."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support.commanding import files, sound
from support.event_sets import EventPilot, events_task, ranges, serve
from support.generating import rows

from jedi.agent.base import World
from jedi.core import states
from jedi.jobdispatcher.agent import Adder
from jedi.spec.jobs.attempt import HeldJob
from jedi.taskbuffer.events import consumer_ends
from jedi.taskbuffer.jobs.jobs import JobMove

STEPS = 80


class RandomHistory:
    """One job set, and pilots that do anything with its consumers and its merge jobs."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)
        self.partial = self.random.random() < 0.5
        self.task = events_task(
            world, 16, nEsConsumers=3, maxAttemptES=3, maxAttemptEsJob=4,
            allowPartialFinish=self.partial,
        )  # fmt: skip
        self.pilot = EventPilot(world)
        self.held: dict[int, tuple[HeldJob, list[int]]] = {}

    def run(self) -> str:
        """Go on until the job set has ended; how its last merge job did."""
        for _ in range(STEPS):
            self.step()
            [row] = rows(self.world, "SELECT j.status FROM jedi_jobsets s JOIN jedi_jobs j "
                         "ON j.pandaid = s.merge_pandaid WHERE s.ended_at IS NOT NULL "
                         "UNION ALL SELECT NULL LIMIT 1")  # fmt: skip
            if row.status:
                return str(row.status)
        raise AssertionError("the job set does not end")

    def step(self) -> None:
        """A pilot takes a job, gets and reports ranges, or ends; now and then JEDI comes."""
        waiting = rows(self.world, "SELECT pandaid FROM jedi_jobs WHERE status = 'activated'")
        if waiting and self.random.random() < 0.5:
            [job] = self.pilot.take()
            self.held[job.panda_id] = job, []
        for job, has in list(self.held.values()):
            if self.random.random() < 0.7:
                self.work(job, has)
        if self.random.random() < 0.6:
            serve(self.world)
            Adder(self.world).run_once()
            sound(self.world)

    def work(self, job: HeldJob, has: list[int]) -> None:
        [row] = rows(self.world, "SELECT kind, status, kill_code FROM jedi_jobs WHERE pandaid = :j",
                     j=job.panda_id)  # fmt: skip
        if row.status not in states.JOB_AT_SITE:
            del self.held[job.panda_id]
        elif row.kind == "es_merge":
            self.merge(job)
        elif row.kill_code or self.random.random() < 0.3:
            self.end(job, bool(row.kill_code))
        else:
            has += self.pilot.ask(job, self.random.randint(0, 4))
            for first in list(has):
                how = self.random.choices(("finished", "failed", "fatal", ""), (70, 8, 2, 20))[0]
                if how:
                    self.pilot.process(job, [first], how)
                    has.remove(first)

    def end(self, job: HeldJob, killed: bool) -> None:
        how = "killed" if killed else self.random.choice(("finished", "failed", "lost", "killed"))
        del self.held[job.panda_id]
        if how == "lost":
            with self.world.engine.begin() as tx:
                move = JobMove(job.panda_id, "holding", "lost_heartbeat", "Silent.", job.lock_seq)
                assert consumer_ends.lose(tx, [move], "WatchDog")
        elif how == "killed":
            self.pilot.end(job, "cancelled")
        else:
            more = {} if how == "finished" else {"error_code": "payload_exit"}
            self.pilot.end(job, how, **more)

    def merge(self, job: HeldJob) -> None:
        del self.held[job.panda_id]
        if self.random.random() < 0.5:
            self.pilot.end(job)
            return
        zips = rows(self.world, "SELECT DISTINCT z.lfn FROM jedi_event_zips z JOIN jedi_events e "
                    "USING (ziprow_id) WHERE e.status = 6 ORDER BY 1")  # fmt: skip
        bad: list[dict[str, Any]] = [{"lfn": zips[0].lfn, "problem": "broken"}]
        self.pilot.end(job, "failed", error_code="stagein_checksum", bad_inputs=bad)


@pytest.mark.parametrize("seed", range(6))
def test_each_event_is_merged_once_or_its_input_tried_again(world: World, seed: int) -> None:
    """Issue of the event service: the merged output holds each event exactly once, whatever died.
    A finished set has each range merged once (or given up, where the task allows it); an input of
    any other is ready or failed, and no range of it is merged."""
    history = RandomHistory(world, seed)
    ended = history.run()
    merged = {first: [state for state, _ in several].count("merged")
              for first, several in ranges(world, history.task).items()}  # fmt: skip
    given_up = {first for first, several in ranges(world, history.task).items()
                if "fatal" in {state for state, _ in several}}  # fmt: skip
    assert merged.keys() == set(range(1, 17, 2))
    if ended == "finished":
        assert files(world, history.task) == {"finished": 1}
        assert all(n == int(first not in given_up) for first, n in merged.items())
        assert history.partial or not given_up
    else:
        assert set(merged.values()) == {0}
        assert files(world, history.task).keys() <= {"ready", "failed"}
    sound(world)
