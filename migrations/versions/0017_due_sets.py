"""Job sets that are due are found by indexes of their own: jobs whose ends no job set knows yet,
sets that wait for a time. Zip files are found by their names."""

from __future__ import annotations

from alembic import op

revision = "0017"
down_revision = "0016"

TO_BOOK = """kind IN ('consumer', 'co_jumbo', 'clone', 'fine')
    AND status IN ('holding', 'finished', 'failed', 'cancelled', 'closed')
    AND booked IS DISTINCT FROM 'ended'
  OR kind = 'es_merge' AND status IN ('finished', 'failed', 'cancelled', 'closed')
    AND booked IS DISTINCT FROM 'ended'
  OR kind = 'clone' AND status IN ('starting', 'running') AND booked IS NULL"""
REPORTED = "pilot_result IS NOT NULL AND postprocessed_at IS NULL"
CONSUMERS = "'consumer', 'co_jumbo', 'jumbo', 'clone', 'fine'"
COMMENTS = (
    ("jedi_jobs.booked", "the part of its life that its job set of events knows: started, ended"),
    (
        "jedi_jobs_archived.booked",
        "the part of its life that its job set of events knows: started, ended",
    ),
    ("jedi_jobs.to_book", "its job set of events has to look at it"),
    (
        "jedi_jobsets.next_look_at",
        "when the EventService looks at it unasked: nobody serves it, and it waits",
    ),
    ("jedi_jobsets.wait_code", "why its merge can''t start"),
    ("jedi_jobsets.wait_reason", "the same in words"),
)


def upgrade() -> None:
    for table in ("jedi_jobs", "jedi_jobs_archived"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN booked text")
    op.execute("""
UPDATE jedi_jobs j SET booked = 'ended'
WHERE EXISTS (SELECT FROM jedi_consumers c WHERE c.pandaid = j.pandaid
    AND c.settled_at IS NOT NULL)
  AND NOT EXISTS (SELECT FROM jedi_jobsets s WHERE s.merge_pandaid = j.pandaid
    AND s.ended_at IS NULL)
  OR kind = 'es_merge' AND status IN ('finished', 'failed', 'cancelled', 'closed')
""")
    op.execute(
        f"ALTER TABLE jedi_jobs ADD COLUMN to_book boolean GENERATED ALWAYS AS ({TO_BOOK}) STORED"
    )
    op.execute("CREATE INDEX jedi_jobs_to_book_ix ON jedi_jobs (pandaid) WHERE to_book")
    op.execute("DROP INDEX jedi_jobs_reported_ix")
    op.execute(
        f"CREATE INDEX jedi_jobs_reported_ix ON jedi_jobs (pandaid) WHERE {REPORTED} "
        f"AND kind NOT IN ({CONSUMERS})"
    )
    op.execute(
        "ALTER TABLE jedi_jobsets ADD COLUMN next_look_at timestamptz, ADD COLUMN wait_code text, "
        "ADD COLUMN wait_reason text"
    )
    # each live set is looked at once
    op.execute("UPDATE jedi_jobsets SET next_look_at = jedi_now() WHERE ended_at IS NULL")
    op.execute(
        "CREATE INDEX jedi_jobsets_look_ix ON jedi_jobsets (next_look_at) "
        "WHERE next_look_at IS NOT NULL"
    )
    op.execute(
        "CREATE INDEX jedi_event_zips_jeditaskid_lfn_ix ON jedi_event_zips (jeditaskid, lfn)"
    )
    for column, meaning in COMMENTS:
        op.execute(f"COMMENT ON COLUMN {column} IS '{meaning}'")


def downgrade() -> None:
    op.execute("DROP INDEX jedi_event_zips_jeditaskid_lfn_ix")
    op.execute(
        "ALTER TABLE jedi_jobsets DROP COLUMN next_look_at, DROP COLUMN wait_code, "
        "DROP COLUMN wait_reason"
    )
    op.execute("DROP INDEX jedi_jobs_reported_ix")
    op.execute(f"CREATE INDEX jedi_jobs_reported_ix ON jedi_jobs (pandaid) WHERE {REPORTED}")
    op.execute("ALTER TABLE jedi_jobs DROP COLUMN to_book")
    for table in ("jedi_jobs", "jedi_jobs_archived"):
        op.execute(f"ALTER TABLE {table} DROP COLUMN booked")
