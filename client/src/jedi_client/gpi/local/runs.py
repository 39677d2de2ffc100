"""The runs of backend Local in the registry's file: one row a unit, one verb a statement.

Source: docs/reference/ganga.md#submission; docs/reference/ganga.md#verbs.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CHANGE = "(SELECT change FROM local_state)"
_LIVE = "status IN ('waiting', 'running')"
"""The condition of the index of live runs. SQLite takes that index only for this very text."""


@dataclass(frozen=True, slots=True)
class LocalRun:
    """A run: its job with folder, outputs, environment and slots; its unit; its program as JSON;
    its process."""

    job: int
    k: int
    attempt: int
    program: Mapping[str, Any]
    place: Path
    outputs: Sequence[str]
    environment: Mapping[str, str]
    pid: int | None
    born: str | None
    to_kill: bool

    @property
    def folder(self) -> Path:
        """The folder of the attempt."""
        return self.place / "attempts" / str(self.attempt)


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The end of a run: completed, failed or killed, with times in seconds of the epoch. `kept`:
    its outputs are in the folder of its unit."""

    job: int
    k: int
    attempt: int
    status: str
    exit_code: int | None
    reason: str | None
    started: float | None
    ended: float
    kept: bool = True


def place_of(root: str, single: bool, k: int) -> Path:
    """The folder of a unit, or of a job that has one unit alone."""
    return Path(root) if single else Path(root, str(k))


def changing(db: sqlite3.Connection) -> None:
    """Count the change that this transaction makes."""
    db.execute("UPDATE local_state SET change = change + 1")


_RUNS = f"""
INSERT INTO local_runs (job, k, status, program, reason, change) VALUES (?, ?, ?, ?, ?, {_CHANGE})
"""


def add(
    db: sqlite3.Connection,
    key: str,
    place: Path,
    *,
    single: bool,
    slots: int | None,
    outputs: Sequence[str],
    environment: Mapping[str, str],
    units: Iterable[tuple[int, str, str, str | None]],
) -> int:
    """Write a job and its units (k, status, program, reason). Return its id."""
    changing(db)
    values = (key, str(place), single, slots, json.dumps(list(outputs)), json.dumps(environment))
    cursor = db.execute(
        "INSERT INTO local_jobs (key, place, single, slots, outputs, environment)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        values,
    )
    job = int(cursor.lastrowid or 0)
    db.executemany(_RUNS, ((job, *unit) for unit in units))
    return job


def with_key(db: sqlite3.Connection, key: str) -> int | None:
    """The job of a submission."""
    found = db.execute("SELECT id FROM local_jobs WHERE key = ?", (key,)).fetchone()
    return found and int(found[0])


_CHANGED = """
SELECT r.job, r.k, r.status, r.attempt, r.exit_code, r.reason
FROM json_each(?) c CROSS JOIN local_runs r ON r.job = CAST(c.key AS INTEGER)
WHERE r.change > c.value ORDER BY r.job, r.k
"""
_COUNTS = """
SELECT r.job, r.status, count(*) FROM json_each(?) c
CROSS JOIN local_runs r ON r.job = CAST(c.key AS INTEGER) GROUP BY r.job, r.status
"""


def changed(db: sqlite3.Connection, since: Mapping[int, int]) -> list[tuple[Any, ...]]:
    """Rows (job, k, status, attempt, exit code, reason) that changed after the job's cursor."""
    return db.execute(_CHANGED, (json.dumps(since),)).fetchall()


def counts(db: sqlite3.Connection, jobs: Iterable[int]) -> list[tuple[int, str, int]]:
    """Numbers of runs by job and status."""
    return db.execute(_COUNTS, (json.dumps(dict.fromkeys(jobs, 0)),)).fetchall()


def change(db: sqlite3.Connection) -> int:
    """The number of the last change."""
    return int(db.execute("SELECT change FROM local_state").fetchone()[0])


def statuses(db: sqlite3.Connection, job: int) -> dict[int, str]:
    """The status of each run of a job."""
    return dict(db.execute("SELECT k, status FROM local_runs WHERE job = ? ORDER BY k", (job,)))


_KILL = f"""
UPDATE local_runs SET change = {_CHANGE}, to_kill = status = 'running',
  status = CASE status WHEN 'waiting' THEN 'killed' ELSE status END
WHERE job = ? AND k IN (SELECT value FROM json_each(?)) AND status IN ('waiting', 'running')
"""


def kill(db: sqlite3.Connection, job: int, ks: Iterable[int]) -> None:
    """Kill waiting runs; ask the helper to kill running ones."""
    changing(db)
    db.execute(_KILL, (job, json.dumps(list(ks))))


_AGAIN = f"""
UPDATE local_runs SET status = 'waiting', change = {_CHANGE}, to_kill = 0, exit_code = NULL,
  reason = NULL, pid = NULL, born = NULL, program = ?
WHERE job = ? AND k = ? AND status NOT IN ('waiting', 'running')
"""


def queue_again(db: sqlite3.Connection, job: int, programs: Mapping[int, str]) -> None:
    """Queue ended runs again, with their programs."""
    changing(db)
    db.executemany(_AGAIN, ((program, job, k) for k, program in programs.items()))


_PROGRAMS = """
SELECT k, program FROM local_runs WHERE job = ? AND k IN (SELECT value FROM json_each(?))
"""


def programs(db: sqlite3.Connection, job: int, ks: Sequence[int]) -> dict[int, dict[str, Any]]:
    """The programs of runs."""
    rows = db.execute(_PROGRAMS, (job, json.dumps(list(ks))))
    return {k: json.loads(program) for k, program in rows}


_SELECT = """
SELECT r.job, r.k, r.attempt, r.program, j.place, j.single, j.outputs, j.environment, r.pid, r.born,
  r.to_kill
FROM local_runs r INDEXED BY local_runs_live JOIN local_jobs j ON j.id = r.job
"""


def _run(row: tuple[Any, ...]) -> LocalRun:
    job, k, attempt, program, place, single, outputs, environment, pid, birth, to_kill = row
    folder = place_of(place, bool(single), k)
    return LocalRun(
        job,
        k,
        attempt,
        json.loads(program),
        folder,
        json.loads(outputs),
        json.loads(environment),
        pid,
        birth,
        bool(to_kill),
    )


def running(db: sqlite3.Connection) -> list[LocalRun]:
    """The runs that the file says run."""
    return [_run(row) for row in db.execute(f"{_SELECT} WHERE r.status = 'running' AND r.{_LIVE}")]


def to_kill(db: sqlite3.Connection) -> list[tuple[int, int]]:
    """The running units that are to be killed."""
    return db.execute(
        f"SELECT job, k FROM local_runs WHERE status = 'running' AND {_LIVE} AND to_kill"
    ).fetchall()


_FIRST = f"""
WITH RECURSIVE due (job) AS (
  SELECT min(job) FROM local_runs WHERE status = 'waiting' AND {_LIVE}
  UNION ALL
  SELECT (SELECT min(job) FROM local_runs WHERE status = 'waiting' AND {_LIVE} AND job > due.job)
  FROM due WHERE job IS NOT NULL)
SELECT due.job, j.slots FROM due JOIN local_jobs j ON j.id = due.job ORDER BY due.job
"""
"""The jobs with waiting runs: one look at the index for each, not one for each run."""


def waiting(
    db: sqlite3.Connection, busy: Mapping[int, int], cores: int, skip: Iterable[tuple[int, int]]
) -> list[LocalRun]:
    """The next runs to start: of a job with slots up to so many side by side, of the others
    together up to the cores. `busy`: runs under way by job."""
    jobs = db.execute(_FIRST).fetchall()
    if not jobs:
        return []
    taken = {*skip}
    free = cores - sum(busy.values())
    found: list[LocalRun] = []
    for job, slots in jobs:
        room = free if slots is None else slots - busy.get(job, 0)
        if room <= 0:
            continue
        rows = db.execute(
            f"{_SELECT} WHERE r.status = 'waiting' AND r.{_LIVE} AND r.job = ? "
            "ORDER BY r.k LIMIT ?",
            (job, room + len(taken)),
        )
        new = [one for one in map(_run, rows) if (one.job, one.k) not in taken][:room]
        found += new
        free -= len(new)
    return found


def is_waiting(db: sqlite3.Connection) -> bool:
    """True if a run waits or runs."""
    return db.execute(f"SELECT 1 FROM local_runs WHERE {_LIVE} LIMIT 1").fetchone() is not None


_START = f"""
UPDATE local_runs SET status = 'running', attempt = ?, pid = ?, born = ?, change = {_CHANGE}
WHERE job = ? AND k = ? AND status = 'waiting'
"""


def start(
    db: sqlite3.Connection, new: Iterable[tuple[int, int, int, int, str | None]]
) -> set[tuple[int, int]]:
    """Note the processes (job, k, attempt, pid, birth) of runs that still wait. Return these."""
    started = set()
    for job, k, attempt, pid, birth in new:
        if db.execute(_START, (attempt, pid, birth, job, k)).rowcount:
            started.add((job, k))
    return started


_END = f"""
UPDATE local_runs SET status = ?, exit_code = ?, reason = ?, attempt = ?, pid = NULL, born = NULL,
  to_kill = 0, change = {_CHANGE}
WHERE job = ? AND k = ? AND status IN ('running', 'waiting')
"""


def end(db: sqlite3.Connection, ends: Sequence[RunEnd]) -> None:
    """Write the ends of runs, and their attempts."""
    db.executemany(_END, [(e.status, e.exit_code, e.reason, e.attempt, e.job, e.k) for e in ends])
    db.executemany(
        "INSERT OR REPLACE INTO local_attempts VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(e.job, e.k, e.attempt, e.status, e.exit_code, e.started, e.ended) for e in ends],
    )


_WAIT_AGAIN = f"""
UPDATE local_runs SET status = 'waiting', attempt = attempt - 1, pid = NULL, born = NULL,
  change = {_CHANGE}
WHERE job = ? AND k = ? AND status = 'running'
"""


def wait_again(db: sqlite3.Connection, runs: Iterable[LocalRun]) -> None:
    """Runs that never began wait again."""
    db.executemany(_WAIT_AGAIN, [(one.job, one.k) for one in runs])
