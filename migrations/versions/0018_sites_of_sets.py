"""Job sets remember the sites that the broker found for their consumers."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.execute("ALTER TABLE jedi_jobsets ADD COLUMN sites jsonb")
    op.execute(
        "COMMENT ON COLUMN jedi_jobsets.sites IS 'sites for its consumers, best first; NULL: "
        "those where it has some'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE jedi_jobsets DROP COLUMN sites")
