"""0.1.0. Makes all tables of an empty database."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = None

SQL = Path(__file__).parent.with_name("sql")


def upgrade() -> None:
    op.execute((SQL / "0.1.0.sql").read_text())
    op.execute((SQL / "0.1.0-moves.sql").read_text())


def downgrade() -> None:
    op.execute((SQL / "0.1.0-down.sql").read_text())
