"""Live tasks are counted by reason."""

from __future__ import annotations

from alembic import op

revision = "0041"
down_revision = "0040"


def upgrade() -> None:
    op.execute(
        "CREATE INDEX jedi_tasks_reason_ix ON jedi_tasks (status, reason_code, workqueue_id, "
        "statechangetime) WHERE status NOT IN ('aborted', 'broken', 'done', 'failed', 'finished')"
    )


def downgrade() -> None:
    op.execute("DROP INDEX jedi_tasks_reason_ix")
