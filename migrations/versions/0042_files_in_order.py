"""Pages of a dataset's files are read in the order of the files."""

from __future__ import annotations

from alembic import op

revision = "0042"
down_revision = "0041"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX jedi_dataset_contents_datasetid_fileid_ix "
        "ON jedi_dataset_contents (datasetid, fileid)"
    )
    op.execute("DROP INDEX jedi_dataset_contents_datasetid_ix")


def downgrade() -> None:
    op.execute(
        "CREATE INDEX jedi_dataset_contents_datasetid_ix ON jedi_dataset_contents (datasetid)"
    )
    op.execute("DROP INDEX jedi_dataset_contents_datasetid_fileid_ix")
