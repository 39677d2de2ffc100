"""Builders that several tests share with tests of submitter."""

# Raw UPDATEs: commands that the job builder does not take.

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Row, text

from jedi.agent.base import World
from jedi.core import clock
from jedi.host import processes
from jedi.host.home import Home
from jedi.host.processes import Process
from jedi.submitter import local
from jedi.submitter.agent import Submitter
from jedi.taskbuffer.db import knobs
from support.job_rows import Made, make_jobs
from support.situations import set_sites
from support.statuses import statuses

DEADLINE_S = 20.0
TICK_S = 0.02


class Field:
    """SITE_A with two local slots and a service; whatever was started ends with it."""

    def __init__(self, world: World) -> None:
        self.world, self.engine = world, world.engine
        self.home = Home(world.settings.home)
        self.home.prepare()
        set_sites(self.engine, "SITE_A", submitter="local", nslots=2)
        self.knob("pilot.poll_s", 0.1)
        self.knob("pilot.idle_s", 5.0)
        self.knob("pilot.heartbeat_s", 0.5)
        self._service: subprocess.Popen[bytes] | None = None

    def knob(self, name: str, value: object) -> None:
        with self.engine.begin() as tx:
            knobs.put(tx, name, value, "test")

    def sql(self, statement: str, **values: object) -> Any:
        with self.engine.begin() as tx:
            found = tx.execute(text(statement), values)
            return found.all() if found.returns_rows else None

    def serve(self) -> None:
        """Start the service and wait until it listens."""
        self._service = subprocess.Popen(
            [sys.executable, "-m", "jedi", "api"],
            env={**os.environ, "JEDI_DATABASE_URL": self.world.settings.database_url or ""},
        )
        self.until(self.home.api_socket.exists)

    def jobs(self, number: int, command: str, **options: Any) -> Made:
        """Jobs without inputs; in `command` $OUT is the output."""
        with self.engine.begin() as tx:
            made = make_jobs(tx, number, files=0, **options)
            for kind in ("output", "log"):
                self.world.ddm.create(f"test:{made.task}.{kind}", "SITE_A_DATADISK")
            tx.execute(
                text(
                    "UPDATE jedi_job_params SET jobparameters = "
                    "'OUT=output.' || pandaid || '.1; ' || :command"
                ),
                {"command": command},
            )
        return made

    def pilots(self, condition: str = "true") -> list[Row[Any]]:
        found: list[Row[Any]] = self.sql(
            f"SELECT * FROM jedi_pilots WHERE {condition} ORDER BY creationtime"
        )
        return found

    def processes(self) -> list[Process]:
        """The living pilots."""
        found = [local.find(p.pilot_id) for p in self.pilots()]
        return [process for process in found if process]

    def statuses(self) -> list[str]:
        return statuses(self.world)

    def until(self, what: Callable[[], object], *submitters: Submitter) -> None:
        """Wait for something, while submitters do their cycles."""
        end = clock.monotonic() + DEADLINE_S
        while not what():
            assert clock.monotonic() < end, (self.statuses(), self.pilots())
            for submitter in submitters:
                submitter.run_once()
            time.sleep(TICK_S)

    def close(self) -> None:
        processes.end(self.processes(), grace_s=5.0)
        if self._service:
            self._service.terminate()
            self._service.wait(DEADLINE_S)
        self.home.discard()


@pytest.fixture
def field(world: World) -> Iterator[Field]:
    field = Field(world)
    yield field
    clock.turn_to(None)
    field.close()


def at_end(field: Field, number: int) -> Callable[[], bool]:
    return lambda: field.statuses() == ["holding"] * number
