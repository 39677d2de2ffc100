"""A model of the whole system for a state machine of hypothesis: people, pilots, agents that die or
stall, and time, in any order; the records agree after each step, and in the end every task is where
it belongs.

Real are the database, the services, data management and every agent but the Submitter; the pilots
are what a test says they do.
"""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from sqlalchemy import text

from jedi.agent import registry
from jedi.agent.base import Agent, World
from jedi.core import clock, states
from jedi.core.errors import BadInput, NotFound, Refused
from jedi.ddm import factory
from jedi.model.jobs.event_wire import PieceAsk
from jedi.model.jobs.wire import AcquireRequest, Beat, Report, Resources, StagedOutput
from jedi.service.jobs import job_details
from jedi.service.pilots import event_pieces, pilot_requests
from jedi.service.submission import storing
from jedi.service.submission.examined import Document, examined
from jedi.service.system import check
from jedi.service.tasks import commanding
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import users
from jedi.taskbuffer.users.users import Identity
from jedi.taskcommando.commands import COMMANDS
from jedi.watchdog.all_dogs import DOGS
from jedi.watchdog.dog import walk
from support import life_events
from support import life_truths as truths
from support.helpers import put_file_dataset
from support.situations import end_leases, set_sites
from support.statuses import statuses

OWNER = "anna"
TAPE = "SITE_A_TAPE"
KNOBS: dict[str, Any] = {
    "scout.chunks": 1,
    "hold.sites": "SITE_A",
    "watchdog.pending_timeout_s": 28_800,  # what waits for a person is exhausted before the end
    "watchdog.period_grace_s": 1e6,  # time is turned by hours: no period is missed
}
SITES = ("SITE_A", "SITE_B")
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)
AGENTS = tuple(name for name in registry.AGENTS if name not in ("Submitter", "WatchDog"))
DOGS_ABOUT = tuple(name for name in DOGS if name not in ("space", "sweep"))
ARGUMENTS: dict[str, list[dict[str, Any]]] = {
    "finish": [{}, {"soft": True}],
    "retry": [{}, {"keep": True}, {"sole": True}],
    "incexec": [{}, {"parameters": {"nFilesPerJob": 2}}],
    "reassign": [
        {"site": "SITE_A"},
        {"site": "SITE_B", "soft": True},
        {"site": "SITE_B", "nokill": True},
        {"nucleus": "SITE_B"},
    ],
}
TASKS: dict[str, dict[str, Any]] = {
    "plain": {"skipScout": True},
    "fragile": {"skipScout": True, "maxAttempt": 1},
    "scouts": {"maxAttempt": 1},
    "longer": {"maxAttempt": 2},
    "managed": {"skipScout": True, "prodSourceLabel": "managed"},
    "merging": {
        "skipScout": True,
        "mergeOutput": True,
        "mergeSpec": {"transPath": "cat", "jobParameters": "${TRN_OUTPUT0/S} > ${OUTPUT0}"},
    },
    "elsewhere": {"skipScout": True, "site": "SITE_B"},
    "periodical": {"skipScout": True, "period": "1 h"},
    "staged": {"skipScout": True, "inputPreStaging": True},
    "preprocessed": {
        "skipScout": True,
        "preproSpec": {"transPath": "tell"},
        "transPath": "nice -n ${PP_HOW}",
    },
    "built": {
        "skipScout": True,
        "buildSpec": {"transPath": "make", "jobParameters": "${OUT}"},
    },
    **life_events.TASKS,
}
FIRST = {
    "scouts": 5,
    "fragile": 3,
    "built": 1,
    "preprocessed": 1,
    "staged": 2,
    "merging": 1,
    "periodical": 2,
    "events": 1,
    "fine": 2,
    "jumbo": 2,
    "runonce": 1,
}
"""What there is from the beginning, and of how many files."""

ENDS: dict[str, dict[str, Any]] = {
    "finished": {"status": "finished", "metadata": {"HOW": 5}},
    "failed": {"status": "failed", "error_code": "payload_exit"},
    "out_of_memory": {"status": "failed", "error_code": "memory_limit"},
    "input_missing": {"status": "failed", "error_code": "stagein_missing"},
    "input_broken": {"status": "failed", "error_code": "stagein_checksum"},
    "terminated": {"status": "failed", "error_code": "pilot_terminated"},
    "output_forgotten": {"status": "finished"},
}
"""How a pilot may end a job, and the report that says so."""

WHAT = [
    what
    for what, weight in {
        "go_on": 12,
        "cycle": 1,
        "dog": 1,
        "write": 4,
        "die": 3,
        "leases_end": 2,
        "wait": 2,
        "wait_for_weeks": 1,
        "submit": 2,
        "submit_what_breaks": 1,
        "submit_child": 1,
        "command": 14,
        "command_at_any_time": 1,
        "start": 4,
        "end": 9,
        "succeed": 1,
        "fail": 1,
        "obey": 3,
        "fall_silent": 2,
        "say_it_again": 3,
        "hold_job": 4,
        "release_job": 3,
        "cancel_job": 2,
    }.items()
    for _ in range(weight)
]
"""What happens, and how often."""

SEEDS = st.integers(0, 2**32 - 1)

AGAIN = ("resume", "retry", "recover", "incexec")
"""Commands to what is at rest."""

AT_REST = states.TASK.final | {"paused", "exhausted"}


@dataclass
class Worker:
    """A process that stands between two steps of a cycle of its agent."""

    agent: Agent[Any, Any]
    items: list[Any]
    results: list[Any] | None = None

    def think(self) -> list[Any]:
        if self.results is None:
            self.results = self.agent._work_all(self.items)
        return self.results


@dataclass
class Held:
    """A job in the hands of a pilot."""

    order: dict[str, Any]

    @property
    def attempt(self) -> dict[str, Any]:
        return {"pandaid": self.order["pandaid"], "lock_seq": self.order["lock_seq"]}


@dataclass
class Log:
    """What agents have to tell; their troubles are kept."""

    troubles: list[str] = field(default_factory=list)

    def bind(self, **_: Any) -> Log:
        return self

    def info(self, *_: Any, **__: Any) -> None: ...

    warning = info

    def error(self, what: str, **facts: Any) -> None:
        self.troubles.append(f"{what}: {facts}")


def pilot_of(site: str) -> Identity:
    """Whom the token of a site's pilots stands for."""
    return Identity("pilot", site, None)


def none(found: list[Any]) -> None:
    """There is nothing of the kind; otherwise show it."""
    assert not found, found


class Life(RuleBasedStateMachine):
    """One system with its people and pilots; `begin` makes an empty one."""

    begin: ClassVar[Callable[[], World]]
    tally: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[int] = []
        self.workers: list[Worker] = []
        self.held: list[Held] = []
        self.said: list[tuple[str, Report]] = []
        self.chosen: Counter[str] = Counter()
        self.numbers = count(1)
        self.time = BEGINNING
        self.log = Log()
        self.resting = False

    # --------------------------------------------------------------------------------- the system

    @initialize(seed=SEEDS)
    def up(self, seed: int) -> None:
        self.dice = Random(seed)
        clock.turn_to(self.time)
        self.world = type(self).begin()
        self.world.log = self.log
        (self.world.settings.home / TAPE).mkdir()
        with self.world.engine.begin() as tx:
            users.PUT_USER.run(tx, user=OWNER, role="operator", gridpref=None, cap=None)
            for name, value in KNOBS.items():
                knobs.put(tx, name, value, OWNER)
            tx.execute(
                text(
                    "INSERT INTO jedi_ddm_endpoints (ddm_endpoint, path, is_tape) "
                    "VALUES (:name, :path, true)"
                ),
                {"name": TAPE, "path": str(self.world.settings.home / TAPE)},
            )
            tx.execute(
                text(
                    "INSERT INTO jedi_site_endpoints (site, ddm_endpoint) VALUES ('SITE_A', :name)"
                ),
                {"name": TAPE},
            )
            tx.execute(
                text(
                    "INSERT INTO jedi_site_endpoints (site, ddm_endpoint, is_local, roles) "
                    "VALUES ('SITE_A', 'SITE_B_DATADISK', false, 'read')"
                )
            )
        set_sites(self.world, "SITE_B", catchall={"useJumboJobs": True})
        self.ranges = life_events.RangePilots(self.world.engine, self.tally)
        self.world.load_ddm = factory.load
        self.world.refresh()
        for kind, files in FIRST.items():
            self.submit_task(files, **TASKS[kind])
        self.submit_what_breaks()
        self.run_agents()
        walk(self.world, DOGS["jumbo_jobs"])
        self.submit_child()
        for task, status in self.statuses().items():
            if status == "scouting" and self.dice.random() < 0.5:
                self.ask("avalanche", task)

    def agent(self, name: str) -> Agent[Any, Any]:
        """A process of its own."""
        world = copy(self.world)
        world.me = f"{name}-{next(self.numbers)}"
        agent: Agent[Any, Any] = registry.load(name)(world)
        return agent

    def rows(self, query: str, **values: Any) -> list[Any]:
        with self.world.engine.begin() as tx:
            return list(tx.execute(text(query), values))

    def statuses(self) -> dict[int, str]:
        return statuses(self.world, of="tasks", by="jeditaskid")

    @rule(what=st.sampled_from(WHAT), seed=SEEDS)
    def happen(self, what: str, seed: int) -> None:
        """Something happens; if it can't, nothing. The seed decides what is open."""
        self.dice = Random(seed)
        getattr(self, what)()

    def least(self, names: Collection[str]) -> str:
        """One of them, of what happened least so far."""
        name = min(self.dice.sample([*names], len(names)), key=lambda name: self.chosen[name])
        self.chosen[name] += 1
        return name

    def go_on(self) -> None:
        """Pilots take jobs, and every agent does what it can, but for those that stall."""
        for site in SITES:
            self.acquire(site, 4)
        for name in AGENTS:
            if self.dice.random() < 0.2:
                self.claim(name)
            else:
                self.agent(name).run_once()

    def run_agents(self) -> None:
        """Everybody does what there is to do, and what follows from it."""
        while sum(self.agent(name).run_once() for name in AGENTS):
            self.records_agree()

    def cycle(self) -> None:
        self.agent(self.dice.choice(AGENTS)).run_once()

    def dog(self) -> None:
        walk(self.world, DOGS[self.dice.choice(DOGS_ABOUT)])

    def dogs(self) -> None:
        for name in DOGS_ABOUT:
            walk(self.world, DOGS[name])

    # --------------------------------------------------------- agents that die, stall and come back

    def claim(self, name: str) -> None:
        """Somebody claims work, thinks about it or not, and does not write anything yet."""
        agent = self.agent(name)
        with agent.world.engine.begin() as tx:
            items = agent.claim(tx, agent.batch)
        if items:
            self.workers.append(Worker(agent, items))
            if self.dice.choice([True, False]):
                self.workers[-1].think()

    def write(self) -> None:
        """Somebody comes back, whether the claim is still good or not."""
        if worker := self.worker():
            worker.agent._apply_all(worker.think())

    def die(self) -> None:
        """Before anything is written, or just before it is committed."""
        if worker := self.worker():
            if worker.results:
                with worker.agent.world.engine.connect() as tx:
                    worker.agent.apply(tx, worker.results)
                    tx.rollback()
            self.tally["crash"] += 1

    def worker(self) -> Worker | None:
        """One of those who have claimed something; no longer kept in mind."""
        if not self.workers:
            return None
        return self.workers.pop(self.dice.randrange(len(self.workers)))

    def leases_end(self) -> None:
        """Whoever claimed something and has not written yet has lost it."""
        end_leases(self.world)

    # --------------------------------------------------------------------------------------- time

    def wait(self, hours: float = 0.0) -> None:
        self.time += timedelta(hours=hours or self.dice.choice([0.1, 3]))
        clock.turn_to(self.time)

    def wait_for_weeks(self) -> None:
        """The dogs come while people are away."""
        self.wait(200)
        self.dogs()

    # ------------------------------------------------------------------------------------- people

    def submit(self) -> None:
        self.submit_task(self.dice.choice(range(2, 7)), **TASKS[self.least(TASKS)])

    def submit_what_breaks(self) -> None:
        """The input is gone before anybody looks at it."""
        self.submit_task(1)
        self.world.ddm.delete(f"demo:in{len(self.tasks)}")

    def submit_child(self) -> None:
        """It reads what the parent makes, when that has ended or meanwhile."""
        parent = self.dice.choice(range(1, len(self.tasks) + 1))
        keys = {"skipScout": True, "parentTaskName": f"task{parent}"}
        if self.dice.choice([True, False]):
            keys["noWaitParent"] = True
        try:
            self.submit_task(0, f"user:out{parent}", **keys)
        except BadInput:  # the parent came to nothing, or nobody knows yet what it makes
            self.tally["refused"] += 1

    def submit_task(self, files: int, dataset: str = "", **keys: Any) -> None:
        number = len(self.tasks) + 1
        if files:
            dataset = f"demo:in{number}"
            data = {f"in{number}.{i}": b"%d\n" % i for i in range(files)}
            disk = "SITE_A_DATADISK"
            put_file_dataset(self.world, dataset, data, TAPE if "inputPreStaging" in keys else disk)
        items = [
            {"type": "template", "param_type": "input", "value": "cat ${IN/S}", "dataset": dataset},
            {
                "type": "template",
                "param_type": "output",
                "value": "> o.${SN/P}",
                "dataset": f"user:out{number}",
            },
        ]
        document = {"taskName": f"task{number}", "nFilesPerJob": 1, "jobParameters": items, **keys}
        with self.world.engine.begin() as tx:
            done = storing.submit(
                tx,
                self.world.ddm,
                examined(Document(json.dumps(document), "json", Path.cwd()), OWNER),
            )
        self.tasks.append(done.jedi_task_id)

    def command(self) -> None:
        """Something that is accepted now; TaskCommando may come too late for it."""
        found = self.statuses()
        possible = {
            name: [task for task, status in found.items() if command.refusal(status) is None]
            for name, command in COMMANDS.items()
        }
        if names := [name for name, tasks in possible.items() if tasks]:
            name = self.least(names)
            self.ask(name, self.dice.choice(possible[name]))

    def command_at_any_time(self) -> None:
        self.ask(self.dice.choice([*COMMANDS]), self.dice.choice(self.tasks))

    def ask(self, name: str, task: int) -> None:
        arguments = self.dice.choice(ARGUMENTS.get(name, [{}]))
        try:
            with self.world.engine.begin() as tx:
                commanding.command(tx, OWNER, task, name, arguments)
        except Refused:
            self.tally["refused"] += 1

    def hold_job(self) -> None:
        """Now, or when it has run."""
        after = self.dice.choice([True, False])
        self.ask_for_job(partial(job_details.hold, after=after), "hold_kind IS NULL")

    def release_job(self) -> None:
        self.ask_for_job(job_details.release, "hold_kind IS NOT NULL")

    def cancel_job(self) -> None:
        if job := self.ask_for_job(job_details.cancel, "true"):
            with self.world.engine.begin() as tx:
                job_details.tidy(tx, self.world.ddm, [job])

    def ask_for_job(self, what: Callable[..., Any], which: str) -> int | None:
        """Something for one of the jobs that have not ended; which it was, if it may be."""
        live = self.rows(
            f"SELECT pandaid FROM jedi_jobs WHERE postprocessed_at IS NULL AND {which}"
        )
        if not live:
            return None
        job = int(self.dice.choice(live).pandaid)
        try:
            with self.world.engine.begin() as tx:
                what(tx, OWNER, [job], "it is time")
        except Refused:
            self.tally["refused"] += 1
            return None
        return job

    # ------------------------------------------------------------------------------------- pilots

    def acquire(self, site: str, n: int) -> None:
        request = AcquireRequest(
            request_id=str(next(self.numbers)),
            pilot_id=f"pilot at {site}",
            site=site,
            n=n,
            resources=Resources(cores=1),
        )
        who = pilot_of(site)
        got = pilot_requests.acquire(
            self.world.engine, self.world.ddm, self.world.knobs, who, request
        )
        self.held += [Held(order) for order in got["jobs"]]

    def start(self) -> None:
        for job in self.held:
            self.report(job, {"status": "running"})
            self.ranges.work(job.order, self.dice, wholly=False)

    def end(self) -> None:
        for _ in self.held[: len(ENDS)]:
            self.end_job(self.dice.choice(self.held), self.least(ENDS))

    def succeed(self) -> None:
        for job in self.held[:3]:
            self.end_job(job, "finished")

    def fail(self) -> None:
        for job in self.held[:3]:
            self.end_job(job, "failed")

    def obey(self) -> None:
        """Pilots ask whether their jobs are to be killed."""
        for job in list(self.held):
            if self.beat(job):
                self.held.remove(job)
                self.report(job, {"status": "cancelled", "error_code": "killed"})

    def fall_silent(self) -> None:
        """Pilots begin their jobs and die."""
        self.start()
        self.held.clear()
        self.wait(3)
        self.dogs()

    def say_it_again(self) -> None:
        """An answer was lost: the pilot repeats what it said, however old that is."""
        self.ranges.say_it_again(self.dice)
        if self.said:
            self.say(*self.dice.choice(self.said))

    def end_job(self, job: Held, how: str) -> None:
        self.held.remove(job)
        wholly = self.resting or (how == "finished" and self.dice.random() < 0.5)
        self.ranges.work(job.order, self.dice, wholly=wholly)
        outputs = [] if how == "output_forgotten" else self.staged(job)
        inputs = self.pieces(job) if job.order.get("pieces") else job.order["inputs"]
        problem = {"input_missing": "missing", "input_broken": "broken"}.get(how)
        bad = [{"lfn": one["lfn"], "problem": problem} for one in inputs[:1] if problem]
        self.report(job, {**ENDS[how], "outputs": outputs, "bad_inputs": bad})

    def pieces(self, job: Held) -> list[dict[str, Any]]:
        ask = PieceAsk(panda_id=job.attempt["pandaid"], lock_seq=job.attempt["lock_seq"])
        with self.world.engine.begin() as tx:
            who = pilot_of(job.order["site"])
            found: list[dict[str, Any]] = event_pieces.some(tx, who, ask, self.world.ddm)["pieces"]
        return found

    def staged(self, job: Held) -> list[StagedOutput]:
        """The outputs of a job, as its pilot leaves and reports them."""
        directory = Path(job.order["stage_out"])
        directory.mkdir(parents=True, exist_ok=True)
        found = []
        for lfn in [one["lfn"] for one in job.order["outputs"]] + [job.order["log_lfn"]]:
            if lfn:
                data = f"{lfn} {job.attempt}".encode()
                (directory / lfn).write_bytes(data)
                found.append(
                    StagedOutput(
                        lfn=lfn,
                        size=len(data),
                        adler32=f"{zlib.adler32(data):08x}",
                        guid=f"{len(self.said):08x}",
                    )
                )
        return found

    def report(self, job: Held, what: dict[str, Any]) -> None:
        self.said.append((job.order["site"], Report(**job.attempt, **what)))
        self.say(*self.said[-1])

    def say(self, site: str, report: Report) -> None:
        with self.world.engine.begin() as tx:
            answer = pilot_requests.report(tx, pilot_of(site), [report])
        self.tally[f"{answer['results'][0]['verdict']} report"] += 1

    def beat(self, job: Held) -> bool:
        """Whether a job is to be killed."""
        with self.world.engine.begin() as tx:
            who = pilot_of(job.order["site"])
            (told,) = pilot_requests.heartbeat(tx, who, [Beat(**job.attempt)])["commands"]
        return bool(told["command"] == "kill")

    # ------------------------------------------------------------------------------------- truths

    @invariant()
    def records_agree(self) -> None:
        if hasattr(self, "world"):
            with self.world.engine.begin() as tx:
                none([found for found in check.check(tx) if found.violations])
            none(self.log.troubles)
            none(self.rows(truths.TWICE))

    def teardown(self) -> None:
        """Nobody dies any more: everything comes to rest, goes on once more where it can, and every
        end is the right one."""
        if hasattr(self, "world"):
            self.go_on()
            self.end()
            self.come_to_rest()
            for task, status in self.statuses().items():
                names = [name for name in AGAIN if COMMANDS[name].refusal(status) is None]
                if names:
                    self.ask(self.least(names), task)
            self.come_to_rest()
            with self.world.engine.begin() as tx:
                none([one for one in check.check(tx, self.world.ddm) if one.violations])
            none(self.rows(truths.WRONG_END))
            none(self.rows(truths.WITHOUT_ANSWER))
            none(self.rows(life_events.LOST_EVENTS))
            none([*self.left_over()])
            self.count()
            self.world.engine.dispose()
        clock.turn_to(None)

    def come_to_rest(self) -> None:
        self.workers.clear()
        self.resting = True
        for _ in range(60):
            self.leases_end()
            self.wait(2)
            while self.rows("SELECT FROM jedi_jobs WHERE hold_kind = 'user_request'"):
                self.release_job()
            for site in SITES:
                self.acquire(site, 4)
            self.obey()
            for job in list(self.held):
                self.end_job(job, "finished")
            self.dogs()
            self.run_agents()
            if not (restless := list(self.restless())):
                return
        raise AssertionError(f"no rest: {restless}")

    def restless(self) -> Iterator[Any]:
        """Tasks that are not where they may stay; a child waits for its parent."""
        found = self.rows("SELECT jeditaskid, parent_tid, status, reason_code FROM jedi_tasks")
        waiting = {row.jeditaskid for row in found if row.status in AT_REST - states.TASK.final}
        for row in sorted(found):
            if row.parent_tid in waiting and row.jeditaskid != row.parent_tid:
                waiting.add(row.jeditaskid)
            elif row.status not in AT_REST:
                yield row

    def left_over(self) -> Iterator[str]:
        """Outputs in data management of tasks that have ended, though no job made them in the
        end."""
        for row in self.rows(truths.OUTPUTS):
            with suppress(NotFound):
                files = {file.lfn for file in self.world.ddm.list_files(row.datasetname)}
                if lost := files - {*(row.lfns or ())}:
                    yield f"task {row.jeditaskid}: {row.datasetname}: {lost}"

    def count(self) -> None:
        """What happened."""
        for what, query in {**truths.HAPPENED, **life_events.HAPPENED}.items():
            for name, number in self.rows(query):
                self.tally[f"{what} {name}"] += number
