"""Which reason codes the tests really produce, and which moves agents really make in them: noted at
the end of each test, judged at the end of a run of all of them.

A note that a task or a job set merely waits is overwritten by the next, and files have no log:
triggers of the tests' databases keep those. Every test process notes in one directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from jedi.core import states
from jedi.core.reasons import REASONS
from jedi.taskbuffer.db.engine import connect
from support import skips

DIRECTORY = "REASONS_SEEN"
MADE_UP = {"a", "c", "ok", "t", "test", "why", "x"}
"""Codes of what tests do to tasks and jobs themselves."""
_KEEP = """
CREATE SCHEMA seen;
CREATE TABLE seen.codes (code text);
CREATE FUNCTION seen.keep() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN INSERT INTO seen.codes VALUES (NEW.reason_code); RETURN NULL; END $$;
CREATE TRIGGER seen AFTER UPDATE OF reason_code ON jedi_tasks FOR EACH ROW
WHEN (NEW.reason_code IS DISTINCT FROM OLD.reason_code) EXECUTE FUNCTION seen.keep();
CREATE FUNCTION seen.keep_wait() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
  IF NEW.wait_code IS DISTINCT FROM OLD.wait_code THEN
    INSERT INTO seen.codes VALUES (NEW.wait_code);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER UPDATE ON jedi_jobsets FOR EACH ROW EXECUTE FUNCTION seen.keep_wait();
CREATE TABLE seen.moves (type text, source text, target text);
CREATE FUNCTION seen.move() RETURNS trigger LANGUAGE plpgsql
SET enable_nestloop = off AS  -- a plan made for one row took 67 s for 33,000
$$ BEGIN
  INSERT INTO seen.moves SELECT DISTINCT n.type, o.status, n.status
  FROM o JOIN n USING (fileid, jeditaskid) WHERE o.status <> n.status;
  RETURN NULL;
END $$;
CREATE TRIGGER seen AFTER UPDATE ON jedi_dataset_contents
REFERENCING OLD TABLE AS o NEW TABLE AS n FOR EACH STATEMENT EXECUTE FUNCTION seen.move();
"""
_LOGS = """
SELECT reason_code FROM jedi_tasks_statuslog UNION SELECT reason_code FROM jedi_datasets_statuslog
UNION SELECT reason_code FROM jedi_jobs_statuslog UNION SELECT error_code FROM jedi_jobs
UNION SELECT reason FROM jedi_dataset_contents WHERE reason IS NOT NULL
"""
# what tests do themselves is no proof
_MOVES = """
SELECT 'jedi_tasks', '', fromstatus, status FROM jedi_tasks_statuslog
WHERE agent <> 'test' AND fromstatus IS NOT NULL
UNION SELECT 'jedi_datasets', d.type, l.fromstatus, l.status
FROM jedi_datasets_statuslog l JOIN jedi_datasets d USING (datasetid)
WHERE agent <> 'test' AND l.fromstatus IS NOT NULL
"""
_FILES = " UNION SELECT 'jedi_dataset_contents', type, source, target FROM seen.moves"
MACHINES = [m for m in states.MACHINES if m not in (states.EVENT, states.JOB)]
COMING = ("topreprocess", "preprocessing", "staging", "staged", "reassigning", "waiting", "merging")
"""Statuses whose features are being built: moves from and to them are not asked for yet."""
UNTRIED = {
    # by these a task that is held is known to find its way back, which leads past them
    "task: paused > pending",
    "task: paused > throttled",
    # a ready task whose jobs were made just now is scouting or running when it comes to rest
    "task: ready > throttled",
    # only real pilots come by them, in tests with systems of their own
    "output file: running > prepared",
    "output file: running > finished",
    # a container that changes while its datasets wait to be looked up
    "input dataset: defined > removed",
    "input dataset: pending > removed",
}
"""Moves that no test of a database comes by, and why."""


def keep(engine: Engine) -> None:
    """Let a migrated database keep the codes of tasks that only wait."""
    with engine.begin() as tx:
        tx.exec_driver_sql(_KEEP)


def note(url: str) -> None:
    """Note the codes that a database has seen; one that is not in the list is an error."""
    engine = connect(url, pool_size=1)
    with engine.begin() as tx:
        kept = tx.scalar(text("SELECT to_regclass('seen.codes')"))
        also = " UNION SELECT code FROM seen.codes" if kept else ""
        found = {code for code in tx.scalars(text(_LOGS + also)) if code} - MADE_UP
        moves = tx.execute(text(_MOVES + (_FILES if kept else ""))).all()
    engine.dispose()
    mark(found)
    mark(_move(*row) for row in moves)
    assert found <= REASONS.keys(), f"not in core/reasons.py: {found - REASONS.keys()}"


def mark(codes: Iterable[str]) -> None:
    """Note codes."""
    for code in codes:
        Path(os.environ[DIRECTORY], code).touch()


def _move(table: str, kind: str, source: str, target: str) -> str:
    """The name of a move of a row of that table and type."""
    [machine] = [
        m
        for m in MACHINES
        if m.table == table and (not m.types or (kind in m.types) != m.negate_types)
    ]
    return f"{machine.name}: {source} > {target}"


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(skips)
    if not hasattr(config, "workerinput"):
        os.environ[DIRECTORY] = tempfile.mkdtemp(prefix="reasons-")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == 0 and skips.is_all(session.config) and _missing(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if skips.is_all(config) and (missing := _missing(config)):
        terminalreporter.section("reasons, and moves, that no test produced")
        terminalreporter.line(", ".join(missing))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[DIRECTORY])


def _missing(config: pytest.Config) -> list[str]:
    """Codes of the list, and declared moves, that no test has produced; a worker leaves the
    judgement to all."""
    if hasattr(config, "workerinput"):
        return []
    seen = {path.name for path in Path(os.environ[DIRECTORY]).iterdir()}
    moves = {f"{m.name}: {a} > {b}" for m in MACHINES for a, b in m.pairs if not {a, b} & {*COMING}}
    return sorted((REASONS.keys() | (moves - UNTRIED)) - seen)
