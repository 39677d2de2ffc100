"""What the whole life of a task needs: more moves, more columns."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"

INPUT_TYPES = (
    "'input', 'pseudo_input', 'random_seed', 'pp_input', 'in_constituent', 'trn_log', 'trn_output'"
)

GUARDS = (
    ("task", "jedi_tasks", ""),
    ("input dataset", "jedi_datasets", " AND OLD.type IN ({types})"),
    ("output dataset", "jedi_datasets", " AND OLD.type NOT IN ({types})"),
    ("input file", "jedi_dataset_contents", " AND OLD.type IN ({types})"),
    ("output file", "jedi_dataset_contents", " AND OLD.type NOT IN ({types})"),
    ("event range", "jedi_events", ""),
    ("job", "jedi_jobs", ""),
)
"""Machine, table, which rows."""

# What a guard lets pass: from a status to any of these; before, and from now on.

# moves: begin
BEFORE = {
    "task": """
aborted > toincexec
aborting > toabort
assigning > aborting exhausted finishing paused ready registered toabort toreassign
defined > aborting assigning exhausted finishing paused pending ready registered toabort
defined > tobroken toreassign
done > registered toincexec
exhausted > aborting finishing paused registered running scouting toabort toincexec
exhausted > toreassign toretry
failed > toincexec toretry
finished > registered toincexec toretry
finishing > aborting passed toabort
passed > aborting done failed finished paused
paused > aborting assigning defined done exhausted failed finished finishing pending
paused > prepared preprocessing ready registered rerefine running scouted scouting staged
paused > staging throttled toabort topreprocess
pending > aborting defined exhausted finishing paused prepared preprocessing ready
pending > registered rerefine running scouting toabort topreprocess toreassign
prepared > done exhausted failed finished paused pending
preprocessing > aborting finishing paused pending prepared registered toabort
ready > aborting defined exhausted finishing paused pending prepared preprocessing
ready > registered running scouting throttled toabort toreassign
reassigning > aborting assigning defined exhausted finishing pending ready running scouted
reassigning > scouting toabort
registered > aborting defined exhausted finishing paused pending staging toabort tobroken
registered > topreprocess
rerefine > aborting defined finishing paused pending prepared ready toabort tobroken
running > aborting defined exhausted finishing paused pending prepared throttled toabort
running > toreassign
scouted > aborting finishing paused running toabort toreassign
scouting > aborting defined exhausted finishing paused pending prepared scouted throttled
scouting > toabort tobroken toreassign
staged > aborting defined finishing paused toabort tobroken topreprocess
staging > aborting finishing paused staged toabort
throttled > aborting finishing paused prepared ready running scouting toabort
toabort > aborted
tobroken > aborting broken
toincexec > aborted aborting done exhausted failed finished finishing rerefine toabort
topreprocess > aborting finishing paused pending preprocessing toabort
toreassign > aborting assigning defined exhausted finishing pending ready reassigning
toreassign > running scouted scouting toabort
toretry > aborting defined exhausted failed finished finishing ready registered toabort
""",
    "input dataset": """
broken > defined toupdate
defined > broken done failed finished pending ready removed running toupdate
done > defined ready removed running toupdate
failed > defined ready removed running toupdate
finished > defined ready removed running toupdate
pending > broken defined done ready running toupdate
ready > broken defined done failed finished pending removed running toupdate
removed > toupdate
running > broken defined done failed finished pending ready removed toupdate
toupdate > broken done failed finished pending ready removed running
""",
    "output dataset": """
defined > prepared ready
done > ready running
failed > ready running
finished > ready running
prepared > done failed finished ready running
ready > prepared running
running > prepared
""",
    "input file": """
broken > pending ready
failed > ready
finished > ready
lost > pending ready
missing > pending ready
partial > failed finished ready running
pending > failed lost missing ready staging
picked > failed ready running
ready > broken failed lost missing picked running waiting
running > broken failed finished lost missing partial ready
staging > failed lost missing pending ready
waiting > failed lost ready
""",
    "output file": """
defined > failed finished prepared running
finished > failed
merging > failed finished prepared
prepared > failed finished merging
running > failed finished prepared
""",
}
AFTER = {
    "task": """
aborted > toincexec
aborting > toabort
assigning > aborting exhausted finishing paused ready toabort toreassign
defined > aborting assigning exhausted finishing paused pending ready toabort tobroken
defined > toreassign
done > registered toincexec toretry
exhausted > aborting finishing paused registered running scouting toabort toincexec
exhausted > toreassign toretry
failed > toincexec toretry
finished > registered toincexec toretry
finishing > aborting passed toabort
passed > aborting done failed finished
paused > aborting assigning defined exhausted finishing pending prepared preprocessing
paused > ready registered rerefine running scouted scouting staged staging throttled
paused > toabort topreprocess
pending > aborting defined exhausted finishing paused preprocessing ready registered
pending > rerefine running scouting toabort topreprocess toreassign
prepared > done exhausted failed finished paused
preprocessing > aborting finishing paused pending prepared registered toabort
ready > aborting defined exhausted finishing paused pending prepared running scouting
ready > throttled toabort toreassign
reassigning > aborting assigning defined exhausted finishing pending ready running scouted
reassigning > scouting toabort
registered > aborting defined exhausted finishing paused pending staging toabort tobroken
registered > topreprocess
rerefine > aborting defined finishing paused pending toabort tobroken
running > aborting defined exhausted finishing paused pending prepared throttled toabort
running > toreassign
scouted > aborting finishing paused running toabort toreassign
scouting > aborting defined exhausted finishing paused pending prepared scouted throttled
scouting > toabort tobroken toreassign
staged > aborting defined finishing paused toabort tobroken topreprocess
staging > aborting finishing paused staged toabort
throttled > aborting finishing paused prepared ready running scouting toabort
toabort > aborted
tobroken > aborting broken
toincexec > aborting finishing rerefine toabort
topreprocess > aborting finishing paused pending preprocessing toabort
toreassign > aborting finishing reassigning toabort
toretry > aborting defined done exhausted failed finished finishing ready registered
toretry > toabort
""",
    "input dataset": """
broken > defined toupdate
defined > broken done pending ready removed running
done > defined ready running toupdate
failed > defined ready running toupdate
finished > defined ready running toupdate
pending > broken done ready removed running
ready > defined done failed finished running toupdate
removed > toupdate
running > broken defined done failed finished ready toupdate
toupdate > broken done pending ready removed running
""",
    "output dataset": """
defined > prepared ready
done > ready
failed > ready
finished > ready
prepared > done failed finished ready
ready > prepared running
running > prepared
""",
    "input file": """
broken > ready
failed > ready
finished > failed ready
lost > ready
missing > ready
pending > failed lost ready staging
ready > failed lost running waiting
running > broken failed finished missing ready
staging > failed lost pending ready
waiting > failed lost ready
""",
    "output file": """
defined > failed finished merging nooutput prepared running
finished > failed
merging > failed finished nooutput prepared
prepared > failed finished
running > failed finished nooutput prepared
""",
}
# moves: end


COLUMNS = (
    (
        "jedi_work_queue",
        "caps",
        "jsonb",
        "limits of the throttler in jobs, by NQUEUELIMIT, NQUEUECAP or NRUNNINGCAP, "
        "with _<resource type> for one alone",
    ),
    ("jedi_commands", "retry_at", "timestamptz", "when it is tried again; NULL: at once"),
    ("jedi_job_params", "texts", "jsonb", "files that the job finds, with their text, by name"),
    ("ddm_files", "boundary", "bigint", "files with the same one belong together"),
    ("ddm_files", "lumiblock", "integer", "the lumi block of its events"),
    ("ddm_replicas", "expires_at", "timestamptz", "until when a copy stays; empty: for good"),
    (
        "jedi_dataset_contents",
        "ramcount",
        "integer",
        "memory that its jobs need if the task asks for less, in the task''s unit",
    ),
    (
        "jedi_tasks",
        "measured_jobs",
        "integer NOT NULL DEFAULT 0",
        "finished jobs when their figures were read last",
    ),
    ("jedi_jobs", "metadata", "jsonb", "what the payload wants to be known"),
    ("jedi_jobs_archived", "metadata", "jsonb", "what the payload wants to be known"),
    (
        "jedi_jobs",
        "hold_next",
        "text",
        "the hold that begins when the payload has ended with success",
    ),
    (
        "jedi_jobs_archived",
        "hold_next",
        "text",
        "the hold that begins when the payload has ended with success",
    ),
    ("jedi_tasks", "period", "text", "how often a periodical task gets a job"),
    ("jedi_tasks", "nextperiod", "timestamptz", "when it gets the next one"),
    ("jedi_sites", "queue", "text", "the batch system''s queue or partition"),
    (
        "jedi_sites",
        "batch",
        "jsonb NOT NULL DEFAULT '{}'::jsonb",
        "how pilots get through the batch system",
    ),
    (
        "jedi_pilots",
        "engine",
        "text NOT NULL DEFAULT 'local'::text",
        "what runs it: local, slurm, ...",
    ),
    ("jedi_pilots", "batch_id", "text", "the batch system''s id of it"),
    (
        "jedi_users",
        "cap_running_jobs",
        "integer",
        "most running analysis jobs; NULL: as the knob says, 0: no limit",
    ),
    (
        "jedi_broker_decisions",
        "used",
        "text[] NOT NULL DEFAULT '{}'::text[]",
        "the sites that the task had jobs at",
    ),
    ("jedi_outbox", "username", "text", "who is told"),
    ("jedi_outbox", "channel", "text", "mail or webhook"),
    ("jedi_outbox", "next_try_at", "timestamptz", "not tried again before; NULL: not tried yet"),
    ("jedi_outbox", "error", "text", "why it could not be delivered last"),
    ("jedi_users", "webhook", "text", "where messages about tasks are posted"),
    ("jedi_users", "webhook_secret", "text", "signs them"),
    (
        "jedi_users",
        "notices",
        "text NOT NULL DEFAULT 'tasks'::text",
        "tasks: told of ends of tasks; jobs: also of jobs",
    ),
)
"""Table, column, type, meaning."""

MEANINGS = (
    (
        "jedi_datasets",
        "containername",
        "the container it came from",
        "the container it came from, or is in",
    ),
    (
        "jedi_datasets",
        "site",
        "the site whose replica is used",
        "the site whose jobs fill it; NULL: any",
    ),
    (
        "jedi_datasets",
        "templateid",
        "the template dataset it came from",
        "the container it was made for",
    ),
    (
        "jedi_network_matrix",
        "key",
        "closeness, <activity>_queued, mbps_1h, ...",
        "closeness, production_queued, express_queued, mbps_1h, mbps_1d, mbps_1w",
    ),
    (
        "jedi_jobs",
        "purged_at",
        "when its sandbox was purged",
        "when its outputs were purged",
    ),
    (
        "jedi_jobs",
        "retention",
        "its sandbox is kept until then",
        "its outputs are kept until then",
    ),
    (
        "jedi_jobs_archived",
        "purged_at",
        "when its sandbox was purged",
        "when its outputs were purged",
    ),
    (
        "jedi_jobs_archived",
        "retention",
        "its sandbox is kept until then",
        "its outputs are kept until then",
    ),
    (
        "jedi_outbox",
        "topic",
        "what it is about",
        "what it is about; a user is told once of each, in each way",
    ),
    (
        "jedi_tasks",
        "throttledtime",
        "when the task''s throttling ends",
        "when the task was throttled last",
    ),
    ("jedi_users", "email", "for notifications", "where mail about tasks goes"),
    ("jedi_pilots", "host", "where it runs", "whose submitter sent it"),
    ("jedi_pilots", "pid", "process id", "process id, if it is local"),
    (
        "jedi_sites",
        "nslots",
        "pilots the local submitter may run at once",
        "pilots the submitter may have at once",
    ),
    (
        "jedi_sites",
        "submitter",
        "who sends pilots: local, none (they come by themselves), ...",
        "what runs pilots: local, slurm, lsf, pbs, htcondor; none: they come by themselves",
    ),
    (
        "jedi_tasks",
        "rescuetime",
        "when a rescue process checked the task",
        "when a dog took the task from a dead process",
    ),
)
"""Table, column, meaning before and from now on."""

TABLES = {
    "jedi_lost_files": """
CREATE TABLE jedi_lost_files (
  jeditaskid bigint NOT NULL, fileid bigint NOT NULL, datasetname text NOT NULL, lfn text NOT NULL,
  creationtime timestamptz NOT NULL DEFAULT jedi_now(), removed_at timestamptz,
  CONSTRAINT jedi_lost_files_pk PRIMARY KEY (jeditaskid, fileid));
CREATE INDEX jedi_lost_files_datasetname_ix ON jedi_lost_files (datasetname);
COMMENT ON TABLE jedi_lost_files
  IS 'outputs that were made and lost: they are made again under another name';
COMMENT ON COLUMN jedi_lost_files.jeditaskid IS 'the task that made it';
COMMENT ON COLUMN jedi_lost_files.fileid IS 'its contents row';
COMMENT ON COLUMN jedi_lost_files.datasetname IS 'the output dataset';
COMMENT ON COLUMN jedi_lost_files.lfn IS 'the logical file name';
COMMENT ON COLUMN jedi_lost_files.creationtime IS 'when it was given up';
COMMENT ON COLUMN jedi_lost_files.removed_at
  IS 'when it was removed from data management, if it was there; NULL: not yet'
""",
    "jedi_queue_shares": """
CREATE TABLE jedi_queue_shares (
  queue_id integer NOT NULL, active boolean NOT NULL, entitlement double precision,
  allocation double precision, usage double precision, demand double precision,
  ratio double precision, place integer NOT NULL, turn integer NOT NULL,
  computed_at timestamptz NOT NULL DEFAULT jedi_now(),
  CONSTRAINT jedi_queue_shares_pk PRIMARY KEY (queue_id));
COMMENT ON TABLE jedi_queue_shares IS 'what work queues use of their shares, as last computed';
COMMENT ON COLUMN jedi_queue_shares.queue_id IS 'the work queue';
COMMENT ON COLUMN jedi_queue_shares.active IS 'it has tasks or jobs';
COMMENT ON COLUMN jedi_queue_shares.entitlement
  IS 'cores by its share alone; NULL: outside the shares';
COMMENT ON COLUMN jedi_queue_shares.allocation IS 'cores that it may use now';
COMMENT ON COLUMN jedi_queue_shares.usage IS 'cores of its jobs at sites';
COMMENT ON COLUMN jedi_queue_shares.demand IS 'cores that it could use';
COMMENT ON COLUMN jedi_queue_shares.ratio
  IS 'usage by allocation; NULL where nothing is allocated';
COMMENT ON COLUMN jedi_queue_shares.place IS 'its place when jobs are dispatched';
COMMENT ON COLUMN jedi_queue_shares.turn
  IS 'its place when jobs are made: that of its partition';
COMMENT ON COLUMN jedi_queue_shares.computed_at IS 'when'
""",
    "jedi_retry_matches": """
CREATE TABLE jedi_retry_matches (
  pandaid bigint NOT NULL, rule_id integer NOT NULL, jeditaskid bigint NOT NULL,
  effect text NOT NULL, creationtime timestamptz NOT NULL DEFAULT jedi_now(),
  settled_at timestamptz,
  CONSTRAINT jedi_retry_matches_pk PRIMARY KEY (pandaid, rule_id));
CREATE INDEX jedi_retry_matches_open_ix ON jedi_retry_matches (jeditaskid)
  WHERE settled_at IS NULL;
COMMENT ON TABLE jedi_retry_matches IS 'retry rules that concerned failed jobs';
COMMENT ON COLUMN jedi_retry_matches.pandaid IS 'the failed job';
COMMENT ON COLUMN jedi_retry_matches.rule_id IS 'the rule that concerns it';
COMMENT ON COLUMN jedi_retry_matches.jeditaskid IS 'the task';
COMMENT ON COLUMN jedi_retry_matches.effect IS 'what became of it, for people';
COMMENT ON COLUMN jedi_retry_matches.creationtime IS 'when';
COMMENT ON COLUMN jedi_retry_matches.settled_at
  IS 'when the task was changed, if it had to be; NULL: not yet'
""",
    "jedi_retry_rules": """
CREATE TABLE jedi_retry_rules (
  rule_id integer NOT NULL, active boolean NOT NULL, error_source text, error_code text,
  exit_code integer, message text, site text, queue_id integer, label text, architecture text,
  release text, action text NOT NULL, attempts integer, description text, username text,
  modificationtime timestamptz NOT NULL DEFAULT jedi_now(),
  CONSTRAINT jedi_retry_rules_pk PRIMARY KEY (rule_id),
  CONSTRAINT jedi_retry_rules_message_ck
    CHECK (message IS NULL OR length(message) <= 256 AND ('' ~ message) IS NOT NULL));
COMMENT ON TABLE jedi_retry_rules
  IS 'what follows from errors of jobs besides another attempt';
COMMENT ON COLUMN jedi_retry_rules.rule_id IS 'order and name';
COMMENT ON COLUMN jedi_retry_rules.active IS 'false: matches are only noted';
COMMENT ON COLUMN jedi_retry_rules.error_source
  IS 'of the jobs that it concerns; NULL, here and below: any';
COMMENT ON COLUMN jedi_retry_rules.error_code IS 'theirs';
COMMENT ON COLUMN jedi_retry_rules.exit_code IS 'theirs';
COMMENT ON COLUMN jedi_retry_rules.message
  IS 'regular expression found in their error_diag';
COMMENT ON COLUMN jedi_retry_rules.site IS 'theirs';
COMMENT ON COLUMN jedi_retry_rules.queue_id IS 'their work queue';
COMMENT ON COLUMN jedi_retry_rules.label IS 'their prodSourceLabel';
COMMENT ON COLUMN jedi_retry_rules.architecture IS 'their task''s';
COMMENT ON COLUMN jedi_retry_rules.release IS 'their task''s transUses';
COMMENT ON COLUMN jedi_retry_rules.action
  IS 'no_retry, limit_retry, increase_memory, ...';
COMMENT ON COLUMN jedi_retry_rules.attempts IS 'limit_retry: attempts of an input';
COMMENT ON COLUMN jedi_retry_rules.description IS 'for people';
COMMENT ON COLUMN jedi_retry_rules.username IS 'who wrote it';
COMMENT ON COLUMN jedi_retry_rules.modificationtime IS 'when';
INSERT INTO jedi_retry_rules (rule_id, active, error_code, action, description)
VALUES (1, true, 'memory_limit', 'increase_memory', 'out of memory: the next jobs get more')
""",
}

INDEXES = {
    "ddm_replicas_expires_at_ix": "ddm_replicas (expires_at) WHERE expires_at IS NOT NULL",
    "jedi_broker_decisions_creationtime_ix": "jedi_broker_decisions (creationtime)",
    "jedi_broker_decisions_snapshot_hash_ix": "jedi_broker_decisions (snapshot_hash)",
    "jedi_jobs_archived_retention_ix": """
jedi_jobs_archived (retention) WHERE retention IS NOT NULL AND purged_at IS NULL
""",
    "jedi_jobs_retention_ix": """
jedi_jobs (retention) WHERE retention IS NOT NULL AND purged_at IS NULL
""",
    "jedi_network_matrix_key_dst_ix": "jedi_network_matrix (key, dst)",
    "jedi_tasks_owner_ix": """
jedi_tasks (gshare, (coalesce(username, '')),
  (currentpriority + CAST(status = 'scouting' AS integer)) DESC, jeditaskid)
  WHERE status IN ('ready', 'scouting', 'running', 'topreprocess', 'preprocessing')
""",
    "jedi_tasks_period_ix": """
jedi_tasks (nextperiod) WHERE period IS NOT NULL AND status IN ('ready', 'running')
""",
    "jedi_tasks_turn_ix": """
jedi_tasks (gshare, (currentpriority + CAST(status = 'scouting' AS integer)) DESC, jeditaskid)
  WHERE status IN ('ready', 'scouting', 'running', 'topreprocess', 'preprocessing')
""",
}


FILE_STATUSES = (
    "'pending', 'staging', 'waiting', 'ready', 'missing', 'lost', 'broken', 'picked', "
    "'running', 'finished', 'failed', 'partial', 'defined', 'prepared', 'merging'"
)
"""Before."""

SUBSTATUSES = (
    "'merge_failed', 'merge_cancelled', 'merge_closed', 'pilot_failed', 'es_heartbeat', "
    "'es_merge_failed', 'es_retry', 'es_merge', 'es_wait', 'es_inaction', 'es_killed', "
    "'es_unused', 'es_aborted'"
)

JOB_STATES = """
CREATE VIEW jedi_job_states AS
SELECT pandaid, jeditaskid, originpandaid, attemptnr, status,
  CASE WHEN purged_at IS NOT NULL AND status IN ('cancelled', 'closed', 'failed', 'finished')
    THEN 'Purged'
    WHEN postprocessed_at IS NOT NULL AND (status = 'finished' OR status = 'failed' AND
      error_source = 'payload') THEN 'Finished'
    WHEN status IN ('finished', 'failed', 'cancelled', 'closed') THEN 'Failed-Cancelled'
    WHEN hold_kind IS NOT NULL AND status IN ('assigned', 'activated', 'throttled', 'sent',
      'starting', 'running', 'holding', 'transferring', 'merging') THEN CASE WHEN status IN
      ('assigned', 'activated', 'throttled') THEN 'Pre-processing-Hold'
    WHEN status IN ('sent', 'starting', 'running') THEN 'Delegated-Hold'
    WHEN status IN ('holding', 'transferring', 'merging') THEN 'Post-processing-Hold' END
    WHEN status IN ('pending', 'waiting', 'defined') THEN 'Submitted'
    WHEN status IN ('assigned', 'activated', 'throttled') THEN 'Pre-processing'
    WHEN status IN ('sent', 'starting', 'running') THEN 'Delegated'
    WHEN status IN ('holding', 'transferring', 'merging') THEN 'Post-processing' END AS pgi_state,
  CASE WHEN purged_at IS NOT NULL AND status IN ('cancelled', 'closed', 'failed', 'finished')
    THEN NULL
    WHEN postprocessed_at IS NOT NULL AND (status = 'finished' OR status = 'failed' AND
      error_source = 'payload') THEN CASE WHEN status IN ('finished') THEN 'success'
    WHEN status IN ('failed') THEN 'error' END
    WHEN status IN ('finished', 'failed') THEN 'failed'
    WHEN status IN ('cancelled') THEN 'cancelled'
    WHEN status IN ('closed') THEN 'closed-by-system'
    WHEN hold_kind IS NOT NULL AND status IN ('assigned', 'activated', 'throttled', 'sent',
      'starting', 'running', 'holding', 'transferring', 'merging') THEN CASE WHEN hold_kind =
      'manual_stage_in' THEN 'Manual-Stage-In'
    WHEN hold_kind = 'manual_stage_out' THEN 'Manual-Stage-Out'
    WHEN hold_kind = 'failed_recoverable' THEN 'Failed-Recoverable'
    WHEN hold_kind = 'user_request' THEN 'User-Request' END
    WHEN status = 'running' AND delegation_kind = 'grid' THEN 'Forwarded'
    WHEN status IN ('pending') THEN 'Incoming'
    WHEN status IN ('waiting') THEN 'Waiting'
    WHEN status IN ('defined') THEN 'Outgoing'
    WHEN status IN ('assigned') THEN 'Automatic-Stage-In'
    WHEN status IN ('activated', 'throttled') THEN 'Outgoing'
    WHEN status IN ('sent', 'starting') THEN 'Incoming'
    WHEN status IN ('running') THEN 'Running'
    WHEN status IN ('holding') THEN 'Incoming'
    WHEN status IN ('transferring') THEN 'Automatic-Stage-Out'
    WHEN status IN ('merging') THEN 'Merging' END AS pgi_substate
FROM (SELECT pandaid, jeditaskid, originpandaid, attemptnr, status, hold_kind,
  delegation_kind, error_source, postprocessed_at, purged_at FROM jedi_jobs UNION ALL SELECT
  pandaid, jeditaskid, originpandaid, attemptnr, status, hold_kind, delegation_kind,
  error_source, postprocessed_at, purged_at FROM jedi_jobs_archived) j
"""

JOB_ALLOCATIONS = """
CREATE VIEW jedi_job_allocations AS
SELECT l.pandaid, l.jeditaskid, r.resource,
  min(l.modificationtime) FILTER (WHERE l.status = ANY (r.allocated)) AS allocated_at,
  min(l.modificationtime) FILTER (WHERE l.status = ANY (r.free)) AS released_at
FROM jedi_jobs_statuslog l, (VALUES
    ('stage_in', ARRAY['assigned', 'activated', 'throttled', 'sent', 'starting', 'running'],
    ARRAY['holding', 'transferring', 'merging', 'finished', 'failed', 'cancelled', 'closed']),
    ('exec_storage', ARRAY['sent', 'starting', 'running'], ARRAY['holding', 'transferring',
    'merging', 'finished', 'failed', 'cancelled', 'closed']), ('compute', ARRAY['sent',
    'starting', 'running'], ARRAY['holding', 'transferring', 'merging', 'finished', 'failed',
    'cancelled', 'closed']), ('stage_out', ARRAY['holding', 'transferring', 'merging'],
    ARRAY['finished', 'failed', 'cancelled', 'closed'])
) r (resource, allocated, free)
GROUP BY l.pandaid, l.jeditaskid, r.resource
HAVING bool_or(l.status = ANY (r.allocated))
"""

# What was not made, as allowed, is not known to the release before.
FAIL_NO_OUTPUT = """
WITH c AS (
  UPDATE jedi_dataset_contents SET status = 'failed' WHERE status = 'nooutput'
  RETURNING datasetid, jeditaskid
)
UPDATE jedi_datasets d SET nfilesfailed = d.nfilesfailed + g.n
FROM (SELECT datasetid, jeditaskid, count(*) AS n FROM c GROUP BY 1, 2) g
WHERE d.datasetid = g.datasetid AND d.jeditaskid = g.jeditaskid
"""


def upgrade() -> None:
    for table, column, kind, meaning in COLUMNS:
        op.execute(f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
        op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{meaning}'")
    for table, column, _, meaning in MEANINGS:
        op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{meaning}'")
    for statements in TABLES.values():
        op.execute(statements)
    for name, what in INDEXES.items():
        op.execute(f"CREATE INDEX {name} ON {what}")
    op.execute(
        "ALTER TABLE jedi_jobs ADD CONSTRAINT jedi_jobs_substatus_ck "
        f"CHECK (substatus IN ({SUBSTATUSES}))"
    )
    op.execute(
        "ALTER TABLE jedi_outbox ADD CONSTRAINT jedi_outbox_topic_uq "
        "UNIQUE (topic, username, channel)"
    )
    op.execute(
        "ALTER TABLE jedi_users ADD CONSTRAINT jedi_users_notices_ck "
        "CHECK (notices IN ('tasks', 'jobs'))"
    )
    parent = "CONSTRAINT jedi_tasks_parent_ck CHECK (parent_tid <= jeditaskid)"
    op.execute(f"ALTER TABLE jedi_tasks ADD {parent}")
    guard(AFTER, INPUT_TYPES)
    file_statuses(f"{FILE_STATUSES}, 'nooutput'")
    op.execute(JOB_STATES)
    op.execute(JOB_ALLOCATIONS)


def downgrade() -> None:
    op.execute("DROP VIEW jedi_job_allocations")
    op.execute("DROP VIEW jedi_job_states")
    op.execute("ALTER TABLE jedi_jobs DROP CONSTRAINT jedi_jobs_substatus_ck")
    op.execute("ALTER TABLE jedi_dataset_contents DISABLE TRIGGER guard_output_file")
    op.execute(FAIL_NO_OUTPUT)
    file_statuses(FILE_STATUSES)
    op.execute("ALTER TABLE jedi_tasks DROP CONSTRAINT jedi_tasks_parent_ck")
    guard(BEFORE, f"{INPUT_TYPES}, 'lib'")
    for name in INDEXES:
        op.execute(f"DROP INDEX {name}")
    for name in TABLES:
        op.execute(f"DROP TABLE {name}")
    for table, column, meaning, _ in MEANINGS:
        op.execute(f"COMMENT ON COLUMN {table}.{column} IS '{meaning}'")
    for table, column, _, _ in reversed(COLUMNS):
        op.execute(f"ALTER TABLE {table} DROP COLUMN {column}")


def file_statuses(statuses: str) -> None:
    """Replace the list of statuses that files may have."""
    name = "jedi_dataset_contents_status_ck"
    op.execute(f"ALTER TABLE jedi_dataset_contents DROP CONSTRAINT {name}")
    op.execute(
        f"ALTER TABLE jedi_dataset_contents ADD CONSTRAINT {name} CHECK (status IN ({statuses}))"
    )


def guard(moves: dict[str, str], types: str) -> None:
    """Replace the guards of these machines; `types` are those of inputs."""
    for name, table, rows in GUARDS:
        if name in moves:
            trigger = f"guard_{name.replace(' ', '_')}"
            op.execute(f"DROP TRIGGER {trigger} ON {table}")
            op.execute(
                f"CREATE TRIGGER {trigger} BEFORE UPDATE OF status ON {table} "
                f"FOR EACH ROW WHEN (OLD.status <> NEW.status{rows.format(types=types)} "
                f"AND OLD.status || '>' || NEW.status NOT IN ({allowed(moves[name])})) "
                f"EXECUTE FUNCTION jedi_refuse_move('{name}')"
            )


def allowed(moves: str) -> str:
    lines = [line.split(" > ") for line in moves.strip().splitlines()]
    return ", ".join(f"'{a}>{b}'" for a, targets in lines for b in targets.split())
