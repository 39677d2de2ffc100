"""The owners of things that operations change: for each argument that names things, which of them
somebody must leave alone, and the error that says so.

Owners never change, so nothing is locked here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sqlalchemy import Connection

from jedi.core import names
from jedi.core.errors import Forbidden, JediError, NotFound
from jedi.ddm.storage import valid_dataset
from jedi.taskbuffer.inputs import datasets
from jedi.taskbuffer.jobs import one_job
from jedi.taskbuffer.registries import registries
from jedi.taskbuffer.tasks import new_tasks
from jedi.taskbuffer.users import users

OPERATORS = ("operator",)


@dataclass(frozen=True)
class Asked:
    """A caller who asks to do something (`deed`, such as `kill it`) to things of owners; users of
    these roles may do it to things of others."""

    tx: Connection
    who: str
    deed: str
    roles: Collection[str] = OPERATORS

    def may(self, owner: str | None) -> bool:
        """True if the thing is his, or he has such a role."""
        return self.who == owner or self._may_all

    @cached_property
    def _may_all(self) -> bool:
        return users.role(self.tx, self.who) in self.roles


Refusals = Callable[[Asked, Sequence[Any]], dict[Any, JediError]]
"""For things by name or number: those that the caller must leave alone, each with the reason."""


def of_tasks(asked: Asked, task_ids: Sequence[int]) -> dict[int, JediError]:
    """NotFound, Forbidden."""
    owners = dict(new_tasks.OWNERS_OF.rows(asked.tx, ids=[*task_ids]))
    return _of_owners(asked, "task", "jedi_task_id", task_ids, owners)


def of_jobs(asked: Asked, panda_ids: Sequence[int]) -> dict[int, JediError]:
    """NotFound, Forbidden."""
    found = one_job.FIND_JOBS.rows(asked.tx, ids=[*panda_ids])
    owners = {job.panda_id: job.user_name for job in found}
    return _of_owners(asked, "job", "panda_id", panda_ids, owners)


def _of_owners(
    asked: Asked, kind: str, key: str, ids: Sequence[int], owners: Mapping[int, str | None]
) -> dict[int, JediError]:
    refused: dict[int, JediError] = {}
    for one in ids:
        facts: dict[str, Any] = {key: one}
        if one not in owners:
            refused[one] = NotFound(f"There is no {kind} {one}.", **facts)
        elif not asked.may(owner := owners[one]):
            sentence = (
                f"{kind.title()} {one} belongs to {owner}: only its owner and operators may "
                f"{asked.deed}."
            )
            refused[one] = Forbidden(sentence, **facts, owner=owner)
    return refused


def must_own(asked: Asked, task_ids: Sequence[int]) -> None:
    """Raise the first of `of_tasks`: for tasks that no argument names."""
    for error in of_tasks(asked, task_ids).values():
        raise error


def of_registry(asked: Asked, guids: Sequence[str]) -> dict[str, JediError]:
    """NotFound, Forbidden."""
    [guid] = guids
    found = registries.ONE.row(asked.tx, guid=guid)
    if found is None:
        return {guid: NotFound(f"There is no registry {guid}.", guid=guid)}
    if asked.may(found.user_name):
        return {}
    sentence = f"Only {found.user_name} and operators may use this registry."
    return {guid: Forbidden(sentence, guid=guid)}


def of_user(asked: Asked, user_names: Sequence[str]) -> dict[str, JediError]:
    """Forbidden."""
    [user] = user_names
    if asked.may(user):
        return {}
    return {user: Forbidden(f"Only {user} and operators may {asked.deed} of {user}.")}


def of_dataset(asked: Asked, given: Sequence[str]) -> dict[str, JediError]:
    """Forbidden: a task of somebody else makes the dataset; or no task does, and it has not the
    scope of the caller. Raises BadInput: it can't be the name of a dataset."""
    [name] = given
    dataset = valid_dataset(name)
    makers = datasets.makers(asked.tx, dataset)
    if asked.who in makers or asked.may(None):
        return {}
    error = _of_others(dataset, makers[0]) if makers else _of_scope(dataset, asked.who)
    return {name: error} if error else {}


def _of_others(dataset: str, maker: str) -> Forbidden:
    return Forbidden(
        f"{dataset} is made by a task of {maker}: only its owner and operators may change it.",
        dataset=dataset,
        owner=maker,
    )


def _of_scope(dataset: str, who: str) -> Forbidden | None:
    scope, title = names.dataset(dataset)
    try:
        own = names.user_scope(who)
    except ValueError as error:
        return Forbidden(
            f"{who!a} has no scope, since user.NAME is none for this name ({error}): only "
            f"operators may change {dataset}. Ask one.",
            dataset=dataset,
            scope=scope,
        )
    if scope == own:
        return None
    return Forbidden(
        f"{dataset} has the scope {scope}: {who} may change datasets of the scope {own}, and "
        f"operators all. Name it {own}:{title}, or ask an operator.",
        dataset=dataset,
        scope=scope,
        own_scope=own,
    )
