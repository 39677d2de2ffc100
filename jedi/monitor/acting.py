"""Actions on pages: a preview, a confirmation, and an answer for each object.

The preview is the operation's own dry run, thus with its checks, and says how many and what. The
confirmation makes the change that the preview has shown, and no other, once however often it is
sent.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import Response

from jedi.api.application import Application
from jedi.api.bodies import Bodies
from jedi.api.errors import FORESEEN
from jedi.api.operations import OperationDoor
from jedi.core.errors import BadInput, JediError, NotFound, Problem
from jedi.monitor.actions import ACTIONS, Action, Given
from jedi.monitor.frame import frame
from jedi.monitor.render import render
from jedi.monitor.routes import Rendered, error_page, respond, to_login
from jedi.monitor.sessions import LoginNeeded, Visitor, must_be_ours, safe_target, visitor_of

MOST = 1_000
"""Objects of an action."""

MOST_ONE_BY_ONE = 100
"""Objects of an action that takes a request for each."""

FORM_MAX = 2**17
"""Bytes of a form."""

_CHANGED = "Nothing is done yet: this is the preview of the form as you changed it."

_LOOKS = {
    "task": ("task.look", "jedi_task_ids", "jedi_task_id"),
    "job": ("job.look", "panda_ids", "panda_id"),
}
"""Operations that show the statuses of objects, the argument with ids, and the key of the id."""


@dataclass(frozen=True, slots=True)
class ActionAnswer:
    """The answer for one object: the change is made (or possible), or refused with a code."""

    id: str
    accepted: bool
    sentence: str
    code: str | None = None
    status: str | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """An action that a visitor wishes: its objects, and the texts of its form."""

    action: Action
    ids: list[str]
    given: Given

    @property
    def back(self) -> str:
        """The page to go on with."""
        return safe_target("".join(self.given.get("back", ())[:1]))

    @property
    def seal(self) -> str:
        """A mark of all that matters in it, a comment aside: another one, another preview."""
        arguments = {**self.action.arguments(self.given), "comment": None}
        written = json.dumps([self.action.name, self.ids, arguments], sort_keys=True)
        return hashlib.sha256(written.encode()).hexdigest()[:32]

    def text(self, name: str) -> str:
        """The text of a field; empty if it has none."""
        return "".join(self.given.get(name, ())[:1])


def add_actions(app: Application, door: OperationDoor, log: Any) -> None:
    """Add the page of each action: GET shows its preview, POST makes the change."""
    bodies = Bodies()

    async def answered(request: Request) -> Response:
        try:
            visitor = await visitor_of(request, door)
            make: Callable[..., tuple[Rendered, int]] = _show
            given = parse_qs(request.url.query)
            if request.method == "POST":
                async with bodies.taken(request, FORM_MAX) as body:
                    given, make = parse_qs(body.decode("utf-8", "replace")), _act
                must_be_ours(request, visitor, "".join(given.get("sign", ())[:1]))
            wish = _wish(request.path_params["operation"], given)
            run = partial(make, door, visitor, request, wish)
            found, status = await door.working.done(request, run)
        except LoginNeeded:
            return to_login(request)
        except FORESEEN as error:
            return await error_page(request, error, log)
        return respond(request, found, status=status)

    app.route("GET", "/act/{operation}", "page action")(answered)
    app.route("POST", "/act/{operation}", "page act")(answered)


def _wish(name: str, given: Given) -> Wish:
    if name not in ACTIONS:
        raise NotFound(f"Pages have no action {name[:80]}.", operation=name[:80])
    action = ACTIONS[name]
    ids = [*dict.fromkeys(one.strip() for one in given.get("id", ()) if one.strip())]
    most = MOST if action.takes_many else MOST_ONE_BY_ONE
    if not 1 <= len(ids) <= most:
        rule = f"an action takes 1 to {most} {action.plural}"
        raise BadInput([Problem("id", len(ids), rule, f"Choose {action.plural} on their page")])
    return Wish(action, ids, given)


def _preview(
    door: OperationDoor, visitor: Visitor, request: Request, wish: Wish, notice: str = ""
) -> tuple[Rendered, int]:
    """The page that shows what an action would do now. For threads."""
    answers: list[ActionAnswer] | None = None
    problems: Sequence[Problem] = ()
    if wish.action.is_complete(wish.given):
        try:
            tried = [*_done(door, visitor, request, wish, dry=True)]
        except BadInput as error:
            problems = error.problems
        else:
            known = [one.id for one in tried if one.code != NotFound.code]
            statuses = _statuses(door, visitor, request, wish.action, known)
            answers = [replace(one, status=statuses.get(one.id)) for one in tried]
    facts = {
        "answers": answers,
        "problems": problems,
        "notice": notice,
        "key": secrets.token_hex(16),
        "counts": _counted(answers or ()),
    }
    return _page(door, visitor, request, wish, facts), 422 if problems else 200


def _show(
    door: OperationDoor, visitor: Visitor, request: Request, wish: Wish
) -> tuple[Rendered, int]:
    return _preview(door, visitor, request, wish)


def _act(
    door: OperationDoor, visitor: Visitor, request: Request, wish: Wish
) -> tuple[Rendered, int]:
    """Make the change, if a preview has shown it. For threads."""
    if wish.text("seal") != wish.seal or not wish.action.is_complete(wish.given):
        notice = _CHANGED if wish.text("seal") else ""
        return _preview(door, visitor, request, wish, notice)
    try:
        answers = [*_done(door, visitor, request, wish, dry=False)]
    except BadInput:
        return _preview(door, visitor, request, wish)
    facts = {"answers": answers, "done": True}
    return _page(door, visitor, request, wish, facts), 200


def _page(
    door: OperationDoor, visitor: Visitor, request: Request, wish: Wish, facts: dict[str, Any]
) -> Rendered:
    role = _asked(door, visitor, request, "me.show", {})["role"]
    known = frame(wish.action.label, request.url.path, visitor, role)
    return Rendered(render("act.html", {"done": False, **known, "wish": wish, **facts}))


def _counted(answers: Sequence[ActionAnswer]) -> dict[str, int]:
    """The objects that would change, by status."""
    found = Counter(one.status for one in answers if one.accepted and one.status)
    return dict(found.most_common())


def _statuses(
    door: OperationDoor, visitor: Visitor, request: Request, action: Action, ids: Sequence[str]
) -> dict[str, str]:
    """The present statuses of objects by id."""
    if action.kind not in _LOOKS or not ids:
        return {}
    name, argument, key = _LOOKS[action.kind]
    rows = _asked(door, visitor, request, name, {argument: [*map(_id, ids)]})
    flat = [one.get("task", one) for one in rows]
    return {str(one[key]): one["status"] for one in flat}


def _done(
    door: OperationDoor, visitor: Visitor, request: Request, wish: Wish, *, dry: bool
) -> Iterator[ActionAnswer]:
    """Make a change, or try it (`dry`), and give the answer for each object. BadInput: all are
    refused."""
    action, given = wish.action, wish.action.arguments(wish.given)
    if dry and not action.operation.dry_run:
        for one in wish.ids:
            yield ActionAnswer(one, True, "This action has no dry run.")
        return
    given |= {"dry_run": True} if dry else {}
    key = None if dry else wish.text("key") or None
    if action.takes_many:
        given[action.ids] = [*map(_id, wish.ids)]
        for answer in _asked(door, visitor, request, action.name, given, key):
            found = answer.get("jedi_task_id", answer.get("panda_id"))
            yield ActionAnswer(str(found), answer["accepted"], answer["sentence"], answer["error"])
        return
    for number, one in enumerate(wish.ids):
        one_key = f"{key}.{number}" if key else None
        try:
            given[action.ids] = [_id(one)] if action.one_by_one else one
            answer = _asked(door, visitor, request, action.name, given, one_key)
            yield ActionAnswer(one, True, action.said(answer))
        except BadInput:
            raise
        except JediError as error:
            yield ActionAnswer(one, False, error.sentence, error.code)


def _id(written: str) -> int | str:
    return int(written) if written.isascii() and written.isdecimal() else written


def _asked(
    door: OperationDoor,
    visitor: Visitor,
    request: Request,
    name: str,
    given: dict[str, Any],
    key: str | None = None,
) -> Any:
    answer = door.perform(name, visitor.caller, request, given, key)
    assert isinstance(answer, bytes)  # files and streams are no actions
    return json.loads(answer)
