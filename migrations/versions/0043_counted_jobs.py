"""Ended jobs of a task are counted once."""

from __future__ import annotations

from alembic import op

revision = "0043"
down_revision = "0042"

MEANINGS = {
    "counted_upto": "PandaID up to which all jobs have ended and are counted",
    "counted_jobs": "finished and failed jobs up to there",
    "counted_failed": "failed jobs up to there",
}


def upgrade() -> None:
    for name, meaning in MEANINGS.items():
        op.execute(f"ALTER TABLE jedi_tasks ADD COLUMN {name} bigint NOT NULL DEFAULT 0")
        op.execute(f"COMMENT ON COLUMN jedi_tasks.{name} IS '{meaning}'")


def downgrade() -> None:
    for name in MEANINGS:
        op.execute(f"ALTER TABLE jedi_tasks DROP COLUMN {name}")
