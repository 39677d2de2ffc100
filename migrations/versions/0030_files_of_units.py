"""The files of a unit are found by its number."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX jedi_dataset_contents_unit_ix ON jedi_dataset_contents "
        "(datasetid, boundaryid) WHERE boundaryid IS NOT NULL"
    )


def downgrade() -> None:
    op.execute("DROP INDEX jedi_dataset_contents_unit_ix")
