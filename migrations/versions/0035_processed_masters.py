"""An idle PostProcessor looks at indexes alone; pages of archived jobs are read in their order."""

from __future__ import annotations

from alembic import op

revision = "0035"
down_revision = "0034"

UNPROCESSED = (
    "masterid IS NULL AND type = ANY ('{input,pseudo_input}'::text[]) "
    "AND (status = ANY ('{defined,toupdate,pending}'::text[]) "
    "OR status = ANY ('{ready,running}'::text[]) "
    "AND nfilesfinished + nfilesfailed + nfilesmissing < nfilestobeused)"
)
_INDEXES = {
    "jedi_datasets_unprocessed_ix": "jedi_datasets (jeditaskid) WHERE unprocessed",
    "jedi_tasks_children_ix": "jedi_tasks (parent_tid) WHERE parent_tid <> jeditaskid",
    "jedi_jobs_archived_jeditaskid_pandaid_ix": "jedi_jobs_archived (jeditaskid, pandaid)",
    "jedi_jobs_archived_unsuccessful_ix": "jedi_jobs_archived (jeditaskid, pandaid) "
    "WHERE status <> 'finished'",
}


def upgrade() -> None:
    op.execute(
        "ALTER TABLE jedi_datasets ADD COLUMN unprocessed boolean "
        f"GENERATED ALWAYS AS ({UNPROCESSED}) STORED"
    )
    meaning = "'a master with files that are not processed, or not fed yet'"
    op.execute(f"COMMENT ON COLUMN jedi_datasets.unprocessed IS {meaning}")
    for name, rows in _INDEXES.items():
        op.execute(f"CREATE INDEX {name} ON {rows}")


def downgrade() -> None:
    for name in _INDEXES:
        op.execute(f"DROP INDEX {name}")
    op.execute("ALTER TABLE jedi_datasets DROP COLUMN unprocessed")
