"""The table of operations: routes, the OpenAPI document, docs/api.md, the client's methods and the
policy test all follow from it.

An operation is a function of a Call and of named arguments; its annotations say which requests it
takes and which answers it gives. Its policy says who may ask for it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, wraps
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict, TypeVar, Unpack, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Strict, TypeAdapter
from sqlalchemy import Connection

from jedi.core.errors import Forbidden, JediError
from jedi.core.knobs import Knobs
from jedi.ddm import factory
from jedi.ddm.interface import DDM
from jedi.host.home import Home
from jedi.model.queries import Question
from jedi.service.operations import owners
from jedi.service.operations.owners import Asked, Refusals
from jedi.service.operations.signature import Signature, model_of
from jedi.service.users import operators
from jedi.taskbuffer.db import knobs
from jedi.taskbuffer.users import users

Method = Literal["GET", "POST", "PUT", "DELETE"]
Scope = Literal["read", "submit", "all"]
SCOPES: tuple[Scope, ...] = ("read", "submit", "all")
"""Permissions of tokens; each includes those before it."""

BODY_MAX = 2**20
"""Bytes of a request, unless its operation takes more."""


@dataclass(frozen=True, slots=True)
class KnownCaller:
    """A known user: the way of the identity (socket, token, oidc), and the scope of the token."""

    user_name: str
    way: str
    scope: Scope = "all"


@dataclass
class Call:
    """One request of a caller: its transaction, and the system as it is now."""

    tx: Connection
    caller: KnownCaller
    home: Home
    subject: str | None = None
    """The object of the request as the audit names it, such as `task 17`."""

    dry_run: bool = False
    """Nothing of it stays: the transaction is rolled back, and no step comes afterwards."""

    afterwards: list[Callable[[Connection], None]] = field(default_factory=list)
    """Steps in a transaction of their own, once that of the call is committed."""

    refused: Mapping[Any, JediError] = field(default_factory=dict)
    """Errors of named things that the caller must leave alone; the operation gets the others."""

    @property
    def who(self) -> str:
        return self.caller.user_name

    @cached_property
    def role(self) -> str:
        return users.role(self.tx, self.who)

    def name_objects(
        self, kind: str, changed: Iterable[object], refused: Iterable[object] = ()
    ) -> None:
        """Name the objects of a change of many: `task 3, 4; refused: task 7`."""
        lists = ((f"{kind} ", changed), (f"refused: {kind} ", refused))
        found = [begin + ", ".join(dict.fromkeys(map(str, names))) for begin, names in lists]
        named = [one for one, (begin, _) in zip(found, lists, strict=True) if one != begin]
        self.subject = "; ".join(named) or None

    @cached_property
    def knobs(self) -> Knobs:
        return knobs.load(self.tx)

    @cached_property
    def ddm(self) -> DDM:
        return factory.load(self.tx, self.knobs)


def _only_operators(_arguments: Mapping[str, Any]) -> Collection[str]:
    return owners.OPERATORS


@dataclass(frozen=True, slots=True)
class Policy:
    """A rule of access, which is enforced before the operation runs. `things`: the arguments that
    may name things of owners, each with its kind and its check; an operation has one of them.
    `roles`: users who may do it to things of others."""

    name: str
    sentence: str
    check: Callable[[Call], None] = lambda _call: None
    things: Mapping[str, tuple[str, Refusals]] = field(default_factory=dict)
    roles: Callable[[Mapping[str, Any]], Collection[str]] = _only_operators


def _operators_only(call: Call) -> None:
    operators.must_be_operator(call.tx, call.who)


def _retriers(arguments: Mapping[str, Any]) -> Collection[str]:
    """New code would run in the owner's name."""
    return owners.OPERATORS if arguments.get("sandbox") else (*owners.OPERATORS, "production")


_OWNED: Mapping[str, tuple[str, Refusals]] = {
    "jedi_task_ids": ("task", owners.of_tasks),
    "jedi_task_id": ("task", owners.of_tasks),
    "panda_ids": ("job", owners.of_jobs),
    "guid": ("registry", owners.of_registry),
}

ANYBODY = Policy("anybody", "everybody with an identity")
OPERATOR = Policy("operator", "operators", _operators_only)
OWNER = Policy("owner", "the owner, and operators", things=_OWNED)
OWNER_OR_PRODUCTION = Policy(
    "owner_or_production",
    "the owner, users of role production, and operators",
    things=_OWNED,
    roles=_retriers,
)
SELF = Policy("self", "the user himself, and operators")
"""For what belongs to the caller: no argument names a user."""

NAMED_USER = Policy(SELF.name, SELF.sentence, things={"user": ("user", owners.of_user)})
DATASET_OWNER = Policy(
    "dataset_owner",
    "the user whose task makes the dataset, or else user NAME of scope user.NAME, and operators",
    things={"name": ("dataset", owners.of_dataset)},
)


@dataclass(frozen=True, slots=True)
class FileContent:
    """An answer that is a file: its place, its name, and its adler32 in 8 hex digits."""

    path: Path
    name: str
    adler32: str | None


@dataclass(frozen=True)
class Operation:
    """A row of the table. `changes`: it writes, and the audit notes it; `raw`: its argument `data`
    is the request's body, byte for byte, and the others stand in the path or the query; `secret`:
    its answer holds one, and is kept nowhere; `body_max`: bytes of its request; `dry_run`: it takes
    this argument, and then answers as if it had been done; `stores`: it writes to an endpoint,
    which may have no room (status 507); `heavy`: it may take seconds, so few run at once; `deed`:
    what it does to things of owners, for the refusal."""

    name: str
    method: Method
    path: str
    policy: Policy
    run: Callable[..., Any]
    scope: Scope
    changes: bool
    raw: bool
    secret: bool
    body_max: int
    dry_run: bool
    stores: bool
    heavy: bool
    deed: str

    @cached_property
    def in_path(self) -> tuple[str, ...]:
        """The arguments that the path holds."""
        return tuple(re.findall(r"{(\w+)}", self.path))

    @property
    def by_query(self) -> bool:
        """Return True if arguments stand in the query; else the body has them."""
        return self.method == "GET" or self.raw

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of the named arguments, and of the answer."""
        found = {name: one.annotation for name, one in self.parameters.items()}
        return {**found, "return": self.signature.hints["return"]}

    @cached_property
    def signature(self) -> Signature:
        return Signature(self.run)

    @cached_property
    def parameters(self) -> dict[str, inspect.Parameter]:
        """The named arguments, in their order."""
        more = {"dry_run": _DRY_RUN} if self.dry_run else {}
        return {**self.signature.parameters, **more}

    @cached_property
    def arguments(self) -> type[BaseModel]:
        """The model of the named arguments. A body has JSON's types; a path and a query have texts
        alone, and so do the arguments beside a raw body."""
        found = self.parameters
        for name in self.in_path:
            hint: Any = found[name].annotation
            lax = found[name].replace(annotation=Annotated[hint, Strict(False)])
            found = {**found, name: lax}
        title = "".join(part.title() for part in re.split(r"[._]", self.name))
        return model_of(title, found, ConfigDict(strict=not self.by_query))

    @property
    def streams(self) -> bool:
        """Return True if the answer is the content of a file."""
        return self.hints["return"] is FileContent

    @property
    def streams_events(self) -> bool:
        """True if the answer is a stream of server-sent events."""
        return hasattr(self.hints["return"], "EVENT")

    @cached_property
    def answer_type(self) -> Any:
        """The type of the answer; of a stream, that of the data of an event."""
        return getattr(self.hints["return"], "EVENT", self.hints["return"])

    @cached_property
    def answer(self) -> TypeAdapter[Any]:
        """The type of the answer."""
        return TypeAdapter(self.answer_type)

    @property
    def summary(self) -> str:
        """The first sentence of the function's docstring."""
        return (inspect.getdoc(self.run) or "").partition("\n\n")[0].replace("\n", " ")

    @cached_property
    def owned(self) -> str | None:
        """The argument that names things of owners."""
        return next((name for name in self.policy.things if name in self.parameters), None)

    @cached_property
    def answer_of_each(self) -> Callable[..., Any] | None:
        """The type of an answer for each of the named things, which may be refused."""
        many = (self.owned or "").endswith("_ids") and get_origin(self.hints["return"]) is list
        return get_args(self.hints["return"])[0] if many else None

    def __call__(self, call: Call, **arguments: Any) -> Any:
        """Run it for a caller who may, with the things that he may change. Forbidden, NotFound."""
        self.must_be_allowed(call)
        if "dry_run" in arguments:
            call.dry_run = arguments.pop("dry_run")
        if self.owned is None:
            return self._done(call, arguments)
        kind, refusals = self.policy.things[self.owned]
        asked = Asked(call.tx, call.who, self.deed, self.policy.roles(arguments))
        given = arguments.get(self.owned) or ()
        if not isinstance(given, Sequence) or isinstance(given, str):
            call.name_objects(kind, [given])
            for error in refusals(asked, [given]).values():
                raise error
            return self._done(call, arguments)
        named = [*dict.fromkeys(given)]
        call.refused = refusals(asked, named) if named else {}
        mine = [one for one in named if one not in call.refused]
        if self.answer_of_each is None:
            for error in call.refused.values() if len(named) == 1 else ():
                raise error
            return self._done(call, {**arguments, self.owned: mine})
        found = dict(zip(mine, self._done(call, {**arguments, self.owned: mine}), strict=True))
        for one, error in call.refused.items():
            found[one] = self.answer_of_each(one, False, error.sentence, error=error.code)
        accepted = [one for one in named if found[one].accepted]
        call.name_objects(kind, accepted, [one for one in named if not found[one].accepted])
        return [found[one] for one in named]

    def _done(self, call: Call, arguments: Mapping[str, Any]) -> Any:
        return self.run(call, **self.signature.own(arguments))

    def must_be_allowed(self, call: Call) -> None:
        """Forbidden: the caller's token, or role, does not suffice."""
        if SCOPES.index(call.caller.scope) < SCOPES.index(self.scope):
            raise Forbidden(
                f"This token is for `{call.caller.scope}`; {self.name} needs `{self.scope}`. Make "
                f"another one: jedi-task token create --scope {self.scope}.",
                code="scope_too_small",
                scope=call.caller.scope,
                needed=self.scope,
            )
        self.policy.check(call)


_DRY_RUN = inspect.Parameter(
    "dry_run", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=bool
)


class Traits(TypedDict, total=False):
    """Traits that few operations have. `question`: the request is too long for a query, or brings
    what only another operation uses; `dry_run`: a rollback undoes all changes, or the operation
    heeds `call.dry_run`; `deed`: the act upon things of owners (default: the name's verb)."""

    scope: Scope
    raw: bool
    secret: bool
    body_max: int
    question: bool
    dry_run: bool
    stores: bool
    heavy: bool
    deed: str


TABLE: dict[str, Operation] = {}
"""All operations by name; `all_operations` fills it."""

_F = TypeVar("_F", bound=Callable[..., Any])


def operation(
    name: str,
    method: Method,
    path: str,
    policy: Policy,
    **traits: Unpack[Traits],
) -> Callable[[_F], _F]:
    """Enter a function into the table. GET reads; all other methods change something, unless it is
    a question. Direct calls of the function pass the policy, too."""

    def enter(run: _F) -> _F:
        if name in TABLE:
            raise ValueError(f"two operations are called {name}")
        signature = inspect.signature(run)
        if policy.things and not any(one in policy.things for one in signature.parameters):
            raise ValueError(f"no argument of {name} names what the {policy.name} has")
        changes = method != "GET" and not traits.get("question", False)
        kind, _, verb = name.partition(".")
        entry = TABLE[name] = Operation(
            name,
            method,
            path,
            policy,
            run,
            scope=traits.get("scope") or ("all" if changes else "read"),
            changes=changes,
            raw=traits.get("raw", False),
            secret=traits.get("secret", False),
            body_max=traits.get("body_max", BODY_MAX),
            dry_run=traits.get("dry_run", False),
            stores=traits.get("stores", False),
            heavy=traits.get("heavy", False),
            deed=traits.get("deed") or f"{verb} {'its units' if kind == 'unit' else 'it'}",
        )

        @wraps(run)
        def allowed(*args: Any, **named: Any) -> Any:
            given = signature.bind(*args, **named).arguments
            for key, one in [*given.items()]:
                if isinstance(one, Question):  # the policy reads its fields
                    del given[key]
                    given |= {part.name: getattr(one, part.name) for part in fields(one)}
            return entry(given.pop("call"), **given)

        return cast(_F, allowed)

    return enter
