"""Messages of many pilots by one statement: the work of a Combiner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection

from jedi.agent.base import World
from jedi.api.authentication import Caller, PilotCall
from jedi.api.memory.combiner import Combiner, GroupWork
from jedi.core.errors import Forbidden
from jedi.ddm.interface import DDM
from jedi.model.jobs.wire import AcquireRequest, Attempt
from jedi.service.pilots import pilot_requests
from jedi.service.pilots.pilot_requests import Answer, Orders, take_all
from jedi.taskbuffer.db.engine import at_once
from jedi.taskbuffer.jobs.dispatch import SiteMessages
from jedi.taskbuffer.jobs.dispatch_cache import DispatchCache
from jedi.taskbuffer.users.users import Identity

Message = TypeVar("Message", bound=Attempt)
Begin = Callable[[], AbstractContextManager[Connection]]
PilotCombiner = Combiner[PilotCall, Answer]
AcquireCall = tuple[Caller, AcquireRequest]


@dataclass(frozen=True)
class PilotGroups:
    """The combiners of a process: of requests for jobs, reports and heartbeats, on all wires."""

    acquires: Combiner[AcquireCall, Orders]
    reports: PilotCombiner
    beats: PilotCombiner


def by_sites(
    begin: Begin, work: Callable[[Connection, Sequence[SiteMessages[Message]]], list[Answer]]
) -> GroupWork[PilotCall, Answer]:
    """Do the `work` of requests in one transaction, which also confirms their senders. A request
    of somebody whose token is good no more gets its error; the others do not notice."""

    def answers(calls: Sequence[PilotCall]) -> list[Answer | Exception]:
        with begin() as tx:
            sites = _sites(tx, [caller for caller, _ in calls])
            good = [
                (site, messages)
                for site, (_, messages) in zip(sites, calls, strict=True)
                if isinstance(site, str)
            ]
            found = iter(work(tx, good) if good else ())
        return [next(found) if isinstance(site, str) else site for site in sites]

    return answers


def acquiring(
    world: World, fresh: Callable[[], World], ddm: Callable[[], DDM]
) -> GroupWork[AcquireCall, Orders]:
    """The work of requests for jobs; `fresh` returns the world with the present knobs, `ddm` data
    management as configured now."""
    first_waiting = DispatchCache()

    def orders(calls: Sequence[AcquireCall]) -> list[Orders | Exception]:
        with at_once(world.engine) as tx:
            sites = _sites(tx, [caller for caller, _ in calls])
        wrong = [_not_of(request, site) for (_, request), site in zip(calls, sites, strict=True)]
        good = [request for (_, request), error in zip(calls, wrong, strict=True) if not error]
        now = fresh()
        if world.settings.draining.exists():  # `jedi down` waits for what is running
            found: list[Orders] = [[] for _ in good]
        else:
            found = take_all(now.engine, now.ddm, now.knobs, good, ddm, first_waiting)
        given = iter(found)
        return [error or next(given) for error in wrong]

    return orders


def _not_of(request: AcquireRequest, site: str | Forbidden) -> Forbidden | None:
    """The error of a request that is not from its site; None: it is."""
    try:
        if isinstance(site, Forbidden):
            return site
        pilot_requests.must_be_of(request, site)
    except Forbidden as error:
        return error
    return None


def _sites(tx: Connection, callers: Sequence[Caller]) -> list[str | Forbidden]:
    """The site of each caller, or the error of one that is no pilot now."""
    tokens = {one.token for one in callers if one.identity is None}
    found = pilot_requests.owners(tx, tokens, callers[0].release) if tokens else {}
    return [_site(one.identity or found[one.token]) for one in callers]


def _site(who: Identity | Forbidden) -> str | Forbidden:
    try:
        return who if isinstance(who, Forbidden) else pilot_requests.pilot_site(who)
    except Forbidden as error:
        return error
