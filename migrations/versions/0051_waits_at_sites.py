"""Statistics of jobs know since when there are jobs of each kind."""

from __future__ import annotations

from alembic import op

revision = "0051"
down_revision = "0050"


def upgrade() -> None:
    op.execute("ALTER TABLE job_stats ADD COLUMN since timestamptz")
    op.execute("COMMENT ON COLUMN job_stats.since IS 'time since which there are such jobs'")


def downgrade() -> None:
    op.execute("ALTER TABLE job_stats DROP COLUMN since")
