"""Every reason of every broker, really produced: a site for each, with one fault, is refused by the
real agents for that fault alone, and `jedi-task why` says so."""

# Raw UPDATEs: tasks skip the nucleus brokerage.

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import entry_points

import pytest
from sqlalchemy import text
from support.asking import (
    _LIVE,
    ask_why,
    build,
    refused,
    submit,
)
from support.generating import catalogue, document, generate, ready
from support.refusals import BROKERS, HOME

from jedi.agent.base import World
from jedi.brokerage import nucleus, nucleus_filters
from jedi.brokerage.agent import TaskBroker
from jedi.brokerage.filters.merging import MERGES
from jedi.brokerage.vocabulary import FILTERS
from jedi.throttler.decide import SAYS


@pytest.mark.parametrize("name", BROKERS)
def test_each_site_is_refused_for_its_fault(world: World, name: str) -> None:
    broker = BROKERS[name]
    tasks = submit(world, broker)
    build(world, broker, tasks)
    if "nucleus" in name:
        TaskBroker(world).run_once()
    else:
        with world.engine.begin() as tx:  # whatever their nucleus
            tx.execute(text("UPDATE jedi_tasks SET status = 'ready' WHERE status = 'assigning'"))
        generate(world)
    for task_id, ask in zip(tasks, broker.asks, strict=True):
        meant = {code: sorted([code, *fault.also]) for code, fault in ask.cases.items()}
        assert refused(world, task_id, ask) == meant
        said = ask_why(world, task_id).brokerage
        assert said is not None and said.broker == name.rpartition(" ")[2]
        told = {one.code: one for one in said.funnel}
        assert [code for code in meant if not (told[code].nearest and told[code].remedy)] == []


OF_MERGES = {one.code for one in MERGES}
"""Every broker has them; tests/jobgenerator/test_merging.py produces them."""


def test_every_criterion_has_its_case() -> None:
    """Of the brokers that are installed, and of who chooses a nucleus."""
    brokers = {point.load() for point in entry_points(group="jedi.broker")}
    registered = {broker.name: broker.filters for broker in brokers}
    registered |= {"nucleus": nucleus_filters.FILTERS, "local nucleus": nucleus.FILTERS}
    assert {name: broker.codes for name, broker in BROKERS.items()} == {
        name: {one.code for one in filters} - OF_MERGES for name, filters in registered.items()
    }
    assert all({*MERGES} <= {*broker.filters} for broker in brokers)
    cases = set().union(*(broker.codes for broker in BROKERS.values()))
    assert cases | OF_MERGES == set(FILTERS)


# ------------------------------------------------------------------------------ the throttler

_QUEUE = text("""
INSERT INTO jedi_work_queue (queue_id, queue_name, queue_type, vo, queue_order, queue_share, status,
  criteria, caps)
VALUES (:id, :name, 'user', 'local', -:id, 10, 'active', :criteria, CAST(:caps AS jsonb))
""")
THROTTLED: Mapping[str, tuple[dict[str, int], dict[str, int]]] = {
    "none_running": ({"activated": 2001}, {}),
    "many_queued": ({"running": 100, "activated": 2001}, {}),
    "many_defined": ({"running": 5000, "defined": 2401}, {}),
    "many_waiting": ({"running": 100, "waiting": 1001}, {}),
    "running_cap": ({"running": 51}, {"NRUNNINGCAP": 50}),
    "queue_cap": ({"running": 50, "activated": 101}, {"NQUEUECAP": 100}),
}
"""By test, what a queue has of jobs, and its own caps."""


def test_each_test_of_the_throttler_holds_its_queue(world: World) -> None:
    assert set(THROTTLED) == set(SAYS)
    catalogue(world, in_=2)
    with world.engine.begin() as tx:
        for number, (code, (jobs, caps)) in enumerate(THROTTLED.items(), 10):
            tx.execute(
                _QUEUE,
                {
                    "id": number,
                    "name": code,
                    "criteria": f"campaign = '{code}'",
                    "caps": json.dumps(caps),
                },
            )
            for status, n in jobs.items():
                tx.execute(
                    _LIVE, {"site": HOME, "queue": number, "share": code, "status": status, "n": n}
                )
    tasks = ready(world, *(document(output=f"a:{code}", campaign=code) for code in THROTTLED))
    assert generate(world) == 0
    for task_id, code in zip(tasks, THROTTLED, strict=True):
        held = ask_why(world, task_id)
        assert (held.code, held.facts["test"], held.facts["queue"]) == ("throttler", code, code)
