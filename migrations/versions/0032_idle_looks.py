"""Indexes of the few tasks and datasets that idle agents look for."""

from __future__ import annotations

from alembic import op

revision = "0032"
down_revision = "0031"

_INDEXES = {
    "jedi_datasets_wanting_ix": "jedi_datasets (jeditaskid) WHERE masterid IS NULL "
    "AND status IN ('ready', 'running') AND nfilestobeused > (nfilesused + nfilesmissing)",
    "jedi_datasets_open_ix": "jedi_datasets (statechecktime) "
    "WHERE type = 'input' AND status = 'running' AND datasetid > 0",
    "jedi_tasks_merging_ix": "jedi_tasks (status) "
    """WHERE rules @> '{"merge_output": true}'::jsonb""",
}


def upgrade() -> None:
    for name, rows in _INDEXES.items():
        op.execute(f"CREATE INDEX {name} ON {rows}")


def downgrade() -> None:
    for name in _INDEXES:
        op.execute(f"DROP INDEX {name}")
