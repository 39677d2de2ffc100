"""Messages of many pilots by one statement: the work of a Combiner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from sqlalchemy import Connection

from jedi.api.authentication import Caller, PilotCall
from jedi.api.combiner import Combiner, GroupWork
from jedi.core.errors import Forbidden
from jedi.service import pilots
from jedi.service.pilots import Answer
from jedi.spec.jobs.wire import Attempt
from jedi.taskbuffer.jobs.dispatch import SiteMessages
from jedi.taskbuffer.users.users import Identity

Message = TypeVar("Message", bound=Attempt)
Begin = Callable[[], AbstractContextManager[Connection]]
PilotCombiner = Combiner[PilotCall, Answer]


def by_sites(
    begin: Begin, work: Callable[[Connection, Sequence[SiteMessages[Message]]], list[Answer]]
) -> GroupWork[PilotCall, Answer]:
    """Do the `work` of requests in one transaction, which also confirms their senders. A request
    of somebody whose token is good no more gets its error; the others do not notice."""

    def answers(calls: Sequence[PilotCall]) -> list[Answer | Exception]:
        with begin() as tx:
            sites = _sites(tx, [caller for caller, _ in calls])
            good = [(site, messages) for site, (_, messages) in zip(sites, calls, strict=True)
                    if isinstance(site, str)]  # fmt: skip
            found = iter(work(tx, good) if good else ())
        return [next(found) if isinstance(site, str) else site for site in sites]

    return answers


def _sites(tx: Connection, callers: Sequence[Caller]) -> list[str | Forbidden]:
    """The site of each caller, or the error of one that is no pilot now."""
    tokens = {one.token for one in callers if one.identity is None}
    found = pilots.owners(tx, tokens, callers[0].release) if tokens else {}
    return [_site(one.identity or found[one.token]) for one in callers]


def _site(who: Identity | Forbidden) -> str | Forbidden:
    try:
        return who if isinstance(who, Forbidden) else pilots.pilot_site(who)
    except Forbidden as error:
        return error
