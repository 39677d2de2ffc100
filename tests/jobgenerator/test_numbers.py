"""Numbers that jobs are told: random seeds, which the next job takes over, and sequence numbers,
which a retry keeps."""

# Raw UPDATEs: a rule that the refiner derives from other keys.

from __future__ import annotations

from typing import Any

from support.commanding import add_inputs, end, everything, jobs, sound, take
from support.generating import document, ready, rows
from support.situations import make_due

from jedi.agent.base import World


def number(value: str, offset: int = 0) -> dict[str, Any]:
    return {"type": "template", "param_type": "number", "value": value, "offset": offset}


def told(world: World) -> list[str]:
    """What each job was told, oldest job first."""
    query = "SELECT jobparameters FROM jedi_job_params ORDER BY pandaid"
    return [row.jobparameters.partition(" > ")[0] for row in rows(world, query)]


def fail(world: World, panda_id: int) -> None:
    take(world, [panda_id])
    end(world, [panda_id], "failed")


def test_the_next_job_reuses_the_seed_of_a_failed_one(world: World) -> None:
    """The example of JEDI document, "Random seed assignment": a job of two files fails; of the two
    jobs that follow, one takes its seed and the other a new one."""
    add_inputs(world, 2)
    [task] = ready(world, document(number("${RNDMSEED}", 100), nFilesPerJob=2))
    everything(world)
    [first] = jobs(world, task, "activated")
    fail(world, first)
    rows(world, """UPDATE jedi_tasks SET rules = rules || '{"n_files_per_job": 1}' RETURNING 1""")
    make_due(world)
    everything(world)
    assert [line.split()[-1] for line in told(world)] == ["101", "101", "102"]
    sound(world)


def test_a_retry_keeps_its_sequence_number(world: World) -> None:
    add_inputs(world, 3)
    items = number("${SEQNUMBER}", 10), number("${RNDMSEED}")
    [task] = ready(world, document(*items, nFilesPerJob=1))
    everything(world)
    first, second, _ = jobs(world, task, "activated")
    fail(world, second)
    fail(world, first)
    make_due(world)
    everything(world)
    lines = [line.split()[1:] for line in told(world)]
    by_file = [(line[0], line[-2]) for line in lines]
    assert by_file[:3] == [("in000000", "11"), ("in000001", "12"), ("in000002", "13")]
    assert sorted(by_file[3:]) == by_file[:2]
    sound(world)
