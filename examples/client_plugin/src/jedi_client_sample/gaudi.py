"""An application of an experiment: a release, with an options file of the user."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jedi_client.errors import Problem
from jedi_client.gpi.applications import Application
from jedi_client.gpi.files import file_problem, sandbox_file
from jedi_client.gpi.interfaces import Program
from jedi_client.gpi.schema import prop


def releases() -> list[str]:
    """The versions that are installed below $GAUDI_RELEASES, which may be a path in CVMFS."""
    root = os.environ.get("GAUDI_RELEASES", "")
    return sorted(one.name for one in Path(root).iterdir()) if root else []


class Gaudi(Application):
    """A Gaudi program. `version` is one of the releases that are installed."""

    version: str = prop(doc="Release", choices=releases)
    optsfile: str = prop("", doc="Options file on this machine")
    platform: str = prop("x86_64-el9-gcc13-opt", doc="Platform of the release")
    seed: int = prop(1, doc="Random seed")

    def check(self, job: Any) -> list[Problem]:
        """The options file can be read."""
        problem = file_problem("application.optsfile", self.optsfile)
        return [problem] if problem else []

    def program(self, job: Any) -> Program:
        """The release's own program with the options file."""
        options = sandbox_file(self.optsfile, "options.py")
        program = f"{os.environ['GAUDI_RELEASES']}/{self.version}/run"
        variables = {"PLATFORM": self.platform, "SEED": str(self.seed)}
        return Program(program, ("options.py",), variables, [options])
