"""PGI states: the 121 pairs, what real moves may lead to, the view that says the same in SQL."""

# Raw UPDATEs: every combination of columns is tried.

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise, product

import pytest
from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import IntegrityError
from support.calls import call
from support.commanding import add_inputs
from support.generating import document, rows
from support.helpers import unguard
from support.job_rows import make_jobs
from support.task_rows import INPUT, OUTPUT, good
from support.task_rows import put as put_tasks

from jedi.agent.base import World
from jedi.contentsfeeder.agent import ContentsFeeder
from jedi.core import pgi, states
from jedi.core.pgi import HELD, HOLD_KINDS, HOLD_STAGES, STATES, TRANSITIONS, pgi_state
from jedi.jobgenerator.agent import JobGenerator
from jedi.postprocessor.agent import PostProcessor
from jedi.service.tasks.task_details import show
from jedi.taskbuffer.ends import job_ends
from jedi.taskbuffer.ends.job_ends import JobEnd
from jedi.taskbuffer.jobs.jobs import JobMove, move_jobs
from jedi.taskbuffer.schema import tables
from jedi.taskrefiner.agent import TaskRefiner

Known = tuple[str, str | None, bool, bool]
"""Status, hold, whether results were added, whether purged."""
PLACEHOLDER = ("Submitted", "Finished")
"""What waits for a real consumer ends with it (event service): it never asks for resources."""


def state(known: Known) -> str:
    status, hold, postprocessed, purged = known
    return pgi_state(status, hold, postprocessed=postprocessed, purged=purged)[0]


def steps() -> Iterator[tuple[Known, Known]]:
    """All that can happen to a job: its moves, holds and their release, the purge."""
    for source, target in states.JOB.pairs:
        after = pgi.LIVE.get(source, ("",))[0] == "Post-processing"
        for hold in (None, *HOLD_KINDS) if pgi.LIVE[source][0] in HELD else (None,):
            if hold and target not in states.JOB.final:
                continue  # it is released first
            for added in {target == "finished", target in pgi.ENDED and after and not hold}:
                if not (hold and target == "finished"):
                    yield (source, hold, False, False), (target, None, added, False)
    for status, (now, _) in pgi.LIVE.items():
        for hold in (kind for kind, stages in HOLD_STAGES.items() if now in stages):
            yield (status, None, False, False), (status, hold, False, False)
            yield (status, hold, False, False), (status, None, False, False)
    for status, added in product(states.JOB.final, (False, True)):
        yield (status, None, added, False), (status, None, added, True)


def test_every_pair() -> None:
    """Of 121 pairs 20 are allowed: those that what happens to jobs leads to, besides submission."""
    reached = {(state(a), state(b)) for a, b in steps()}
    assert (len(STATES), len(TRANSITIONS)) == (11, 20)
    allowed = set(TRANSITIONS) - {(pgi.SUBMISSION, "Submitted")}
    for pair in product(STATES, STATES):
        if pair[0] != pair[1]:
            assert (pair in reached) == (pair in allowed or pair == PLACEHOLDER), pair
    placed = {a[0] for a, b in steps() if (state(a), state(b)) == PLACEHOLDER}
    assert placed == {"waiting"}


def test_what_is_held() -> None:
    """Compute only while delegated; nothing after the end; transitions hold or free what they say
    they do; the submitter is told of holds and ends."""
    for name, now in STATES.items():
        assert (now.compute == "allocated") == name.startswith("Delegated")
        assert (now.stage_out == "allocated") == name.startswith("Post-processing")
        assert bool(now.notify) == (name.endswith("-Hold") or name in (pgi.FINISHED, pgi.FAILED))
    for source, target in TRANSITIONS:
        if target == f"{source}-Hold" or source == f"{target}-Hold":
            one, other = STATES[source], STATES[target]
            assert (one.stage_in, one.compute, one.stage_out) == (
                other.stage_in,
                other.compute,
                other.stage_out,
            )


def test_statuses_are_known() -> None:
    assert [*pgi.LIVE, *pgi.BROKEN_OFF] == list(states.JOB.states)
    for status in states.JOB_LIVE:
        assert pgi_state(status, None, postprocessed=False, purged=True)[0] == pgi.LIVE[status][0]


def derived(tx: Connection) -> list[tuple[str, str | None]]:
    """What the view says, by job."""
    rows = tx.execute(text("SELECT pgi_state, pgi_substate FROM jedi_job_states ORDER BY pandaid"))
    return [(row.pgi_state, row.pgi_substate) for row in rows]


def legal(known: Known) -> bool:
    """Possible rows, by hand from docs/reference/pgi.md#holds: no hold, or the job is before, in or
    after its pilot; manual stage-in only before, manual stage-out only after; only ended jobs are
    purged; finished implies that results are added; they are added at the end."""
    status, hold, added, purged = known
    pre = status in ("assigned", "activated", "throttled")
    post = status in ("holding", "transferring", "merging")
    at_work = status in ("sent", "starting", "running")
    if status in ("finished", "failed", "cancelled", "closed"):
        return hold is None and (added or status != "finished")
    if added or purged:
        return False
    if hold == "manual_stage_in":
        return pre
    if hold == "manual_stage_out":
        return post
    return hold is None or pre or at_work or post


FLAGS = (False, True)
CASES = list(product(states.JOB.states, (None, *HOLD_KINDS), FLAGS, FLAGS))
_SET = text(
    "UPDATE jedi_jobs SET status = :status, hold_kind = :hold, error_source = 'payload', "
    "postprocessed_at = CASE WHEN :added THEN jedi_now() END, "
    "purged_at = CASE WHEN :purged THEN jedi_now() END WHERE pandaid = :id"
)


def put(tx: Connection, job: int, known: Known) -> None:
    names = ("status", "hold", "added", "purged")
    tx.execute(_SET, {"id": job, **dict(zip(names, known, strict=True))})


@pytest.mark.usefixtures("world")
@pytest.mark.parametrize("table", ["jedi_jobs", "jedi_jobs_archived"])
def test_rows_without_a_pgi_state_are_refused(engine: Engine, table: str) -> None:
    """Of 320 combinations 50 are legal; the others are refused with all triggers off."""
    assert (len(CASES), sum(map(legal, CASES))) == (320, 50)
    with engine.begin() as tx:
        [job] = make_jobs(tx, 1, files=1).jobs
        tx.execute(text("SET LOCAL session_replication_role = replica"))
        if table != "jedi_jobs":
            columns = ", ".join(column.name for column in tables.jobs_archived.columns)
            tx.execute(text(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM jedi_jobs"))
        taken = []
        for known in CASES:
            names = ("status", "hold", "added", "purged")
            values = {"id": job, **dict(zip(names, known, strict=True))}
            try:
                with tx.begin_nested():
                    tx.execute(text(_SET.text.replace("jedi_jobs", table)), values)
                taken.append(known)
            except IntegrityError:
                pass
    assert taken == [known for known in CASES if legal(known)]


@pytest.mark.usefixtures("world")
def test_accepted_and_not_yet_prepared_is_submitted(world: World) -> None:
    """docs/reference/pgi.md#rulings: a task that is accepted and has no job is Submitted. T01:
    submission; T02: an unknown input ends one of them; T03: jobs of the other are made, with inputs
    at the site or on their way to it."""
    add_inputs(world, 2)
    unknown = good(jobParameters=[{**INPUT, "dataset": "demo:nowhere"}, OUTPUT])
    ids = put_tasks(world, document(nFilesPerJob=1), unknown)
    seen: dict[int, list[str]] = {task: [pgi.SUBMISSION] for task in ids}

    def look() -> None:
        found = rows(
            world,
            "SELECT jeditaskid, pgi_state FROM jedi_task_states UNION "
            "SELECT jeditaskid, pgi_state FROM jedi_job_states",
        )
        for row in found:
            if seen[row.jeditaskid][-1] != row.pgi_state:
                seen[row.jeditaskid].append(row.pgi_state)

    look()
    with world.engine.begin() as tx:
        assert show(call(tx), ids[0]).pgi == ("Submitted", "Incoming")
    for agent in (TaskRefiner, ContentsFeeder, JobGenerator, PostProcessor, PostProcessor):
        agent(world).run_once()
        look()
    good_one, bad_one = seen.values()
    assert good_one == [pgi.SUBMISSION, "Submitted", "Pre-processing"]
    assert bad_one == [pgi.SUBMISSION, "Submitted", pgi.FAILED]
    pairs = {*pairwise(good_one), *pairwise(bad_one)}
    assert pairs == {*list(TRANSITIONS)[:3]}
    with world.engine.begin() as tx:
        assert (show(call(tx), ids[0]).pgi, show(call(tx), ids[1]).pgi) == (
            None,
            (pgi.FAILED, "failed"),
        )


def test_every_status_of_a_task_without_jobs_has_its_state() -> None:
    """Only `done` has none: there was nothing to do."""
    without = [status for status in states.TASK_STATES if pgi.task_state(status) is None]
    assert without == ["done"]
    ended = {s for s in states.TASK.final if pgi.UNPREPARED[s][0] == pgi.FAILED}
    assert ended == states.TASK.final - {"done"}


@pytest.mark.usefixtures("world")
def test_the_view_says_the_same(engine: Engine) -> None:
    """For every status, hold, end and purge that may be."""
    cases = [known for known in CASES if legal(known)]
    with engine.begin() as tx:
        made = make_jobs(tx, len(cases), files=1)
        unguard(tx)
        for job, known in zip(made.jobs, cases, strict=True):
            put(tx, job, known)
        assert derived(tx) == [
            pgi_state(status, hold, postprocessed=added, purged=purged)
            for status, hold, added, purged in cases
        ]
        # what the payload is not to blame for was broken off
        tx.execute(text("UPDATE jedi_jobs SET error_source = 'pilot'"))
        assert derived(tx) == [
            pgi_state(status, hold, postprocessed=added and status != "failed", purged=purged)
            for status, hold, added, purged in cases
        ]
        tx.execute(text("UPDATE jedi_jobs SET delegation_kind = 'grid'"))
        assert derived(tx) == [
            pgi_state(
                status,
                hold,
                postprocessed=added and status != "failed",
                purged=purged,
                forwarded=True,
            )
            for status, hold, added, purged in cases
        ]


def wander(tx: Connection, jobs: list[int], dice: random.Random) -> None:
    """One step of each job: a move that there is, an end, a hold or its release, the purge."""
    rows = tx.execute(
        text("SELECT pandaid, status, hold_kind, purged_at FROM jedi_jobs ORDER BY pandaid")
    )
    moves, ends, holds = [], [], []
    for row in rows:
        if row.status in states.JOB.final:
            continue
        stage = pgi.LIVE[row.status][0]
        targets = sorted(b for a, b in states.JOB.pairs if a == row.status)
        going = [one for one in targets if one not in states.JOB.final]
        if stage in HELD and dice.random() < (0.6 if row.hold_kind else 0.2):
            kinds = [kind for kind, stages in HOLD_STAGES.items() if stage in stages]
            holds.append((row.pandaid, None if row.hold_kind else dice.choice(kinds)))
        elif not going or dice.random() < 0.05:
            target = dice.choice([one for one in targets if one not in going])
            if row.hold_kind and target == "finished":
                target = "cancelled"
            blame = "payload" if stage == "Post-processing" and not row.hold_kind else "pilot"
            ends.append(JobEnd(row.pandaid, target, "test", "Ended.", error_source=blame))
        elif not row.hold_kind:
            moves.append(JobMove(row.pandaid, dice.choice(going), "test", "Moved."))
    move_jobs(tx, moves, "test", states.JOB_LIVE)
    job_ends.end_jobs(tx, ends, "test")
    for job, kind in holds:
        tx.execute(
            text("UPDATE jedi_jobs SET hold_kind = :kind WHERE pandaid = :id"),
            {"kind": kind, "id": job},
        )


def allocated(tx: Connection, jobs: list[int]) -> tuple[list[set[str]], int]:
    """By job, what it holds by the view of allocations; how many of them were freed."""
    rows = tx.execute(
        text(
            "SELECT pandaid, resource, released_at FROM jedi_job_allocations "
            "WHERE pandaid = ANY(:ids)"
        ),
        {"ids": jobs},
    ).all()
    held: dict[int, set[str]] = {job: set() for job in jobs}
    for row in rows:
        if row.released_at is None:
            held[row.pandaid].add(row.resource)
    return list(held.values()), sum(row.released_at is not None for row in rows)


@pytest.mark.long
@pytest.mark.usefixtures("world")
def test_random_walk(engine: Engine) -> None:
    """10,000 real steps of jobs, seeded: none leaves PGI's table; after each they hold what their
    states hold, no more and no less, and nothing in the end."""
    dice, walked = random.Random(15), 0
    seen: set[tuple[str, str]] = set()
    while walked < 10_000:
        with engine.begin() as tx:
            for table in ("jedi_job_files", "jedi_job_ready", "jedi_jobs"):
                tx.execute(text(f"DELETE FROM {table}"))
            jobs = make_jobs(tx, 200, files=1).jobs
            before = derived(tx)
            for _ in range(25):
                wander(tx, jobs, dice)
                after = derived(tx)
                for (one, _), (other, _) in zip(before, after, strict=True):
                    walked += one not in (pgi.FINISHED, pgi.FAILED)
                    if one != other:
                        seen.add((one, other))
                held, freed = allocated(tx, jobs)
                assert held == [
                    {one for one in pgi.RESOURCES if getattr(STATES[now], one) == "allocated"}
                    for now, _ in after
                ]
                before = after
            left = [JobEnd(job, "closed", "test", "Ended.") for job in jobs]
            job_ends.end_jobs(tx, left, "test")
            held, every = allocated(tx, jobs)
            assert not any(held)
            assert every > freed > 0
    assert seen <= TRANSITIONS.keys()
    beyond = {"Submitted", pgi.SUBMISSION, pgi.PURGED}
    assert seen == {pair for pair in TRANSITIONS if not beyond & set(pair)}
