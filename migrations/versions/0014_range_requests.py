"""The last ask of a consumer for ranges: a repeated one gets the same ranges."""

from __future__ import annotations

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.execute("ALTER TABLE jedi_consumers ADD COLUMN request_id text")
    op.execute(
        "COMMENT ON COLUMN jedi_consumers.request_id IS 'its last ask for ranges that was answered'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE jedi_consumers DROP COLUMN request_id")
