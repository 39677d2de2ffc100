"""Every row of a job has a PGI state, whoever writes it; tasks without a job have one, too."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"

TABLES = ("jedi_jobs", "jedi_jobs_archived")
PRE = "'assigned', 'activated', 'throttled'"
AT_WORK = "'sent', 'starting', 'running'"
POST = "'holding', 'transferring', 'merging'"
ENDED = "status IN ('cancelled', 'closed', 'failed', 'finished')"
HELD = f"""
  CASE WHEN hold_kind = 'manual_stage_in' THEN status IN ({PRE})
    WHEN hold_kind = 'manual_stage_out' THEN status IN ({POST})
    WHEN hold_kind = 'failed_recoverable' THEN status IN ({PRE}, {AT_WORK}, {POST})
    WHEN hold_kind = 'user_request' THEN status IN ({PRE}, {AT_WORK}, {POST})
    ELSE false END
"""
CHECKS = {
    "held": f"hold_kind IS NULL OR {HELD}",
    "finished": "status <> 'finished' OR postprocessed_at IS NOT NULL",
    "postprocessed": f"postprocessed_at IS NULL OR {ENDED}",
    "purged": f"purged_at IS NULL OR {ENDED}",
}
MEND = (
    "hold_kind = NULL, hold_reason = NULL, hold_since = NULL, hold_deadline = NULL "
    f"WHERE hold_kind IS NOT NULL AND NOT ({HELD})",
    "postprocessed_at = coalesce(endtime, statechangetime) "
    "WHERE status = 'finished' AND postprocessed_at IS NULL",
    f"postprocessed_at = NULL WHERE postprocessed_at IS NOT NULL AND NOT {ENDED}",
    f"purged_at = NULL WHERE purged_at IS NOT NULL AND NOT {ENDED}",
)
"""Of rows that JEDI never writes, but somebody may have: they would keep the release out."""

INCOMING = "'registered', 'defined', 'assigning', 'topreprocess', 'rerefine'"
OUTGOING = (
    "'ready', 'scouting', 'scouted', 'running', 'prepared', 'aborting', 'toabort', 'finishing', "
    "'preprocessing', 'tobroken', 'toretry', 'toincexec', 'passed', 'toreassign', 'reassigning'"
)
WAITING = "'pending', 'paused', 'throttled', 'exhausted', 'staging', 'staged'"
TASK_STATES = f"""
CREATE VIEW jedi_task_states AS
SELECT t.jeditaskid, t.status,
  CASE WHEN status IN ('aborted', 'failed', 'finished', 'broken') THEN 'Failed-Cancelled'
    WHEN status IN ({INCOMING}, {OUTGOING}, {WAITING}) THEN 'Submitted' END AS pgi_state,
  CASE WHEN status IN ('aborted') THEN 'cancelled'
    WHEN status IN ('failed', 'finished', 'broken') THEN 'failed'
    WHEN status IN ({INCOMING}) THEN 'Incoming'
    WHEN status IN ({OUTGOING}) THEN 'Outgoing'
    WHEN status IN ({WAITING}) THEN 'Waiting' END AS pgi_substate
FROM jedi_tasks t
WHERE t.status <> 'done' AND NOT EXISTS (
  SELECT FROM jedi_jobs j WHERE j.jeditaskid = t.jeditaskid
  UNION ALL SELECT FROM jedi_jobs_archived j WHERE j.jeditaskid = t.jeditaskid)
"""
LOST = "COMMENT ON TABLE jedi_lost_files IS 'outputs that were made and lost{}'"


def upgrade() -> None:
    for table in TABLES:
        for change in MEND:
            op.execute(f"UPDATE {table} SET {change}")
        for name, rule in CHECKS.items():
            op.execute(f"ALTER TABLE {table} ADD CONSTRAINT {table}_{name}_ck CHECK ({rule})")
    op.execute(TASK_STATES)
    op.execute(LOST.format(", which are made again under another name, and logs"))


def downgrade() -> None:
    op.execute(LOST.format(": they are made again under another name"))
    op.execute("DROP VIEW jedi_task_states")
    for table in TABLES:
        for name in CHECKS:
            op.execute(f"ALTER TABLE {table} DROP CONSTRAINT {table}_{name}_ck")
