"""Notices that users get of their tasks and jobs."""

from __future__ import annotations

from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from jedi.core import webhookkey
from jedi.core.errors import BadInput, Problem
from jedi.service.operations.arguments import NameText
from jedi.service.operations.table import NAMED_USER, Call, operation
from jedi.taskbuffer.users import users
from jedi.taskbuffer.users.users import Notices

NoticeText = Annotated[str, Field(max_length=2_000, pattern=r"^[^\x00]*$")]


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """A user's notifications about tasks, or also about jobs; `secret` is new, and JEDI can't show
    it again."""

    user: str
    mail: str | None
    webhook: str | None
    about: str
    secret: str | None = None


@operation(
    "user.notices",
    "GET",
    "/v1/users/{user}/notices",
    NAMED_USER,
    deed="change the notifications",
)
def show(call: Call, user: NameText) -> NotificationSettings:
    """Show the notices that a user gets."""
    old = users.notices(call.tx, user)
    return NotificationSettings(user, old.mail, old.webhook, old.about)


@operation(
    "user.notify",
    "PUT",
    "/v1/users/{user}/notices",
    NAMED_USER,
    secret=True,
    deed="change the notifications",
)
def notify(
    call: Call,
    user: NameText,
    mail: NoticeText | None = None,
    webhook: NoticeText | None = None,
    about: Literal["tasks", "jobs"] | None = None,
) -> NotificationSettings:
    """Send a user notices of tasks, or also of jobs, by mail or to a webhook; '' ends it. Omitted
    arguments change nothing.

    A new URL gets a new secret, made with the key of the home. BadInput.
    """
    problems = []
    if mail and not _is_address(mail):
        problems.append(Problem("--mail", mail, "is no address", "Write name@example.org"))
    if webhook and not _is_url(webhook):
        rule = "is not a URL of http or https with a host"
        problems.append(Problem("--webhook", webhook, rule, "Write https://example.org/path"))
    if problems:
        raise BadInput(problems)
    old = users.notices(call.tx, user)
    wanted = Notices(
        old.mail if mail is None else mail or None,
        old.webhook if webhook is None else webhook or None,
        about or old.about,
    )
    salt = made = None
    if webhook:
        key = webhookkey.key_of(call.home.webhook_key)
        salt = webhookkey.new_salt(key)
        made = webhookkey.secret(key, user, salt)
    if wanted != old or salt:
        users.put_notices(call.tx, user, wanted, salt)
    return NotificationSettings(user, wanted.mail, wanted.webhook, wanted.about, made)


def _is_address(text: str) -> bool:
    try:
        address = Address(addr_spec=text)
    except (ValueError, IndexError, MessageError):  # and what else its parser meets
        return False
    return bool(address.username and address.domain) and text.isascii() and text.isprintable()


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        named = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        return named and text.split() == [text]
    except ValueError:
        return False
