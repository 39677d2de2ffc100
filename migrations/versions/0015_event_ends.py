"""Ends of job sets: an index for their consumers, problems of zip files with pieces."""

from __future__ import annotations

from alembic import op

revision = "0015"
down_revision = "0014"

RESULTS = (
    "finished, failed or cancelled, as the pilot reported",
    "finished, failed or cancelled, as the pilot reported; lost: the pilot of a consumer fell "
    "silent",
)
PROBLEM = "missing or broken: a merge job could not read it"


def upgrade() -> None:
    op.execute("ALTER TABLE jedi_event_zips ADD COLUMN problem text")
    op.execute(f"COMMENT ON COLUMN jedi_event_zips.problem IS '{PROBLEM}'")
    op.execute("CREATE INDEX jedi_consumers_jobsetid_ix ON jedi_consumers (jobsetid)")
    results(RESULTS[1])


def downgrade() -> None:
    results(RESULTS[0])
    op.execute("DROP INDEX jedi_consumers_jobsetid_ix")
    op.execute("ALTER TABLE jedi_event_zips DROP COLUMN problem")


def results(meaning: str) -> None:
    for table in ("jedi_jobs", "jedi_jobs_archived"):
        op.execute(f"COMMENT ON COLUMN {table}.pilot_result IS '{meaning}'")
