"""Random histories of consumers and ranges: whatever ends and how, each event is merged once or its
input is tried again, and all records agree."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from sqlalchemy import text
from support.commanding import files, sound
from support.dogs import run as run_dog
from support.event_sets import (
    EventPilot,
    copies_task,
    events_task,
    jumbo_jobs_task,
    look_again,
    ranges,
    serve,
    set_jobs,
)
from support.generating import generate, rows
from support.situations import make_due, set_sites

from jedi.agent.base import World
from jedi.core import states
from jedi.eventservice import agent_ends
from jedi.eventservice.agent import EventService
from jedi.eventservice.outcome import (
    OUTCOMES,
    ConsumerFacts,
    ConsumerVerdict,
    holds,
    judge_consumer,
)
from jedi.jobdispatcher.agent import Adder
from jedi.model.jobs.attempt import HeldJob
from jedi.service.jobs import job_details
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.events import consumer_ends
from jedi.taskbuffer.jobs import jobs as job_rows
from jedi.taskbuffer.jobs.jobs import JobMove

STEPS = 80
JUMBO_DOGS = ("jumbo_jobs", "co_jumbo", "waiting_co_jumbo")
SETS = 40
_LIVE = text("""
SELECT pandaid, kind, status FROM jedi_jobs
WHERE kind = 'consumer' AND status IN ('activated', 'running') AND kill_code IS NULL
  OR kind = 'es_merge' AND status = 'waiting'
ORDER BY pandaid
""")
_QUEUED_ENDS = (
    ("failed", "transfer_failed"),
    ("closed", "activated_timeout"),
    ("closed", "defined_timeout"),
)


class RandomHistory:
    """One job set, and pilots that do anything with its consumers and its merge jobs."""

    weights: tuple[int, ...] = (70, 8, 2, 20)
    ends: tuple[str, ...] = ("finished", "failed", "lost", "killed")

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)
        self.partial = self.random.random() < 0.5
        self.task = events_task(
            world,
            16,
            nEsConsumers=3,
            maxAttemptES=3,
            maxAttemptEsJob=4,
            allowPartialFinish=self.partial,
        )
        self.begin("SITE_A")

    def begin(self, *sites: str) -> None:
        """Pilots at sites, which have no job yet."""
        self.pilots = {site: EventPilot(self.world, site) for site in sites}
        self.held: dict[int, tuple[EventPilot, HeldJob, list[int]]] = {}

    def run(self) -> str:
        """Go on until the job set has ended; how its last merge job did."""
        for _ in range(STEPS):
            self.step()
            if ended := self.ended():
                return ended[0]
        raise AssertionError("the job set does not end")

    def ended(self) -> list[str]:
        """The ends of the last merge jobs of job sets that have ended, in their order."""
        found = rows(
            self.world,
            "SELECT j.status FROM jedi_jobsets s JOIN jedi_jobs j "
            "ON j.pandaid = s.merge_pandaid WHERE s.ended_at IS NOT NULL "
            "ORDER BY s.jobsetid",
        )
        return [row.status for row in found]

    def step(self) -> None:
        """A pilot takes a job, gets and reports ranges, or ends; now and then JEDI comes."""
        for site, pilot in self.pilots.items():
            waiting = rows(
                self.world,
                "SELECT pandaid FROM jedi_jobs WHERE status = 'activated' AND site = :s",
                s=site,
            )
            wanted = sum(self.random.random() < 0.5 for _ in waiting)
            for job in pilot.take(wanted) if wanted else []:
                self.held[job.panda_id] = pilot, job, []
        for pilot, job, has in list(self.held.values()):
            if self.random.random() < 0.7:
                self.work(pilot, job, has)
        if self.random.random() < 0.6:
            serve(self.world)
            Adder(self.world).run_once()
            sound(self.world)

    def work(self, pilot: EventPilot, job: HeldJob, has: list[int]) -> None:
        [row] = rows(
            self.world,
            "SELECT kind, status, kill_code FROM jedi_jobs WHERE pandaid = :j",
            j=job.panda_id,
        )
        if row.status not in states.JOB_AT_SITE:
            del self.held[job.panda_id]
        elif row.kind == "es_merge":
            self.merge(pilot, job)
        elif row.kill_code or self.random.random() < 0.3:
            self.end(pilot, job, bool(row.kill_code))
        else:
            has += pilot.ask(job, self.random.randint(0, 4))
            for first in list(has):
                how = self.random.choices(("finished", "failed", "fatal", ""), self.weights)[0]
                if how:
                    pilot.process(job, [first], how)
                    has.remove(first)

    def end(self, pilot: EventPilot, job: HeldJob, killed: bool) -> None:
        how = "killed" if killed else self.random.choice(self.ends)
        del self.held[job.panda_id]
        if how == "lost":
            with self.world.engine.begin() as tx:
                move = JobMove(job.panda_id, "holding", "lost_heartbeat", "Silent.", job.lock_seq)
                assert consumer_ends.lose(tx, [move], "WatchDog")
        elif how == "killed":
            pilot.end(job, "cancelled")
        else:
            more = {} if how == "finished" else {"error_code": "payload_exit"}
            pilot.end(job, how, **more)

    def merge(self, pilot: EventPilot, job: HeldJob) -> None:
        del self.held[job.panda_id]
        if self.random.random() < 0.5:
            pilot.end(job)
            return
        zips = rows(
            self.world,
            "SELECT DISTINCT z.lfn FROM jedi_event_zips z JOIN jedi_events e "
            "USING (ziprow_id) JOIN jedi_jobsets s ON s.jobsetid = e.jobsetid "
            "WHERE e.status = 6 AND s.merge_pandaid = :j ORDER BY 1",
            j=job.panda_id,
        )
        bad: list[dict[str, Any]] = [{"lfn": zips[0].lfn, "problem": "broken"}]
        pilot.end(job, "failed", error_code="stagein_checksum", bad_inputs=bad)


@pytest.mark.parametrize("seed", range(6))
def test_each_event_is_merged_once_or_its_input_tried_again(world: World, seed: int) -> None:
    """Issue of the event service: the merged output holds each event exactly once, whatever died.
    A finished set has each range merged once (or given up, where the task allows it); an input of
    any other is ready or failed, and no range of it is merged."""
    history = RandomHistory(world, seed)
    ended = history.run()
    merged = {
        first: [state for state, _ in several].count("merged")
        for first, several in ranges(world, history.task).items()
    }
    given_up = {
        first
        for first, several in ranges(world, history.task).items()
        if "fatal" in {state for state, _ in several}
    }
    assert merged.keys() == set(range(1, 17, 2))
    if ended == "finished":
        assert files(world, history.task) == {"finished": 1}
        assert all(n == int(first not in given_up) for first, n in merged.items())
        assert history.partial or not given_up
    else:
        assert set(merged.values()) == {0}
        assert files(world, history.task).keys() <= {"ready", "failed"}
    sound(world)


class KeptHistory(RandomHistory):
    """One job set after the other for one input; each keeps what the ones before it processed."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random, self.partial = world, random.Random(seed), False
        self.task = events_task(
            world, 16, nEsConsumers=3, maxAttemptES=2, maxAttemptEsJob=1, notDiscardEvents=True
        )
        self.begin("SITE_A")

    def run(self) -> str:
        """Go on until the input is finished, or has failed for good."""
        for _ in range(2 * STEPS):
            self.step()
            make_due(self.world)
            if files(self.world, self.task) == {"ready": 1}:
                assert generate(self.world) == 1
                sound(self.world)
            if files(self.world, self.task).keys() <= {"finished", "failed"}:
                serve(self.world)
                [end] = files(self.world, self.task)
                return end
        raise AssertionError("the input is not finished")


@pytest.mark.parametrize("seed", [2, 4, 6])
def test_kept_ranges_are_merged_once(world: World, seed: int) -> None:
    """PanDA: "kept with ND". Whatever dies in several job sets of one input: each event is merged
    once if the input is finished, else never. All these seeds have a second set."""
    history = KeptHistory(world, seed)
    end = history.run()
    found = ranges(world, history.task)
    merged = {
        first: [state for state, _ in several].count("merged") for first, several in found.items()
    }
    assert merged == dict.fromkeys(range(1, 17, 2), int(end == "finished"))
    assert len(history.ended()) > 1
    sound(world)


class JumboHistory(RandomHistory):
    """Job sets that co-jumbo jobs at SITE_A and jumbo jobs at SITE_B process. With every other seed
    they begin with placeholders, since SITE_A is offline."""

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)
        self.partial = self.random.random() < 0.5
        late = seed % 2 == 0
        self.task = jumbo_jobs_task(
            world,
            "offline" if late else "online",
            files=3,
            events=8,
            maxAttemptES=3,
            allowPartialFinish=self.partial,
        )
        kinds = {kind for kind, status, _ in set_jobs(world, self.task) if status == "waiting"}
        assert kinds == ({"es_merge", "co_jumbo"} if late else {"es_merge"})
        self.begin("SITE_A", "SITE_B")

    def run(self) -> str:
        """Go on until all job sets have ended, and no jumbo job is left."""
        for n in range(STEPS):
            self.step()
            for dog in self.random.sample(JUMBO_DOGS, 2):
                run_dog(self.world, dog)
            if n == 8:
                set_sites(self.world, "SITE_A", status="online")
            look_again(self.world)
            ended = self.ended()
            if len(ended) == 3 and not self.held:
                return " ".join(ended)
        raise AssertionError("the job sets do not end")


@pytest.mark.parametrize("seed", range(4))
def test_jumbo_jobs_lose_and_double_no_event(world: World, seed: int) -> None:
    """Whatever jumbo jobs and co-jumbo jobs do: each event of a finished job set is merged once, or
    given up where the task allows it; an input of any other is ready or failed. No file waits for a
    real co-jumbo job in the end."""
    history = JumboHistory(world, seed)
    ended = history.run().split()
    found = rows(
        world,
        "SELECT s.jobsetid, m.status, e.fileid, e.job_processid, "
        "count(*) FILTER (WHERE e.status = 9) AS merged, "
        "count(*) FILTER (WHERE e.status = 8) AS fatal "
        "FROM jedi_jobsets s JOIN jedi_jobs m ON m.pandaid = s.merge_pandaid "
        "JOIN jedi_events e USING (jobsetid) GROUP BY 1, 2, 3, 4",
    )
    assert len(found) == 12
    for row in found:
        if row.status == "finished":
            assert row.merged + row.fatal == 1
            assert history.partial or not row.fatal
        else:
            assert not row.merged
    assert files(world, history.task)["finished"] == ended.count("finished")
    [(left,)] = rows(world, "SELECT count(*) FROM jedi_dataset_contents WHERE is_waiting = 'Y'")
    assert left == 0
    sound(world)


class TroubledHistory(RandomHistory):
    """Many job sets, of a task that does without ranges and of one that does not. People, dogs and
    a site that goes offline end consumers, too."""

    weights = (50, 10, 20, 20)
    ends = (*["finished"] * 6, "failed", "lost", "killed")

    def __init__(self, world: World, seed: int) -> None:
        self.world, self.random = world, random.Random(seed)
        for partial in (True, False):
            self.task = events_task(
                world,
                6,
                files=SETS,
                nEsConsumers=3,
                maxAttemptES=2,
                maxAttemptEsJob=1,
                allowPartialFinish=partial,
                output=f"a:{partial}",
            )
        self.begin("SITE_A")

    def trouble(self) -> None:
        """Somebody ends a consumer that waits or runs, or a merge job that waits."""
        with self.world.engine.begin() as tx:
            for job in tx.execute(_LIVE).all():
                if self.random.random() > (0.1 if job.status == "activated" else 0.03):
                    continue
                if job.kind == "es_merge" or self.random.random() < 0.3:
                    job_details.cancel(tx, "anna", [job.pandaid], None)
                elif job.status == "activated":
                    end = self.random.choice(_QUEUED_ENDS)
                    job_ends.end_jobs(tx, [JobEnd(job.pandaid, *end, "Late.", None)], "WatchDog")
                elif self.random.random() < 0.75:
                    job_rows.ASK_TO_KILL.run(tx, code="reassigned", ids=[job.pandaid])
                else:
                    lost = JobEnd(job.pandaid, "failed", "holding_timeout", "Late.", None)
                    job_ends.end_jobs(tx, [lost], "WatchDog")

    def meanwhile(self) -> None:
        """While an EventService thinks, consumers end."""
        agent = EventService(self.world)
        agent.world.refresh()
        with self.world.engine.begin() as tx:
            claimed = agent.claim(tx, 100)
        results = [(item, agent.work(item)) for item in claimed]
        for pilot, job, _ in list(self.held.values()):
            [row] = rows(
                self.world, "SELECT kind, status FROM jedi_jobs WHERE pandaid = :j", j=job.panda_id
            )
            works = row.kind == "consumer" and row.status == "running"
            if works and self.random.random() < 0.5:
                self.end(pilot, job, killed=False)
        with self.world.engine.begin() as tx:
            agent.apply(tx, results)
        agent.tidy(results)


def late_end(world: World) -> None:
    """A consumer without ranges ends while the merge job of its set starts. Chance does that
    rarely."""
    task = events_task(world, nEsConsumers=2, output="a:late")
    pilot = EventPilot(world)
    works, idle = pilot.take(2)
    pilot.process(works, pilot.ask(works, 9))
    pilot.end(works)
    agent = EventService(world)
    agent.world.refresh()
    with world.engine.begin() as tx:
        claimed = agent.claim(tx, 100)
    results = [(item, agent.work(item)) for item in claimed]
    pilot.end(idle)
    with world.engine.begin() as tx:
        agent.apply(tx, results)
    agent.tidy(results)
    serve(world)
    assert set_jobs(world, task, "consumer")[1] == ("consumer", "closed", "es_killed")
    [merge] = pilot.take()
    pilot.end(merge)
    Adder(world).run_once()
    serve(world)


def terminated_copy(world: World) -> None:
    """The pilot of a copy that counts is terminated. Chance makes no copies here."""
    copies_task(world, "runonce", 2)
    pilot = EventPilot(world)
    [copy] = pilot.take()
    serve(world)
    pilot.end(copy, "failed", error_code="pilot_terminated")
    serve(world)
    [copy] = pilot.take()
    serve(world)
    pilot.end(copy)
    serve(world)


def test_every_row_of_the_table_is_reached(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: random histories of ranges and consumers reach every row of the table of consumers'
    ends; the rows that none reached are named."""
    reached: Counter[str] = Counter()

    def counted(facts: ConsumerFacts) -> ConsumerVerdict:
        reached[next(row.when for row in OUTCOMES if holds(row.when, facts))] += 1
        return judge_consumer(facts)

    monkeypatch.setattr(agent_ends, "judge_consumer", counted)
    late_end(world)
    terminated_copy(world)
    history = TroubledHistory(world, 2)
    unreached = {row.when for row in OUTCOMES}
    for n in range(STEPS):
        history.trouble()
        history.step()
        if n % 4 == 2:
            set_sites(world, "SITE_A", status="offline")
            serve(world)
            set_sites(world, "SITE_A", status="online")
        history.meanwhile()
        unreached -= reached.keys()
        if not unreached:
            break
    assert not unreached, sorted(unreached)
    sound(world)
