"""Operators change something: JEDI checks what waited for that again, at once.

A waker waits for writers that hold the rows. Both lock in one order, so that no deadlock is
possible: first sites, endpoints, links, queues or knobs by their keys, then tasks by id.
Results of jobs come last, and rows that another transaction holds are skipped."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from jedi.core.holds import BY_REASON
from jedi.taskbuffer.db.engine import KNOBS, wake
from jedi.taskbuffer.db.sql_lists import TASK_FINAL
from jedi.taskbuffer.db.statement import changes

_TASKS = changes(f"""
UPDATE jedi_tasks SET next_run_at = statechangetime WHERE jeditaskid = ANY(ARRAY(
  SELECT jeditaskid FROM jedi_tasks
  WHERE status NOT IN ({TASK_FINAL}) AND (
    (status = 'pending' OR next_run_at > jedi_now())
      AND (CAST(:codes AS text[]) IS NULL OR reason_code = ANY(:codes))
    -- an agent thinks about it, and may have read the state of before
    OR lease_until IS NOT NULL)
  ORDER BY jeditaskid FOR NO KEY UPDATE))
""")
_RESULTS = changes("""
UPDATE jedi_jobs SET hold_deadline = jedi_now() WHERE pandaid = ANY(ARRAY(
  SELECT pandaid FROM jedi_jobs
  WHERE pilot_result IS NOT NULL AND postprocessed_at IS NULL AND status = 'holding'
    AND hold_kind = 'failed_recoverable' AND hold_deadline > jedi_now()
  ORDER BY pandaid FOR NO KEY UPDATE SKIP LOCKED))
""")


def _waiting_for(*holds: str) -> list[str]:
    return [code for code, hold in BY_REASON.items() if hold in holds]


_UNBROKERED = _waiting_for("brokerage", "nucleus", "build")
_THROTTLED = _waiting_for("throttler")


def wake_unbrokered(tx: Connection) -> None:
    """Sites, storage or links have changed: tasks for which there was no site need wait no
    longer."""
    _tasks(tx, _UNBROKERED)


def wake_throttled(tx: Connection) -> None:
    """Work queues have changed: tasks that theirs held back need wait no longer."""
    _tasks(tx, _THROTTLED)


def wake_all(tx: Connection) -> None:
    """Knobs have changed, which decide how long is waited and for what: no task is put off any
    longer, results that could not be stored are tried again, every agent looks at the knobs. Those
    that are somewhere else at this moment hear it by their next poll."""
    _tasks(tx, None)
    _RESULTS.run(tx)
    wake(tx, KNOBS)


def _tasks(tx: Connection, codes: Collection[str] | None) -> None:
    _TASKS.run(tx, codes=None if codes is None else list(codes))
