"""Logs of statuses: one row a move."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
)

from jedi.taskbuffer.schema.columns import col, key, metadata, stamp, words

_GEN = "generation.write_jobs job_sets.add_consumers"
_MOVE = "jobs.move_jobs"


def _log_columns(by: str) -> list[Column[Any]]:
    return [
        col("log_id", BigInteger, "order of the rows", by, autoincrement=True, nullable=False),
        words("fromstatus:from_status", "before; NULL at insertion", by),
        words("status", "after", by, nullable=False),
        stamp("modificationtime:modification_time", "time of the record", by, now=True),
        words("agent", "who", by),
        words("reason_code", "why", by),
        words("reason", "why, for people", by),
    ]


_TASK_LOG = "new_tasks.insert_task tasks.move_tasks"
_DATASET_LOG = "dataset_rows.insert_datasets dataset_rows.move_datasets"

task_log = Table(
    "jedi_tasks_statuslog",
    metadata,
    *_log_columns(_TASK_LOG),
    key("jeditaskid:jedi_task_id", "the task", _TASK_LOG),
    col("attemptnr:attempt_nr", Integer, "the task's attempt", _TASK_LOG),
    words("username:user_name", "the person behind a command", _TASK_LOG),
    PrimaryKeyConstraint("log_id"),
    Index(None, "jedi_task_id"),
    comment="every status a task had",
)

dataset_log = Table(
    "jedi_datasets_statuslog",
    metadata,
    *_log_columns(_DATASET_LOG),
    key("datasetid:dataset_id", "the dataset", _DATASET_LOG),
    key("jeditaskid:jedi_task_id", "the task", _DATASET_LOG),
    PrimaryKeyConstraint("log_id"),
    Index(None, "jedi_task_id"),
    comment="every status a dataset had",
)

job_log = Table(
    "jedi_jobs_statuslog",
    metadata,
    *_log_columns(f"{_GEN} {_MOVE}"),
    key("pandaid:panda_id", "the job", f"{_GEN} {_MOVE}"),
    key("jeditaskid:jedi_task_id", "the task", f"{_GEN} {_MOVE}"),
    PrimaryKeyConstraint("panda_id", "log_id"),
    comment="every status a job had",
)
