"""Entries of datasets that no job gets have a row with a reason, and are counted.

One scan of all contents, under a lock that stops all who use them."""

from __future__ import annotations

from alembic import op

revision = "0049"
down_revision = "0048"

STATUSES = (
    "pending,staging,waiting,ready,missing,lost,broken,picked,running,finished,failed,partial,"
    "{more}defined,prepared,merging,nooutput"
)

COMMENTS = {
    "jedi_dataset_contents.reason": "the code of the reason, if no job gets the file",
    "jedi_datasets.nleftout": "files and other entries that no job gets",
    "jedi_datasets.nfiles": "files, or ranges of their events, for jobs",
}


def upgrade() -> None:
    op.execute("ALTER TABLE jedi_datasets ADD nleftout bigint NOT NULL DEFAULT 0")
    op.execute(
        f"{allow('skipped,')}, ADD reason text, "
        "ADD CONSTRAINT jedi_dataset_contents_reason_ck "
        "CHECK ((status = 'skipped') = (reason IS NOT NULL))"
    )
    for column, meaning in COMMENTS.items():
        op.execute(f"COMMENT ON COLUMN {column} IS '{meaning}'")


def downgrade() -> None:
    op.execute("DELETE FROM jedi_dataset_contents WHERE status = 'skipped'")
    op.execute("ALTER TABLE jedi_dataset_contents DROP reason")
    op.execute("ALTER TABLE jedi_datasets DROP nleftout")
    op.execute("COMMENT ON COLUMN jedi_datasets.nfiles IS 'files in the dataset'")
    op.execute(allow(""))


def allow(more: str) -> str:
    """SQL that lets contents have these statuses, too."""
    return (
        "ALTER TABLE jedi_dataset_contents DROP CONSTRAINT jedi_dataset_contents_status_ck, "
        "ADD CONSTRAINT jedi_dataset_contents_status_ck "
        f"CHECK (status = ANY ('{{{STATUSES.format(more=more)}}}'))"
    )
