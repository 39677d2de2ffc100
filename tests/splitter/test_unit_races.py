"""Verbs on units beside agents and beside each other: everybody locks tasks, then jobs, then
datasets by their ids.

Expected values: docs/reference/ganga.md#kill-and-resubmit.
"""

# Raw UPDATEs: a dataset of the input is younger than the output.

from __future__ import annotations

import random
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from sqlalchemy import Connection, text
from support.commanding import end, everything, jobs, sound, take, work_off
from support.generating import rows
from support.races import blocked
from support.situations import make_due
from support.units import MAKING, ask_units, given, job_of, now, of, unit

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core.errors import Refused
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs import jobs as job_rows
from jedi.taskrefiner.agent import TaskRefiner

_SWAP = """
WITH d AS (UPDATE jedi_datasets SET datasetid = datasetid + 1000 WHERE type = 'pseudo_input'),
c AS (UPDATE jedi_dataset_contents SET datasetid = datasetid + 1000 WHERE type = 'pseudo_input')
UPDATE jedi_datasets_statuslog SET datasetid = datasetid + 1000
WHERE datasetid IN (SELECT datasetid FROM jedi_datasets WHERE type = 'pseudo_input')
"""


def submitted(world: World, n: int) -> int:
    """A task whose input has a higher id than its output, with all its jobs."""
    task = given(world, [unit(str(k)) for k in range(n)], document=MAKING).jedi_task_id
    assert TaskRefiner(world).run_once() == ContentsFeeder(world).run_once() == 1
    with world.engine.begin() as tx:
        tx.execute(text(_SWAP))
    everything(world)
    return task


def deadlocks(world: World) -> int:
    """Deadlocks in this database so far."""
    with world.engine.begin() as tx:
        tx.execute(text("SELECT pg_stat_force_next_flush()"))
    query = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    return int(rows(world, query)[0].deadlocks)


def test_a_kill_waits_for_who_ends_another_job(world: World) -> None:
    """Expected: while an agent ends the job of unit 1, with the output's dataset locked, unit 2 is
    killed: it waits, holding nothing that the agent needs."""
    task = submitted(world, 2)
    take(world, [job_of(world, task, 1)])
    ending = [JobEnd(job_of(world, task, 1), "failed", "test", "As told.")]
    lock = "SELECT FROM jedi_datasets WHERE type = 'output' FOR NO KEY UPDATE"

    def verb_of_unit_2(verb: str, tx: Connection) -> None:
        ask_units(world, task, verb, [2], tx=tx)

    for verb, target in (("kill", "killed"), ("resubmit", "submitted")):
        with world.engine.connect() as agent:
            job_rows.LOCK_JOBS.run(agent, ids=[ending[0].panda_id])
            agent.execute(text(lock))
            with blocked(world.engine, partial(verb_of_unit_2, verb)):
                agent.execute(text(lock.replace("'output'", "'pseudo_input'")))
                agent.commit()
        assert of(now(world, task)).split()[1] == target
    with world.engine.begin() as tx:
        assert job_ends.end_jobs(tx, ending, "test")
    assert work_off(world, task) == "done"
    sound(world)


def test_verbs_and_agents_at_once(world: World) -> None:
    """Expected: kills and resubmissions of many units in two sessions, jobs that end, and the
    agents, all at once for 2 s: no deadlock, no other error, and the records agree."""
    task, until = submitted(world, 30), time.monotonic() + 2
    asked = {"kill": 0, "resubmit": 0}

    def again(seed: int, step: Callable[[random.Random], None]) -> None:
        luck = random.Random(seed)
        while time.monotonic() < until:
            step(luck)

    def verb(name: str) -> Callable[[random.Random], None]:
        def ask(luck: random.Random) -> None:
            try:
                found = ask_units(world, task, name, luck.sample(range(1, 31), 12))
                asked[name] += sum(one.accepted for one in found)
            except Refused:  # the task is between two statuses
                time.sleep(0.01)

        return ask

    def pilots(luck: random.Random) -> None:
        with world.engine.begin() as tx:
            query = text(
                "SELECT pandaid FROM jedi_jobs WHERE status = ANY(:s) AND "
                "coalesce(kill_code, '') = '' ORDER BY random() LIMIT 5"
            )
            some = list(tx.scalars(query, {"s": ["activated", "sent"]}))
            moves = [job_rows.JobMove(one, "sent", "acquired", "Taken.") for one in sorted(some)]
            job_rows.move_jobs(tx, moves, "test", ["activated"])
        with world.engine.begin() as tx:
            target = luck.choice(("failed", "closed", "cancelled"))
            ends = [JobEnd(one, target, "test", "As told.") for one in some]
            job_ends.end_jobs(tx, ends, "Adder")

    def agents(_luck: random.Random) -> None:
        make_due(world)
        everything(world)

    steps = [verb("kill"), verb("resubmit"), verb("kill"), verb("resubmit"), pilots, agents]
    with ThreadPoolExecutor(len(steps)) as pool:
        for one in [pool.submit(again, n, step) for n, step in enumerate(steps)]:
            one.result(30)
    assert min(asked.values()) > 10, asked
    assert deadlocks(world) == 0
    sound(world)
    take(world, jobs(world, task, "activated"))
    end(world, jobs(world, task, "sent"))
    work_off(world, task)
    sound(world)
