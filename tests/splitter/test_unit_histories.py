"""Random histories of units: kills and resubmissions while jobs run, fail and succeed. No unit is
lost or done twice, and all records agree."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from sqlalchemy import text
from support.calls import call
from support.commanding import end, everything, jobs, obey, sound, status, take, work_off
from support.generating import rows
from support.situations import make_due
from support.units import DOCUMENT, ask_units, given, now, unit

from jedi.agent.base import World
from jedi.service.units.unit_details import attempts

STEPS = 30
UNITS = 5
_LIVE = "status NOT IN ('finished', 'failed', 'cancelled', 'closed')"


def settled(world: World, task: int) -> None:
    """A unit has at most one live job, and the records agree."""
    query = f"SELECT unit_nr FROM jedi_jobs WHERE jeditaskid = :t AND kind = 'normal' AND {_LIVE}"
    found = Counter(row.unit_nr for row in rows(world, query, t=task))
    assert all(number == 1 for number in found.values()), found
    states = now(world, task)
    assert sum(states.counts.values()) == UNITS
    sound(world)


@pytest.mark.parametrize("seed", range(4))
def test_units_survive_random_verbs(world: World, seed: int) -> None:
    """Expected (docs/reference/ganga.md#kill-and-resubmit): a unit is completed, failed or killed,
    whatever came in between; killed ones are not tried by themselves; the others can be again,
    and in the end each is completed."""
    luck = random.Random(seed)
    document = {**DOCUMENT, "site": "SITE_A"}
    task = given(world, [unit(str(n)) for n in range(UNITS)], document=document).jedi_task_id
    everything(world)
    history: list[str] = []
    for _ in range(STEPS):
        some = luck.sample(range(1, UNITS + 1), luck.randint(1, 2))
        step = luck.choice(
            ("agents", "take", "finished", "failed", "closed", "kill", "resubmit", "obey")
        )
        history.append(f"{step} {some}")
        if step == "agents":
            make_due(world)
            everything(world)
        elif step == "take":
            take(world, jobs(world, task, "activated")[:2])
        elif step in ("finished", "failed", "closed"):
            end(world, jobs(world, task, "sent")[:1], step)
        elif step == "obey":
            obey(world)
        elif step == "kill" or status(world, task) not in ("registered", "prepared", "passed"):
            ask_units(world, task, step, some)
        settled(world, task)
    obey(world)
    ended = work_off(world, task)
    states = now(world, task).counts
    assert set(states) <= {"completed", "failed", "killed"}, (ended, states, history)
    if set(states) != {"completed"}:
        ask_units(world, task, "resubmit")
        assert work_off(world, task) == "done", (ended, history)
    assert now(world, task).counts == {"completed": UNITS}
    settled(world, task)


def test_completed_unit_without_outputs_runs_again(world: World) -> None:
    """Expected (spec row 65, "completed/failed/killed -> submitted"): a unit without declared
    outputs runs again as well. The job that it supersedes counts no longer, so that the task
    doesn't pause for input that was processed twice; who listed the attempts sees which one."""
    document = {**DOCUMENT, "site": "SITE_A"}
    task = given(world, [unit("1"), unit("2")], document=document).jedi_task_id
    assert work_off(world, task) == "done"
    for turn in (1, 2):
        [answer] = ask_units(world, task, "resubmit", [1])
        assert (answer.accepted, answer.error) == (True, None)
        assert now(world, task).counts == {"submitted": 1, "completed": 1}
        sound(world)
        assert work_off(world, task) == "done"
        assert now(world, task).counts == {"completed": 2}
        with world.engine.begin() as tx:
            tried = attempts(call(tx), task, 1)
        assert [one.superseded for one in tried] == [True] * turn + [False]
        sound(world)


def test_input_that_was_processed_twice_is_found(world: World) -> None:
    """Expected: without the mark of the superseded job the task pauses for duplicates."""
    document = {**DOCUMENT, "site": "SITE_A"}
    task = given(world, [unit("1")], document=document).jedi_task_id
    assert work_off(world, task) == "done"
    assert ask_units(world, task, "resubmit", [1])[0].accepted
    with world.engine.begin() as tx:
        tx.execute(text("DELETE FROM jedi_superseded_jobs"))
    assert work_off(world, task) == "paused"
