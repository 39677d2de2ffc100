"""Requests that wait at the same moment are done together, and none pays for another's mistake.

Expected values follow from the module's promise: nobody waits for company, those that come while
others are in work are done next by one call, and the error of one request is its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy import text
from support.job_rows import make_jobs

from jedi.agent.base import World
from jedi.api.authentication import Caller
from jedi.api.memory.combiner import TOGETHER_MOST, Combiner
from jedi.api.memory.pilot_groups import by_sites
from jedi.core.errors import Forbidden, Unreachable
from jedi.model.jobs.wire import Beat, Resources
from jedi.service.pilots import pilot_requests
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.jobs import dispatch
from jedi.taskbuffer.schema.release import this_release
from jedi.taskbuffer.users import users


class _Workbench:
    """Work that notes its groups, doubles numbers, and rests at 0 until it may go on."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.begun, self.may_end = threading.Event(), threading.Event()

    def __call__(self, group: Sequence[int]) -> list[int | Exception]:
        self.groups.append([*group])
        if 0 in group:
            self.begun.set()
            assert self.may_end.wait(60)
        if 13 in group:
            raise ValueError("13")
        if 99 in group:
            raise Unreachable("The database is away.")
        return [Forbidden("no") if one < 0 else 2 * one for one in group]


def _played(scene: Callable[[_Workbench, Combiner[int, int]], Coroutine[Any, Any, Any]]) -> Any:
    bench = _Workbench()
    return asyncio.run(scene(bench, Combiner(bench)))


async def _beside_the_first(
    bench: _Workbench, combiner: Combiner[int, int], asked: Sequence[int]
) -> list[Any]:
    """The results of requests that come while another one is in work."""
    first = asyncio.create_task(combiner.done(0))
    await asyncio.to_thread(bench.begun.wait, 60)
    others = [asyncio.create_task(combiner.done(one)) for one in asked]
    await asyncio.sleep(0)
    bench.may_end.set()
    found = await asyncio.gather(*others, return_exceptions=True)
    assert await first == 0
    return found


def test_those_that_wait_are_done_by_one_call() -> None:
    async def scene(bench: _Workbench, combiner: Combiner[int, int]) -> None:
        assert await _beside_the_first(bench, combiner, [1, 2, 3]) == [2, 4, 6]
        assert bench.groups == [[0], [1, 2, 3]]
        assert await combiner.done(4) == 8  # alone, at once
        assert bench.groups[2:] == [[4]]

    _played(scene)


def test_a_group_has_a_largest_size() -> None:
    async def scene(bench: _Workbench, combiner: Combiner[int, int]) -> None:
        asked = range(100, 101 + TOGETHER_MOST)
        assert await _beside_the_first(bench, combiner, asked) == [2 * one for one in asked]
        assert [len(group) for group in bench.groups] == [1, TOGETHER_MOST, 1]

    _played(scene)


def test_an_error_is_that_of_its_request_alone() -> None:
    async def scene(bench: _Workbench, combiner: Combiner[int, int]) -> None:
        good, bad, refused = await _beside_the_first(bench, combiner, [1, 13, -1])
        assert good == 2
        assert isinstance(bad, ValueError)
        assert isinstance(refused, Forbidden)

    _played(scene)


def test_a_database_that_is_away_is_asked_once_for_all() -> None:
    async def scene(bench: _Workbench, combiner: Combiner[int, int]) -> None:
        found = await _beside_the_first(bench, combiner, [99, 1])
        assert [type(one) for one in found] == [Unreachable, Unreachable]
        assert bench.groups == [[0], [99, 1]]

    _played(scene)


def test_requests_that_rest_do_not_stop_the_others() -> None:
    async def scene(bench: _Workbench, combiner: Combiner[int, int]) -> None:
        first = asyncio.create_task(combiner.done(0))
        await asyncio.to_thread(bench.begun.wait, 60)
        assert await combiner.done(1) == 2  # the first one rests
        assert await combiner.done(2) == 4
        assert not first.done()
        bench.may_end.set()
        assert await first == 0

    _played(scene)


def test_a_caller_that_goes_takes_nothing_from_the_others() -> None:
    async def scene(bench: _Workbench, combiner: Combiner[int, int]) -> None:
        first = asyncio.create_task(combiner.done(0))
        await asyncio.to_thread(bench.begun.wait, 60)
        gone, stays = (asyncio.create_task(combiner.done(one)) for one in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        bench.may_end.set()
        assert (await stays, await first) == (4, 0)

    _played(scene)


def test_alone_raises_the_error_of_its_request() -> None:
    combiner = Combiner(_Workbench())
    assert combiner.alone(2) == 4
    with pytest.raises(Forbidden):
        combiner.alone(-1)


def test_a_statement_for_pilots_of_several_sites(world: World) -> None:
    """An attempt is its site's: messages of another site about it change nothing, whoever else is
    in the group; a revoked token gets its error and the others do not notice."""
    with world.engine.begin() as tx:
        make_jobs(tx, 1)
        [job] = dispatch.acquire(tx, "SITE_A", 1, Resources(cores=1), "r", "pilot 1")
        tokens = [users.put_token(tx, "pilot", site=site) for site in ("SITE_A", "SITE_B")]
        revoked = users.put_token(tx, "pilot", site="SITE_A")
        users.REVOKE_TOKEN.run(tx, hash=users.token_hash(revoked))
        tx.execute(text("UPDATE jedi_jobs SET heartbeat_at = NULL"))  # Raw UPDATEs: hours passed
    callers = [Caller(one, None, this_release()) for one in (tokens[1], revoked, tokens[0])]
    beat = Beat(pandaid=job.panda_id, lock_seq=job.lock_seq)
    work = by_sites(partial(at_once, world.engine), pilot_requests.heartbeat_all)
    foreign, unknown, own = work([(caller, [beat]) for caller in callers])
    assert isinstance(foreign, dict)
    assert isinstance(own, dict)
    assert foreign["commands"][0] == {
        "pandaid": job.panda_id,
        "command": "kill",
        "why": "This attempt is not known.",
    }
    assert isinstance(unknown, Forbidden)
    assert unknown.code == "bad_token"
    assert own["commands"][0]["command"] == "none"
    with world.engine.begin() as tx:
        assert tx.scalar(text("SELECT heartbeat_at FROM jedi_jobs")) is not None
