"""Ranges of events for consumers that ask: who gets which, once each."""

# Raw UPDATEs: columns that an operator's kill and the end of a consumer set.

from __future__ import annotations

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine, text
from support.event_rows import end_job, make_consumers, make_job_set, ranges_of

from jedi.agent.base import World
from jedi.core.errors import Forbidden
from jedi.model.jobs.event_wire import RangeAsks
from jedi.service.pilots import event_ranges
from jedi.taskbuffer.db.engine import at_once, time_statements
from jedi.taskbuffer.events.consumers import ConsumerMemory
from jedi.taskbuffer.users.users import Identity

PILOT_A = Identity("pilot", "SITE_A", None)
READY, SENT = 0, 1


@pytest.fixture(autouse=True)
def _sites(world: World) -> None:
    """Every test has SITE_A and SITE_B."""


def ask(
    engine: Engine,
    *wishes: tuple[int, int],
    request: str = "r",
    lock_seq: int = 1,
    memory: ConsumerMemory | None = None,
    who: Identity = PILOT_A,
) -> list[dict[str, Any]]:
    """The answers to asks of consumers for so many ranges."""
    asks = [{"panda_id": job, "lock_seq": lock_seq, "n": n} for job, n in wishes]
    asked = RangeAsks.model_validate({"request_id": request, "asks": asks})
    with at_once(engine) as tx:
        found = event_ranges.acquire(tx, who, asked, memory or ConsumerMemory())
    answers: list[dict[str, Any]] = found["answers"]
    return answers


def ids(answer: dict[str, Any]) -> list[str]:
    return [one["id"] for one in answer["ranges"]]


def test_an_ask_gets_at_most_a_thousand_ranges(engine: Engine) -> None:
    """Of 1500 ranges the first ask for 100,000 gets 1000, and there are others; the next one gets
    500, the last ones. Source: docs/reference/event-service.md#dispatch."""
    with engine.begin() as tx:
        made = make_job_set(tx, 1_500)
    memory = ConsumerMemory()
    for request, n, last in (("1", 1_000, False), ("2", 500, True)):
        (answer,) = ask(engine, (made.consumers[0], 100_000), request=request, memory=memory)
        assert (len(answer["ranges"]), answer["last"]) == (n, last)


def test_a_consumer_gets_ranges_of_its_job_set_until_there_are_no_more(engine: Engine) -> None:
    """Take n + 1 ready rows of the job set, return the extra one; fewer than n + 1: no more work.
    The id is task-PandaID-file-process-attempt.
    Source: docs/reference/event-service.md#dispatch."""
    with engine.begin() as tx:
        made = make_job_set(tx, 5)
        make_job_set(tx, 5)
    job = made.consumers[0]
    (first,) = ask(engine, (job, 3), request="1")
    assert first["ranges"][0] == {
        "id": f"{made.task}-{job}-{made.file}-1-10",
        "lfn": f"in.{made.jobset}",
        "guid": "guid-1",
        "scope": "test",
        "start": 0,
        "end": 4,
    }
    assert [one["start"] for one in first["ranges"]] == [0, 5, 10]
    assert (first["panda_id"], first["status"], first["last"]) == (job, "ok", False)
    (second,) = ask(engine, (job, 2), request="2")
    assert [one["start"] for one in second["ranges"]] == [15, 20]
    assert second["last"]
    (third,) = ask(engine, (job, 2), request="3")
    assert (third["status"], third["ranges"], third["last"]) == ("ok", [], True)
    assert {one[0] for one in ranges_of(engine, made.task)} == {job}
    assert {one[4] for one in ranges_of(engine, made.task)} == {SENT}


def test_a_repeated_request_gets_the_ranges_of_the_first_one(engine: Engine) -> None:
    """An answer that got lost is given again; the request after it gets others."""
    with engine.begin() as tx:
        made = make_job_set(tx, 6)
    job, memory = made.consumers[0], ConsumerMemory()
    ask(engine, (job, 2), request="0", memory=memory)
    first = ask(engine, (job, 2), request="1", memory=memory)
    again = ask(engine, (job, 2), request="1", memory=memory)
    assert ids(again[0]) == ids(first[0])
    assert not again[0]["last"]
    after = ask(engine, (job, 2), request="2", memory=memory)
    assert not {*ids(after[0])} & {*ids(first[0])}
    assert after[0]["last"]


def test_ranges_without_attempts_left_stay(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_job_set(tx, 3, attempts=0)
    (answer,) = ask(engine, (made.consumers[0], 3))
    assert (answer["ranges"], answer["last"]) == ([], True)


def test_consumers_of_one_call_share_their_job_set(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_job_set(tx, 7, consumers=3)
        other = make_job_set(tx, 2)
    a, b, c = made.consumers
    found = ask(engine, (c, 3), (a, 3), (other.consumers[0], 5), (b, 3))
    assert [one["panda_id"] for one in found] == [c, a, other.consumers[0], b]
    assert [len(one["ranges"]) for one in found] == [1, 3, 2, 3]
    assert all(one["last"] for one in found)
    assert len({one["start"] for n in (0, 1, 3) for one in found[n]["ranges"]}) == 7


def test_a_jumbo_job_gets_ranges_of_any_job_set_of_its_task(engine: Engine) -> None:
    """Jumbo jobs and consumers share the events of a task. Source: JEDI document, "Jumbo jobs and
    co-jumbo jobs"."""
    with engine.begin() as tx:
        first = make_job_set(tx, 2)
        second = make_job_set(tx, 3, task=first.task)
        stranger = make_job_set(tx, 3)
        (jumbo,) = make_consumers(tx, 1, first.task, None)
    found = ask(engine, (jumbo, 3), (second.consumers[0], 1), (first.consumers[0], 1))
    assert [len(one["ranges"]) for one in found] == [3, 1, 1]
    assert [one["last"] for one in found] == [True, False, False]
    files = Counter(one["id"].split("-")[2] for one in found[0]["ranges"])
    assert files == {str(first.file): 1, str(second.file): 2}
    assert {one[4] for one in ranges_of(engine, stranger.task)} == {READY}
    with engine.begin() as tx:
        marked = tx.scalars(text("SELECT pandaid FROM jedi_events WHERE is_jumbo = 1"))
        assert {*marked} == {jumbo}


def test_ranges_that_came_back_follow_the_others(engine: Engine) -> None:
    """A process looks for ranges behind the last ones that it gave; then from the beginning."""
    with engine.begin() as tx:
        made = make_job_set(tx, 4, consumers=2)
    a, b = made.consumers
    memory = ConsumerMemory()
    ask(engine, (a, 2), request="1", memory=memory)
    with engine.begin() as tx:
        tx.execute(
            text(
                "UPDATE jedi_events SET status = 0, pandaid = jobsetid, attemptnr = 9 "
                "WHERE pandaid = :a"
            ),
            {"a": a},
        )
    (answer,) = ask(engine, (b, 3), request="2", memory=memory)
    assert ([one["start"] for one in answer["ranges"]], answer["last"]) == ([0, 10, 15], False)
    (rest,) = ask(engine, (b, 3), request="3", memory=memory)
    assert ([one["start"] for one in rest["ranges"]], rest["last"]) == ([5], True)


@pytest.mark.parametrize("fault", ["lock_seq", "site", "ended", "unknown", "ordinary"])
def test_a_consumer_that_is_not_there_gets_nothing(engine: Engine, fault: str) -> None:
    """Only sent, starting and running jobs, in the attempt of their pilot, get ranges."""
    with engine.begin() as tx:
        made = make_job_set(tx, 3)
    job = 999_999_999 if fault == "unknown" else made.consumers[0]
    job = made.jobset if fault == "ordinary" else job
    if fault == "ended":
        end_job(engine, job)
    who = Identity("pilot", "SITE_B", None) if fault == "site" else PILOT_A
    (answer,) = ask(engine, (job, 2), lock_seq=2 if fault == "lock_seq" else 1, who=who)
    assert (answer["status"], answer["ranges"]) == ("stale", [])
    assert {one[4] for one in ranges_of(engine, made.task)} == {READY}


def test_a_consumer_that_is_being_killed_gets_nothing(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_job_set(tx, 3, consumers=2)
        tx.execute(
            text("UPDATE jedi_jobs SET kill_code = 'task_killed' WHERE pandaid = :id"),
            {"id": made.consumers[0]},
        )
    killed, fine = ask(engine, *((job, 2) for job in made.consumers))
    assert (killed["status"], killed["ranges"]) == ("killed", [])
    assert (fine["status"], len(fine["ranges"])) == ("ok", 2)


def test_only_pilots_get_ranges(engine: Engine) -> None:
    with pytest.raises(Forbidden):
        ask(engine, (1, 1), who=Identity("user", None, "ana"))


def test_no_range_goes_to_two_and_nobody_waits(engine: Engine) -> None:
    """1,000 ranges for 8 consumers that ask at once, each in a thread with a memory of its own."""
    with engine.begin() as tx:
        made = make_job_set(tx, 1000, consumers=8)
    ready = threading.Barrier(8)

    def consume(job: int) -> list[str]:
        memory, got = ConsumerMemory(), []
        ready.wait()
        for number in range(1000):
            (answer,) = ask(engine, (job, 10), request=f"{job}.{number}", memory=memory)
            got += ids(answer)
            if answer["last"]:
                return got
        return got

    with ThreadPoolExecutor(8) as pool:
        found = [one for got in pool.map(consume, made.consumers) for one in got]
    places = Counter(one.split("-")[3] for one in found)
    assert (len(places), max(places.values())) == (1000, 1)


def test_a_locked_range_is_passed_over(engine: Engine) -> None:
    """Somebody has the first range in a transaction: the ask gets the others at once, and is not
    the last one."""
    with engine.begin() as tx:
        made = make_job_set(tx, 3)
    with engine.begin() as holder:
        holder.execute(
            text("SELECT FROM jedi_events WHERE jeditaskid = :t AND job_processid = 11 FOR UPDATE"),
            {"t": made.task},
        )
        (answer,) = ask(engine, (made.consumers[0], 2))
        assert [one["start"] for one in answer["ranges"]] == [0, 5]
        assert not answer["last"]


def test_a_call_takes_one_statement_however_many_ask(engine: Engine) -> None:
    with engine.begin() as tx:
        made = make_job_set(tx, 100, consumers=20)
    memory = ConsumerMemory()
    wishes = [(job, 2) for job in made.consumers]
    ask(engine, *wishes, request="1", memory=memory)
    seen: list[float] = []
    time_statements(engine, seen.append)
    ask(engine, *wishes, request="2", memory=memory)
    assert len(seen) == 1
