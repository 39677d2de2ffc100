"""jedi_audit and jedi_requests: changes that callers of the service made, and what they were
answered."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection

from jedi.core.errors import Refused
from jedi.taskbuffer.db.statement import changes, returns


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A change: when, the user, the way by which he was known, the operation, its object and
    arguments, and the address of the caller."""

    audit_id: int
    time: datetime
    user_name: str
    way: str
    operation: str
    subject: str | None
    arguments: dict[str, Any]
    address: str | None
    request_id: str | None


NOTE = changes("""
-- Note a change, in its own transaction; `arguments` are a JSON object.
INSERT INTO jedi_audit (username, way, operation, subject, arguments, address, request_id)
VALUES (:user, :way, :operation, :subject, CAST(:arguments AS jsonb), :address, :request_id)
""")


_ENTRIES = returns(AuditEntry)("""
SELECT audit_id, creationtime AS time, username, way, operation, subject, arguments,
  address, request_id
FROM jedi_audit
WHERE (CAST(:user AS text) IS NULL OR username = :user)
  AND (CAST(:operation AS text) IS NULL OR operation = :operation)
  AND (CAST(:subject AS text) IS NULL OR subject = :subject OR subject ~ :among)
  AND (CAST(:before AS bigint) IS NULL OR audit_id < :before)
ORDER BY audit_id DESC LIMIT :limit
""")


def entries(
    tx: Connection,
    user_name: str | None,
    operation: str | None,
    subject: str | None,
    before: int | None,
    limit: int,
) -> Sequence[AuditEntry]:
    """Changes, the newest first; None: of all. `before`: older than this entry. `subject`: also as
    one of many that a request changed."""
    kind, _, name = map(re.escape, (subject or "").rpartition(" "))
    values = {
        "user": user_name,
        "operation": operation,
        "subject": subject,
        "before": before,
        "among": f"^{kind} ([^;]*, )?{name}(,|;|$)",
        "limit": limit,
    }
    return _ENTRIES.rows(tx, **values)


_BEGIN = returns(int)("""
INSERT INTO jedi_requests (request_key, digest) VALUES (:key, :digest)
ON CONFLICT DO NOTHING RETURNING 1
""")
_END = changes("UPDATE jedi_requests SET answer = :answer WHERE request_key = :key")


class StoredAnswer(NamedTuple):
    """A request with the answer to it; None: the answer was a secret."""

    digest: str
    answer: str | None


_FOUND = returns(StoredAnswer)("SELECT digest, answer FROM jedi_requests WHERE request_key = :key")


def begin(tx: Connection, user_name: str, key: str, digest: str) -> str | None:
    """Begin a request under a caller's key: None, or the answer that it was given before. Waits
    for the same request in progress. Refused: the key belongs to another request, or the answer was
    a secret, which is kept nowhere."""
    values = {"key": f"{user_name} {key}", "digest": digest}
    if _BEGIN.row(tx, **values):
        return None
    (row,) = _FOUND.rows(tx, **values)
    if row.digest != digest:
        raise Refused(
            "This Idempotency-Key belongs to another request: choose a new one.", code="key_reused"
        )
    if row.answer is None:
        raise Refused(
            "This request was answered before, and its answer is a secret that is kept nowhere: "
            "ask again under another key.",
            code="answer_not_kept",
        )
    return row.answer


def end(tx: Connection, user_name: str, key: str, answer: str | None) -> None:
    """Keep the answer to a request; None: it is a secret."""
    _END.run(tx, key=f"{user_name} {key}", answer=answer)
