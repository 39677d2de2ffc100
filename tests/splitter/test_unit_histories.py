"""Random histories of units: kills and resubmissions while jobs run, fail and succeed. No unit is
lost or done twice, and all records agree."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support.commanding import end, everything, jobs, obey, sound, status, take, work_off
from support.generating import rows
from support.situations import make_due
from support.units import DOCUMENT, ask_units, given, now, unit

from jedi.agent.base import World

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
        step = luck.choice(("agents", "take", "finished", "failed", "closed", "kill", "resubmit",
                            "obey"))  # fmt: skip
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


def test_completed_unit_without_outputs_stays_completed(world: World) -> None:
    """Expected (docs/reference/ganga.md#kill-and-resubmit): a completed unit gives up its outputs
    and makes them anew. Without any, nothing would show that its input was processed twice on
    purpose, and the task would pause: it is refused, with the remedy."""
    document = {**DOCUMENT, "site": "SITE_A"}
    task = given(world, [unit("1"), unit("2")], document=document).jedi_task_id
    assert work_off(world, task) == "done"
    [answer] = ask_units(world, task, "resubmit", [1])
    assert (answer.accepted, answer.error) == (False, "nothing_to_make")
    assert answer.sentence.endswith("Submit a copy of it.")
    assert now(world, task).counts == {"completed": 2}
    sound(world)
