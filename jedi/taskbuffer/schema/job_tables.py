"""Jobs: live and archived, their files, parameters and queue."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Computed,
    Index,
    Integer,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import CONSUMER_KINDS
from jedi.taskbuffer.schema import job_rules, pgi_views
from jedi.taskbuffer.schema.columns import col, count, key, metadata, number, stamp, words

_GEN = "generation.write_jobs job_sets.add_consumers"
_MOVE = "jobs.move_jobs"
_REPORT = "dispatch.accept_reports"
_END = "job_ends.end_jobs"
_HOLD = "job_ends.hold jobs.move_jobs one_job.hold one_job.hold_next one_job.release"
_READY = f"{_GEN} {_MOVE} one_job.release"
_TAKEN = "pilots.note_delegation"


def _job_columns() -> list[Column[Any]]:
    """The columns of a job; the archive has the same."""
    return [*_wanted_columns(), *_seen_columns()]


def _archive_checks() -> list[CheckConstraint]:
    """The constraints on each archived job that give it a PGI state; they bind plain SQL, too."""
    return [CheckConstraint(rule, name=name) for name, rule in pgi_views.CHECKS.items()]


_ZERO = text("0")


def _wanted_columns() -> list[Column[Any]]:
    """Return the columns of a job's identity and needs."""
    return [
        key("pandaid:panda_id", "one attempt", _GEN),
        key("jeditaskid:jedi_task_id", "the task", _GEN),
        key("taskid:req_id", "the request (jedi_tasks.reqid)", _GEN),
        key("originpandaid:origin_panda_id", "the first attempt's id, kept by submitters", _GEN),
        col("unit_nr", Integer, "number of the unit of work within its task", _GEN, nullable=False),
        col("attemptnr:attempt_nr", SmallInteger, "attempt", _GEN, nullable=False),
        words(
            "kind",
            f"the job's work: {', '.join(states.JOB_KINDS)}",
            _GEN,
            nullable=False,
            server_default="normal",
        ),
        words("status", "the job's status", f"{_GEN} {_MOVE}", nullable=False),
        words("substatus", "detail of the status", "merging.outcomes consumer_ends.note_substates"),
        words("prodsourcelabel:prod_source_label", "as the task's", _GEN),
        words("processingtype:processing_type", "as the task's", _GEN),
        words("username:user_name", "as the task's", _GEN),
        words("vo", "as the task's", _GEN),
        words("site", "the site of the job", _GEN, nullable=False),
        words("nucleus", "the nucleus that gets its outputs", _GEN),
        col("workqueue_id", Integer, "as the task's", _GEN, nullable=False, server_default=_ZERO),
        words("gshare", "global share", _GEN, nullable=False, server_default=""),
        words("resource_type", "shape", _GEN, nullable=False, server_default=""),
        col("priority", Integer, "larger first", _GEN, nullable=False),
        col("cores", Integer, "cores asked", _GEN, nullable=False),
        col("memory_mb", Integer, "memory asked in MB; 0: no limit", _GEN, nullable=False),
        col("walltime_s", Integer, "wall time asked in seconds; 0: no limit", _GEN, nullable=False),
        col("disk_mb", Integer, "disk asked in MB; 0: no limit", _GEN, nullable=False),
        col("n_inputs", Integer, "input files", _GEN, nullable=False, server_default=_ZERO),
        col("n_events", BigInteger, "events to process", _GEN),
    ]


def _seen_columns() -> list[Column[Any]]:
    """Return the columns of a job's progress and end."""
    return [
        stamp("creationtime:creation_time", "time of creation", _GEN, now=True),
        stamp("statechangetime:state_change_time", "time of the status", _MOVE, now=True),
        stamp("starttime:start_time", "start of the payload", _REPORT),
        stamp("endtime:end_time", "end of the payload", _REPORT),
        stamp("heartbeat_at", "last heartbeat of the pilot", _REPORT),
        count("lock_seq", "raised by each dispatch; fences the pilot's writes", "dispatch.acquire"),
        words("pilot_id", "the pilot that has it", "dispatch.acquire"),
        words("kill_code", "reason of the kill request", f"jobs.ASK_TO_KILL {_MOVE}"),
        words(
            "pilot_result",
            "finished, failed or cancelled, as the pilot reported; lost: the "
            "pilot of a consumer fell silent",
            f"{_REPORT} consumer_ends.lose",
        ),
        col("exit_code", Integer, "the payload's exit code", _REPORT),
        words("error_source", "pilot, payload, jedi, user", _MOVE),
        words("error_code", "code that can be counted", f"{_REPORT} {_MOVE}"),
        words("error_diag", "sentence for people", f"{_REPORT} {_MOVE}"),
        number("cpu_s", "cpu seconds of all processes", _REPORT),
        number("wall_s", "wall seconds of the payload", _REPORT),
        col("max_rss_kb", BigInteger, "peak resident memory of all processes", _REPORT),
        col("max_pss_kb", BigInteger, "peak proportional memory of all processes", _REPORT),
        col("read_bytes", BigInteger, "read from storage", _REPORT),
        col("write_bytes", BigInteger, "written to storage", _REPORT),
        col("workdir_kb", BigInteger, "peak of the work directory", _REPORT),
        col("input_bytes", BigInteger, "size of its inputs", _REPORT),
        col("output_bytes", BigInteger, "size of its outputs", _REPORT),
        words("hold_kind", "PGI hold", _HOLD),
        words("hold_reason", "reason for the hold", _HOLD),
        stamp("hold_since", "start of the hold", _HOLD),
        stamp("hold_deadline", "end of the hold unless somebody ends it before", _HOLD),
        words("delegation_kind", "the batch engine it was handed to", _TAKEN),
        words("delegation_queue", "the engine's queue", _TAKEN),
        words("delegation_id", "the engine's job id", _TAKEN),
        stamp("postprocessed_at", "time at which its results were added", _END),
        stamp("purged_at", "time at which its outputs were purged", "purging.note_purged"),
        stamp("retention", "its outputs are kept until then", "purging.KEEP_JOBS"),
        col("metadata", JSONB, "metadata that the payload reports", _REPORT),
        words("hold_next", "the hold that begins when the payload succeeds", "one_job.PLAN_HOLD"),
    ]


def _booked() -> Column[Any]:
    return words(
        "booked",
        "the part of its life that its job set of events knows: started, ended",
        "consumer_ends.NOTE_STARTED consumer_ends.note_settled consumer_ends.NOTE_ENDED "
        "consumer_ends.reopen "
        "set_ends.close_sets merge_retries.take_over",
    )


_KEPT = text("retention IS NOT NULL AND purged_at IS NULL")
_UNSUCCESSFUL = text("status <> 'finished'")


jobs = Table(
    "jedi_jobs",
    metadata,
    *_job_columns(),
    col(
        "moving",
        Boolean,
        "its files are on their way: assigned or transferring",
        "migration",
        server_default=Computed(
            "status = ANY (ARRAY['assigned'::text, 'transferring'::text])", persisted=True
        ),
    ),
    _booked(),
    col(
        "to_book",
        Boolean,
        "its job set of events has to look at it",
        "migration",
        server_default=Computed(job_rules.TO_BOOK, persisted=True),
    ),
    PrimaryKeyConstraint("panda_id"),
    CheckConstraint(job_rules.SOUND, name="sound"),
    # unit_nr: the next unit's number is the task's largest plus one
    Index(None, "jedi_task_id", "unit_nr"),
    # pages of a task's jobs in their order, those that live on and those that have ended
    Index(
        "jedi_jobs_live_ix",
        "jedi_task_id",
        "panda_id",
        postgresql_where=text("postprocessed_at IS NULL"),
    ),
    Index(
        "jedi_jobs_ended_ix",
        "jedi_task_id",
        "panda_id",
        postgresql_where=text("postprocessed_at IS NOT NULL"),
    ),
    # Not on status: an update of an indexed column can't be HOT.
    Index(
        "jedi_jobs_reported_ix",
        "panda_id",
        postgresql_where=text(
            "pilot_result IS NOT NULL AND postprocessed_at IS NULL "
            f"AND kind NOT IN ({CONSUMER_KINDS})"
        ),
    ),
    Index("jedi_jobs_to_book_ix", "panda_id", postgresql_where=text("to_book")),
    Index("jedi_jobs_moving_ix", "panda_id", postgresql_where=text("moving")),
    Index(None, "retention", postgresql_where=_KEPT),
    comment="jobs that are alive or not yet archived",
    postgresql_with={"fillfactor": "45"},  # all jobs of a page are moved at once
)

jobs_archived = Table(
    "jedi_jobs_archived",
    metadata,
    *_job_columns(),
    _booked(),
    PrimaryKeyConstraint("panda_id"),
    *_archive_checks(),
    Index(None, "jedi_task_id", "unit_nr"),
    Index(None, "jedi_task_id", "panda_id"),
    Index(
        "jedi_jobs_archived_unsuccessful_ix",
        "jedi_task_id",
        "panda_id",
        postgresql_where=_UNSUCCESSFUL,
    ),
    Index(None, "user_name", "panda_id"),
    Index(
        "jedi_jobs_archived_users_unsuccessful_ix",
        "user_name",
        "panda_id",
        postgresql_where=_UNSUCCESSFUL,
    ),
    Index(None, "retention", postgresql_where=_KEPT),
    Index("jedi_jobs_archived_leaving_ix", "jedi_task_id", postgresql_where=_KEPT),
    comment="ended jobs, moved here in batches",
)


def _job_file_columns() -> list[Column[Any]]:
    return [
        key("pandaid:panda_id", "the job", _GEN),
        key("fileid:file_id", "the contents row", _GEN),
        key("jeditaskid:jedi_task_id", "the task", _GEN),
        key("datasetid:dataset_id", "the dataset", _GEN),
        words("type", "input, output, log, pseudo_input, ...", _GEN, nullable=False),
        words("lfn", "the logical file name", _GEN, nullable=False),
        words("source_name", "the payload's own name of an output", _GEN),
        words("endpoint", "endpoint of an input or output", _GEN),
        col("fsize", BigInteger, "size in bytes", f"{_GEN} {_REPORT}"),
        words("checksum", "adler32", f"{_GEN} {_REPORT}"),
        words("guid", "GUID", _REPORT),
        col("n_events", BigInteger, "events", _GEN),
        col("start_event", BigInteger, "first event of the range", _GEN),
        col("end_event", BigInteger, "last event of the range", _GEN),
        words(
            "problem",
            "missing or broken: the fault of an input",
            f"{_REPORT} bad_inputs.note job_ends.acquit",
        ),
    ]


job_files = Table(
    "jedi_job_files",
    metadata,
    *_job_file_columns(),
    PrimaryKeyConstraint("panda_id", "file_id", "jedi_task_id"),
    comment="the files of each job",
    postgresql_with={"fillfactor": "45"},
)

job_files_archived = Table(
    "jedi_job_files_archived",
    metadata,
    *_job_file_columns(),
    PrimaryKeyConstraint("panda_id", "file_id", "jedi_task_id"),
    comment="the files of archived jobs",
)

for _column in (*jobs_archived.columns, *job_files_archived.columns):
    _column.info["by"] = "archive.ARCHIVE_JOBS"

job_params = Table(
    "jedi_job_params",
    metadata,
    key("pandaid:panda_id", "the job", _GEN),
    words("jobparameters:job_parameters", "the rendered command", _GEN, nullable=False),
    col("texts", JSONB, "files that the job finds, with their text, by name", _GEN),
    PrimaryKeyConstraint("panda_id"),
    comment="the rendered job parameters",
)

job_ready = Table(
    "jedi_job_ready",
    metadata,
    key("pandaid:panda_id", "an activated job", _READY),
    words("site", "as the job's", _READY, nullable=False),
    words("gshare", "as the job's", _READY, nullable=False),
    col("priority", Integer, "as the job's", _READY, nullable=False),
    col("cores", Integer, "as the job's", _READY, nullable=False),
    col("memory_mb", Integer, "as the job's", _READY, nullable=False),
    col("walltime_s", Integer, "as the job's", _READY, nullable=False),
    col("disk_mb", Integer, "as the job's", _READY, nullable=False),
    PrimaryKeyConstraint("panda_id"),
    Index("jedi_job_ready_order_ix", "site", "gshare", text("priority DESC"), "panda_id"),
    comment="the queue of activated jobs: rows are inserted and deleted, never updated",
)

job_tail = Table(
    "jedi_job_tail",
    metadata,
    key("pandaid:panda_id", "the job", "dispatch.store_tails"),
    words("stdout_tail", "last lines of stdout", "dispatch.store_tails"),
    words("stderr_tail", "last lines of stderr", "dispatch.store_tails"),
    stamp(
        "modificationtime:modification_time", "time of sending", "dispatch.store_tails", now=True
    ),
    PrimaryKeyConstraint("panda_id"),
    comment="last output of payloads",
)

acquire_requests = Table(
    "jedi_acquire_requests",
    metadata,
    words(
        "request_id", "the pilot's own number of its request", "dispatch.acquire", nullable=False
    ),
    words("site", "the pilot's site", "dispatch.acquire", nullable=False),
    col(
        "pandaids:panda_ids",
        ARRAY(BigInteger),
        "the jobs handed out",
        "dispatch.acquire",
        nullable=False,
    ),
    stamp("creationtime:creation_time", "time of the record", "dispatch.acquire", now=True),
    PrimaryKeyConstraint("request_id"),
    Index(None, "creation_time"),
    comment="answers given to pilots, so that a repeated request gets the same jobs",
)
