"""Users: their roles and permissions, and their notifications."""

from __future__ import annotations

from dataclasses import dataclass
from email.errors import MessageError
from email.headerregistry import Address
from urllib.parse import urlsplit

from sqlalchemy import Connection

from jedi.core import webhookkey
from jedi.core.errors import BadInput, Forbidden, Problem
from jedi.host.home import Home
from jedi.model.scheduling.priority import PERMISSIONS
from jedi.service import steering
from jedi.taskbuffer.users import users
from jedi.taskbuffer.users.users import Notices


@dataclass(frozen=True, slots=True)
class User:
    """A user with the role, the special permissions and the most running analysis jobs (None: as
    many as others) there are now."""

    user: str
    role: str
    gridpref: str
    running_jobs: int | None = None


def list_users(tx: Connection) -> list[User]:
    """Return all users with a role, a limit or notices."""
    return [User(*one) for one in users.all_users(tx)]


def must_be_letters(gridpref: str) -> None:
    """BadInput: a letter stands for no permission."""
    if strange := sorted(set(gridpref) - PERMISSIONS.keys()):
        known = ", ".join(f"{letter} ({what})" for letter, what in PERMISSIONS.items())
        rule = f"{', '.join(strange)} is not a known letter"
        raise BadInput([Problem("gridpref", gridpref, rule, f"There are {known}")])


def set_user(
    tx: Connection,
    who: str,
    user_name: str,
    role: str | None,
    gridpref: str | None,
    cap: int | None = None,
) -> User:
    """Give a user a role, special permissions and the most running analysis jobs; None leaves them
    as they are. Forbidden: `who` is no operator; Refused: no operator would be left; BadInput:
    there is no such letter."""
    must_be_letters(gridpref or "")
    demotes = role not in (None, "operator")
    if demotes:  # others may do so at this moment
        users.LOCK_OPERATORS.run(tx)
    steering.must_be_operator(tx, who)
    if demotes:
        steering.must_leave_one(tx, user_name)
    users.PUT_USER.run(tx, user=user_name, role=role, gridpref=gridpref, cap=cap)
    return User(
        user_name,
        users.role(tx, user_name),
        users.gridpref(tx, user_name),
        users.cap(tx, user_name),
    )


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """A user's notifications about tasks, or also about jobs; `secret` is new, and JEDI can't show
    it again."""

    user: str
    mail: str | None
    webhook: str | None
    about: str
    secret: str | None = None


def show_notices(tx: Connection, who: str, user_name: str) -> NotificationSettings:
    """Return the notices that a user gets. Forbidden: somebody else, unless `who` is an
    operator."""
    return set_notices(tx, who, user_name)


def set_notices(
    tx: Connection,
    who: str,
    user_name: str,
    mail: str | None = None,
    webhook: str | None = None,
    about: str | None = None,
    home: Home | None = None,
) -> NotificationSettings:
    """Set a user's notifications by mail, or by messages posted to a URL; '' ends them, None leaves
    them unchanged. A new URL gets a new secret, made with the key of `home` (else the present one).
    BadInput; Forbidden: somebody else, unless `who` is an operator."""
    if who != user_name and users.role(tx, who) != "operator":
        raise Forbidden(
            f"Only {user_name} and operators may change the notifications of {user_name}."
        )
    problems = []
    if mail and not _is_address(mail):
        problems.append(Problem("--mail", mail, "is no address", "Write name@example.org"))
    if webhook and not _is_url(webhook):
        rule = "is not a URL of http or https with a host"
        problems.append(Problem("--webhook", webhook, rule, "Write https://example.org/path"))
    if problems:
        raise BadInput(problems)
    old = users.notices(tx, user_name)
    wanted = Notices(
        old.mail if mail is None else mail or None,
        old.webhook if webhook is None else webhook or None,
        about or old.about,
    )
    salt = made = None
    if webhook:
        key = webhookkey.key_of((home or Home.current()).webhook_key)
        salt = webhookkey.new_salt(key)
        made = webhookkey.secret(key, user_name, salt)
    if wanted != old or salt:
        users.put_notices(tx, user_name, wanted, salt)
    return NotificationSettings(user_name, wanted.mail, wanted.webhook, wanted.about, made)


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
