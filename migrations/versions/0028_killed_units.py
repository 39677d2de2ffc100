"""Units of herds that somebody killed; some units of a killed task may be tried again."""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"

OLD = "'aborted>toincexec'::text"
NEW = f"{OLD}, 'aborted>toretry'::text"


def upgrade() -> None:
    op.execute("ALTER TABLE jedi_units ADD COLUMN killed_at timestamptz")
    op.execute(
        "COMMENT ON COLUMN jedi_units.killed_at IS "
        "'time at which somebody killed it; NULL: nobody did, or it was submitted again'"
    )
    guard(OLD, NEW)


def downgrade() -> None:
    guard(NEW, OLD)
    op.execute("ALTER TABLE jedi_units DROP COLUMN killed_at")


def guard(old: str, new: str) -> None:
    """Replace moves in the guard of tasks."""
    query = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'guard_task'"
    definition = op.get_bind().exec_driver_sql(query).scalar_one()
    op.execute("DROP TRIGGER guard_task ON jedi_tasks")
    op.execute(definition.replace(old, new))
