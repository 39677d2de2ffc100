"""Cloud WORLD is no place: tasks that name it are the same as those without a cloud."""

from __future__ import annotations

from alembic import op

revision = "0046"
down_revision = "0045"


def upgrade() -> None:
    op.execute("UPDATE jedi_tasks SET cloud = NULL WHERE cloud = 'WORLD'")


def downgrade() -> None:
    """Both mean the same."""
