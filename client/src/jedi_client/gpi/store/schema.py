"""The tables of a registry's SQLite file, and the steps from one version of them to the next.

A release never changes a step; it adds one. `PRAGMA user_version` counts the steps of a file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from jedi_client.errors import JediError

Step = Sequence[str]
"""Statements that take a file from one version to the next."""

_RECORDS: Step = (
    """
CREATE TABLE registry (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  guid TEXT NOT NULL,
  change INTEGER NOT NULL DEFAULT 0,
  next_job INTEGER NOT NULL DEFAULT 0,
  next_template INTEGER NOT NULL DEFAULT 0)
""",
    """
INSERT INTO registry (one, guid) SELECT 1, lower(hex(randomblob(4)) || '-' || hex(randomblob(2))
  || '-4' || substr(hex(randomblob(2)), 2) || '-a' || substr(hex(randomblob(2)), 2) || '-'
  || hex(randomblob(6)))
""",
    """
CREATE TABLE records (
  kind TEXT NOT NULL CHECK (kind IN ('job', 'template')),
  id INTEGER NOT NULL CHECK (id >= 0),
  status TEXT NOT NULL DEFAULT 'new' CHECK (status IN ('new', 'submitting', 'submitted', 'running',
    'completing', 'completed', 'failed', 'killed', 'unknown')),
  name TEXT NOT NULL DEFAULT '',
  comment TEXT NOT NULL DEFAULT '',
  version INTEGER NOT NULL DEFAULT 1,
  change INTEGER NOT NULL,
  submissions INTEGER NOT NULL DEFAULT 0,
  backend TEXT,
  backend_id TEXT,
  backend_status TEXT,
  cursor TEXT,
  complete INTEGER NOT NULL DEFAULT 1,
  reason TEXT,
  counts TEXT NOT NULL DEFAULT '{}',
  created REAL,
  submitted REAL,
  ended REAL,
  document TEXT NOT NULL,
  PRIMARY KEY (kind, id),
  CHECK (kind = 'job' OR status = 'new'))
""",
    "CREATE INDEX records_change ON records (kind, change)",
    """
CREATE TABLE removed (
  kind TEXT NOT NULL, id INTEGER NOT NULL, change INTEGER NOT NULL, PRIMARY KEY (kind, id))
""",
    "CREATE INDEX removed_change ON removed (kind, change)",
    """
CREATE TABLE units (
  job INTEGER NOT NULL,
  k INTEGER NOT NULL CHECK (k >= 0),
  status TEXT NOT NULL CHECK (status IN ('new', 'submitting', 'submitted', 'running',
    'completing', 'completed', 'failed', 'killed', 'unknown')),
  attempt INTEGER,
  panda_id INTEGER,
  site TEXT,
  exit_code INTEGER,
  reason TEXT,
  superseded INTEGER NOT NULL DEFAULT 0,
  override TEXT NOT NULL DEFAULT '{}',
  PRIMARY KEY (job, k)) WITHOUT ROWID
""",
    "CREATE INDEX units_status ON units (job, superseded, status)",
)
_FOLDERS: Step = (
    "CREATE TABLE folders (path TEXT PRIMARY KEY)",
    """
CREATE TABLE folder_jobs (
  place INTEGER PRIMARY KEY, path TEXT NOT NULL, job INTEGER NOT NULL, UNIQUE (path, job))
""",
    "CREATE INDEX folder_jobs_job ON folder_jobs (job)",
)

_LOCAL: Step = (
    "CREATE TABLE local_state (one INTEGER PRIMARY KEY CHECK (one = 1), change INTEGER NOT NULL)",
    "INSERT INTO local_state VALUES (1, 0)",
    """
CREATE TABLE local_jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  key TEXT NOT NULL UNIQUE,
  place TEXT NOT NULL,
  single INTEGER NOT NULL,
  slots INTEGER,
  outputs TEXT NOT NULL,
  environment TEXT NOT NULL)
""",
    """
CREATE TABLE local_runs (
  job INTEGER NOT NULL,
  k INTEGER NOT NULL,
  status TEXT NOT NULL CHECK (status IN ('new', 'waiting', 'running', 'completed', 'failed',
    'killed')),
  attempt INTEGER NOT NULL DEFAULT 0,
  program TEXT NOT NULL,
  pid INTEGER,
  born TEXT,
  to_kill INTEGER NOT NULL DEFAULT 0,
  exit_code INTEGER,
  reason TEXT,
  change INTEGER NOT NULL,
  PRIMARY KEY (job, k)) WITHOUT ROWID
""",
    "CREATE INDEX local_runs_live ON local_runs (status, job, k) "
    "WHERE status IN ('waiting', 'running')",
    "CREATE INDEX local_runs_change ON local_runs (job, change)",
    """
CREATE TABLE local_attempts (
  job INTEGER NOT NULL, k INTEGER NOT NULL, attempt INTEGER NOT NULL, status TEXT NOT NULL,
  exit_code INTEGER, started REAL, ended REAL,
  PRIMARY KEY (job, k, attempt)) WITHOUT ROWID
""",
)

STEPS: Sequence[Step] = (_RECORDS, _FOLDERS, _LOCAL)
"""All steps. Other parts of the client add their own tables here, by a new step."""


def version(db: sqlite3.Connection) -> int:
    """The number of steps that a file has."""
    found: int = db.execute("PRAGMA user_version").fetchone()[0]
    return found


def must_be_readable(found: int, where: str, steps: Sequence[Step] = STEPS) -> None:
    """JediError for a file of a newer release."""
    if found > len(steps):
        raise JediError(
            f"{where} was written by a newer release of jedi-client (schema {found}, this release "
            f"knows {len(steps)}). Install that release, or set JEDI_CLIENT_HOME.",
            code="registry_too_new",
            found=found,
            known=len(steps),
        )


def migrate(db: sqlite3.Connection, where: str, steps: Sequence[Step] = STEPS) -> None:
    """Bring a file to the present version: all steps that it lacks in one transaction, or none."""
    if version(db) == len(steps):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        found = version(db)
        must_be_readable(found, where, steps)
        for step in steps[found:]:
            for statement in step:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {len(steps)}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
