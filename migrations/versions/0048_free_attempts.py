"""Attempts do not count against maxattempt if their ends are nobody's fault."""

from __future__ import annotations

from alembic import op

revision = "0048"
down_revision = "0047"

COLUMNS = {
    "jedi_dataset_contents": {
        "freeattempt": "attempts that are nobody's fault",
        "freeinrow": "the last of them in a row",
    },
    "jedi_consumers": {
        "freeinrow": "consumers before it in a row that used up no attempt, since their ends were "
        "nobody's fault",
    },
}


def upgrade() -> None:
    for table, columns in COLUMNS.items():
        for name, meaning in columns.items():
            op.execute(f"ALTER TABLE {table} ADD COLUMN {name} smallint NOT NULL DEFAULT 0")
            op.execute(f"COMMENT ON COLUMN {table}.{name} IS $${meaning}$$")


def downgrade() -> None:
    for table, columns in COLUMNS.items():
        for name in columns:
            op.execute(f"ALTER TABLE {table} DROP COLUMN {name}")
