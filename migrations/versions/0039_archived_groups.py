"""Archived jobs are counted in groups; pages of live jobs, and of a user's, are read in order."""

from __future__ import annotations

from alembic import op

revision = "0039"
down_revision = "0038"

TABLE = """
CREATE TABLE job_stats_archived (jeditaskid bigint NOT NULL, kind text NOT NULL, status text NOT
  NULL, site text NOT NULL, is_first boolean NOT NULL, cause JSONB NOT NULL, jobs bigint DEFAULT 0
  NOT NULL, purged bigint DEFAULT 0 NOT NULL, limited boolean NOT NULL, walltime_s integer NOT NULL,
  memory_mb integer NOT NULL, disk_mb integer NOT NULL, wall_s double precision, used_memory_kb
  bigint, used_disk_kb bigint, last_job bigint NOT NULL,
  first_seen timestamptz, last_seen timestamptz, CONSTRAINT job_stats_archived_pk PRIMARY
  KEY (jeditaskid, kind, status, site, is_first, cause));
INSERT INTO job_stats_archived
SELECT jeditaskid, kind, status, site, attemptnr = 1, CASE status WHEN 'failed' THEN
  jsonb_build_array(error_code, error_source, exit_code) ELSE '[]' END, count(*), count(purged_at),
  bool_or(retention IS NOT NULL OR purged_at IS NOT NULL), max(walltime_s), max(memory_mb),
  max(disk_mb), max(wall_s), max(coalesce(max_pss_kb, max_rss_kb)), max(workdir_kb), max(pandaid),
  min(statechangetime), max(statechangetime)
FROM jedi_jobs_archived GROUP BY 1, 2, 3, 4, 5, 6
"""
COMMENTS = {
    "TABLE job_stats_archived": "the archived jobs of tasks in groups, "
    "so that nobody has to read all of them",
    "COLUMN job_stats_archived.jeditaskid": "the task",
    "COLUMN job_stats_archived.kind": "the jobs'' work",
    "COLUMN job_stats_archived.status": "the jobs'' status",
    "COLUMN job_stats_archived.site": "the jobs'' site",
    "COLUMN job_stats_archived.is_first": "first attempts",
    "COLUMN job_stats_archived.cause": "error code, error source and exit code "
    "of failed jobs; empty: of others",
    "COLUMN job_stats_archived.jobs": "number of jobs",
    "COLUMN job_stats_archived.purged": "number of jobs whose outputs are purged",
    "COLUMN job_stats_archived.limited": "outputs of some of the jobs "
    "are purged or have a last day",
    "COLUMN job_stats_archived.walltime_s": "largest wall time asked in seconds",
    "COLUMN job_stats_archived.memory_mb": "largest memory asked in MB",
    "COLUMN job_stats_archived.disk_mb": "largest disk asked in MB",
    "COLUMN job_stats_archived.wall_s": "longest payload in wall seconds",
    "COLUMN job_stats_archived.used_memory_kb": "largest memory of payloads in kB",
    "COLUMN job_stats_archived.used_disk_kb": "largest work directory in kB",
    "COLUMN job_stats_archived.last_job": "the largest id of the jobs",
    "COLUMN job_stats_archived.first_seen": "when the first of them reached its status",
    "COLUMN job_stats_archived.last_seen": "when the last of them reached its status",
}
_NEW = {
    "jedi_jobs_ended_ix": "jedi_jobs (jeditaskid, pandaid) WHERE postprocessed_at IS NOT NULL",
    "jedi_jobs_archived_username_pandaid_ix": "jedi_jobs_archived (username, pandaid)",
    "jedi_jobs_archived_users_unsuccessful_ix": "jedi_jobs_archived (username, pandaid) "
    "WHERE status <> 'finished'",
    "jedi_jobs_archived_leaving_ix": "jedi_jobs_archived (jeditaskid) "
    "WHERE retention IS NOT NULL AND purged_at IS NULL",
}
_LIVE = "CREATE INDEX jedi_jobs_live_ix ON jedi_jobs ({}) WHERE postprocessed_at IS NULL"
_CHILDREN = "CREATE INDEX jedi_tasks_children_ix ON jedi_tasks (parent_tid) WHERE {}"
_CHILD = "parent_tid <> jeditaskid"
_AT_WORK = "status NOT IN ('aborted', 'broken', 'done', 'failed', 'finished')"


def upgrade() -> None:
    for statement in TABLE.split(";"):
        op.execute(statement)
    for subject, meaning in COMMENTS.items():
        op.execute(f"COMMENT ON {subject} IS '{meaning}'")
    for name, rows in _NEW.items():
        op.execute(f"CREATE INDEX {name} ON {rows}")
    op.execute("DROP INDEX jedi_jobs_live_ix")
    op.execute(_LIVE.format("jeditaskid, pandaid"))
    op.execute("DROP INDEX jedi_tasks_children_ix")
    op.execute(_CHILDREN.format(f"{_CHILD} AND {_AT_WORK}"))


def downgrade() -> None:
    op.execute("DROP INDEX jedi_tasks_children_ix")
    op.execute(_CHILDREN.format(_CHILD))
    op.execute("DROP INDEX jedi_jobs_live_ix")
    op.execute(_LIVE.format("jeditaskid"))
    for name in _NEW:
        op.execute(f"DROP INDEX {name}")
    op.execute("DROP TABLE job_stats_archived")
