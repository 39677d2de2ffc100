"""Jumbo jobs: an index for those of a task."""

from __future__ import annotations

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX jedi_consumers_jumbo_ix ON jedi_consumers (jeditaskid) WHERE jobsetid IS NULL"
    )


def downgrade() -> None:
    op.execute("DROP INDEX jedi_consumers_jumbo_ix")
