"""Statistics tell when jobs last waited at a site: where none did, none could start."""

from __future__ import annotations

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("""
ALTER TABLE job_stats ADD COLUMN modificationtime timestamptz;
COMMENT ON COLUMN job_stats.modificationtime IS 'when jobs last came to the status, or left it';
ALTER TABLE job_stats_delta
  ADD COLUMN modificationtime timestamptz DEFAULT jedi_now() NOT NULL;
COMMENT ON COLUMN job_stats_delta.modificationtime IS 'when they came, or left'
""")


def downgrade() -> None:
    op.execute("""
ALTER TABLE job_stats DROP COLUMN modificationtime;
ALTER TABLE job_stats_delta DROP COLUMN modificationtime
""")
