"""The audit: changes that callers made."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any

from pydantic import Field

from jedi.monitor.filters import query
from jedi.monitor.sheets import Column, Sheet
from jedi.monitor.table import Ask, View, page
from jedi.service.operations.arguments import NameText

PAGE = 50
"""Rows of a page."""

_PLACES = {"task": "/tasks/", "job": "/jobs/", "site": "/sites/"}
_ONE = re.compile(r"(task|job|site) ([^\s,;]+)")


def _object(row: Any) -> str | None:
    """The page of the one object that a change names."""
    found = _ONE.fullmatch(row["subject"] or "")
    return _PLACES[found[1]] + found[2] if found else None


COLUMNS = (
    Column("audit_id", "Entry", "id", wide=True),
    Column("time", "Time", "time"),
    Column("user_name", "User", link=lambda row: "/audit" + query({"user": row["user_name"]})),
    Column("way", "Way", wide=True),
    Column(
        "operation",
        "Operation",
        "code",
        link=lambda row: "/audit" + query({"operation": row["operation"]}),
    ),
    Column("subject", "Object", link=_object),
    Column("arguments", "Arguments", wide=True),
    Column("address", "Address", "id", wide=True),
    Column("request_id", "Request", "id", wide=True),
)


@page("audit", "/audit", menu="Audit", topics=("audit",), operators=True)
def audit(
    ask: Ask,
    user: NameText | None = None,
    operation: NameText | None = None,
    subject: NameText | None = None,
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None,
) -> View:
    """Changes that callers of the service made, the newest first."""
    found = ask(
        "audit.list", user=user, operation=operation, subject=subject, before=before, limit=PAGE + 1
    )
    given = {"user": user, "operation": operation, "subject": subject}
    rows = [
        {
            **{one: getattr(row, one) for one in row.__slots__},
            "arguments": json.dumps(row.arguments, ensure_ascii=False) if row.arguments else "",
        }
        for row in found[:PAGE]
    ]
    more = query(given, before=rows[-1]["audit_id"]) if len(found) > PAGE else None
    sheet = Sheet(
        "audit",
        "Changes",
        COLUMNS,
        rows,
        "audit_id",
        more,
        empty="No change meets these conditions.",
    )
    return View("Audit", {"filters": given}, (sheet,))
