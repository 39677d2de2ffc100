"""Builders that several tests share with tests of supervisor."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from jedi.agent.supervisor import Program, Supervised, Supervisor
from jedi.standalone import down

CHECKOUT = str(Path(down.__file__).parents[2])
ENVIRONMENT = {**os.environ, "PYTHONPATH": CHECKOUT}


class Log:
    """Collects what the supervisor says."""

    def __init__(self) -> None:
        self.died: list[dict[str, object]] = []

    def warning(self, _event: str, **facts: object) -> None:
        self.died.append(facts)


class House:
    """Programs in a scratch directory, and what was recorded about them."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.log, self.notify = directory, Log(), directory / "notify"
        self.recorded: list[dict[str, bool]] = []

    def program(self, name: str, source: str, kind: type[Program] = Program) -> Program:
        environment = {**ENVIRONMENT, "NOTIFY_SOCKET": str(self.notify)}
        log = self.directory / f"{name}.log"
        return kind(name, [sys.executable, "-c", source], log, environment)

    def supervise(self, *children: Supervised) -> Supervisor:
        return Supervisor(children, self.notify, self.record, self.log)

    def record(self, children: Sequence[Supervised]) -> None:
        self.recorded.append({child.name: child.ready for child in children})
