"""From ready files to a broker's choice and a plan: what comes before anything is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jedi.agent import plugins
from jedi.brokerage.brokers import broker_of
from jedi.brokerage.choice import Choice
from jedi.brokerage.need import Need, atom
from jedi.jobgenerator.grouping import in_order, of_one_memory
from jedi.jobgenerator.locating import Locate, data_of
from jedi.jobgenerator.plan import Cut, Short, plan
from jedi.spec.chunk import Chunk
from jedi.spec.generation import TaskOrder
from jedi.spec.request import Data, Past
from jedi.spec.snapshot import Snapshot


@dataclass(frozen=True, eq=False)
class Proposal:
    """What the broker `broker` chose for `need`, and the jobs that follow. `task` has the memory
    that its files need. No cuts: no site will do, or the files that follow do not suffice: `short`
    tells for what jobs were left out."""

    task: TaskOrder
    broker: str
    need: Need
    choice: Choice
    cuts: Sequence[Cut]
    short: Sequence[Short] = ()


def propose(
    task: TaskOrder,
    chunks: Sequence[Chunk],
    world: Snapshot,
    knobs: Mapping[str, Any],
    locate: Locate,
    *,
    seed: int,
    most: int,
    used: Collection[str],
    past: Past,
    made: Mapping[str, int],
) -> Proposal:
    """At most `most` jobs of a task. `used` are the sites it has jobs at, `past` tells how these
    fared; `made` counts jobs of its share that the same cycle made, by site. JediError: no job can
    keep the limits of the task."""
    chunks, ram = of_one_memory(in_order(chunks, task.rules))
    ram_mb = max(task.demand.ram_mb, ram)
    demand = replace(task.demand, ram_mb=ram_mb).roomier(knobs["broker.spare_work_mb"])
    task = replace(task, demand=demand)
    strategy = plugins.find("generator", task.vo, task.label)()
    broker = broker_of(task.vo, task.label, knobs)
    n_files = strategy.files_per_unit(task.rules, chunks)
    unit = atom(chunks, n_files, strategy.events_per_unit(task.rules, chunks))
    data = data_of(task, chunks, world, locate) if broker.wants_data else Data()
    need = Need(task.demand, unit, task.sites, task.request, data, past, dict(made))
    choice = broker.choose(world, need, knobs, used, seed)
    cuts: Sequence[Cut] = ()
    short: Sequence[Short] = ()
    if choice.candidates:
        cuts, short = plan(chunks, choice, strategy, task.rules, task.demand, knobs, most)
    return Proposal(task, broker.name, need, choice, cuts, short)
