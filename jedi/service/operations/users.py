"""Operations on users: roles, limits, notices."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from jedi.model.mistakes import checked_by
from jedi.service import users
from jedi.service.operations.arguments import NameText, RowId
from jedi.service.operations.table import ANYBODY, NAMED_USER, OPERATOR, Call, operation

NoticeText = Annotated[str, Field(max_length=2_000, pattern=r"^[^\x00]*$")]


@operation("user.list", "GET", "/v1/users", ANYBODY)
def find(call: Call) -> list[users.User]:
    """List the users with a role, a limit or notices."""
    return users.list_users(call.tx)


@operation("user.set", "PUT", "/v1/users/{user}", OPERATOR, dry_run=True)
def change(
    call: Call,
    user: NameText,
    role: Literal["user", "production", "operator"] | None = None,
    gridpref: Annotated[NoticeText, checked_by(users.must_be_letters)] | None = None,
    running_jobs: RowId | None = None,
) -> users.User:
    """Set the role of a user, special permissions, and the limit of running jobs (0: none).
    Omitted arguments change nothing."""
    call.subject = f"user {user}"
    return users.set_user(call.tx, call.who, user, role, gridpref, running_jobs)


@operation(
    "user.notices",
    "GET",
    "/v1/users/{user}/notices",
    NAMED_USER,
    deed="change the notifications",
)
def notices(call: Call, user: NameText) -> users.NotificationSettings:
    """Show the notices that a user gets."""
    return users.show_notices(call.tx, call.who, user)


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
) -> users.NotificationSettings:
    """Send a user notices of tasks, or also of jobs, by mail or to a webhook; '' ends it. Omitted
    arguments change nothing."""
    return users.set_notices(call.tx, call.who, user, mail, webhook, about, call.home)
