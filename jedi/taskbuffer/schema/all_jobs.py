"""Jobs and their files, including archived ones, for queries about jobs that may have ended."""

from __future__ import annotations


def all_jobs(columns: str) -> str:
    """A subquery with these columns of all jobs, archived ones too."""
    return f"(SELECT {columns} FROM jedi_jobs UNION ALL SELECT {columns} FROM jedi_jobs_archived)"


def all_files(columns: str) -> str:
    """A subquery with these columns of the files of all jobs, archived ones too."""
    return (
        f"(SELECT {columns} FROM jedi_job_files "
        f"UNION ALL SELECT {columns} FROM jedi_job_files_archived)"
    )
