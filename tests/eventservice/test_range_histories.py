"""Random histories of asks, reports and ends against a model of the moves of ranges."""

# Raw UPDATEs: the end of a consumer returns its ranges.

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, text
from support.event_rows import BuiltJobSet, end_job, make_consumers, make_job_set

from jedi.agent.base import World
from jedi.core import states
from jedi.model.jobs.event_wire import ConsumerReports, RangeAsks
from jedi.service.pilots import event_ranges
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.users.users import Identity

PILOT_A = Identity("pilot", "SITE_A", None)
NAMES = {code: name for name, code in states.EVENT_CODES.items()}
SEEN: Counter[str] = Counter()


class Model:
    """Ranges as the specification says: ready → sent at an ask; sent → running,
    finished or failed at a report, and no result after another; at the consumer's end sent and
    running → ready with one attempt less, and finished → done."""

    def __init__(self, rng: random.Random, sets: list[BuiltJobSet], jumbo: int) -> None:
        self.rng, self.sets, self.jumbo = rng, sets, jumbo
        self.task = sets[0].task
        self.pool = {job: one.jobset for one in sets for job in one.consumers} | {jumbo: 0}
        self.live = set(self.pool)
        self.ranges = {
            (one.file, 1 + 5 * n): (one.jobset, one.jobset, 3, "ready")
            for one in sets
            for n in range(8)
        }
        """Job set, owner, attempt, status, by file and first event."""
        self.last: dict[int, tuple[str, set[str]]] = {}

    def ready(self, job: int) -> set[tuple[int, int]]:
        return {
            place
            for place, (jobset, _, attempt, status) in self.ranges.items()
            if status == "ready" and attempt > 0 and self.pool[job] in (0, jobset)
        }

    def id_of(self, place: tuple[int, int]) -> str:
        _, owner, attempt, _ = self.ranges[place]
        return f"{self.task}-{owner}-{place[0]}-{place[1]}-{attempt}"

    def move(self, place: tuple[int, int], owner: int, attempt: int, status: str) -> None:
        self.ranges[place] = (self.ranges[place][0], owner, attempt, status)

    def report(self, job: int, entry: dict[str, str]) -> str | None:
        """The refusal of an entry, which moves its range if there is none."""
        task, owner, file, process, attempt = map(int, entry["id"].split("-"))
        place, target = (file, process), entry["status"]
        if job not in self.live:
            return "stale_consumer"
        if task != self.task:
            return "other_task"
        loose = owner != job
        if loose and self.pool[job] not in (0, owner):
            return "not_yours"
        _, has, left, status = self.ranges.get(place, (0, 0, 0, ""))
        if loose and (has, left, status) == (owner, attempt, "ready") and left > 0:
            has, status = job, "sent"
        known = has == job and (left == attempt or (left == 1 and status == "failed"))
        if not known:
            return "range_taken" if loose else "unknown_range"
        stored = target if target in ("finished", "running") else "failed"
        if status in ("sent", "running"):
            self.move(place, job, 1 if target == "fatal" else left, stored)
            return None
        return None if stored in (status, "running") else "contradiction"

    def end(self, job: int) -> None:
        self.live.discard(job)
        for place, (jobset, owner, attempt, status) in self.ranges.items():
            if owner == job and status in ("sent", "running"):
                self.move(place, jobset, attempt - 1, "ready")
            elif owner == job and status == "finished":
                self.move(place, owner, attempt, "done")


_RETURN = text("""
UPDATE jedi_events SET status = CASE WHEN status < 3 THEN 0 ELSE 6 END,
  attemptnr = CASE WHEN status < 3 THEN attemptnr - 1 ELSE attemptnr END,
  pandaid = CASE WHEN status < 3 THEN jobsetid ELSE pandaid END
WHERE pandaid = :job AND status IN (1, 2, 3)
""")
_ALL = text("""
SELECT fileid, job_processid, jobsetid, pandaid, attemptnr, status FROM jedi_events
WHERE jeditaskid = :task
""")


class History:
    """The service and the model, side by side."""

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine, self.rng, self.memory = engine, random.Random(seed), ConsumerMemory()
        with engine.begin() as tx:
            first = make_job_set(tx, 8, consumers=3, attempts=3)
            sets = [first, make_job_set(tx, 8, consumers=2, task=first.task, attempts=3)]
            (jumbo,) = make_consumers(tx, 1, first.task, None)
        self.model = Model(self.rng, sets, jumbo)
        self.requests = 0

    def ask(self) -> None:
        rng, model = self.rng, self.model
        job, n = rng.choice([*model.pool]), rng.randint(1, 4)
        again = job in model.last and rng.random() < 0.3
        self.requests += 1
        request = model.last[job][0] if again else f"r{self.requests}"
        asked = RangeAsks.model_validate(
            {"request_id": request, "asks": [{"panda_id": job, "lock_seq": 1, "n": n}]}
        )
        ready = model.ready(job)
        with at_once(self.engine) as tx:
            (answer,) = event_ranges.acquire(tx, PILOT_A, asked, self.memory)["answers"]
        got = {one["id"] for one in answer["ranges"]}
        if job not in model.live:
            assert (answer["status"], got) == ("stale", set())
        elif again:
            sent = {model.id_of(place) for place, one in model.ranges.items() if one[3] == "sent"}
            assert got == model.last[job][1] & sent
            SEEN["repeated"] += bool(got)
        else:
            places = [tuple(map(int, one.split("-")[2:4])) for one in got]
            assert {*places} <= ready
            assert len(places) == min(n, len(ready))
            assert answer["last"] == (len(ready) == len(places))
            for file, process in places:
                model.move((file, process), job, model.ranges[file, process][2], "sent")
            assert got == {model.id_of((file, process)) for file, process in places}
            model.last[job] = request, got
            SEEN["sent"] += len(got)

    def report(self) -> None:
        rng, model = self.rng, self.model
        job = rng.choice([*model.pool])
        entries = [self.entry(job) for _ in range(rng.randint(1, 5))]
        entries = [*{one["id"]: one for one in entries}.values()]  # others: test_range_reports
        told = ConsumerReports.model_validate(
            {"reports": [{"panda_id": job, "lock_seq": 1, "ranges": entries}]}
        )
        with self.engine.begin() as tx:
            (answer,) = event_ranges.report(tx, PILOT_A, told.reports, self.memory)["answers"]
        wanted = [(one["id"], model.report(job, one)) for one in entries]
        refused = {(one["id"], one["code"]) for one in answer["refused"]}
        assert refused == {one for one in wanted if one[1]}
        assert answer["accepted"] == len(entries) - len(refused)
        SEEN.update(code or "accepted" for _, code in wanted)

    def entry(self, job: int) -> dict[str, str]:
        """A range, which is the consumer's more often than not, with any result."""
        rng, model = self.rng, self.model
        places = [*model.ranges]
        mine = [place for place in places if model.ranges[place][1] == job]
        place = rng.choice(mine if mine and rng.random() < 0.7 else places)
        status = rng.choice(["finished", "finished", "failed", "fatal", "running"])
        made = model.id_of(place)
        if rng.random() < 0.1:
            parts = made.split("-")
            at = rng.randrange(5)
            parts[at] = str(int(parts[at]) + 1)
            made = "-".join(parts)
        return {"id": made, "status": status}

    def end(self) -> None:
        if len(self.model.live) == 1:
            return
        job = self.rng.choice(sorted(self.model.live))
        end_job(self.engine, job)
        with self.engine.begin() as tx:
            tx.execute(_RETURN, {"job": job})
        self.model.end(job)

    def agree(self) -> None:
        with self.engine.begin() as tx:
            rows = tx.execute(_ALL, {"task": self.model.task})
            found: dict[Any, Any] = {
                (file, process): (jobset, owner, attempt, NAMES[status])
                for file, process, jobset, owner, attempt, status in rows
            }
        assert found == self.model.ranges


def run_history(engine: Engine, seed: int) -> None:
    history = History(engine, seed)
    steps: list[Callable[[], None]] = [history.ask, history.report, history.end]
    for _ in range(70):
        history.rng.choices(steps, weights=[8, 12, 1])[0]()
        history.agree()


def test_random_histories(world: World) -> None:
    """Each answer and each range is as the model says; every way of an answer occurs."""
    SEEN.clear()
    for seed in range(5):
        run_history(world.engine, seed)
    ways = {
        "sent",
        "repeated",
        "accepted",
        "stale_consumer",
        "other_task",
        "not_yours",
        "unknown_range",
        "range_taken",
        "contradiction",
    }
    assert {*SEEN} >= ways, pytest.fail(f"missing: {ways - {*SEEN}}")
