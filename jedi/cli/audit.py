"""`jedi audit`: changes that callers of the service made."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from jedi_client.cli.common import Json, application, service, show, table

audit_app = application("The audit: changes that callers of the service made.")


@audit_app.command("list")
def list_entries(
    user: Annotated[str | None, typer.Option("--user", help="Changes of this user.")] = None,
    operation: Annotated[str | None, typer.Option("--operation", help="Such as task.kill.")] = None,
    subject: Annotated[str | None, typer.Option("--subject", help='Such as "task 17".')] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Most rows.")] = 50,
    as_json: Json = False,
) -> None:
    """List changes, the newest first, with time, user, way of access, operation and address.

    Example: `jedi audit list --user ana --operation task.kill`
    """
    with service() as jedi:
        entries = jedi.audit_list(user=user, operation=operation, subject=subject, limit=limit)
    headers = ["time", "user", "way", "from", "operation", "subject", "arguments"]
    rows = [
        [
            one.time,
            one.user_name,
            one.way,
            one.address,
            one.operation,
            one.subject,
            json.dumps(one.arguments),
        ]
        for one in entries
    ]
    spare, short = ("from", "way", "arguments"), ("arguments", "subject")
    show(entries, as_json, lambda: table(headers, rows, spare=spare, short=short))
