"""Room and indexes such that most updates of files and jobs touch no index (HOT); the shape of a
pilot's slot."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"

FILL = {
    "jedi_dataset_contents": ("SET (fillfactor = 80)", 45),
    "jedi_jobs": ("SET (fillfactor = 80)", 45),
    "jedi_job_files": ("RESET (fillfactor)", 45),
}
"""Before, and from now on. A statement moves all jobs of a page: each needs room for a second
version there, until the first is cleared away."""

READY = "jedi_dataset_contents_ready_ix"
LOG = "jedi_jobs_statuslog"


def upgrade() -> None:
    # An index whose predicate reads the status would make each change of it an update of indexes.
    op.execute(
        "ALTER TABLE jedi_dataset_contents ADD COLUMN ready boolean "
        "GENERATED ALWAYS AS (status = 'ready') STORED"
    )
    op.execute("COMMENT ON COLUMN jedi_dataset_contents.ready IS 'the status is ready'")
    op.execute(f"DROP INDEX {READY}")
    op.execute(f"CREATE INDEX {READY} ON jedi_dataset_contents (datasetid, fileid) WHERE ready")
    log_key("pandaid, log_id")
    op.execute(f"DROP INDEX {LOG}_pandaid_ix")
    for table, (_, now) in FILL.items():
        op.execute(f"ALTER TABLE {table} SET (fillfactor = {now})")
    shape = "jedi_pilots.resource_type IS 'the shape of its slot; empty: a whole slot'"
    op.execute("ALTER TABLE jedi_pilots ADD COLUMN resource_type text NOT NULL DEFAULT ''")
    op.execute(f"COMMENT ON COLUMN {shape}")


def downgrade() -> None:
    op.execute("ALTER TABLE jedi_pilots DROP COLUMN resource_type")
    for table, (before, _) in FILL.items():
        op.execute(f"ALTER TABLE {table} {before}")
    op.execute(f"CREATE INDEX {LOG}_pandaid_ix ON {LOG} (pandaid)")
    log_key("log_id")
    op.execute(f"DROP INDEX {READY}")
    op.execute("ALTER TABLE jedi_dataset_contents DROP COLUMN ready")
    op.execute(
        f"CREATE INDEX {READY} ON jedi_dataset_contents (datasetid, fileid) WHERE status = 'ready'"
    )


def log_key(columns: str) -> None:
    """Replace the key of the jobs' status log."""
    op.execute(f"ALTER TABLE {LOG} DROP CONSTRAINT {LOG}_pk")
    op.execute(f"ALTER TABLE {LOG} ADD CONSTRAINT {LOG}_pk PRIMARY KEY ({columns})")
