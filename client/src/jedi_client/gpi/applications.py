"""Applications: the programs that jobs run.

Source: docs/reference/ganga.md#applications.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, ClassVar

from jedi_client.errors import BadInput, Problem
from jedi_client.gpi.files import file_problem, local_path, plain_name, sandbox_file
from jedi_client.gpi.interfaces import Program
from jedi_client.gpi.schema import Described, prop

_INTERPRETERS = {".py": ("python3",), ".sh": ("sh",), ".bash": ("bash",), ".pl": ("perl",)}


def _environment(variables: dict[str, str]) -> tuple[str, str] | None:
    if any(not name or "=" in name for name in variables):
        return "has a name that no environment can have", 'Write {"NAME": "value"}'
    return None


def _command(words: str) -> tuple[str, str] | None:
    try:
        shlex.split(words)
    except ValueError as error:
        return f"is no command ({error})", "Close its quotes"
    return None


class Application(Described, abstract=True):
    """A program. A plug-in adds its properties and overrides two functions: both only read the job,
    and `program` runs once for the job and once for each explicit subjob."""

    _title = "application"
    backends: ClassVar[Sequence[str] | None] = None
    """Names of the backends that can run it; None: all."""

    def check(self, job: Any) -> list[Problem]:
        """All reasons why this program can't run as the job has it."""
        return []

    def program(self, job: Any) -> Program:
        """The command to run, with the files that it brings along."""
        raise NotImplementedError


class Executable(Application):
    """A program that is on the machine where the job runs, by its name or path."""

    _aliases = {"exe": "executable", "parameters": "args", "env": "environment"}  # noqa: RUF012

    executable: str = prop("echo", doc="Name or path of the program, where the job runs")
    args: list[str] = prop([], doc="Arguments, verbatim")
    environment: dict[str, str] = prop({}, doc="Variables of the environment", check=_environment)

    def check(self, job: Any) -> list[Problem]:
        """The program has a name."""
        if self.executable.strip():
            return []
        rule = "names no program"
        return [Problem("application.executable", self.executable, rule, "Give a name or a path")]

    def program(self, job: Any) -> Program:
        """The program with its arguments."""
        return Program(self.executable, tuple(self.args), dict(self.environment))


class Script(Application):
    """A script on this machine. Each submission takes its present content along. Its first line
    `#!` names its interpreter; without one, its ending does: .py, .sh, .bash, .pl."""

    _aliases = {"exe": "file", "parameters": "args", "env": "environment"}  # noqa: RUF012

    file: str = prop("", doc="Path of the script on this machine")
    args: list[str] = prop([], doc="Arguments, verbatim")
    environment: dict[str, str] = prop({}, doc="Variables of the environment", check=_environment)
    interpreter: str = prop(
        "", doc="Command that runs the script, such as `python3 -u`", check=_command
    )

    def check(self, job: Any) -> list[Problem]:
        """The script can be read and has an interpreter."""
        if not self.file:
            remedy = "Give the path of a script"
            return [Problem("application.file", self.file, "names no script", remedy)]
        if problem := file_problem("application.file", self.file):
            return [problem]
        if self._interpreter():
            return []
        rule = "has neither a first line #! nor a known ending"
        remedy = "Write #!/bin/sh as its first line, or set application.interpreter"
        return [Problem("application.file", self.file, rule, remedy)]

    def program(self, job: Any) -> Program:
        """The interpreter with the script and its arguments. BadInput: see `check`."""
        name = plain_name(self.file)
        try:
            executable, *words = self._interpreter()
        except (OSError, ValueError) as error:
            raise BadInput(self.check(job)) from error
        args = (*words, f"./{name}", *self.args)
        return Program(executable, args, dict(self.environment), [sandbox_file(self.file, name)])

    def _interpreter(self) -> Sequence[str]:
        if self.interpreter:
            return shlex.split(self.interpreter)
        with local_path(self.file).open("rb", buffering=256) as file:
            first = file.readline(256)
        if first.startswith(b"#!"):
            return first[2:].decode(errors="replace").strip().split(None, 1)
        return next((words for end, words in _INTERPRETERS.items() if self.file.endswith(end)), ())
