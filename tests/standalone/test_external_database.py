"""A PostgreSQL of one's own instead of the embedded one: the same tasks, the same checks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url

from jedi.demo.__main__ import still_running
from jedi.host.home import Home
from jedi.standalone.installation import Installation, packaged

pytestmark = pytest.mark.long


class Outside:
    """Runs `jedi` and `jedi-task` in a home whose database is elsewhere."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = Home(home)
        self._environment = {**os.environ, "JEDI_HOME": str(home), "JEDI_DATABASE_URL": url}

    def call(self, program: str, *words: str, code: int = 0) -> str:
        """What it prints; it must end with this exit code."""
        module = {"jedi": "jedi.cli.jedi", "task": "jedi_client.cli.task"}[program]
        done = subprocess.run(
            [sys.executable, "-c", f"from {module} import main; main()", *words],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == code, f"{program} {' '.join(words)}: {done.stdout}"
        return done.stdout


@pytest.fixture
def outside(empty_url: str, tmp_path: Path) -> Iterator[Outside]:
    outside = Outside(tmp_path / "home", empty_url)
    yield outside
    outside.call("jedi", "down", "--drain", "0")
    assert not still_running(outside.home)
    outside.home.discard()


def test_a_task_in_somebody_elses_database(outside: Outside, tmp_path: Path) -> None:
    outside.call("jedi", "up", "--detach")
    task = str(packaged("examples") / "hello.yaml")
    number = str(json.loads(outside.call("task", "submit", task, "--json"))["jedi_task_id"])
    outside.call("task", "wait", number, "--timeout", "120")
    outside.call("task", "get", number, str(tmp_path / "results"))
    assert len([*(tmp_path / "results").rglob("hello.*.txt")]) == 3
    outside.call("jedi", "check", "--files")


def test_a_database_that_does_not_answer_is_told_in_a_sentence(tmp_path: Path) -> None:
    nowhere = Outside(tmp_path / "home", f"postgresql:///none?host={tmp_path}")
    for words in (["up"], ["up", "--detach"]):
        said = nowhere.call("jedi", *words, code=1 if "--detach" in words else 3)
        assert "The database does not answer" in said and "Traceback" not in said
        assert str(tmp_path) in said


def test_a_database_that_refuses_the_user_says_so(empty_url: str, tmp_path: Path) -> None:
    """The reason and the remedy are not those of a database that is away."""
    url = make_url(empty_url).set(username="nobody_of_jedi")
    refused = Outside(tmp_path / "home", url.render_as_string(hide_password=False))
    said = refused.call("jedi", "check", code=3)
    assert 'role "nobody_of_jedi" does not exist' in said
    assert "The database refuses this" in said and "JEDI_DATABASE_URL" in said


def test_its_password_is_not_shown(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JEDI_DATABASE_URL", "postgresql://me:secret@db.example.org/jedi")
    installation = Installation.current()
    assert installation.home.path == home
    assert installation.shown_url == "postgresql://me:***@db.example.org/jedi"
    assert installation.url == "postgresql://me:secret@db.example.org/jedi"
