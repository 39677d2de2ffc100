"""Problems of zip files of events: each merge job has its own."""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"


def upgrade() -> None:
    op.execute("ALTER TABLE jedi_event_zips DROP COLUMN problem, ADD COLUMN problems jsonb")
    op.execute(
        "COMMENT ON COLUMN jedi_event_zips.problems IS 'missing or broken, by the PandaID of the "
        "merge job that could not read it'"
    )


def downgrade() -> None:
    op.execute("ALTER TABLE jedi_event_zips DROP COLUMN problems, ADD COLUMN problem text")
    op.execute(
        "COMMENT ON COLUMN jedi_event_zips.problem IS 'missing or broken: a merge job could not "
        "read it'"
    )
