"""Mergers: one output from the outputs of all subjobs, on this machine.

Source: docs/reference/ganga.md#mergers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jedi_client.errors import Problem
from jedi_client.gpi.files import file_problem, local_path, plain_name
from jedi_client.gpi.report import MergeFailed
from jedi_client.gpi.schema import Described, prop


class OutputMerger(Described, abstract=True):
    """A merger of outputs with the same name. A plug-in adds its properties and overrides `merge`
    and, if it has rules, `check`, which only reads the job."""

    _title = "merger"
    _aliases = {"ignorefailed": "ignore_missing"}  # noqa: RUF012

    files: list[str] = prop([], doc="Names of the outputs to merge")
    overwrite: bool = prop(False, doc="Replace an earlier result")
    ignore_missing: bool = prop(False, doc="Merge although some subjobs made no such file")

    def check(self, job: Any) -> list[Problem]:
        """The files are declared outputs."""
        if not self.files:
            return [Problem("merger.files", [], "is empty", "Name the outputs to merge")]
        known = {plain_name(one) for one in job.outputsandbox}
        return [
            Problem(f"merger.files[{i}]", name, "is no declared output", "Add it to outputsandbox")
            for i, name in enumerate(self.files)
            if name not in known
        ]

    def merge(self, files: Sequence[Path], to: Path) -> None:
        """Write the merged content of `files`, in their order, to a new file. MergeFailed."""
        raise NotImplementedError


def merge_outputs(merger: OutputMerger, folders: Sequence[Path], to: Path) -> list[Path]:
    """Merge each file of the merger from the folders of the subjobs, in their order, into a folder:
    all or none. MergeFailed."""
    to.mkdir(parents=True, exist_ok=True)
    done: list[tuple[Path, Path]] = []
    try:
        for name in merger.files:
            done.append(_merged(merger, [folder / name for folder in folders], to / name))
        for new, target in done:
            new.replace(target)
    finally:
        for new, _ in done:
            new.unlink(missing_ok=True)
    return [target for _, target in done]


def _merged(merger: OutputMerger, files: Sequence[Path], target: Path) -> tuple[Path, Path]:
    """The merged file under a name beside its target, and the target."""
    if target.exists() and not merger.overwrite:
        raise MergeFailed(f"{target} exists. Remove it, or set overwrite=True", target=str(target))
    missing = [file for file in files if not file.is_file()]
    lost = set(missing)
    present = [file for file in files if file not in lost]
    if missing and not (merger.ignore_missing and present):
        remedy = "" if not present else ", or set ignore_missing=True"
        raise MergeFailed(
            f"{len(missing)} of {len(files)} files to merge are missing, the first is {missing[0]}."
            f" Resubmit those subjobs{remedy}",
            missing=[str(file) for file in missing],
        )
    new = target.with_name(f".merging-{os.getpid()}-{target.name}")
    new.unlink(missing_ok=True)
    try:
        _merge(merger, present, new)
        if not new.is_file():
            raise MergeFailed(f"{type(merger).__name__} wrote no {target.name}. See its messages")
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new, target


def _merge(merger: OutputMerger, files: Sequence[Path], to: Path) -> None:
    """Ask the merger, which may be a plug-in: any error of it is MergeFailed."""
    try:
        merger.merge(files, to)
    except MergeFailed:
        raise
    except Exception as error:
        name = type(merger).__name__
        raise MergeFailed(f"{name} failed: {type(error).__name__}: {error}") from error


class TextMerger(OutputMerger):
    """The texts one after the other, in the order of the subjobs."""

    headers: bool = prop(False, doc="Write a line with the path of each file before its text")

    def merge(self, files: Sequence[Path], to: Path) -> None:
        """Join the texts; each begins a new line."""
        with to.open("wb") as target:
            for file in files:
                if self.headers:
                    target.write(f"# {file}\n".encode())
                with file.open("rb") as source:
                    shutil.copyfileobj(source, target)
                if not _ends_line(file):
                    target.write(b"\n")


def _ends_line(file: Path) -> bool:
    with file.open("rb") as source:
        if not source.seek(0, os.SEEK_END):
            return True
        source.seek(-1, os.SEEK_END)
        return source.read() == b"\n"


class RootMerger(OutputMerger):
    """Histograms and profiles are added, trees follow each other. It needs uproot, which comes with
    the extra `root` of jedi-client."""

    def merge(self, files: Sequence[Path], to: Path) -> None:
        """Add up the ROOT files. MergeFailed, also without uproot."""
        adder()(files, to)


def adder() -> Callable[[Sequence[Path], Path], None]:
    """The function that adds up ROOT files. MergeFailed without uproot."""
    try:
        from jedi_client.gpi.root_files import add_up
    except ImportError as error:
        remedy = "Install it: pip install 'jedi-client[root]', or take CustomMerger with hadd"
        raise MergeFailed(f"RootMerger needs uproot ({error}). {remedy}") from error
    return add_up


class CustomMerger(OutputMerger):
    """A program of the user: it gets the target and then the files as arguments, as hadd does."""

    program: str = prop("", doc="Path of a program or of a .py file, or a command such as hadd")
    args: list[str] = prop([], doc="Arguments before the target, verbatim")

    def check(self, job: Any) -> list[Problem]:
        """The program exists."""
        problems = super().check(job)
        if not self.program:
            remedy = "Give a program"
            problems.append(Problem("merger.program", "", "names no program", remedy))
        elif "/" in self.program or self.program.endswith(".py"):
            problem = file_problem("merger.program", self.program)
            problems += [problem] if problem else []
        elif shutil.which(self.program) is None:
            rule = "is no command on this machine"
            problems.append(Problem("merger.program", self.program, rule, "Install it"))
        return problems

    def merge(self, files: Sequence[Path], to: Path) -> None:
        """Run the program. MergeFailed if it fails, with the end of its messages."""
        command = [*self._command(), *self.args, str(to), *map(str, files)]
        try:
            run = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False
            )
        except OSError as error:
            raise MergeFailed(f"{self.program} can't be run: {error}. Correct it") from error
        if run.returncode:
            said = (run.stderr or run.stdout).decode(errors="replace").strip()[-1000:]
            why = f": {said}" if said else " and printed nothing"
            raise MergeFailed(f"{self.program} ended with exit code {run.returncode}{why}")

    def _command(self) -> list[str]:
        if self.program.endswith(".py"):
            return [sys.executable, str(local_path(self.program))]
        return [str(local_path(self.program)) if "/" in self.program else self.program]
