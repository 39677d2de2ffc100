"""job_stats_archived: the archived jobs of each task in groups, so that nobody reads all of them.

The statement that archives jobs, or removes outputs of archived jobs, also changes the groups.
`jedi check` compares the groups with the jobs.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection

from jedi.taskbuffer.db.statement import changes

KEY = "jeditaskid, kind, status, site, is_first, cause"
_CAUSE = (
    "CASE status WHEN 'failed' THEN jsonb_build_array(error_code, error_source, exit_code) "
    "ELSE '[]' END"
)
"""A cause is part of the key, but none of its parts is mandatory: jsonb equals itself."""
_SUMS = {"jobs": "count(*)", "purged": "count(purged_at)"}
_EVER = {"limited": "bool_or(retention IS NOT NULL OR purged_at IS NOT NULL)"}
_SMALLEST = {"first_seen": "min(statechangetime)"}
_LARGEST = {
    "last_seen": "max(statechangetime)",
    "walltime_s": "max(walltime_s)",
    "memory_mb": "max(memory_mb)",
    "disk_mb": "max(disk_mb)",
    "wall_s": "max(wall_s)",
    "used_memory_kb": "max(coalesce(max_pss_kb, max_rss_kb))",
    "used_disk_kb": "max(workdir_kb)",
    "last_job": "max(pandaid)",
}
FIGURES = {**_SUMS, **_EVER, **_SMALLEST, **_LARGEST}
"""The figures of a group: columns, and how they follow from rows of jobs."""
_NAMES = ", ".join(FIGURES)


def groups(jobs: str) -> str:
    """A query of the groups of jobs: KEY and FIGURES."""
    figures = ", ".join(f"{rule} AS {name}" for name, rule in FIGURES.items())
    return f"""
SELECT jeditaskid, kind, status, site, attemptnr = 1 AS is_first, {_CAUSE} AS cause, {figures}
FROM {jobs} GROUP BY 1, 2, 3, 4, 5, 6"""


_MERGED = {
    **{name: f"s.{name} + excluded.{name}" for name in _SUMS},
    **{name: f"s.{name} OR excluded.{name}" for name in _EVER},
    **{name: f"least(s.{name}, excluded.{name})" for name in _SMALLEST},
    **{name: f"greatest(s.{name}, excluded.{name})" for name in _LARGEST},
}


def adding(jobs: str) -> str:
    """A statement that adds jobs to their groups. It takes the groups in their order, so that two
    such statements never wait for each other."""
    return _put(jobs, _MERGED)


def marking(jobs: str) -> str:
    """The same for archived jobs whose outputs have become limited or purged just now."""
    return _put(jobs, {name: how for name, how in _MERGED.items() if name != "jobs"})


def _put(jobs: str, merged: Mapping[str, str]) -> str:
    changes = ", ".join(f"{name} = {how}" for name, how in merged.items())
    return f"""
INSERT INTO job_stats_archived AS s ({KEY}, {_NAMES})
SELECT {KEY}, {_NAMES} FROM ({groups(jobs)}) g ORDER BY {KEY}
ON CONFLICT ({KEY}) DO UPDATE SET {changes}"""


_EMPTY = changes("DELETE FROM job_stats_archived")
_ALL = changes(adding("jedi_jobs_archived"))


def count_all(tx: Connection) -> None:
    """Count all archived jobs anew, as after a bulk load."""
    _EMPTY.run(tx)
    _ALL.run(tx)
