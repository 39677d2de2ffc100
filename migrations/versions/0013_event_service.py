"""The event service: ranges of job sets, job sets, consumers, zip files of pieces; kinds, moves and
sub-statuses of their jobs."""

from __future__ import annotations

from alembic import op

revision = "0013"
down_revision = "0012"

# What the guard of ranges lets pass, usual moves first; before, and from now on.
RANGE_BEFORE = """
10>0 6>10 6>5 6>9 7>4 7>8 7>0 3>5 3>6 0>4 0>6 0>7 0>8 0>3 0>1 2>4 2>7 2>3 2>0 1>4 1>7 1>3 1>0 1>2
"""
RANGE = """
0>6 0>1 1>3 3>6 6>9 10>4 6>10 6>5 7>4 7>8 3>5 0>4 0>7 0>8 0>3 2>4 2>7 2>3 2>0 1>4 1>7 1>0 1>2
"""
# From a status of jobs to any of these, likewise.
JOB_BEFORE = """
activated > cancelled closed failed sent throttled
assigned > activated cancelled closed failed
defined > activated assigned cancelled closed failed
holding > cancelled closed failed finished merging transferring
merging > cancelled closed failed finished
pending > activated assigned cancelled closed defined failed
running > cancelled closed failed holding
sent > cancelled closed failed holding running starting
starting > cancelled closed failed holding running
throttled > activated cancelled closed failed
transferring > cancelled closed failed finished merging
waiting > cancelled closed defined failed finished
"""
JOB = JOB_BEFORE.replace("waiting > ", "waiting > activated assigned ")
MAY_MOVE = """
CREATE OR REPLACE FUNCTION jedi_job_may_move(before text, after text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  RETURN before || '>' || after IN ({allowed});
END $$
"""
SUBSTATES_BEFORE = (
    "'merge_failed', 'merge_cancelled', 'merge_closed', 'pilot_failed', 'es_heartbeat', "
    "'es_merge_failed', 'es_retry', 'es_merge', 'es_wait', 'es_inaction', 'es_killed', "
    "'es_unused', 'es_aborted'"
)
NEW = "'es_noevent', 'es_badstatus', 'jc_unlock'"
SUBSTATES = SUBSTATES_BEFORE.replace("'es_killed'", f"{NEW}, 'es_killed'")
KINDS = (
    "normal, scout, merge, build, preprocess",
    "the job's work: normal, scout, merge, build, preprocess, es_merge, consumer, "
    "co_jumbo, jumbo, clone, fine",
)

EVENT_COMMENTS = {
    "pandaid": (
        "the job that processes the range",
        "the job that processes the range; the job set until a consumer gets it",
    ),
    "job_processid": (
        "the worker process; 0: the job's only one",
        "number of the range's first event, from 1 on; 0: a range of an ordinary job",
    ),
    "def_min_eventid": (
        "first event of the range",
        "first event of the range: an ordinary job's is counted from 0 in the file, an "
        "event service's is the number that payloads get",
    ),
    "attemptnr": (
        "attempts",
        "attempts: those so far of an ordinary job's range, those left of an event service's",
    ),
    "objstore_id": (
        "endpoint of the pre-merged file",
        "number of the endpoint of its piece, as pilots of PanDA report it",
    ),
    "event_offset": (
        "events before the first one of the file",
        "events before the first one of the file, as events are numbered",
    ),
    "ziprow_id": (
        "row of the zip file",
        "the zip file (jedi_event_zips) with its piece; NULL: it is not zipped",
    ),
    "file_not_deleted": (
        "Y if pre-merged files can be deleted",
        "Y if its piece can be deleted",
    ),
    "path_convention": (
        "how the file's path is made",
        "how the path of its piece is made",
    ),
}
"""Comments of columns of jedi_events: before, and from now on."""

COMMENTS = {
    "jedi_events": {
        "jobsetid": "the job set of the range; NULL: an ordinary job's",
        "endpoint": "the endpoint of its piece; NULL: it is in a zip file, or not made",
        "error_diag": "error of the range in words",
        "ready": "a consumer may get it",
    },
    "jedi_jobsets": {
        "jobsetid": "the job set: the PandaID of its first merge job",
        "jeditaskid": "the task",
        "merge_pandaid": "the job with the inputs and outputs: it waits for the ranges",
        "mode": "es, cloning or fine",
        "clone": "runonce or storeonce; NULL: no cloning",
        "n_ranges": "ranges cut from its inputs",
        "n_consumers": "consumers made so far",
        "n_merges": "merge jobs made so far",
        "attempts_left": "consumers that may still follow those that fail",
        "jumbo": "jumbo jobs may process its ranges",
        "priority": "priority of its next consumer",
        "gshare": "global share of its consumers",
        "resource_type": "shape of its consumers",
        "cores": "cores that a consumer asks",
        "memory_mb": "memory that a consumer asks in MB; 0: no limit",
        "walltime_s": "wall time that a consumer asks in seconds; 0: no limit",
        "disk_mb": "disk that a consumer asks in MB; 0: no limit",
        "command": "the consumers' command; $PANDAID stands for the consumer's number",
        "texts": "files that consumers find, with their text, by name",
        "creationtime": "when it was made",
        "ended_at": "when its merge job ended for good",
    },
    "jedi_consumers": {
        "pandaid": "the job",
        "jeditaskid": "the task",
        "jobsetid": "its job set; NULL: any of the task (jumbo)",
        "kind": "consumer, clone, co_jumbo, jumbo or fine",
        "number": "its number within the job set, from 1 on",
        "settled_at": "when the effects of its end on ranges were booked",
    },
    "jedi_event_zips": {
        "ziprow_id": "the zip file",
        "jeditaskid": "the task",
        "jobsetid": "its job set; NULL: of several (jumbo)",
        "pandaid": "the consumer that made it",
        "lfn": "its name",
        "endpoint": "where it lies",
        "fsize": "size in bytes",
        "checksum": "adler32",
        "n_events": "events in it, as reported",
        "path_convention": "how its path is made",
        "creationtime": "when it was reported",
    },
}
"""Comments of new columns."""
TABLE_COMMENTS = {
    "jedi_jobsets": "units of work that consumers share and one job merges",
    "jedi_consumers": "jobs that process ranges of events",
    "jedi_event_zips": "zip files with pieces: what consumers made of ranges",
}

ADDED = """
ALTER TABLE jedi_events ADD COLUMN jobsetid bigint, ADD COLUMN endpoint text,
  ADD COLUMN error_diag text,
  ADD COLUMN ready boolean GENERATED ALWAYS AS (status = 0 AND jobsetid IS NOT NULL) STORED;
DROP INDEX jedi_events_pandaid_ix;
CREATE INDEX jedi_events_jobset_ix ON jedi_events (jobsetid) WHERE jobsetid IS NOT NULL;
CREATE INDEX jedi_events_pandaid_ix ON jedi_events (pandaid) WHERE job_processid = 0;
CREATE INDEX jedi_events_ready_ix ON jedi_events (jeditaskid, jobsetid, fileid, job_processid)
  WHERE ready;
CREATE SEQUENCE jedi_ziprow_id_seq;
CREATE TABLE jedi_jobsets (
  jobsetid bigint NOT NULL, jeditaskid bigint NOT NULL, merge_pandaid bigint NOT NULL, mode
  text NOT NULL, clone text, n_ranges integer NOT NULL, n_consumers integer NOT NULL, n_merges
  integer NOT NULL, attempts_left integer NOT NULL, jumbo boolean NOT NULL, priority integer
  NOT NULL, gshare text NOT NULL, resource_type text NOT NULL, cores integer NOT NULL,
  memory_mb integer NOT NULL, walltime_s integer NOT NULL, disk_mb integer NOT NULL, command
  text NOT NULL, texts jsonb, creationtime timestamptz DEFAULT jedi_now() NOT NULL, ended_at
  timestamptz, CONSTRAINT jedi_jobsets_pk PRIMARY KEY (jobsetid), CONSTRAINT
  jedi_jobsets_mode_ck CHECK (mode IN ('es', 'cloning', 'fine')), CONSTRAINT
  jedi_jobsets_clone_ck CHECK (clone IN ('runonce', 'storeonce')));
CREATE INDEX jedi_jobsets_jeditaskid_ix ON jedi_jobsets (jeditaskid);
CREATE INDEX jedi_jobsets_live_ix ON jedi_jobsets (jobsetid) WHERE ended_at IS NULL;
CREATE INDEX jedi_jobsets_merge_pandaid_ix ON jedi_jobsets (merge_pandaid);
CREATE TABLE jedi_consumers (
  pandaid bigint NOT NULL, jeditaskid bigint NOT NULL, jobsetid bigint, kind text NOT NULL,
  number integer NOT NULL, settled_at timestamptz, CONSTRAINT jedi_consumers_pk PRIMARY KEY
  (pandaid));
CREATE INDEX jedi_consumers_jeditaskid_ix ON jedi_consumers (jeditaskid);
CREATE INDEX jedi_consumers_live_ix ON jedi_consumers (jobsetid) WHERE settled_at IS NULL;
CREATE TABLE jedi_event_zips (
  ziprow_id bigint DEFAULT nextval('jedi_ziprow_id_seq') NOT NULL, jeditaskid bigint NOT NULL,
  jobsetid bigint, pandaid bigint NOT NULL, lfn text NOT NULL, endpoint text NOT NULL, fsize
  bigint, checksum text, n_events bigint DEFAULT 0 NOT NULL, path_convention smallint,
  creationtime timestamptz DEFAULT jedi_now() NOT NULL, CONSTRAINT jedi_event_zips_pk PRIMARY
  KEY (ziprow_id), CONSTRAINT jedi_event_zips_pandaid_uq UNIQUE (pandaid, lfn));
CREATE INDEX jedi_event_zips_jobsetid_ix ON jedi_event_zips (jobsetid);
"""
REMOVED = """
DROP TABLE jedi_event_zips;
DROP TABLE jedi_consumers;
DROP TABLE jedi_jobsets;
DROP SEQUENCE jedi_ziprow_id_seq;
DROP INDEX jedi_events_jobset_ix;
DROP INDEX jedi_events_ready_ix;
DROP INDEX jedi_events_pandaid_ix;
ALTER TABLE jedi_events DROP COLUMN ready, DROP COLUMN error_diag, DROP COLUMN endpoint,
  DROP COLUMN jobsetid;
CREATE INDEX jedi_events_pandaid_ix ON jedi_events (pandaid);
"""


def upgrade() -> None:
    op.execute(ADDED)
    for table, columns in COMMENTS.items():
        for column, meaning in columns.items():
            comment(f"COLUMN {table}.{column}", meaning)
    for table, meaning in TABLE_COMMENTS.items():
        comment(f"TABLE {table}", meaning)
    of_events(1)
    rules(SUBSTATES, JOB, RANGE)


def downgrade() -> None:
    op.execute(f"UPDATE jedi_jobs SET substatus = NULL WHERE substatus IN ({NEW})")
    op.execute(REMOVED)
    of_events(0)
    rules(SUBSTATES_BEFORE, JOB_BEFORE, RANGE_BEFORE)


def of_events(time: int) -> None:
    """Comments of columns that were there: before (0), and from now on (1)."""
    for column, meanings in EVENT_COMMENTS.items():
        comment(f"COLUMN jedi_events.{column}", meanings[time])
    for table in ("jedi_jobs", "jedi_jobs_archived"):
        comment(f"COLUMN {table}.kind", KINDS[time])


def rules(substates: str, jobs: str, ranges: str) -> None:
    """Replace the sub-statuses, and the moves of jobs and of ranges."""
    op.execute("ALTER TABLE jedi_jobs DROP CONSTRAINT jedi_jobs_substatus_ck")
    op.execute(
        "ALTER TABLE jedi_jobs ADD CONSTRAINT jedi_jobs_substatus_ck "
        f"CHECK (substatus IN ({substates}))"
    )
    lines = [line.split(" > ") for line in jobs.strip().splitlines()]
    moves = [f"'{a}>{b}'" for a, targets in lines for b in targets.split()]
    op.execute(MAY_MOVE.format(allowed=", ".join(sorted(moves))))
    allowed = ", ".join(f"'{move}'" for move in ranges.split())
    op.execute("DROP TRIGGER guard_event_range ON jedi_events")
    op.execute(
        "CREATE TRIGGER guard_event_range AFTER UPDATE OF status ON jedi_events FOR EACH ROW "
        "WHEN (OLD.status <> NEW.status AND OLD.status || '>' || NEW.status "
        f"NOT IN ({allowed})) EXECUTE FUNCTION jedi_refuse_move('event range')"
    )


def comment(on: str, meaning: str) -> None:
    quoted = meaning.replace("'", "''")
    op.execute(f"COMMENT ON {on} IS '{quoted}'")
