"""The originator of a herd stands in jedi_herds, not in jedi_tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"


def upgrade() -> None:
    op.drop_column("jedi_tasks", "origin_pandaid")


def downgrade() -> None:
    op.add_column("jedi_tasks", sa.Column("origin_pandaid", sa.BigInteger))
