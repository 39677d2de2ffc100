"""Counts of jobs, kept beside the rows that they come from."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    PrimaryKeyConstraint,
    Table,
)

from jedi.taskbuffer.schema.columns import col, metadata, stamp, words


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
    PrimaryKeyConstraint("site", "workqueue", "gshare", "resource_type", "status"),
    comment="number of jobs by place and status; add job_stats_delta for the present value",
)

job_stats_delta = Table(
    "job_stats_delta",
    metadata,
    col("delta_id", BigInteger, "order of the rows", "jobs.append_deltas", autoincrement=True,
        nullable=False),
    *_stat_key(),
    stamp("modificationtime", "time of the change", "jobs.append_deltas", now=True),
    PrimaryKeyConstraint("delta_id"),
    comment="changes not yet folded into job_stats",
)  # fmt: skip

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
