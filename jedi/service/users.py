"""What operators say of users."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.core.errors import BadInput, Problem
from jedi.spec.priority import PERMISSIONS
from jedi.taskbuffer import users


@dataclass(frozen=True, slots=True)
class User:
    """A user with the role, the special permissions and the most running analysis jobs (None: as
    many as others) there are now."""

    user: str
    role: str
    gridpref: str
    running_jobs: int | None = None


def set_user(
    tx: Connection, user_name: str, role: str | None, gridpref: str | None, cap: int | None = None
) -> User:
    """Give a user a role, special permissions and the most running analysis jobs; None leaves them
    as they are. BadInput: there is no such letter."""
    if strange := sorted(set(gridpref or "") - PERMISSIONS.keys()):
        known = ", ".join(f"{letter} ({what})" for letter, what in PERMISSIONS.items())
        rule = f"{', '.join(strange)} permits nothing"
        raise BadInput([Problem("gridpref", gridpref, rule, f"There are {known}")])
    users.put_user(tx, user_name, role, gridpref, cap)
    return User(
        user_name,
        users.role(tx, user_name),
        users.gridpref(tx, user_name),
        users.cap(tx, user_name),
    )
