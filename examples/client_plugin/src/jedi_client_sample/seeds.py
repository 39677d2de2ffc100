"""A splitter for simulations: subjobs differ in their random seeds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jedi_client.errors import Problem
from jedi_client.gpi.interfaces import Override
from jedi_client.gpi.schema import prop
from jedi_client.gpi.splitters import JobSplitter


class SeedSplitter(JobSplitter):
    """Subjobs with the seeds `first`, `first` + 1, ..."""

    subjobs: int = prop(1, doc="Number of subjobs")
    first: int = prop(1, doc="Seed of subjob 0")

    def check(self, job: Any) -> list[Problem]:
        """The application has a seed."""
        if hasattr(job.application, "seed") and self.subjobs > 0:
            return []
        name = type(job.application).__name__
        return [Problem("splitter", name, "has no seed, or no subjob is wanted", "Use Gaudi")]

    def split(self, job: Any) -> Sequence[Override]:
        """Overrides of `seed`, one for each subjob."""
        return [Override({"application.seed": self.first + k}) for k in range(self.subjobs)]
