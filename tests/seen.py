"""Which reason codes the tests really produce: noted at the end of each test, judged at the end of
a run of all of them.

A note that a task merely waits is overwritten by the next: a trigger of the tests' databases keeps
those. Every test process notes in one directory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from jedi.core.reasons import REASONS
from jedi.taskbuffer.engine import connect

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
"""
_LOGS = """
SELECT reason_code FROM jedi_tasks_statuslog UNION SELECT reason_code FROM jedi_datasets_statuslog
UNION SELECT reason_code FROM jedi_jobs_statuslog UNION SELECT error_code FROM jedi_jobs
"""


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
    engine.dispose()
    mark(found)
    assert found <= REASONS.keys(), f"not in core/reasons.py: {found - REASONS.keys()}"


def mark(codes: Iterable[str]) -> None:
    """Note codes."""
    for code in codes:
        Path(os.environ[DIRECTORY], code).touch()


def _is_all(config: pytest.Config) -> bool:
    """Whether nothing was left out."""
    chosen = [config.option.keyword, config.option.markexpr, config.option.collectonly,
              config.option.deselect, getattr(config.option, "lf", False)]  # fmt: skip
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(chosen)


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ[DIRECTORY] = tempfile.mkdtemp(prefix="reasons-")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == 0 and _is_all(session.config) and _missing(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    if _is_all(config) and (missing := _missing(config)):
        terminalreporter.section("reasons that no test produced")
        terminalreporter.line(", ".join(missing))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ[DIRECTORY])


def _missing(config: pytest.Config) -> list[str]:
    """Codes of the list that no test has produced; a worker leaves the judgement to all."""
    if hasattr(config, "workerinput"):
        return []
    seen = {path.name for path in Path(os.environ[DIRECTORY]).iterdir()}
    return sorted(REASONS.keys() - seen)
