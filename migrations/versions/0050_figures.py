"""Figures of jobs keep the values that were measured and that failed jobs proved."""

from __future__ import annotations

from alembic import op

revision = "0050"
down_revision = "0049"


def upgrade() -> None:
    op.execute("ALTER TABLE jedi_tasks ADD COLUMN figures jsonb")
    op.execute("COMMENT ON COLUMN jedi_tasks.figures IS 'values of figures, measured and proven'")


def downgrade() -> None:
    op.execute("ALTER TABLE jedi_tasks DROP COLUMN figures")
