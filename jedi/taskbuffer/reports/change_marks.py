"""Marks of change: numbers that grow with each change of a kind, read from sequences. A mark may
grow a moment before the change is committed, and without one if it is rolled back."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import returns


@dataclass(frozen=True, slots=True)
class ChangeMarks:
    """The marks of statuses of tasks and of jobs, of brokers' decisions, of knobs, of the audit."""

    tasks: int
    jobs: int
    decisions: int
    knobs: int
    audit: int


_MARKS = returns(ChangeMarks)("""
SELECT t.last_value AS tasks, j.last_value AS jobs, d.last_value AS decisions,
  k.last_value AS knobs, a.last_value AS audit
FROM jedi_tasks_statuslog_log_id_seq t, job_stats_delta_delta_id_seq j,
  jedi_broker_decisions_decision_id_seq d, jedi_knobs_history_change_id_seq k,
  jedi_audit_audit_id_seq a
""")


def change_marks(tx: Connection) -> ChangeMarks:
    """The marks as they are now."""
    [found] = _MARKS.rows(tx)
    return found
