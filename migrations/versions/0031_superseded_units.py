"""Units whose input is cut again are superseded."""

from __future__ import annotations

from alembic import op

revision = "0031"
down_revision = "0030"


def upgrade() -> None:
    op.execute(
        "ALTER TABLE jedi_units ADD COLUMN superseded text CONSTRAINT jedi_units_superseded_ck "
        "CHECK (superseded IN ('completed', 'failed', 'killed'))"
    )
    op.execute(
        "COMMENT ON COLUMN jedi_units.superseded IS "
        "'its state when its input was cut again for other units; NULL: it counts'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE jedi_units DROP COLUMN superseded")
