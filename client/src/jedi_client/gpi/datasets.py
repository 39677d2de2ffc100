"""Datasets: the input data of jobs.

Source: docs/reference/ganga.md#data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jedi_client.errors import Problem
from jedi_client.gpi.files import CATALOGUE, SHARED, file_problem, is_local, local_path, names_of
from jedi_client.gpi.schema import Described, prop


class InputData(Described, abstract=True):
    """Input data. A plug-in adds its properties and overrides two functions, which only read the
    job."""

    _title = "input data"

    @classmethod
    def given(cls, value: Any) -> Described | None:
        """A list of names stands for a Dataset with these files, a text for the Dataset with this
        name, or for the file if it is a path or begins with `lfn:`."""
        if isinstance(value, str) and not value.startswith((CATALOGUE, "/", "./", "~")):
            return Dataset(value)
        if isinstance(value, list | tuple | str):
            return Dataset(files=value)
        return None

    def check(self, job: Any) -> list[Problem]:
        """All reasons why the job can't read these data."""
        return []

    def files_of(self, job: Any) -> Sequence[str]:
        """The inputs: `/x` is opened in place, `lfn:/y` is a file of the catalogue, and
        `dataset:NAME` stands for all files of a dataset of the catalogue."""
        raise NotImplementedError


class Dataset(InputData):
    """A dataset of JEDI's catalogue, by its name, or a list of files."""

    name: str = prop("", doc="Name in the catalogue, such as user.ana:zmumu.2025")
    files: list[str] = prop(
        [], doc="Files: /x on the node, lfn:/y in the catalogue", convert=names_of
    )

    def check(self, job: Any) -> list[Problem]:
        """The data have a name or files, and the backend can reach them."""
        if bool(self.name) == bool(self.files):
            rule = "has both a name and files" if self.name else "has neither a name nor files"
            return [Problem("inputdata", self.name, rule, "Give one of the two")]
        if self.name:
            return [] if job.backend.has_catalogue else [_no_catalogue("inputdata", self.name)]
        problems: list[Problem | None] = []
        seen: set[str] = set()
        for i, name in enumerate(self.files):
            place = f"inputdata.files[{i}]"
            problems.append(_mistake(place, name, job))
            if name in seen:
                problems.append(Problem(place, name, "is there twice", "Leave one out"))
            seen.add(name)
        return [one for one in problems if one]

    def files_of(self, job: Any) -> Sequence[str]:
        """The files, with absolute paths if the job runs on this machine; or the dataset."""
        if self.name:
            return [f"dataset:{self.name}"]
        if not job.backend.on_this_machine:
            return list(self.files)
        return [str(local_path(name)) if is_local(name) else name for name in self.files]


def _mistake(place: str, name: str, job: Any) -> Problem | None:
    if name.startswith(SHARED):
        return Problem(place, name, "is a shared copy", "Put it into inputsandbox")
    if name.startswith(CATALOGUE):
        return None if job.backend.has_catalogue else _no_catalogue(place, name)
    if job.backend.on_this_machine:
        return file_problem(place, name)
    if not name.startswith("/"):
        return Problem(place, name, "is no absolute path", "Write /x, or lfn:/y")
    return None


def _no_catalogue(place: str, name: str) -> Problem:
    return Problem(
        place,
        name,
        "lies in JEDI's catalogue, which this backend can't read",
        "Set backend to JEDI, or give files of this machine",
    )
