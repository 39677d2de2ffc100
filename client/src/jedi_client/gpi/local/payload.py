"""A payload on this machine: its working directory, its process, its files.

A small shell stands between: it waits for a line before it runs the program, and writes the exit
code to a file. So a run that its helper did not note never begins, and one whose helper died still
has its end. SIGTERM does not end the shell, so the program has time to clean up.

Source: docs/reference/ganga.md#local.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from jedi_client.gpi.contents import Contents
from jedi_client.gpi.interfaces import INPUTS
from jedi_client.gpi.local.processes import born
from jedi_client.gpi.local.runs import LocalRun

_SHELL = """
trap : TERM
read -r go || exit 125
d=$1; shift
: >"$d/began"
"$@" </dev/null >"$d/stdout" 2>"$d/stderr"
c=$?
echo $c >"$d/result.new" && mv "$d/result.new" "$d/result"
"""
LOGS = ("stdout", "stderr")


class PayloadProblem(Exception):
    """The payload can't be started or its outputs can't be kept, and why."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A shell that waits for its line."""

    run: LocalRun
    process: subprocess.Popen[bytes]
    born: str | None

    def go(self) -> None:
        """Let the program run."""
        gate: IO[bytes] | None = self.process.stdin
        with suppress(BrokenPipeError):
            if gate:
                gate.write(b"go\n")
                gate.close()

    def forget(self) -> None:
        """Let the shell end without running the program."""
        if self.process.stdin:
            self.process.stdin.close()
        self.process.wait()


def launch(run: LocalRun, contents: Contents) -> Launched:
    """Prepare the working directory of a run's attempt, and its process. PayloadProblem."""
    work = run.folder / "work"
    try:
        if run.folder.exists():
            shutil.rmtree(run.folder)
        shutil.rmtree(run.place / "output", ignore_errors=True)
        work.mkdir(parents=True)
        for name in LOGS:
            (run.folder / name).touch()
        for source, name, digest, mode in run.program["files"]:
            _place(contents, source, digest, work, name, mode)
        return _started(run, work)
    except (OSError, ValueError) as error:  # ValueError: such as an argument that is no text
        raise PayloadProblem(f"Its working directory could not be prepared: {error}") from error


def _place(contents: Contents, source: str, digest: str, work: Path, name: str, mode: int) -> None:
    """Copy a content to its name in the working directory."""
    target = work / PurePosixPath(name)
    if ".." in PurePosixPath(name).parts or not target.is_relative_to(work):
        raise PayloadProblem(f"{name} lies outside the working directory")
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(contents.path(digest), target)
    except FileNotFoundError:
        raise PayloadProblem(f"The kept content of {source} is gone. Resubmit the job") from None
    target.chmod(mode)


def _started(run: LocalRun, work: Path) -> Launched:
    program = run.program
    environment = _environment_of(run)
    executable = _path_of(program["executable"], work, environment)
    process = subprocess.Popen(
        ["/bin/sh", "-c", _SHELL, "sh", str(run.folder), executable, *program["args"]],
        cwd=work,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Launched(run, process, born(process.pid))


def _path_of(executable: str, work: Path, environment: Mapping[str, str]) -> str:
    """The path of a program. A bare name could be a builtin of the shell, such as echo."""
    if "/" in executable:
        return executable
    if (work / executable).is_file():
        return f"./{executable}"
    return shutil.which(executable, path=environment.get("PATH")) or f"./{executable}"


def _environment_of(run: LocalRun) -> Mapping[str, str]:
    inputs = run.program["inputs"]
    names = {INPUTS: ",".join(inputs)} if inputs else {}
    return {**run.environment, **names, **run.program["environment"]}


def began(folder: Path) -> bool:
    """True if the program of an attempt was started."""
    return (folder / "began").exists()


def exit_code(folder: Path) -> int | None:
    """The exit code of an attempt; None: there is none yet, or never."""
    try:
        return int((folder / "result").read_text())
    except (FileNotFoundError, ValueError):
        return None


def times(folder: Path) -> tuple[float | None, float | None]:
    """Times of begin and end of an attempt, in seconds of the epoch."""
    return _mtime(folder / "began"), _mtime(folder / "result")


def _mtime(path: Path) -> float | None:
    with suppress(FileNotFoundError):
        return path.stat().st_mtime
    return None


def collect(run: LocalRun) -> Sequence[str]:
    """Put the declared outputs of an attempt into its unit's folder `output`. Return the missing
    ones. A second call does no harm. PayloadProblem."""
    work, target = run.folder / "work", run.place / "output"
    missing: list[str] = []
    try:
        target.mkdir(parents=True, exist_ok=True)
        for declared in run.outputs:
            found = _found(work, run.folder, declared)
            missing += [] if found else [declared]
            for file in found:
                _keep(file, target / file.name)
    except (OSError, ValueError) as error:  # ValueError: a pattern that is none, such as **.root
        raise PayloadProblem(f"Its outputs could not be kept: {error}") from error
    return missing


def _found(work: Path, folder: Path, declared: str) -> list[Path]:
    """The files of a declared output: a name, an absolute path, or a pattern such as *.root."""
    if declared in LOGS and not (work / declared).exists():
        return [folder / declared]
    path = Path(declared)
    pattern = any(sign in declared for sign in "*?[")
    found = (
        [path]
        if path.is_absolute()
        else (sorted(work.glob(declared)) if pattern else [work / path])
    )
    return [one for one in found if one.is_file()]


def _keep(file: Path, target: Path) -> None:
    """Link or copy a file."""
    new = target.with_name(f".new-{target.name}")
    new.unlink(missing_ok=True)
    try:
        if file.is_symlink():
            raise OSError
        os.link(file, new)
    except OSError:
        shutil.copy2(file, new)
    new.replace(target)


def clean(run: LocalRun) -> None:
    """Remove the working directory of an attempt."""
    shutil.rmtree(run.folder / "work", ignore_errors=True)


_SECRET = (
    "TOKEN",
    "SECRET",
    "PASSW",
    "PASSPHRASE",
    "_PASS",
    "_PWD",
    "APIKEY",
    "_KEY",
    "CREDENTIAL",
)


def environment(given: Mapping[str, str]) -> dict[str, str]:
    """The variables of a session that its jobs get: none that seem to hold a secret."""
    return {
        name: value
        for name, value in given.items()
        if not any(one in name.upper() for one in _SECRET)
    }
