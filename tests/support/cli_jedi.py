"""Builders that several tests share with tests of cli jedi."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from jedi.cli.jedi import main

CHECKOUT = str(Path(__file__).parents[2])


class Shell:
    """Runs `jedi` with an environment of its own."""

    def __init__(self, **environment: str) -> None:
        self.environment = {**os.environ, "PYTHONPATH": CHECKOUT, "COLUMNS": "80", **environment}

    def run(self, *words: str, code: int = 0) -> str:
        """What it prints, having ended with this exit code; in this process, which is quicker."""
        said = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as end:
            patch.setattr(sys, "argv", ["jedi", *words])
            for name, value in self.environment.items():
                patch.setenv(name, value)
            with redirect_stdout(said), redirect_stderr(said):
                main()
        return self._checked(said.getvalue(), end.value.code, code)

    def spawn(self, *words: str, code: int = 0) -> str:
        """The same as a process of its own."""
        done = subprocess.run(
            [sys.executable, "-m", "jedi", *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        return self._checked(done.stdout, done.returncode, code)

    def _checked(self, printed: str, found: object, wanted: int) -> str:
        assert found == wanted, printed
        assert "Traceback" not in printed and "\x1b" not in printed
        return printed

    def complete(self, *words: str) -> list[str]:
        """What a shell offers for the last word."""
        line = {"COMP_WORDS": " ".join(["jedi", *words]), "COMP_CWORD": str(len(words))}
        with_line = Shell(**self.environment | line | {"_JEDI_COMPLETE": "complete_bash"})
        return with_line.run().split()

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self.run(*words, "--json", code=code))
