"""Children that are about to end begin anew when their parent is retried."""

from __future__ import annotations

from alembic import op

revision = "0044"
down_revision = "0043"

# A move of today, and the one that stands behind it from now on.
AFTER = {
    "finishing>passed": "finishing>registered",
    "passed>finished": "passed>registered",
    "prepared>paused": "prepared>registered",
}


def upgrade() -> None:
    guard({f",{old},": f",{old},{new}," for old, new in AFTER.items()})


def downgrade() -> None:
    guard({f",{new},": "," for new in AFTER.values()})


def guard(changes: dict[str, str]) -> None:
    """Replace moves in the guard of tasks."""
    query = "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgname = 'guard_task'"
    definition = op.get_bind().exec_driver_sql(query).scalar_one()
    for old, new in changes.items():
        definition = definition.replace(old, new)
    op.execute("DROP TRIGGER guard_task ON jedi_tasks")
    op.execute(definition)
