"""The audit: changes that callers made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from jedi.service.operations.table import OPERATOR, Call, operation
from jedi.taskbuffer.users import audit
from jedi.taskbuffer.users.audit import AuditEntry


@operation("audit.list", "GET", "/v1/audit", OPERATOR)
def list_audit(
    call: Call,
    user: str | None = None,
    operation: str | None = None,
    subject: str | None = None,
    before: Annotated[int, Field(ge=1, le=2**63 - 1)] | None = None,
    limit: Annotated[int, Field(ge=1, le=10_000)] = 100,
) -> Sequence[AuditEntry]:
    """List changes that callers made, the newest first."""
    return audit.entries(call.tx, user, operation, subject, before, limit)
