"""Comments of tables and columns name a thing first."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"

COMMENTS: tuple[tuple[str, str | None, str, str], ...] = (
    (
        "jedi_dataset_contents",
        None,
        "files (or event ranges of files) and how tasks use them",
        "files (or event ranges of files) and their use by tasks",
    ),
    ("jedi_dataset_contents", "attemptnr", "how often the file was tried", "number of attempts"),
    (
        "jedi_dataset_contents",
        "maxattempt",
        "how often the file can be tried",
        "largest number of attempts",
    ),
    (
        "jedi_dataset_contents",
        "failedattempt",
        "how often the file failed",
        "number of failed attempts",
    ),
    (
        "jedi_dataset_contents",
        "maxfailure",
        "how often the file can fail",
        "largest number of failed attempts",
    ),
    ("jedi_datasets", "status", "how the dataset is being used", "use of the dataset by its task"),
    (
        "jedi_datasets",
        "attributes",
        "how the dataset is split: ratio, nosplit, repeat, ...",
        "attributes for splitting: ratio, nosplit, repeat, ...",
    ),
    (
        "jedi_datasets",
        "storagetoken",
        "where files are while the task runs",
        "storage of the files while the task runs",
    ),
    (
        "jedi_event_zips",
        None,
        "zip files with pieces: what consumers made of ranges",
        "zip files with pieces, the outputs of ranges",
    ),
    ("jedi_event_zips", "endpoint", "where it lies", "endpoint of the file"),
    ("jedi_event_zips", "path_convention", "how its path is made", "rule for its path"),
    (
        "jedi_events",
        "path_convention",
        "how the path of its piece is made",
        "rule for the path of its piece",
    ),
    (
        "jedi_job_files",
        "problem",
        "missing or broken: why an input could not be used",
        "missing or broken: the fault of an input",
    ),
    (
        "jedi_job_files_archived",
        "problem",
        "missing or broken: why an input could not be used",
        "missing or broken: the fault of an input",
    ),
    (
        "jedi_jobparams_template",
        None,
        "how the job parameters of each task are made",
        "templates of the job parameters of each task",
    ),
    (
        "jedi_jobparams_template",
        "jobparamstemplate",
        "how job parameters are made",
        "template of job parameters",
    ),
    ("jedi_jobs", "hold_reason", "why it is held", "reason for the hold"),
    ("jedi_jobs_archived", "hold_reason", "why it is held", "reason for the hold"),
    (
        "jedi_output_template",
        None,
        "how the file names of each output dataset are made",
        "templates of the file names of each output dataset",
    ),
    (
        "jedi_output_template",
        "filenametemplate",
        "how output names are made",
        "template of output names",
    ),
    ("jedi_process_lock", "component", "what the lock protects", "object of the lock"),
    (
        "jedi_tasks",
        "numthrottled",
        "how often the task was throttled",
        "number of times the task was throttled",
    ),
    (
        "jedi_tasks",
        "reason_code",
        "why the task is where it is",
        "code of the reason for the status",
    ),
)
"""Table, column (None: the table itself), comment before and after."""


def upgrade() -> None:
    """Set the new comments."""
    for table, column, _, after in COMMENTS:
        _comment(table, column, after)


def downgrade() -> None:
    """Set the old comments."""
    for table, column, before, _ in COMMENTS:
        _comment(table, column, before)


def _comment(table: str, column: str | None, words: str) -> None:
    target = f"TABLE {table}" if column is None else f"COLUMN {table}.{column}"
    quoted = words.replace("'", "''")
    op.execute(sa.text(f"COMMENT ON {target} IS '{quoted}'"))
