"""The ranges of a job set in the order of their pieces: an index."""

from __future__ import annotations

from alembic import op

revision = "0025"
down_revision = "0024"

_CREATE = "CREATE INDEX jedi_events_jobset_ix ON jedi_events ({}) WHERE jobsetid IS NOT NULL"


def upgrade() -> None:
    _replace("jobsetid, fileid, job_processid")


def downgrade() -> None:
    _replace("jobsetid")


def _replace(columns: str) -> None:
    op.execute("DROP INDEX jedi_events_jobset_ix")
    op.execute(_CREATE.format(columns))
