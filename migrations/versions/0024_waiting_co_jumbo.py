"""Placeholders of co-jumbo jobs: an index for tasks with files that wait for real ones."""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX jedi_datasets_waiting_ix ON jedi_datasets (jeditaskid) "
        "WHERE nfileswaiting > 0"
    )


def downgrade() -> None:
    op.execute("DROP INDEX jedi_datasets_waiting_ix")
