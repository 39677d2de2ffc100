"""Room for files that grow: rows of outputs are a third longer at the end of their job."""

from __future__ import annotations

from alembic import op

revision = "0038"
down_revision = "0036"

FILES = "jedi_dataset_contents"


def upgrade() -> None:
    op.execute(f"ALTER TABLE {FILES} SET (fillfactor = 40)")


def downgrade() -> None:
    op.execute(f"ALTER TABLE {FILES} SET (fillfactor = 45)")
