"""A dataset that a text file lists, as production managers send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jedi_client.errors import Problem
from jedi_client.gpi.datasets import InputData
from jedi_client.gpi.files import file_problem, local_path
from jedi_client.gpi.schema import prop


class ListFile(InputData):
    """The files that a text file names, one on a line. Each submission reads it anew."""

    path: str = prop(doc="Text file on this machine")

    def check(self, job: Any) -> list[Problem]:
        """The text file can be read and names something."""
        problem = file_problem("inputdata.path", self.path)
        if problem or self.files_of(job):
            return [problem] if problem else []
        return [Problem("inputdata.path", self.path, "names no file", "Write one on each line")]

    def files_of(self, job: Any) -> Sequence[str]:
        """The lines that are neither empty nor remarks."""
        lines = (line.strip() for line in local_path(self.path).read_text().splitlines())
        return [line for line in lines if line and not line.startswith("#")]
