"""A large input dataset is fed part by part."""

from __future__ import annotations

from alembic import op

revision = "0036"
down_revision = "0035"

MEANING = "the last file that was listed, while later ones are still to be fed"


def upgrade() -> None:
    op.execute("ALTER TABLE jedi_datasets ADD COLUMN fed_upto text")
    op.execute(f"COMMENT ON COLUMN jedi_datasets.fed_upto IS '{MEANING}'")


def downgrade() -> None:
    # a dataset that is fed in part is then looked up as one that grows
    op.execute("ALTER TABLE jedi_datasets DROP COLUMN fed_upto")
