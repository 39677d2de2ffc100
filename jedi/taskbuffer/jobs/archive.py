"""Ended jobs move to tables of their own, so that those of live jobs stay small.

Queries about jobs that may have ended read both (all_jobs.py). Parameters, output and log of a job
stay where they are, until they are forgotten. The end of a job of the event service is booked by
its job set first.
"""

from __future__ import annotations

from sqlalchemy import Table

from jedi.taskbuffer.db.statement import returns
from jedi.taskbuffer.jobs import archive_groups
from jedi.taskbuffer.schema import tables


def _columns(table: Table) -> str:
    return ", ".join(column.name for column in table.columns)


_JOB, _FILE = _columns(tables.jobs_archived), _columns(tables.job_files)
ARCHIVE_JOBS = returns(int)(f"""
-- Move up to `limit` jobs with ids above `after` that ended longer ago, and their files, to the
-- archive, where they also count in their groups; which.
WITH old AS (
  SELECT pandaid FROM jedi_jobs
  WHERE postprocessed_at < (SELECT jedi_now() - make_interval(secs => :age_s)) AND pandaid > :after
    AND NOT to_book
  ORDER BY pandaid LIMIT :limit FOR UPDATE SKIP LOCKED
), j AS (
  DELETE FROM jedi_jobs WHERE pandaid = ANY(ARRAY(SELECT pandaid FROM old)) RETURNING *
), f AS (
  DELETE FROM jedi_job_files WHERE pandaid = ANY(ARRAY(SELECT pandaid FROM old)) RETURNING *
), jobs AS (INSERT INTO jedi_jobs_archived ({_JOB}) SELECT {_JOB} FROM j),
files AS (INSERT INTO jedi_job_files_archived ({_FILE}) SELECT {_FILE} FROM f),
groups AS ({archive_groups.adding("j")})
SELECT pandaid FROM old
""")
