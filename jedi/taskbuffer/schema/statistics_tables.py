"""Counts of jobs, kept beside the rows that they come from."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Integer,
    PrimaryKeyConstraint,
    Table,
)
from sqlalchemy.dialects.postgresql import JSONB

from jedi.taskbuffer.schema.columns import col, count, key, metadata, number, stamp, words


def _stat_key() -> list[Column[Any]]:
    by = "jobs.append_deltas statistics.fold"
    return [
        words("site", "site", by, nullable=False),
        col("workqueue", Integer, "work queue", by, nullable=False),
        words("gshare", "global share", by, nullable=False),
        words("resource_type", "shape", by, nullable=False),
        words("status", "job status", by, nullable=False),
        col("jobs", BigInteger, "number of jobs (a change of it, in deltas)", by, nullable=False),
        col("cores", BigInteger, "their cores (a change of them, in deltas)", by, nullable=False),
    ]


job_stats = Table(
    "job_stats",
    metadata,
    *_stat_key(),
    stamp("modificationtime", "last change of the number of jobs", "statistics.fold"),
    stamp("since", "time since which there are such jobs", "statistics.fold"),
    PrimaryKeyConstraint("site", "workqueue", "gshare", "resource_type", "status"),
    comment="number of jobs by place and status; add job_stats_delta for the present value",
)

job_stats_delta = Table(
    "job_stats_delta",
    metadata,
    col(
        "delta_id",
        BigInteger,
        "order of the rows",
        "jobs.append_deltas",
        autoincrement=True,
        nullable=False,
    ),
    *_stat_key(),
    stamp("modificationtime", "time of the change", "jobs.append_deltas", now=True),
    PrimaryKeyConstraint("delta_id"),
    comment="changes not yet folded into job_stats",
)

job_stats_hourly = Table(
    "job_stats_hourly",
    metadata,
    stamp("hour", "the hour", "statistics.fold", now=True),
    words("site", "site", "statistics.fold", nullable=False),
    words("gshare", "global share", "statistics.fold", nullable=False),
    words("status", "the status reached", "statistics.fold", nullable=False),
    col("jobs", BigInteger, "jobs that reached it in the hour", "statistics.fold", nullable=False),
    PrimaryKeyConstraint("hour", "site", "gshare", "status"),
    comment="rates by hour",
)

_ARCHIVED = "archive.ARCHIVE_JOBS"
_MARKED = f"{_ARCHIVED} purging.note_purged"
_LIMITED = f"{_MARKED} purging.KEEP_JOBS purging.claim"

job_stats_archived = Table(
    "job_stats_archived",
    metadata,
    key("jeditaskid:jedi_task_id", "the task", _ARCHIVED),
    words("kind", "the jobs' work", _ARCHIVED, nullable=False),
    words("status", "the jobs' status", _ARCHIVED, nullable=False),
    words("site", "the jobs' site", _ARCHIVED, nullable=False),
    col("is_first", Boolean, "first attempts", _ARCHIVED, nullable=False),
    col(
        "cause",
        JSONB,
        "error code, error source and exit code of failed jobs; empty: of others",
        _ARCHIVED,
        nullable=False,
    ),
    count("jobs", "number of jobs", _ARCHIVED),
    count("purged", "number of jobs whose outputs are purged", _MARKED),
    col(
        "limited",
        Boolean,
        "outputs of some of the jobs are purged or have a last day",
        _LIMITED,
        nullable=False,
    ),
    col("walltime_s", Integer, "largest wall time asked in seconds", _ARCHIVED, nullable=False),
    col("memory_mb", Integer, "largest memory asked in MB", _ARCHIVED, nullable=False),
    col("disk_mb", Integer, "largest disk asked in MB", _ARCHIVED, nullable=False),
    number("wall_s", "longest payload in wall seconds", _ARCHIVED),
    col("used_memory_kb", BigInteger, "largest memory of payloads in kB", _ARCHIVED),
    col("used_disk_kb", BigInteger, "largest work directory in kB", _ARCHIVED),
    key("last_job", "the largest id of the jobs", _ARCHIVED),
    stamp("first_seen", "when the first of them reached its status", _ARCHIVED),
    stamp("last_seen", "when the last of them reached its status", _ARCHIVED),
    PrimaryKeyConstraint("jedi_task_id", "kind", "status", "site", "is_first", "cause"),
    comment="the archived jobs of tasks in groups, so that nobody has to read all of them",
)
