"""The input sandbox of a task: from a directory of this machine, or uploaded before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jedi_client.sandbox import NOT_HERE, Sandbox, bundle

from jedi.core.errors import Problem


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A sandbox that the submitter packed and uploaded before; None: he has not."""

    sandbox: Sandbox | None


LocalFiles = Path | Uploaded
"""The source of the local files that a task names: a directory of this machine, or an upload."""


def packed(
    files: LocalFiles, paths: Sequence[str], max_mb: int
) -> tuple[Sandbox | None, list[Problem]]:
    """The sandbox of these paths; None if there are none or some are bad."""
    if isinstance(files, Path):
        return bundle(paths, files, max_mb)
    if paths and files.sandbox is None:
        remedy = "Upload their sandbox first, and name its sha256"
        return None, [Problem("sandbox", [*paths], NOT_HERE, remedy)]
    return files.sandbox if paths else None, []
