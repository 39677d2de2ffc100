"""A link begins a session of a browser."""

from __future__ import annotations

from alembic import op

revision = "0040"
down_revision = "0039"


def upgrade() -> None:
    op.execute(
        "COMMENT ON COLUMN jedi_tokens.kind IS 'pilot, user, or link: it begins one session'"
    )


def downgrade() -> None:
    op.execute("DELETE FROM jedi_tokens WHERE kind = 'link'")
    op.execute("COMMENT ON COLUMN jedi_tokens.kind IS 'pilot or user'")
