"""Files of a job: references to files of this machine, shared copies, and files of the catalogue.

Source: docs/reference/ganga.md#files.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from jedi_client.errors import Problem
from jedi_client.gpi.contents import Contents
from jedi_client.gpi.interfaces import SandboxFile
from jedi_client.gpi.schema import Described, prop
from jedi_client.gpi.workspace import home

CATALOGUE = "lfn:"
"""Beginning of the names of files in JEDI's catalogue."""
SHARED = "shared://"
"""Beginning of the names of shared copies."""

WRITE_INSIDE = "Let the program write it into the working directory, and give its plain name"
"""The remedy for outputs that lie elsewhere."""


def _inside(name: str) -> tuple[str, str] | None:
    """A name in the working directory: relative, and not above it."""
    path = PurePosixPath(name)
    if name and (path.is_absolute() or ".." in path.parts or not path.parts):
        return "lies outside the working directory", "Give a plain name, such as c.db"
    return None


class File(Described):
    """A file of a job. `/a/b` and `b` are files of this machine, relative ones below the directory
    of the session. `lfn:/a/b` is a file of the catalogue, `shared://a/b` an earlier shared copy."""

    name: str = prop("", doc="Path of the file, or lfn:/path, or shared://path")
    dest: str = prop("", doc="Name in the working directory; empty: its own", check=_inside)
    shared: bool = prop(False, doc="Copy it once, by its first use; later runs use that copy")

    @classmethod
    def given(cls, value: Any) -> Described | None:
        """A bare name stands for the file with all defaults."""
        return cls(value) if isinstance(value, str | os.PathLike) else None

    @property
    def target(self) -> str:
        """Its name in the working directory."""
        return self.dest or plain_name(self.name)

    @property
    def local(self) -> bool:
        """The file is on this machine, by its path."""
        return is_local(self.name)

    def check(self, path: str) -> list[Problem]:
        """All reasons why the file can't go into a sandbox. `path`: its place in the job."""
        if not plain_name(self.name):
            return [Problem(path, self.name, "names no file", "Give the path of a file")]
        if self.name.startswith(SHARED) or (self.shared and self.local):
            if _copied(self.name):
                return []
            if not self.local:
                rule = "is no shared copy on this machine"
                return [Problem(path, self.name, rule, "Make it: File(path, shared=True)")]
        problem = file_problem(path, self.name) if self.local else None
        return [problem] if problem else []

    def sandbox(self) -> SandboxFile:
        """The file as a part of the input sandbox, with its present path."""
        return sandbox_file(self.name, self.target)


def shared_name(name: str) -> str:
    """The name of a shared copy: shared://name, or the absolute path of a file, without `..`."""
    if name.startswith(SHARED):
        return name.removeprefix(SHARED)
    return os.path.normpath(_absolute(name))


def _copied(name: str) -> bool:
    """True if there is a shared copy already: later runs use it, and nothing else."""
    return Contents(home() / "contents").has(shared_name(name))


def files_of(value: Any) -> Any:
    """A list for the short form of one file: its name, or a File."""
    return [value] if isinstance(value, str | os.PathLike | File) else value


def names_of(value: Any) -> Any:
    """A list of names for the short form of one output: its name."""
    return [value] if isinstance(value, str | os.PathLike) else value


def is_local(name: str) -> bool:
    """Tell paths of this machine from names of the catalogue and of shared copies."""
    return not name.startswith((CATALOGUE, SHARED))


def plain_name(name: str) -> str:
    """The last part of a path, also of one of the catalogue: x for `/a/x`, `lfn:/a/x` and x."""
    return PurePosixPath(name.removeprefix(CATALOGUE).removeprefix(SHARED)).name


def output_path(name: str) -> str:
    """The path of a declared output, as the program writes it: x for `lfn:/a/x`, which is x of the
    working directory."""
    return plain_name(name) if name.startswith(CATALOGUE) else name


def output_mistake(name: str) -> tuple[str, str] | None:
    """The rule that the name of an output breaks on any backend, and the remedy."""
    path = PurePosixPath(output_path(name))
    if path.name in ("", "..") or name.endswith("/"):
        return "names no file", "Give the name of a file, such as out.txt"
    if ".." in path.parts and not path.is_absolute():
        return "lies outside the working directory", WRITE_INSIDE
    if any("**" in part and part != "**" for part in path.parts):
        return "is no pattern: ** stands alone between slashes", "Write it as in *.root"
    return None


def local_path(name: str) -> Path:
    """The absolute path of a file of this machine."""
    return Path(_absolute(name))


def _absolute(name: str) -> str:
    return os.path.join(os.getcwd(), os.path.expanduser(name))  # noqa: PTH109, PTH111, PTH118


def sandbox_file(name: str, target: str) -> SandboxFile:
    """A file for the sandbox, by its absolute path if it is on this machine."""
    return SandboxFile(_absolute(name) if is_local(name) else name, target)


def file_problem(place: str, name: str) -> Problem | None:
    """The reason why a file of this machine can't be read now."""
    path = local_path(name)
    where = "" if Path(name).is_absolute() else f" in {path.parent}"
    if not path.exists():
        return Problem(place, name, f"does not exist{where}", "Correct the path")
    if not path.is_file():
        return Problem(place, name, "is not a plain file", "Give a file, or pack a directory")
    if not os.access(path, os.R_OK):
        return Problem(place, name, "can't be read", "Change its permissions")
    return None


def sandbox_problems(files: Sequence[File], place: str) -> list[Problem]:
    """All reasons why files can't be in one sandbox: each has its own name."""
    problems = []
    seen: dict[str, int] = {}
    for i, file in enumerate(files):
        problems += file.check(f"{place}[{i}]")
        first = seen.setdefault(file.target, i)
        if first != i:
            rule = f"has the same name {file.target!r} as {place}[{first}]"
            remedy = 'Give it another: File(name, dest="other")'
            problems.append(Problem(f"{place}[{i}]", file.name, rule, remedy))
    return problems
