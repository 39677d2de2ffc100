"""Users: their roles and permissions, and their limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from jedi.core.errors import BadInput, Problem
from jedi.model.mistakes import checked_by
from jedi.model.scheduling.priority import PERMISSIONS
from jedi.service.operations.arguments import NameText, RowId
from jedi.service.operations.table import ANYBODY, OPERATOR, Call, operation
from jedi.service.users import operators
from jedi.taskbuffer.users import users


@dataclass(frozen=True, slots=True)
class User:
    """A user with the role, the special permissions and the most running analysis jobs (None: as
    many as others) there are now."""

    user: str
    role: str
    gridpref: str
    running_jobs: int | None = None


@operation("user.list", "GET", "/v1/users", ANYBODY)
def find(call: Call) -> list[User]:
    """List the users with a role, a limit or notices."""
    return [User(*one) for one in users.ALL.rows(call.tx)]


def must_be_letters(gridpref: str) -> None:
    """BadInput: a letter stands for no permission."""
    if strange := sorted(set(gridpref) - PERMISSIONS.keys()):
        known = ", ".join(f"{letter} ({what})" for letter, what in PERMISSIONS.items())
        rule = f"{', '.join(strange)} is not a known letter"
        raise BadInput([Problem("gridpref", gridpref, rule, f"There are {known}")])


Letters = Annotated[str, Field(max_length=2_000, pattern=r"^[^\x00]*$")]


@operation("user.set", "PUT", "/v1/users/{user}", OPERATOR, dry_run=True)
def change(
    call: Call,
    user: NameText,
    role: Literal["user", "production", "operator"] | None = None,
    gridpref: Annotated[Letters, checked_by(must_be_letters)] | None = None,
    running_jobs: RowId | None = None,
) -> User:
    """Set the role of a user, special permissions, and the limit of running jobs (0: none).
    Omitted arguments change nothing.

    Refused: no operator would be left; BadInput: there is no such letter.
    """
    call.subject = f"user {user}"
    must_be_letters(gridpref or "")
    if role not in (None, "operator"):  # others may do so at this moment
        users.LOCK_OPERATORS.run(call.tx)
        operators.must_be_operator(call.tx, call.who)
        operators.must_leave_one(call.tx, user)
    users.PUT_USER.run(call.tx, user=user, role=role, gridpref=gridpref, cap=running_jobs)
    now = (
        users.role(call.tx, user),
        users.gridpref(call.tx, user),
        users.CAP.row(call.tx, user=user),
    )
    return User(user, *now)
