"""Finished jobs whose results were given up, so that their input is processed again."""

from __future__ import annotations

from alembic import op

revision = "0029"
down_revision = "0028"

ADDED = """
CREATE TABLE jedi_superseded_jobs (pandaid bigint NOT NULL, jeditaskid bigint NOT NULL,
  superseded_at timestamptz DEFAULT jedi_now() NOT NULL,
  CONSTRAINT jedi_superseded_jobs_pk PRIMARY KEY (pandaid));
CREATE INDEX jedi_superseded_jobs_jeditaskid_ix ON jedi_superseded_jobs (jeditaskid);
"""
FOUND = """
INSERT INTO jedi_superseded_jobs (pandaid, jeditaskid)
SELECT DISTINCT f.pandaid, f.jeditaskid
FROM (SELECT pandaid, fileid, jeditaskid, type FROM jedi_job_files UNION ALL
      SELECT pandaid, fileid, jeditaskid, type FROM jedi_job_files_archived) f
  JOIN (SELECT pandaid, status FROM jedi_jobs UNION ALL
        SELECT pandaid, status FROM jedi_jobs_archived) j USING (pandaid)
  JOIN jedi_dataset_contents c ON c.fileid = f.fileid AND c.jeditaskid = f.jeditaskid
  JOIN jedi_lost_files l ON l.fileid = c.fileid AND l.jeditaskid = c.jeditaskid
WHERE f.type = 'output' AND c.type <> 'log' AND j.status = 'finished'
"""
COMMENTS = {
    "TABLE jedi_superseded_jobs": "finished jobs whose results are given up: their input is "
    "processed again",
    "COLUMN jedi_superseded_jobs.pandaid": "the job",
    "COLUMN jedi_superseded_jobs.jeditaskid": "its task",
    "COLUMN jedi_superseded_jobs.superseded_at": "time of the record",
}


def upgrade() -> None:
    op.execute(ADDED)
    op.execute(FOUND)
    for on, meaning in COMMENTS.items():
        op.execute(f"COMMENT ON {on} IS '{meaning}'")


def downgrade() -> None:
    op.execute("DROP TABLE jedi_superseded_jobs")
