"""Operators steer the system: sites, storage, links, queues, knobs, retry rules, users, schema."""

from __future__ import annotations

from sqlalchemy import Connection

from jedi.core.errors import Forbidden, Refused
from jedi.taskbuffer.housekeeping import agents
from jedi.taskbuffer.users import users


def must_be_operator(tx: Connection, who: str) -> None:
    """Raise Forbidden, with the names of operators, unless `who` is an operator."""
    there = users.OPERATORS.rows(tx)
    if who in there:
        return
    remedy = (
        f"ask {' or '.join(there)}"
        if there
        else "`jedi up` makes the creator of the home an operator"
    )
    raise Forbidden(
        f"{who} is no operator, and only operators steer JEDI: {remedy}.",
        code="not_operator",
        operators=there,
    )


def make_first_operator(tx: Connection, creator: str) -> None:
    """Make the creator of the home the first operator, unless there is an operator."""
    if not users.OPERATORS.rows(tx):
        users.PUT_USER.run(tx, user=creator, role="operator", gridpref=None, cap=None)


def may_migrate(tx: Connection, who: str) -> None:
    """Raise Forbidden unless `who` is an operator, or there is none yet."""
    if users.OPERATORS.rows(tx):
        must_be_operator(tx, who)


def must_run_no_agents(tx: Connection) -> None:
    """Raise Refused, with their names, while agents run: a migration would change the tables under
    them. Services need no stop: they refuse requests until their release fits."""
    hosts: dict[str, list[str]] = {}
    for agent, address in agents.CONNECTED.rows(tx):
        hosts.setdefault(f"at {address}" if address else "on the database's host", []).append(agent)
    if hosts:
        shown = "; ".join(f"{', '.join(names)} {host}" for host, names in hosts.items())
        raise Refused(
            f"Agents still run: {shown}. Stop them there (`jedi down`, or `systemctl stop "
            "jedi-agents.target jedi-dogs.target`), then try again.",
            code="agents_run",
            hosts=hosts,
        )


def must_leave_one(tx: Connection, user_name: str) -> None:
    """Raise Refused if there is no other operator: then nobody could make one."""
    if users.OPERATORS.rows(tx) == [user_name]:
        raise Refused(
            f"{user_name} is the only operator: make another one first "
            "(`jedi user set NAME --role operator`).",
            code="last_operator",
        )
