"""Which tests a run of all of them may skip: JEDI_SKIPS names a file like skips.txt, and any other
skip, or a missing one, fails the run. Runs of some tests are not judged."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def is_all(config: pytest.Config) -> bool:
    """Whether nothing was left out."""
    chosen = [
        config.option.keyword,
        config.option.markexpr,
        config.option.collectonly,
        config.option.deselect,
        getattr(config.option, "lf", False),
    ]
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not any(chosen)


def differences(skipped: set[str], listed: str) -> list[str]:
    """How the skipped tests differ from those of a list."""
    lines = [line for line in listed.splitlines() if line and not line.startswith("#")]
    possible = {line.removeprefix("? ") for line in lines}
    certain = {line for line in lines if not line.startswith("? ")}
    return [
        *(f"skipped, but not listed: {test}" for test in sorted(skipped - possible)),
        *(f"listed, but not skipped: {test}" for test in sorted(certain - skipped)),
    ]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.exitstatus == 0 and _found(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    for line in _found(config):
        terminalreporter.line(line)


def _found(config: pytest.Config) -> list[str]:
    path = os.environ.get("JEDI_SKIPS")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if not path or hasattr(config, "workerinput") or reporter is None or not is_all(config):
        return []
    skipped = {report.nodeid.partition("[")[0] for report in reporter.stats.get("skipped", ())}
    return differences(skipped, Path(path).read_text())
