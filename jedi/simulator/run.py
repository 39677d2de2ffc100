"""A simulation: the real agents and services on a database of their own, time that is turned, and
a grid that is made up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import yaml
from sqlalchemy import Connection, Engine

from jedi.agent import registry
from jedi.agent.base import World
from jedi.core import clock, states
from jedi.core.errors import JediError
from jedi.core.settings import Settings
from jedi.host.home import Home
from jedi.model.jobs.wire import BATCH_MAX
from jedi.service.jobs import job_details
from jedi.service.operations.table import Call, KnownCaller
from jedi.service.queues import work_queues
from jedi.service.sites import changes
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.system import check
from jedi.service.tasks import commanding
from jedi.simulator.grid import SimulatedSite, next_event
from jedi.simulator.pilots import Pilots
from jedi.simulator.random_streams import RandomStreams
from jedi.simulator.record import JobLives, ProcessedEvents, Record, Sample
from jedi.simulator.scenario import USER, Scenario, ScenarioCommand, ScenarioTask
from jedi.simulator.storage import SimulatedDDM
from jedi.standalone.scratch import CARELESS, database
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.housekeeping import simulation
from jedi.taskbuffer.jobs.one_job import HOLDABLE
from jedi.taskbuffer.reports import overview
from jedi.taskbuffer.scheduling import shares
from jedi.taskbuffer.tasks.commands import live_jobs
from jedi.taskbuffer.users import users
from jedi.watchdog.all_dogs import DOGS

AGENTS = (
    "TaskCommando",
    "Adder",
    "EventService",
    "PostProcessor",
    "TaskRefiner",
    "ContentsFeeder",
    "TaskBroker",
    "JobGenerator",
    "Mover",
)
"""The agents in the order of a step: makers of work first. Pilots come by themselves, and the
simulated clock runs the dogs, one process that needs no locks."""
SIMULATED_DOGS = tuple(dog for dog in DOGS.values() if dog.name not in ("notifier", "sweep"))
"""Dogs of a simulation: it sends no messages, and leaves no bytes behind."""
PRESET: Mapping[str, Any] = {"watchdog.space_period_s": 86_400.0}
"""Knobs of all simulations: there is always room."""
SERVER = {"autovacuum": "off", "max_parallel_workers_per_gather": 0, **CARELESS}
"""Settings of a simulation's database. Vacuum comes at times of its own choice: rows then lie, and
are found, in another order. Workers of parallel queries took a fifth of all processor time."""
BEAT = IDLE = timedelta(minutes=30)
"""Interval of pilots' heartbeats; the longest time that the simulator skips when nothing
happens."""
ROUNDS = 50
PAGE = 50_000
"""Files of an input that one statement creates."""
AT_ONCE = 10_000
"""Jobs that are in memory at once when all are read."""
_OF_JOBS = {"hold": job_details.hold, "release": job_details.release}
_NOT_RUN = (*HOLDABLE, *states.JOB_AT_SITE)
TIDY, MORE, FEW_MORE = 5_000, 1.3, 1.05
"""Jobs after which the tables are vacuumed and analysed, and again when there are so many times as
many. In between, only the table of live jobs is vacuumed, after `TIDY` jobs or a twentieth more:
each look at the live jobs reads the dead rows, too."""

ProgressCallback = Callable[[float], None]
"""Receives the part of the time that has passed."""


class Log:
    """The log of the agents: only their troubles are kept, and counted. Storage that does not
    answer is the scenario's doing."""

    def __init__(self, troubles: Counter[str]) -> None:
        self._troubles = troubles

    def bind(self, **_: Any) -> Log:
        return self

    def info(self, *_: Any, **__: Any) -> None: ...

    warning = info

    def error(self, what: str, error: str = "", kind: str = "", **_: Any) -> None:
        if kind != "OSError":
            self._troubles[f"{what}: {error.partition(chr(10))[0][:200]}"] += 1


def simulate(scenario: Scenario, progress: ProgressCallback = lambda _: None) -> Record:
    """Run a scenario from its beginning to its end, on a database that is gone afterwards."""
    with database("jedi simulator", **SERVER) as engine:
        return simulate_in(engine, scenario, progress)


def simulate_in(
    engine: Engine, scenario: Scenario, progress: ProgressCallback = lambda _: None
) -> Record:
    """Run a scenario in a fresh, migrated database."""
    try:
        clock.turn_to(scenario.start)
        run = Simulation(scenario, engine)
        run.run(progress)
        return run.record
    finally:
        clock.turn_to(None)


def _call(tx: Connection) -> Call:
    return Call(tx, KnownCaller(USER, "socket"), Home(Path("/simulated")))


def _lives(tx: Connection) -> JobLives:
    """All jobs there ever were."""
    lives, after = JobLives(), 0
    while some := simulation.JOBS.rows(tx, after=after, limit=AT_ONCE):
        lives.add(some)
        after = some[-1].panda_id
    return lives


class Simulation:
    """One run, in a fresh database."""

    def __init__(self, scenario: Scenario, engine: Engine) -> None:
        self.scenario, self.engine = scenario, engine
        self.record = Record(scenario)
        self.end = scenario.start + timedelta(days=scenario.days)
        self.tick = timedelta(seconds=scenario.tick_s)
        self.places = {name: SimulatedSite(site) for name, site in scenario.sites_by_name().items()}
        self.storage = {name: place.site.storage(name) for name, place in self.places.items()}
        streams = RandomStreams(scenario.seed)
        self.ddm = SimulatedDDM(engine, self._links(), streams)
        self.world = self._world()
        self.pilots = Pilots(engine, self.ddm, self.world.knobs, self.places, streams)
        self.agents = [registry.load(name)(self.world) for name in AGENTS]
        self.due: dict[str, datetime] = {}
        self.events = self._events()
        self.numbers: Counter[str] = Counter()
        slots = sum(place.site.slots for place in self.places.values())
        shared = any(queue.queue_share for queue in scenario.queues)
        self.together = min(BATCH_MAX, max(1, slots // 25)) if shared else BATCH_MAX
        """Jobs that are taken between two looks at the shares: a lump of them goes to one."""
        self.handed_out, self.tidy_at, self.tidy_jobs_at = 0, 1.0, 1.0

    def run(self, progress: ProgressCallback) -> None:
        """Go from one event to the next until the time is over."""
        now, total = self.scenario.start, self.end - self.scenario.start
        while now < self.end:
            clock.turn_to(now)
            busy = self._step(now)
            progress((now - self.scenario.start) / total)
            now = self._next(now, busy)
        clock.turn_to(self.end)
        with self.engine.begin() as tx:
            self.record.jobs = _lives(tx)
            self.record.tasks = simulation.TASKS.rows(tx)
            self.record.merged = dict(simulation.MERGED_EVENTS.rows(tx))
            self.record.wrong = [
                f"{one.invariant}: {one.violations}" for one in check.check(tx) if one.violations
            ]
        for place in self.places.values():
            self.record.left |= {job: self._hours(at) for job, at in place.left.items()}
            self.record.kept |= {job: self._hours(at) for job, at in place.kept.items()}
        book = self.pilots.consumers.book
        self.record.ranges, self.record.redone = book.ranges, book.redone
        self.record.processed = [
            ProcessedEvents(task, site, self._hours(at), n)
            for (task, site, at), n in book.processed.items()
        ]
        progress(1.0)

    # ------------------------------------------------------------------------------------- a step

    def _step(self, now: datetime) -> bool:
        """All that happens within a tick; whether anything did."""
        happened = 0
        while self.events and self.events[0][0] <= now:
            self.events.pop(0)[1]()
            happened += 1
        happened += self.ddm.deliver()
        happened += self.pilots.report(now)
        if self._is_due("beat", BEAT, now):
            self.pilots.beat(now)
            self._ask([name for name, place in self.places.items() if place.free], now)
        happened += self._dogs(now)
        happened += self._agents()
        self._leave()
        happened += self._ask(self._wanting(), now)
        if self._is_due("sample", timedelta(minutes=self.scenario.sample_min), now):
            self._sample(now)
        return happened > 0

    def _next(self, now: datetime, busy: bool) -> datetime:
        """When the next step is: a tick later, or when nothing happens at the next event."""
        if busy:
            return now + self.tick
        known = [self.end, now + IDLE, *self.due.values(), self.ddm.next_arrival()]
        at = next_event(self.places.values(), known + [at for at, _ in self.events[:1]])
        return now + self.tick * max(1, ceil((min(at, self.end) - now) / self.tick))

    def _is_due(self, what: str, period: timedelta, now: datetime) -> bool:
        if now < self.due.get(what, now):
            return False
        self.due[what] = now + period
        return True

    def _dogs(self, now: datetime) -> int:
        done = 0
        for dog in SIMULATED_DOGS:
            if self._is_due(dog.name, timedelta(seconds=self.world.knobs[dog.period]), now):
                counts = dog.run(self.world)
                done += counts.total()
                if dog.name == "boost" and counts["boosted"]:
                    self._note_boosts(now)
        return done

    def _note_boosts(self, now: datetime) -> None:
        with self.engine.begin() as tx:
            for task in simulation.BOOSTED.rows(tx):
                self.record.boosted.setdefault(task, self._hours(now))

    def _agents(self) -> int:
        """Every agent does all it can."""
        total = 0
        for agent in self.agents:
            for _ in range(ROUNDS):
                done = agent.run_once()
                total += done
                if done < agent.batch:
                    break
        return total

    def _leave(self) -> None:
        """End the agent that makes some jobs before it has made them."""
        left = {number: task.left for number, task in self.pilots.tasks.items() if task.left}
        if left:
            with self.engine.begin() as tx:
                simulation.leave(tx, left)

    def _wanting(self) -> list[str]:
        """Sites that have free slots and jobs for them."""
        with self.engine.begin() as tx:
            rows = overview.JOBS_BY_SITE.rows(tx)
        waiting = [row.site for row in rows if row.status == "activated"]
        return [site for site in waiting if self.places[site].free > 0]

    def _ask(self, names: Sequence[str], now: datetime) -> int:
        """Pilots of these sites ask for jobs. Real ones come one by one while shares are computed:
        here a few come together, then the shares are."""
        taken, since = 0, 0
        for name in names:
            left = self.places[name].free
            while left > 0:
                n = min(left, self.together)
                got = self.pilots.acquire(name, n, now)
                taken, since, left = taken + got, since + got, left - n if got == n else 0
                if since >= self.together:
                    DOGS["shares"].run(self.world)
                    since = 0
        self._tidy_after(taken)
        return taken

    def _tidy_after(self, taken: int) -> None:
        self.handed_out += taken
        if self.handed_out < min(self.tidy_at, self.tidy_jobs_at):
            return
        self.tidy_jobs_at = max(self.handed_out + TIDY, FEW_MORE * self.handed_out)
        with at_once(self.engine) as tx:
            if self.handed_out < self.tidy_at:
                simulation.TIDY_JOBS.run(tx)
            else:
                self.tidy_at = max(TIDY, MORE * self.handed_out)
                simulation.TIDY.run(tx)

    def _sample(self, now: datetime) -> None:
        at_h = self._hours(now)
        with self.engine.begin() as tx:
            rows = shares.LAST.rows(tx)
        self.record.samples += [
            Sample(at_h, row.queue_name, row.allocation, row.active)
            for row in rows
            if row.allocation is not None
        ]

    def _hours(self, at: datetime) -> float:
        return (at - self.scenario.start) / timedelta(hours=1)

    # ------------------------------------------------------------------------- what is to happen

    def _events(self) -> list[tuple[datetime, Callable[[], None]]]:
        """The events of the scenario in the order of time."""
        scenario = self.scenario
        end_h = 24 * scenario.days
        events: list[tuple[float, Callable[[], None]]] = []
        for task in scenario.tasks:
            events += [(at, partial(self._submit, task)) for at in task.times(end_h)]
        for outage in scenario.outages:
            names = [name for name in self.places if fnmatchcase(name, outage.site)]
            for at, works in ((outage.from_h, False), (outage.from_h + outage.hours, True)):
                events.append((at, partial(self._turn, names, outage.announced, works)))
        events += [(command.at_h, partial(self._command, command)) for command in scenario.commands]
        events.sort(key=lambda one: one[0])
        return [(scenario.start + timedelta(hours=at), act) for at, act in events]

    def _submit(self, task: ScenarioTask) -> None:
        """Tasks of one kind come, and their input with them."""
        for _ in range(task.count):
            self.numbers[task.name] += 1
            document = task.document(self.numbers[task.name])
            if task.at:
                self.put_input(task, f"sim:{task.name}.{self.numbers[task.name]}.in")
            with self.engine.begin() as tx:
                text = yaml.safe_dump(document)
                done = storing.submit(tx, self.ddm, examined(Document(text, "yaml", Path()), USER))
            self.pilots.tasks[done.jedi_task_id] = task

    def _command(self, command: ScenarioCommand) -> None:
        """A person does something to tasks, or to their jobs; a refusal counts as trouble."""
        ids = [number for number, task in self.pilots.tasks.items() if task.name == command.tasks]
        for number in ids:
            try:
                with self.engine.begin() as tx:
                    if verb := _OF_JOBS.get(command.command):
                        found = live_jobs(tx, [number], _NOT_RUN)
                        verb(tx, USER, [job.panda_id for job in found], None)
                    else:
                        commanding.command(tx, USER, number, command.command)
            except JediError as error:
                self.record.troubles[f"{command.command}: {error.sentence}"] += 1

    def put_input(self, task: ScenarioTask, dataset: str) -> None:
        """Create the input of a task."""
        endpoints = list(dict.fromkeys(self.storage[site][0] for site in task.at))
        self.ddm.create(dataset, endpoints[0])
        for first in range(0, task.files, PAGE):
            numbers = range(first, min(first + PAGE, task.files))
            self.ddm.put(endpoints, dataset, numbers, task.file_mb * 10**6)
        self.ddm.close(dataset)

    def _turn(self, names: Sequence[str], announced: bool, works: bool) -> None:
        """Sites begin or cease to work."""
        for name in names:
            place = self.places[name]
            if announced:
                place.open = works
                status = "status=online" if works else "status=offline"
                with self.engine.begin() as tx:
                    changes.set_site(_call(tx), name, [status], "outage")
            elif works:
                place.up = True
                self.ddm.down -= set(self.storage[name])
            else:
                place.go_down(clock.now())
                self.ddm.down |= set(self.storage[name])

    # --------------------------------------------------------------------------------- the world

    def _links(self) -> dict[str, Any]:
        return {
            endpoint: self.places[name].site.transfers
            for name, endpoints in self.storage.items()
            for endpoint in endpoints
        }

    def _world(self) -> World:
        scenario = self.scenario
        with self.engine.begin() as tx:
            users.PUT_USER.run(tx, user=USER, role="operator", gridpref=None, cap=None)
            for name, value in {**PRESET, **scenario.knobs}.items():
                knobs.put(tx, name, value, USER)
            call = _call(tx)
            work_queues.import_queues(call, yaml.safe_dump([q.columns() for q in scenario.queues]))
            entries = [
                place.site.entry(name, [e for one in place.site.reads for e in self.storage[one]])
                for name, place in self.places.items()
            ]
            changes.import_sites(call, yaml.safe_dump(entries))
            known = knobs.load(tx)
        settings = Settings(Path("/simulated"), None)
        world = World(
            self.engine,
            settings,
            lambda _: known,
            lambda _tx, _knobs: self.ddm,
            Log(self.record.troubles),
        )
        world.refresh()
        return world
