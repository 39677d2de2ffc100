"""Requests of many pilots for jobs, answered together.

Expected values by hand from the rules of `acquire`: each job goes to one pilot; jobs of higher
priority come first; a repeated request gets the jobs that its pilot still holds; a slot takes jobs
that fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import IntegrityError
from support.job_rows import make_jobs

from jedi.agent.base import World
from jedi.api.authentication import Caller
from jedi.api.memory.pilot_groups import acquiring
from jedi.core.errors import Forbidden
from jedi.model.jobs.wire import AcquireRequest, Resources
from jedi.service.pilots import pilot_requests
from jedi.taskbuffer.schema.release import this_release
from jedi.taskbuffer.users import users


def ask(name: str, site: str = "SITE_A", n: int = 1, cores: int = 1) -> AcquireRequest:
    return AcquireRequest(
        request_id=name, pilot_id=f"pilot {name}", site=site, n=n, resources=Resources(cores=cores)
    )


def given(world: World, requests: Sequence[AcquireRequest]) -> list[list[int]]:
    """The jobs that each request gets."""
    found = pilot_requests.take_all(world.engine, world.ddm, world.knobs, requests)
    assert all(order["pandaid"] == job.panda_id for orders in found for job, order in orders)
    return [[job.panda_id for job, _ in orders] for orders in found]


def made(
    engine: Engine, n: int, site: str = "SITE_A", *, cores: int = 1, priority: int = 100
) -> list[int]:
    with engine.begin() as tx:
        return list(make_jobs(tx, n, site=site, cores=cores, priority=priority).jobs)


def test_each_request_gets_its_number_in_the_order_of_jobs(engine: Engine, world: World) -> None:
    low, high = made(engine, 3, priority=100), made(engine, 2, priority=900)
    assert given(world, [ask("a"), ask("b", n=3), ask("c", n=5)]) == [
        [high[0]],
        [high[1], low[0], low[1]],
        [low[2]],
    ]
    with engine.begin() as tx:
        rows = tx.execute(
            text(
                "SELECT pilot_id, count(*), min(lock_seq) FROM jedi_jobs "
                "WHERE status = 'sent' GROUP BY 1 ORDER BY 1"
            )
        ).all()
    assert [tuple(row) for row in rows] == [("pilot a", 1, 1), ("pilot b", 3, 1), ("pilot c", 1, 1)]


def test_sites_share_a_statement_and_no_jobs(engine: Engine, world: World) -> None:
    here, there = made(engine, 1), made(engine, 1, "SITE_B")
    requests = [ask("b", "SITE_B"), ask("a"), ask("none", "SITE_B")]
    assert given(world, requests) == [there, here, []]


def test_slots_of_one_site_get_jobs_that_fit_each_once(engine: Engine, world: World) -> None:
    small, large = made(engine, 2), made(engine, 1, cores=8)
    requests = [ask("s1"), ask("l1", cores=8), ask("s2"), ask("l2", cores=8)]
    found = given(world, requests)
    every = Counter(job for jobs in found for job in jobs)
    assert every == Counter(small + large)  # each once
    assert found[0] + found[2] == small  # a slot of one core takes no job of eight
    assert found[1] + found[3] == large


def test_a_request_sent_twice_gets_the_same_job(engine: Engine, world: World) -> None:
    jobs = made(engine, 3)
    assert given(world, [ask("a"), ask("a"), ask("b")]) == [[jobs[0]], [jobs[0]], [jobs[1]]]
    assert given(world, [ask("b"), ask("c"), ask("a")]) == [[jobs[1]], [jobs[2]], [jobs[0]]]


def test_a_request_of_another_site_spoils_only_itself(engine: Engine, world: World) -> None:
    """The group fails as a whole and changes nothing; its requests are then answered alone."""
    made(engine, 1, "SITE_B")
    jobs = made(engine, 2)
    given(world, [ask("taken", "SITE_B")])
    with pytest.raises(IntegrityError):
        given(world, [ask("fresh"), ask("taken")])
    assert given(world, [ask("fresh")]) == [jobs[:1]]


def test_a_pilot_asks_for_its_own_site(engine: Engine, world: World) -> None:
    jobs = made(engine, 1)
    with engine.begin() as tx:
        tokens = [users.put_token(tx, "pilot", site=site) for site in ("SITE_B", "SITE_A")]
    foreign, own = (Caller(token, None, this_release()) for token in tokens)
    work = acquiring(world, lambda: world, lambda: world.ddm)
    wrong, right = work([(foreign, ask("f")), (own, ask("o"))])
    assert isinstance(wrong, Forbidden)
    assert wrong.code == "wrong_site"
    assert isinstance(right, list)
    assert [job.panda_id for job, _ in right] == jobs
