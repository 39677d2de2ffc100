"""Events: the ranges of jobs, the job sets of the event service, their consumers and pieces.

A range of an ordinary event-split job has job_processid 0 and no job set; its job alone moves it.
A range of the event service has the number of its first event there, 1 or more, and a job set.
Source: JEDI document, "The JEDI_Events table"; docs/reference/event-service.md#ranges.
"""

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
    Sequence,
    SmallInteger,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from jedi.core import states
from jedi.taskbuffer.db.sql_lists import listed
from jedi.taskbuffer.schema.columns import col, count, key, metadata, stamp, words

ziprow_id_seq = Sequence("jedi_ziprow_id_seq", metadata=metadata)

_GEN = "generation.write_jobs job_sets.write_sets"
_END = "job_ends.end_jobs"
_SETS = "job_sets.write_sets"
_MORE = "job_sets.add_consumers"
_LATER = "not yet written"
_DISPATCH = "dispatch.acquire_ranges"
_REPORT = "reports.report_ranges"
_TAKE = "reports.take_ranges"
_ZIPS = "reports.store_zips"
_LOOK = "set_ends.look_again"
_KEEP = "kept_ranges.take_over"


_MOVES = f"{_GEN} {_END} {_DISPATCH} {_TAKE} {_REPORT} {_KEEP}"


def _seed_columns() -> list[Column[Any]]:
    return [
        key("jeditaskid:jedi_task_id", "the task", _GEN),
        key("datasetid:dataset_id", "the dataset of the file", _GEN),
        key("fileid:file_id", "the contents row", _GEN),
        col("status", SmallInteger, "its status (code)", _MOVES, nullable=False),
        key(
            "pandaid:panda_id",
            "the job that processes the range; the job set until a consumer gets it",
            f"{_GEN} {_DISPATCH} {_TAKE}",
        ),
        key(
            "job_processid",
            "number of the range's first event, from 1 on; 0: a range of an ordinary job",
            _GEN,
        ),
        col(
            "def_min_eventid",
            BigInteger,
            "first event of the range: an ordinary job's is counted "
            "from 0 in the file, an event service's is the number that payloads get",
            _GEN,
        ),
        col("def_max_eventid", BigInteger, "last event of the range", _GEN),
        col("processed_upto_eventid", BigInteger, "last event processed", f"{_END} {_REPORT}"),
        col(
            "attemptnr:attempt_nr",
            SmallInteger,
            "attempts: those so far of an ordinary job's range, those left of an event service's",
            f"{_GEN} {_REPORT}",
            nullable=False,
        ),
        col(
            "objstore_id",
            Integer,
            "number of the endpoint of its piece, as pilots of PanDA report it",
            _LATER,
        ),
        col(
            "event_offset",
            BigInteger,
            "events before the first one of the file, as events are numbered",
            _GEN,
        ),
        col("is_jumbo", SmallInteger, "1 if a jumbo job processes it", f"{_DISPATCH} {_TAKE}"),
        col(
            "ziprow_id",
            BigInteger,
            "the zip file (jedi_event_zips) with its piece; NULL: it is not zipped",
            _REPORT,
        ),
        words("file_not_deleted", "Y if its piece can be deleted", _REPORT),
        col("error_code", Integer, "error of the range", _REPORT),
        col("path_convention", SmallInteger, "rule for the path of its piece", _REPORT),
    ]


events = Table(
    "jedi_events",
    metadata,
    *_seed_columns(),
    # ours
    col(
        "jobsetid:jobset_id",
        BigInteger,
        "the job set of the range; NULL: an ordinary job's",
        f"{_SETS} {_KEEP}",
    ),
    words("endpoint", "the endpoint of its piece; NULL: it is in a zip file, or not made", _REPORT),
    words("error_diag", "error of the range in words", _REPORT),
    # An index on the status itself would make each change of it an update of all indexes.
    col(
        "ready",
        Boolean,
        "a consumer may get it",
        "migration",
        server_default=Computed("status = 0 AND jobsetid IS NOT NULL", persisted=True),
    ),
    PrimaryKeyConstraint("jedi_task_id", "panda_id", "file_id", "job_processid", "attempt_nr"),
    CheckConstraint("status BETWEEN 0 AND 10", name="status"),
    # the end of ordinary jobs; ranges of a consumer are found by the primary key
    Index("jedi_events_pandaid_ix", "panda_id", postgresql_where=text("job_processid = 0")),
    # the next ranges of a job set, and of a task for jumbo jobs
    Index(
        "jedi_events_ready_ix",
        "jedi_task_id",
        "jobset_id",
        "file_id",
        "job_processid",
        postgresql_where=text("ready"),
    ),
    # all ranges of a job set, and page by page those to merge
    Index(
        "jedi_events_jobset_ix",
        "jobset_id",
        "file_id",
        "job_processid",
        postgresql_where=text("jobsetid IS NOT NULL"),
    ),
    comment="progress of jobs in events",
)

jobsets = Table(
    "jedi_jobsets",
    metadata,
    key("jobsetid:jobset_id", "the job set: the PandaID of its first merge job", _SETS),
    key("jeditaskid:jedi_task_id", "the task", _SETS),
    key(
        "merge_pandaid:merge_panda_id",
        "the job with the inputs and outputs: it waits for the ranges",
        _SETS,
    ),
    words("mode", "es, cloning or fine", _SETS, nullable=False),
    words("clone", "runonce or storeonce; NULL: no cloning", _SETS),
    col("n_ranges", Integer, "ranges cut from its inputs", _SETS, nullable=False),
    col("n_consumers", Integer, "consumers made so far", f"{_SETS} {_MORE}", nullable=False),
    col("n_merges", Integer, "merge jobs made so far", _SETS, nullable=False),
    col(
        "attempts_left",
        Integer,
        "consumers that may still follow those that fail",
        f"{_SETS} {_MORE}",
        nullable=False,
    ),
    col("jumbo", Boolean, "jumbo jobs may process its ranges", _SETS, nullable=False),
    col("priority", Integer, "priority of its next consumer", f"{_SETS} {_MORE}", nullable=False),
    words("gshare", "global share of its consumers", _SETS, nullable=False),
    words("resource_type", "shape of its consumers", _SETS, nullable=False),
    col("cores", Integer, "cores that a consumer asks", _SETS, nullable=False),
    col(
        "memory_mb",
        Integer,
        "memory that a consumer asks in MB; 0: no limit",
        _SETS,
        nullable=False,
    ),
    col(
        "walltime_s",
        Integer,
        "wall time that a consumer asks in seconds; 0: no limit",
        _SETS,
        nullable=False,
    ),
    col("disk_mb", Integer, "disk that a consumer asks in MB; 0: no limit", _SETS, nullable=False),
    words(
        "command",
        "the consumers' command; $PANDAID stands for the consumer's number",
        _SETS,
        nullable=False,
    ),
    col("texts", JSONB, "files that consumers find, with their text, by name", _SETS),
    stamp("creationtime:creation_time", "time of creation", _SETS, now=True),
    stamp("ended_at", "end of its last merge job", "set_ends.close_sets"),
    stamp(
        "next_look_at",
        "time of the EventService's next look at a set that nobody serves",
        f"{_LOOK} merge_retries.take_over {_KEEP}",
    ),
    words("wait_code", "code of the reason why its merge can't start", _LOOK),
    words("wait_reason", "the same in words", _LOOK),
    col(
        "sites", JSONB, "sites for its consumers, best first; NULL: those where it has some", _SETS
    ),
    PrimaryKeyConstraint("jobset_id"),
    CheckConstraint(f"mode IN ({listed(states.JOBSET_MODES)})", name="mode"),
    CheckConstraint("clone IN ('runonce', 'storeonce')", name="clone"),
    Index(None, "jedi_task_id"),
    Index(None, "merge_panda_id"),
    Index("jedi_jobsets_live_ix", "jobset_id", postgresql_where=text("ended_at IS NULL")),
    Index(
        "jedi_jobsets_look_ix", "next_look_at", postgresql_where=text("next_look_at IS NOT NULL")
    ),
    comment="units of work that consumers share and one job merges",
)

consumers = Table(
    "jedi_consumers",
    metadata,
    key("pandaid:panda_id", "the job", _MORE),
    key("jeditaskid:jedi_task_id", "the task", _MORE),
    col("jobsetid:jobset_id", BigInteger, "its job set; NULL: any of the task (jumbo)", _MORE),
    words("kind", "consumer, clone, co_jumbo, jumbo or fine", _MORE, nullable=False),
    col("number", Integer, "its number within the job set, from 1 on", _MORE, nullable=False),
    stamp(
        "settled_at",
        "time at which the effects of its end on ranges were booked",
        "consumer_ends.note_settled",
    ),
    words("request_id", "its last ask for ranges that was answered", _DISPATCH),
    col(
        "freeinrow:free_in_row",
        SmallInteger,
        "consumers before it in a row that used up no attempt, since their ends were nobody's "
        "fault",
        _MORE,
        nullable=False,
        server_default=text("0"),
    ),
    PrimaryKeyConstraint("panda_id"),
    Index("jedi_consumers_jumbo_ix", "jedi_task_id", postgresql_where=text("jobsetid IS NULL")),
    Index("jedi_consumers_live_ix", "jobset_id", postgresql_where=text("settled_at IS NULL")),
    Index(None, "jobset_id"),
    Index(None, "jedi_task_id"),
    comment="jobs that process ranges of events",
)

event_zips = Table(
    "jedi_event_zips",
    metadata,
    key("ziprow_id", "the zip file", _ZIPS, server_default=ziprow_id_seq.next_value()),
    key("jeditaskid:jedi_task_id", "the task", _ZIPS),
    col("jobsetid:jobset_id", BigInteger, "its job set; NULL: of several (jumbo)", _ZIPS),
    key("pandaid:panda_id", "the consumer that made it", _ZIPS),
    words("lfn", "its name", _ZIPS, nullable=False),
    words("endpoint", "endpoint of the file", _ZIPS, nullable=False),
    col("fsize", BigInteger, "size in bytes", _ZIPS),
    words("checksum", "adler32", _ZIPS),
    count("n_events", "events in it, as reported", _ZIPS),
    col("path_convention", SmallInteger, "rule for its path", _ZIPS),
    stamp("creationtime:creation_time", "time of the report", _ZIPS, now=True),
    col(
        "problems",
        JSONB,
        "missing or broken, by the PandaID of the merge job that could not read it",
        "dispatch.accept_reports",
    ),
    PrimaryKeyConstraint("ziprow_id"),
    UniqueConstraint("panda_id", "lfn"),
    Index(None, "jobset_id"),
    Index(None, "jedi_task_id", "lfn"),
    comment="zip files with pieces, the outputs of ranges",
)
