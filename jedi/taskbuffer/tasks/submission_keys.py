"""The keys of submissions: each belongs to one submission of its user for ever.

Source: docs/reference/ganga.md#submission.
"""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes, returns

_TAKE = returns(bool)("""
INSERT INTO jedi_submission_keys (username, submission_key) VALUES (:user, :key)
ON CONFLICT DO NOTHING RETURNING true
""")


class KeyedTask(NamedTuple):
    """The task that a key belongs to, the attempt that began under it, the status and the number of
    its units; no task: the key was given up before it arrived."""

    jedi_task_id: int | None
    attempt_nr: int
    status: str | None
    n_units: int | None


_OWNER = returns(KeyedTask)("""
SELECT k.jeditaskid, k.attemptnr,
  CASE WHEN k.attemptnr > t.attemptnr THEN 'toincexec' ELSE t.status END AS status, h.n_units
FROM jedi_submission_keys k LEFT JOIN jedi_tasks t USING (jeditaskid)
  LEFT JOIN jedi_herds h USING (jeditaskid)
WHERE k.username = :user AND k.submission_key = :key
""")


def take(tx: Connection, user_name: str, key: str) -> KeyedTask | None:
    """Take a key for ever, in the transaction of the submission: None; else its owner. It waits for
    another transaction that takes the same key."""
    values = {"user": user_name, "key": key}
    if _TAKE.row(tx, **values):
        return None
    return _OWNER.row(tx, **values)


KEEP = changes("""
-- The key that this transaction took belongs to an attempt of a task.
UPDATE jedi_submission_keys SET jeditaskid = :task, attemptnr = :attempt
WHERE username = :user AND submission_key = :key
""")
