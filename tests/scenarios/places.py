"""Places where jobs of the Python interface run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jedi_client import (
    JEDI,
    ArgSplitter,
    Dataset,
    Executable,
    FileSplitter,
    GenericSplitter,
    Job,
    Local,
)

NAMES = ("local", "unix socket", "http", "http, split by the server")
_FILES = [f"lfn:/suite/three/suite.three.{k:03}.txt" for k in range(3)]


@dataclass(frozen=True)
class Place:
    """Where jobs run, and who splits them."""

    name: str
    open: Path
    """A directory that payloads may read and write."""

    @property
    def here(self) -> bool:
        """Jobs run on this machine."""
        return self.name == NAMES[0]

    @property
    def served(self) -> bool:
        """The server splits, and keeps the registry."""
        return self.name == NAMES[3]

    def backend(self) -> Any:
        return Local() if self.here else JEDI(max_attempts=1)

    def job(self, command: str, **more: Any) -> Job:
        """Three subjobs of a shell command; `$K` is 0, 1 or 2."""
        if self.served:
            find = "for f in suite*; do K=$(sed 's/.*\\(.\\)$/\\1/' $f); done; "
            split: dict[str, Any] = {
                "application": Executable("sh", args=["-c", find + command]),
                "inputdata": Dataset("suite:three"),
                "splitter": FileSplitter(files=1),
            }
        else:
            args = [["-c", f"K={k}; {command}"] for k in range(3)]
            split = {"application": Executable("sh"), "splitter": ArgSplitter(args)}
        return Job(backend=self.backend(), **{**split, **more})

    def without_inputs(self, *lost: int) -> Job:
        """Three subjobs with an input of their own; the input of some is nowhere."""
        names = [str(self.open / f"in{k}") for k in range(3)] if self.here else [*_FILES]
        for k, name in enumerate(names):
            if k in lost:
                names[k] = name.replace("suite.three", "nothing")
            elif self.here:
                Path(name).touch()
        values = [Dataset(files=[name]) for name in names]
        return Job(
            application=Executable("true"),
            backend=self.backend(),
            splitter=GenericSplitter("inputdata", values),
        )
